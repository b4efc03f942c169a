/* SPDX-License-Identifier: MIT */
/*
 * What an enqueue costs beside a bare INSERT of the same row through the same
 * client: prepared once, the same columns, the same bytes.
 *
 *     enqueue DIR POSTGRES-URL     (bench/enqueue.sh knows them)
 *
 * All write in transactions of 1,000 events, so that the disk has little part
 * in it; they take turns, portion by portion, and medians are compared. The
 * program is linked with our own objects and counts what they allocate
 * (--wrap=malloc): what the database's client allocates for itself is not ours.
 */
#include "support/report.h"
#include "support/util.h"

#include <libpq-fe.h>
#include <outrider/postgres.h>
#include <outrider/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PORTIONS_MAX 1000
#define PORTION 1000
#define N_ARGS 11
#define COLUMNS                                                                                   \
    "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic, " \
    "partition_key, partition, occurred_at, expires_at) VALUES "

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static long n_allocations;

void *__wrap_malloc(size_t size)
{
    n_allocations++;
    return __real_malloc(size);
}
void *__wrap_calloc(size_t n, size_t size)
{
    n_allocations++;
    return __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t size)
{
    n_allocations++;
    return __real_realloc(p, size);
}

struct bench {
    sqlite3 *sqlite;
    sqlite3_stmt *sqlite_bare;
    PGconn *pg;
    struct outrider_writer *writer; /* of the database whose turn it is */
    struct outrider_event events[PORTION];
    char payload[300];
    char payload_jsonb[301];
    char ids[PORTION][OUTRIDER_ID_SIZE]; /* of the bare INSERT */
    unsigned n_ids;
    struct report report;
};

static void must(int rc, const struct outrider_error *err)
{
    if (rc < 0)
        bench_die("%s", err->message);
}

static void sqlite_must(struct bench *b, const char *sql)
{
    if (sqlite3_exec(b->sqlite, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("%s: %s", sql, sqlite3_errmsg(b->sqlite));
}

static void pg_must(PGconn *pg, PGresult *res)
{
    ExecStatusType s = PQresultStatus(res);
    if (s != PGRES_COMMAND_OK && s != PGRES_TUPLES_OK)
        bench_die("%s", PQerrorMessage(pg));
    PQclear(res);
}

/* The bare INSERT has its ids for nothing, made before the clock starts: they are
 * no part of the comparison's limit, which is what a database asks for at least.
 * They are UUIDv7 of this moment, so that all ways append to the same end of the
 * index on them. */
static void make_ids(struct bench *b)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
    unsigned high = (unsigned)(ms >> 16), low = ms & 0xffff;
    unsigned fraction = (unsigned)(t.tv_nsec % 1000000 * 4096 / 1000000) & 0xfff;
    for (int i = 0; i < PORTION; i++)
        snprintf(b->ids[i], sizeof b->ids[i], "%08x-%04x-7%03x-8def-%012x", high, low, fraction,
                 ++b->n_ids);
}

/* One portion each. */
typedef void way_fn(struct bench *b);

static void sqlite_bare(struct bench *b)
{
    sqlite3_stmt *st = b->sqlite_bare;
    for (int i = 0; i < PORTION; i++) {
        sqlite3_bind_text(st, 1, b->ids[i], -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 2, b->events[i].aggregate_type, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 3, b->events[i].aggregate_id, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 4, b->events[i].event_type, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 5, b->payload, sizeof b->payload, SQLITE_STATIC);
        if (sqlite3_step(st) != SQLITE_DONE)
            bench_die("%s", sqlite3_errmsg(b->sqlite));
        sqlite3_reset(st);
    }
}

static void pg_bare(struct bench *b)
{
    static const int formats[N_ARGS] = {[4] = 1};
    const int lengths[N_ARGS] = {[4] = sizeof b->payload_jsonb};
    for (int i = 0; i < PORTION; i++) {
        const struct outrider_event *e = &b->events[i];
        const char *values[N_ARGS] = {b->ids[i], e->aggregate_type, e->aggregate_id, e->event_type,
                                      b->payload_jsonb};
        pg_must(b->pg, PQexecPrepared(b->pg, "bare", N_ARGS, values, lengths, formats, 0));
    }
}

static void with_writer(struct bench *b)
{
    struct outrider_error err;
    for (int i = 0; i < PORTION; i++)
        must(outrider_writer_put(b->writer, &b->events[i], 0, NULL, &err), &err);
}

static void arrays(struct bench *b, size_t n)
{
    struct outrider_error err;
    for (size_t i = 0; i < PORTION; i += n)
        must(outrider_writer_put_many(b->writer, &b->events[i], n, 0, NULL, &err), &err);
}

static void arrays_100(struct bench *b)
{
    arrays(b, 100);
}

static void arrays_1000(struct bench *b)
{
    arrays(b, 1000);
}

static void sqlite_one_shot(struct bench *b)
{
    struct outrider_error err;
    for (int i = 0; i < PORTION; i++)
        must(outrider_enqueue_sqlite(b->sqlite, &b->events[i], 0, NULL, &err), &err);
}

static void pg_one_shot(struct bench *b)
{
    struct outrider_error err;
    for (int i = 0; i < PORTION; i++)
        must(outrider_enqueue_pg(b->pg, &b->events[i], 0, NULL, &err), &err);
}

static void sqlite_sql(struct bench *b, const char *sql)
{
    sqlite_must(b, sql);
}

static void pg_sql(struct bench *b, const char *sql)
{
    pg_must(b->pg, PQexec(b->pg, sql));
}

/* The bare INSERT first: the others are compared with it. */
#define N_WAYS 5
static const struct database {
    const char *name;
    void (*sql)(struct bench *b, const char *sql);
    way_fn *ways[N_WAYS];
} databases[] = {
    {"SQLite", sqlite_sql, {sqlite_bare, with_writer, sqlite_one_shot, arrays_100, arrays_1000}},
    {"PostgreSQL", pg_sql, {pg_bare, with_writer, pg_one_shot, arrays_100, arrays_1000}},
};
static const char *const way_names[N_WAYS] = {"bare INSERT", "writer", "one-shot call",
                                              "arrays of 100", "arrays of 1000"};

/* Microseconds an event of one portion. */
static double run(struct bench *b, const struct database *db, way_fn *way, long *ret_allocations)
{
    make_ids(b);
    int64_t start_ns = bench_now_ns();
    db->sql(b, "BEGIN");
    long before = n_allocations;
    way(b);
    *ret_allocations = n_allocations - before;
    db->sql(b, "COMMIT");
    return (double)(bench_now_ns() - start_ns) / 1000 / PORTION;
}

static void add_rows(struct bench *b, const struct database *db, const double medians[N_WAYS],
                     const double allocations[N_WAYS])
{
    for (int w = 1; w < N_WAYS; w++) {
        struct report_row row = {.ours = medians[w], .limit = medians[0], .unit = "us"};
        snprintf(row.what, sizeof row.what, "%s, %s", db->name, way_names[w]);
        if (w == 1) {
            row.kind = GOAL_AT_MOST;
            row.goal = 1.15;
        }
        report_add(&b->report, row);
    }
    struct report_row row = {.ours = allocations[1], .unit = "an event", .kind = GOAL_AT_MOST};
    snprintf(row.what, sizeof row.what, "%s, writer's allocations", db->name);
    report_add(&b->report, row);
}

/* Portion by portion in turns: whatever the machine does meanwhile, it does to all.
 * Each round begins with another way, so that none is always behind the same one. */
static void compare(struct bench *b, const struct database *db, long portions)
{
    static double us[N_WAYS][PORTIONS_MAX];
    double medians[N_WAYS], allocations[N_WAYS] = {0};
    for (long i = -1; i < portions; i++) { /* the first is to warm up */
        for (int turn = 0; turn < N_WAYS; turn++) {
            int w = (int)((turn + i + N_WAYS) % N_WAYS);
            long n;
            double t = run(b, db, db->ways[w], &n);
            if (i >= 0) {
                us[w][i] = t;
                allocations[w] += (double)n / (double)(portions * PORTION);
            }
        }
    }
    for (int w = 0; w < N_WAYS; w++)
        medians[w] = bench_percentile(us[w], (size_t)portions, 0.5);
    add_rows(b, db, medians, allocations);
    outrider_writer_free(b->writer);
}

static void open_sqlite(struct bench *b, const char *dir)
{
    struct outrider_error err;
    char path[4096];
    snprintf(path, sizeof path, "%s/enqueue.db", dir);
    if (sqlite3_open(path, &b->sqlite) != SQLITE_OK)
        bench_die("cannot open %s", path);
    must(outrider_init_sqlite(b->sqlite, &err), &err);
    sqlite_must(b, "PRAGMA synchronous = NORMAL");
    if (sqlite3_prepare_v2(b->sqlite, COLUMNS "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)", -1,
                           &b->sqlite_bare, NULL) != SQLITE_OK)
        bench_die("%s", sqlite3_errmsg(b->sqlite));
    must(outrider_writer_new_sqlite(b->sqlite, 0, &b->writer, &err), &err);
}

static void open_postgres(struct bench *b, const char *url)
{
    struct outrider_error err;
    b->pg = PQconnectdb(url);
    if (PQstatus(b->pg) != CONNECTION_OK)
        bench_die("%s", PQerrorMessage(b->pg));
    pg_must(b->pg,
            PQprepare(b->pg, "bare", COLUMNS "($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)", 0, NULL));
    must(outrider_writer_new_pg(b->pg, 0, &b->writer, &err), &err);
}

static void make_events(struct bench *b)
{
    static char keys[PORTION][16];
    memset(b->payload, 'x', sizeof b->payload);
    memcpy(b->payload, "{\"a\":\"", 6);
    memcpy(b->payload + sizeof b->payload - 2, "\"}", 2);
    b->payload_jsonb[0] = 1;
    memcpy(b->payload_jsonb + 1, b->payload, sizeof b->payload);
    for (int i = 0; i < PORTION; i++) {
        struct outrider_event e = OUTRIDER_EVENT_INIT;
        snprintf(keys[i], sizeof keys[i], "%d", i);
        e.aggregate_type = "order";
        e.aggregate_id = keys[i];
        e.event_type = "OrderCreated";
        e.payload = b->payload;
        e.payload_len = sizeof b->payload;
        b->events[i] = e;
    }
}

int main(int argc, char **argv)
{
    static struct bench b = {.report = {.bench = "enqueue"}};
    long portions = bench_env("BENCH_EVENTS", 100000) / PORTION;
    if (argc != 3)
        bench_die("usage: enqueue DIR POSTGRES-URL");
    portions = portions < 1 ? 1 : portions > PORTIONS_MAX ? PORTIONS_MAX : portions;
    make_events(&b);
    open_sqlite(&b, argv[1]);
    compare(&b, &databases[0], portions);
    sqlite3_finalize(b.sqlite_bare);
    sqlite3_close(b.sqlite);
    open_postgres(&b, argv[2]);
    compare(&b, &databases[1], portions);
    PQfinish(b.pg);
    report_print(&b.report);
    report_write_json(&b.report);
    return 0;
}
