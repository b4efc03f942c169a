/* SPDX-License-Identifier: MIT */
/*
 * embedded DIRECTORY [ORDERS]: a shop that carries its relay with it.
 *
 * It writes orders and their events into DIRECTORY/shop.db while a relay on a
 * thread of the same process publishes them into DIRECTORY/events. SIGINT and
 * SIGTERM are the application's own business: it ends its loop, and stops the
 * relay in order.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <outrider/relay.h>
#include <outrider/sqlite.h>

static volatile sig_atomic_t is_asked_to_end;

static void on_signal(int signal)
{
    (void)signal;
    is_asked_to_end = 1;
}

static int complain(const char *what, const struct outrider_error *err)
{
    (void)fprintf(stderr, "embedded: %s: %s\n", what, err->message);
    return -1;
}

/* Runs on the relay's thread. */
static void on_event(void *ctx, const struct outrider_relay_event *e)
{
    (void)ctx;
    (void)printf("%s %.*s -> %.*s\n", e->outcome, (int)e->aggregate_id.len, e->aggregate_id.data,
                 (int)e->topic.len, e->topic.data);
}

static int start_relay(const char *directory, unsigned flags, struct outrider_relay **ret_relay)
{
    struct outrider_relay_observer observer = OUTRIDER_RELAY_OBSERVER_INIT;
    struct outrider_error err;
    struct outrider_relay *relay;
    char source[4096], sink[4096];
    (void)snprintf(source, sizeof source, "sqlite:%s/shop.db", directory);
    (void)snprintf(sink, sizeof sink, "file:%s/events", directory);
    observer.event = on_event;
    observer.wants_delivered = 1;
    if (outrider_relay_new("shop", &relay, &err) < 0)
        return complain("cannot make a relay", &err);
    if (outrider_relay_set(relay, "source.url", source, &err) < 0 ||
        outrider_relay_set(relay, "sink.url", sink, &err) < 0 ||
        outrider_relay_observe(relay, &observer, &err) < 0 ||
        outrider_relay_start(relay, flags, &err) < 0) {
        outrider_relay_free(relay);
        return complain("cannot start the relay", &err);
    }
    *ret_relay = relay;
    return 0;
}

static int take_order(sqlite3 *db, int number)
{
    struct outrider_event event = OUTRIDER_EVENT_INIT;
    struct outrider_error err = {.message = "the database refused the order"};
    char id[16];
    (void)snprintf(id, sizeof id, "%d", number);
    event.aggregate_type = "order";
    event.aggregate_id = id;
    event.event_type = "OrderCreated";
    event.payload = "{\"total\": 9.90}";
    event.payload_len = strlen(event.payload);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE; INSERT INTO orders DEFAULT VALUES", NULL, NULL, NULL) ==
            SQLITE_OK &&
        outrider_enqueue_sqlite(db, &event, 0, NULL, &err) == 0 &&
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return complain("cannot take the order", &err);
}

static int open_shop(const char *directory, sqlite3 **ret_db)
{
    struct outrider_error err = {.message = "the database cannot be opened"};
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/shop.db", directory);
    if (sqlite3_open(path, ret_db) != SQLITE_OK ||
        sqlite3_busy_timeout(*ret_db, 10000) != SQLITE_OK ||
        sqlite3_exec(*ret_db,
                     "PRAGMA journal_mode = WAL;"
                     "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)",
                     NULL, NULL, NULL) != SQLITE_OK ||
        outrider_init_sqlite(*ret_db, &err) < 0)
        return complain("cannot open the shop", &err);
    return 0;
}

static int end_relay(struct outrider_relay *relay)
{
    struct outrider_error err;
    int r = relay != NULL ? outrider_relay_wait(relay, -1, &err) : 0;
    if (r < 0)
        (void)complain("the relay failed", &err);
    outrider_relay_free(relay);
    return r;
}

static int trade(sqlite3 *db, const char *directory, long orders)
{
    struct outrider_relay *relay = NULL;
    int r = start_relay(directory, 0, &relay);
    for (int i = 1; r == 0 && i <= orders && !is_asked_to_end; i++)
        r = take_order(db, i);
    outrider_relay_stop(relay);
    if (end_relay(relay) < 0)
        r = -1;
    /* What a stop found unpublished would be published at the next start; whoever
     * has the time publishes it before the end. */
    relay = NULL;
    if (r == 0 && !is_asked_to_end)
        r = start_relay(directory, OUTRIDER_RELAY_ONCE, &relay);
    return end_relay(relay) < 0 ? -1 : r;
}

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: embedded DIRECTORY [ORDERS]\n");
        return 2;
    }
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int r = open_shop(argv[1], &db);
    if (r == 0)
        r = trade(db, argv[1], argc > 2 ? strtol(argv[2], NULL, 10) : 10);
    (void)sqlite3_close(db);
    return r < 0 ? 1 : 0;
}
