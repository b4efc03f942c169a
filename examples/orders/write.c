/* SPDX-License-Identifier: MIT */
/*
 * The application. Several writers, each with its own connection, take orders
 * from created to paid to shipped. Every step is one transaction that changes
 * the order and enqueues the event that tells of it: see change_order().
 *
 * Now and then a writer changes its mind and rolls back: then neither the
 * change nor its event has ever been. It does the step again afterwards.
 */
#include "orders.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <outrider/sqlite.h>

/* The shop's own tables. `history` is what the verifier compares the event log with. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS orders ("
    "    id TEXT PRIMARY KEY, state TEXT NOT NULL, version INTEGER NOT NULL, total INTEGER);"
    "CREATE TABLE IF NOT EXISTS history ("
    "    event_id TEXT PRIMARY KEY, order_id TEXT NOT NULL, version INTEGER NOT NULL);";

static const char sql_save[] =
    "INSERT INTO orders (id, state, version, total) VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT (id) DO UPDATE SET state = ?2, version = ?3";
static const char sql_note[] =
    "INSERT INTO history (order_id, version, event_id) VALUES (?1, ?3, ?5)";

static const struct step {
    const char *state, *event_type;
    long lag; /* an order takes this step while the one `lag` later is created */
} steps[] = {
    {"created", "OrderCreated", 0}, {"paid", "OrderPaid", 3}, {"shipped", "OrderShipped", 7}};
#define N_STEPS ((int)(sizeof steps / sizeof *steps))

struct change {
    char order_id[32];
    const struct step *step;
    int version; /* 1, 2, 3: the events of an order can be told to be in order */
    int total;
};

struct writer {
    const struct options *options;
    sqlite3 *db;
    FILE *rolled_back;
    pthread_t thread;
    long number;
    unsigned seed;
    bool failed;
};

sqlite3 *orders_open(const char *path)
{
    sqlite3 *db = NULL;
    /* synchronous = NORMAL: a power cut may undo the last commits. The relay
     * makes sure that a commit is on disk before it tells the world of it. */
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(db, 30000) == SQLITE_OK &&
        sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL,
                     NULL) == SQLITE_OK)
        return db;
    fprintf(stderr, "orders: %s: %s\n", path, sqlite3_errmsg(db));
    sqlite3_close(db);
    return NULL;
}

/* Runs one statement with what it wants to know of the change. */
static int run(sqlite3 *db, const char *sql, const struct change *c, const char *event_id)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        return -1;
    int wanted = sqlite3_bind_parameter_count(st);
    if (wanted >= 1)
        sqlite3_bind_text(st, 1, c->order_id, -1, SQLITE_STATIC);
    if (wanted >= 2)
        sqlite3_bind_text(st, 2, c->step->state, -1, SQLITE_STATIC);
    if (wanted >= 3)
        sqlite3_bind_int(st, 3, c->version);
    if (wanted >= 4)
        sqlite3_bind_int(st, 4, c->total);
    if (wanted >= 5)
        sqlite3_bind_text(st, 5, event_id, -1, SQLITE_STATIC);
    sqlite3_step(st);
    return sqlite3_finalize(st) == SQLITE_OK ? 0 : -1;
}

/*
 * One change of an order and its event: both or neither. This is all that an
 * application has to do. end is "COMMIT" or "ROLLBACK".
 */
static int change_order(sqlite3 *db, const struct change *c, const char *end,
                        char ret_event_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    char json[128];
    struct outrider_event event = OUTRIDER_EVENT_INIT;
    event.aggregate_type = "order";
    event.aggregate_id = c->order_id;
    event.event_type = c->step->event_type;
    event.payload = json;
    event.payload_len =
        (size_t)snprintf(json, sizeof json, "{\"order\":\"%s\",\"version\":%d,\"total\":%d}",
                         c->order_id, c->version, c->total);

    if (run(db, "BEGIN IMMEDIATE", c, NULL) < 0 || run(db, sql_save, c, NULL) < 0 ||
        outrider_enqueue_sqlite(db, &event, 0, ret_event_id, err) < 0 ||
        run(db, sql_note, c, ret_event_id) < 0 || run(db, end, c, NULL) < 0)
        return -1;
    return 0;
}

/* The message is the library's if it has one, else SQLite's. */
static int give_up(sqlite3 *db, const struct outrider_error *err)
{
    fprintf(stderr, "orders: %s\n", err->code != OUTRIDER_OK ? err->message : sqlite3_errmsg(db));
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL); /* others are waiting */
    return -1;
}

static int take_step(struct writer *w, long order, int i)
{
    struct change c = {.step = &steps[i], .version = i + 1, .total = (int)(order % 900) + 100};
    struct outrider_error err = {0};
    char event_id[OUTRIDER_ID_SIZE];
    snprintf(c.order_id, sizeof c.order_id, "%u-%ld-%ld", w->options->seed, w->number, order + 1);

    if (rand_r(&w->seed) % 20 == 0) {
        if (change_order(w->db, &c, "ROLLBACK", event_id, &err) < 0)
            return give_up(w->db, &err);
        fprintf(w->rolled_back, "%s\n", event_id);
    }
    return change_order(w->db, &c, "COMMIT", event_id, &err) < 0 ? give_up(w->db, &err) : 0;
}

/* Orders overlap: while one is created, an older one is paid, a still older one shipped. */
static void *write_orders(void *arg)
{
    struct writer *w = arg;
    long last = w->options->orders + steps[N_STEPS - 1].lag;
    for (long now = 0; !w->failed && now < last; now++) {
        for (int i = 0; !w->failed && i < N_STEPS; i++) {
            long order = now - steps[i].lag;
            if (order >= 0 && order < w->options->orders)
                w->failed = take_step(w, order, i) < 0;
        }
    }
    return NULL;
}

static int start(struct writer *w)
{
    w->db = orders_open(w->options->db);
    if (w->db == NULL)
        return -1;
    if (sqlite3_exec(w->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        return give_up(w->db, &(struct outrider_error){0});
    return pthread_create(&w->thread, NULL, write_orders, w) == 0 ? 0 : -1;
}

int orders_write(const struct options *o)
{
    struct writer writers[64] = {0};
    char path[4096];
    bool failed = false;
    long n = 0;
    snprintf(path, sizeof path, "%s" ROLLED_BACK_SUFFIX, o->db);
    FILE *rolled_back = fopen(path, "a");
    if (rolled_back == NULL) {
        perror(path);
        return 1;
    }
    for (; !failed && n < o->writers; n++) {
        writers[n] = (struct writer){.options = o, .number = n + 1, .rolled_back = rolled_back};
        writers[n].seed = o->seed * 1000 + (unsigned)n;
        failed = start(&writers[n]) < 0;
    }
    for (long i = 0; i < n; i++) {
        if (writers[i].thread != 0)
            pthread_join(writers[i].thread, NULL);
        failed |= writers[i].failed;
        sqlite3_close(writers[i].db);
    }
    failed |= fclose(rolled_back) != 0;
    return failed ? 1 : 0;
}
