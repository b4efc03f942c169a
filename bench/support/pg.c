/* SPDX-License-Identifier: MIT */
#include "support/pg.h"
#include "support/backlog.h"
#include "support/util.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 1000
#define BATCH_ONE_BY_ONE 100

#define EVENT                                                                                     \
    "seq, id, aggregate_type, aggregate_id, event_type, payload, headers, topic, partition_key, " \
    "partition, occurred_at, created_at, expires_at"

static const char sql_queue[] =
    "DROP TABLE IF EXISTS queue; "
    "CREATE TABLE queue (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id uuid NOT NULL "
    "UNIQUE DEFAULT gen_random_uuid(), aggregate_type text NOT NULL, aggregate_id text NOT NULL, "
    "event_type text NOT NULL, payload jsonb, headers jsonb, topic text, partition_key text, "
    "partition integer, occurred_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(), "
    "expires_at timestamptz, status text NOT NULL DEFAULT 'PENDING', published_at timestamptz); "
    "CREATE INDEX queue_pending ON queue (seq) WHERE status = 'PENDING'";
static const char sql_read[] = "SELECT " EVENT " FROM outbox WHERE seq > $1 ORDER BY seq LIMIT $2";
static const char sql_save[] = "UPDATE bench_cursor SET position = $1";
static const char sql_lock[] =
    "SELECT " EVENT " FROM queue WHERE status = 'PENDING' ORDER BY seq LIMIT $1 "
    "FOR UPDATE SKIP LOCKED";
static const char sql_mark_all[] =
    "UPDATE queue SET status = 'PUBLISHED', published_at = now() WHERE seq = ANY ($1)";
static const char sql_list[] =
    "SELECT " EVENT " FROM queue WHERE status = 'PENDING' ORDER BY seq LIMIT $1";
static const char sql_mark_one[] =
    "UPDATE queue SET status = 'PUBLISHED', published_at = now() WHERE id = $1";

static PGresult *must(PGconn *conn, PGresult *r)
{
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_COPY_IN)
        bench_die("PostgreSQL: %s", PQerrorMessage(conn));
    return r;
}

static void quiet(void *ctx, const PGresult *r)
{
    (void)ctx;
    (void)r;
}

PGconn *pg_open(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    (void)PQsetNoticeReceiver(conn, quiet, NULL);
    if (PQstatus(conn) != CONNECTION_OK)
        bench_die("PostgreSQL: %s", PQerrorMessage(conn));
    return conn;
}

void pg_run(PGconn *conn, const char *sql)
{
    PQclear(must(conn, PQexec(conn, sql)));
}

double pg_number(PGconn *conn, const char *sql)
{
    PGresult *r = must(conn, PQexec(conn, sql));
    double v = PQntuples(r) > 0 ? strtod(PQgetvalue(r, 0, 0), NULL) : 0;
    PQclear(r);
    return v;
}

static void copy_in(PGconn *conn, long n)
{
    must(conn, PQexec(conn, "COPY outbox (aggregate_type, aggregate_id, event_type, payload) "
                            "FROM STDIN"));
    for (long i = 0; i < n; i++) {
        char json[512], line[640];
        (void)backlog_payload(i, json, sizeof json); /* nothing in it needs escaping */
        int len = snprintf(line, sizeof line, "order\t%ld\t%s\t%s\n", backlog_key(i),
                           backlog_type(i), json);
        if (PQputCopyData(conn, line, len) != 1)
            bench_die("PostgreSQL: %s", PQerrorMessage(conn));
    }
    if (PQputCopyEnd(conn, NULL) != 1)
        bench_die("PostgreSQL: %s", PQerrorMessage(conn));
    for (PGresult *r; (r = PQgetResult(conn)) != NULL;)
        PQclear(must(conn, r));
}

void pg_fill(const char *url, long n)
{
    PGconn *conn = pg_open(url);
    copy_in(conn, n);
    pg_run(conn, "VACUUM ANALYZE outbox");
    pg_run(conn, "CHECKPOINT");
    PQfinish(conn);
}

static void prepare(PGconn *conn, const char *sql)
{
    PQclear(must(conn, PQprepare(conn, sql, sql, 0, NULL)));
}

struct number {
    char be[8];
};

static struct number number_of(long v)
{
    struct number n;
    uint64_t be = htobe64((uint64_t)v);
    memcpy(n.be, &be, sizeof be);
    return n;
}

/* A prepared statement with up to two numbers; NULL: none. Answers in binary form. */
static PGresult *execute(PGconn *conn, const char *name, const struct number *a,
                         const struct number *b)
{
    const char *values[] = {a != NULL ? a->be : NULL, b != NULL ? b->be : NULL};
    static const int lengths[] = {8, 8}, formats[] = {1, 1};
    int n = (a != NULL) + (b != NULL);
    return must(conn, PQexecPrepared(conn, name, n, values, lengths, formats, 1));
}

static long seq_at(const PGresult *r, int row)
{
    uint64_t be;
    memcpy(&be, PQgetvalue(r, row, 0), sizeof be);
    return (long)be64toh(be);
}

static double ended(PGconn *conn, int64_t started_ns, long n, long expected)
{
    PQfinish(conn);
    if (n != expected)
        bench_die("there are %ld events, not %ld", n, expected);
    return (double)(bench_now_ns() - started_ns) / 1e9;
}

double pg_read_with_cursor(const char *url, long n)
{
    PGconn *setup = pg_open(url);
    pg_run(setup, "DROP TABLE IF EXISTS bench_cursor; CREATE TABLE bench_cursor (position bigint); "
                  "INSERT INTO bench_cursor VALUES (0)");
    PQfinish(setup);
    int64_t started_ns = bench_now_ns();
    PGconn *conn = pg_open(url);
    struct number position = number_of(0), limit = number_of(BATCH);
    long total = 0;
    prepare(conn, sql_read);
    prepare(conn, sql_save);
    for (int rows = BATCH; rows == BATCH;) {
        PGresult *r = execute(conn, sql_read, &position, &limit);
        rows = PQntuples(r);
        total += rows;
        if (rows > 0)
            position = number_of(seq_at(r, rows - 1));
        PQclear(r);
        if (rows > 0)
            PQclear(execute(conn, sql_save, &position, NULL));
    }
    return ended(conn, started_ns, total, n);
}

void pg_make_queue(const char *url, long n)
{
    char sql[512];
    PGconn *conn = pg_open(url);
    pg_run(conn, sql_queue);
    snprintf(sql, sizeof sql,
             "INSERT INTO queue (aggregate_type, aggregate_id, event_type, payload) SELECT "
             "aggregate_type, aggregate_id, event_type, payload FROM outbox ORDER BY seq LIMIT %ld",
             n);
    pg_run(conn, sql);
    pg_run(conn, "VACUUM ANALYZE queue");
    pg_run(conn, "CHECKPOINT");
    PQfinish(conn);
}

/* Marks all rows of r by one statement. The array's text form: numbers and commas. */
static void mark_all(PGconn *conn, const PGresult *r)
{
    static char array[BATCH * 21 + 3];
    const char *values[] = {array};
    size_t len = 0;
    for (int i = 0; i < PQntuples(r); i++)
        len += (size_t)snprintf(array + len, sizeof array - len, "%c%ld", i > 0 ? ',' : '{',
                                seq_at(r, i));
    snprintf(array + len, sizeof array - len, "}");
    PQclear(must(conn, PQexecPrepared(conn, sql_mark_all, 1, values, NULL, NULL, 1)));
}

double pg_skip_locked(const char *url, long n)
{
    int64_t started_ns = bench_now_ns();
    PGconn *conn = pg_open(url);
    struct number limit = number_of(BATCH);
    long total = 0;
    prepare(conn, sql_lock);
    prepare(conn, sql_mark_all);
    for (int rows = BATCH; rows == BATCH;) {
        pg_run(conn, "BEGIN");
        PGresult *r = execute(conn, sql_lock, &limit, NULL);
        rows = PQntuples(r);
        total += rows;
        if (rows > 0)
            mark_all(conn, r);
        pg_run(conn, "COMMIT");
        PQclear(r);
    }
    return ended(conn, started_ns, total, n);
}

double pg_one_by_one(const char *url, long n)
{
    static const int lengths[] = {16}, formats[] = {1};
    int64_t started_ns = bench_now_ns();
    PGconn *conn = pg_open(url);
    struct number limit = number_of(BATCH_ONE_BY_ONE);
    long total = 0;
    prepare(conn, sql_list);
    prepare(conn, sql_mark_one);
    for (int rows = BATCH_ONE_BY_ONE; rows == BATCH_ONE_BY_ONE;) {
        PGresult *r = execute(conn, sql_list, &limit, NULL);
        rows = PQntuples(r);
        total += rows;
        for (int i = 0; i < rows; i++) {
            const char *values[] = {PQgetvalue(r, i, 1)};
            PQclear(must(conn, PQexecPrepared(conn, sql_mark_one, 1, values, lengths, formats, 1)));
        }
        PQclear(r);
    }
    return ended(conn, started_ns, total, n);
}

static const char sql_insert[] =
    "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
    "VALUES ('order', $1, 'Latency', $2)";

static void *writer_open(const char *url)
{
    PGconn *conn = pg_open(url);
    prepare(conn, sql_insert);
    return conn;
}

static void writer_commit(void *conn, long key, const char *json, int len)
{
    char text[24];
    const char *values[] = {text, json};
    (void)len;
    snprintf(text, sizeof text, "%ld", key);
    PQclear(must(conn, PQexecPrepared(conn, sql_insert, 2, values, NULL, NULL, 1)));
}

static void writer_close(void *conn)
{
    PQfinish(conn);
}

const struct latency_writer latency_into_postgres = {
    .open = writer_open, .commit = writer_commit, .close = writer_close, .n_threads = 4};
