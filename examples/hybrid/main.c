/* SPDX-License-Identifier: MIT */
/*
 * hybrid DATABASE SINK ORDERS CUSTOMERS [OPTION=VALUE...]: a shop that publishes
 * its own events right after each commit, with a relay behind it for the rest.
 *
 * Every order counts up its customer's orders and enqueues an event with that
 * number, in one transaction. Half of all orders are customer 1's. An order that
 * a constraint of the database refuses is rolled back, and the shop goes on.
 * Before the first one, `outrider init --layout status` has made the outbox. A
 * relay from DATABASE to the same receiver delivers what was left to it:
 *
 *     outrider relay --from DATABASE --to SINK
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include <outrider/hybrid.h>

static const char sql_make[] =
    "CREATE TABLE IF NOT EXISTS customers (id integer PRIMARY KEY, orders integer NOT NULL)";
static const char sql_order[] = "INSERT INTO customers AS c VALUES ($1::integer, 1) ON CONFLICT "
                                "(id) DO UPDATE SET orders = c.orders + 1 RETURNING orders";

static int complain(const char *what, const char *why)
{
    (void)fprintf(stderr, "hybrid: %s: %s\n", what, why);
    return -1;
}

/* What belongs together: the order and the event that tells of it. */
static int take_order(PGconn *conn, struct outrider_session *session, int customer,
                      struct outrider_error *err)
{
    struct outrider_event event = OUTRIDER_EVENT_INIT;
    char id[16], payload[64];
    const char *values[] = {id};
    (void)snprintf(id, sizeof id, "%d", customer);
    if (outrider_session_begin(session, err) < 0)
        return -1;
    PGresult *r = PQexecParams(conn, sql_order, 1, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(r) != PGRES_TUPLES_OK) {
        (void)snprintf(err->message, sizeof err->message, "%s", PQerrorMessage(conn));
        err->code = OUTRIDER_DB;
        PQclear(r);
        (void)outrider_session_rollback(session, NULL);
        return -1;
    }
    (void)snprintf(payload, sizeof payload, "{\"customer\": %d, \"n\": %s}", customer,
                   PQgetvalue(r, 0, 0));
    PQclear(r);
    event.aggregate_type = "order";
    event.aggregate_id = id;
    event.event_type = "OrderTaken";
    event.payload = payload;
    event.payload_len = strlen(payload);
    if (outrider_session_enqueue(session, &event, NULL, err) < 0) {
        (void)outrider_session_rollback(session, NULL);
        return -1;
    }
    return outrider_session_commit(session, err);
}

static int trade(const char *url, struct outrider_hybrid *hybrid, long orders, int customers,
                 long *ret_refused)
{
    struct outrider_session *session = NULL;
    struct outrider_error err = {.message = "the table of customers cannot be made"};
    PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK) {
        PQfinish(conn);
        return complain("cannot connect", "is the server there?");
    }
    PGresult *made = PQexec(conn, sql_make);
    int r = PQresultStatus(made) == PGRES_COMMAND_OK ? 0 : -1;
    PQclear(made);
    if (r == 0)
        r = outrider_session_pg(conn, &session, &err);
    if (r == 0)
        r = outrider_hybrid_attach(hybrid, session, &err);
    for (long i = 0; r == 0 && i < orders; i++) {
        r = take_order(conn, session, rand() % 2 != 0 ? 1 : 1 + rand() % customers, &err);
        if (r < 0 && err.code == OUTRIDER_INVALID) {
            ++*ret_refused;
            r = 0;
        }
    }
    if (r < 0)
        (void)complain("cannot take orders", err.message);
    outrider_session_free(session);
    PQfinish(conn);
    return r;
}

static int start_publisher(int argc, char **argv, struct outrider_hybrid **ret_hybrid)
{
    struct outrider_error err;
    if (outrider_hybrid_new(NULL, ret_hybrid, &err) < 0)
        return complain("cannot make a publisher", err.message);
    int r = outrider_hybrid_set(*ret_hybrid, "source.url", argv[1], &err);
    if (r == 0)
        r = outrider_hybrid_set(*ret_hybrid, "sink.url", argv[2], &err);
    for (int i = 5; r == 0 && i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (equals == NULL)
            return complain("not an option with its value", argv[i]);
        *equals = '\0';
        r = outrider_hybrid_set(*ret_hybrid, argv[i], equals + 1, &err);
    }
    if (r == 0)
        r = outrider_hybrid_start(*ret_hybrid, &err);
    return r < 0 ? complain("cannot start the publisher", err.message) : 0;
}

/* It connects by itself, and until then all would be left to the relay: fine for a
 * shop, but a demonstration waits a moment. */
static void await_publisher(struct outrider_hybrid *hybrid)
{
    struct outrider_hybrid_stats stats = OUTRIDER_HYBRID_STATS_INIT;
    for (int i = 0; i < 5000 && stats.is_open == 0; i++) {
        (void)usleep(2000);
        if (outrider_hybrid_stats(hybrid, &stats, NULL) < 0)
            return;
    }
}

int main(int argc, char **argv)
{
    struct outrider_hybrid *hybrid = NULL;
    struct outrider_hybrid_stats stats = OUTRIDER_HYBRID_STATS_INIT;
    if (argc < 5) {
        (void)fprintf(stderr, "usage: hybrid DATABASE SINK ORDERS CUSTOMERS [OPTION=VALUE...]\n");
        return 2;
    }
    long orders = strtol(argv[3], NULL, 10), customers = strtol(argv[4], NULL, 10), refused = 0;
    srand((unsigned)getpid());
    int r = customers > 0 ? start_publisher(argc, argv, &hybrid) : complain("customers", "none");
    if (r == 0)
        await_publisher(hybrid);
    if (r == 0)
        r = trade(argv[1], hybrid, orders, (int)customers, &refused);
    if (r == 0 && outrider_hybrid_stats(hybrid, &stats, NULL) == 0)
        (void)fprintf(
            stderr,
            "refused %ld claimed %llu published %llu queued %llu busy %llu full %llu unsuitable "
            "%llu\n",
            refused, (unsigned long long)stats.claimed, (unsigned long long)stats.published,
            (unsigned long long)stats.queued, (unsigned long long)stats.busy,
            (unsigned long long)stats.full, (unsigned long long)stats.unsuitable);
    outrider_hybrid_free(hybrid);
    return r < 0 ? 1 : 0;
}
