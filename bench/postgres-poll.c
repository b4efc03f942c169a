/* SPDX-License-Identifier: MIT */
/*
 * PostgreSQL by polling: how far the relay is from the least that could be
 * done, how it compares with what people do, what it costs while it does
 * nothing, and how long an event takes.
 *
 *     postgres-poll OUTRIDER DIR URL PID   (bench/postgres-poll.sh knows them)
 *
 * URL/log, URL/status and URL/live are empty databases of a server whose first
 * process is PID; DIR is for logs and a few MiB of events. Those that are
 * compared take turns, and medians are compared: a machine has moods.
 */
#include "support/latency.h"
#include "support/pg.h"
#include "support/process.h"
#include "support/report.h"
#include "support/util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 9
#define ONE_BY_ONE_EVENTS 20000
#define LATENCY_RATE 500

struct bench {
    const char *outrider, *dir, *url;
    pid_t server;
    long n_runs; /* every run is a pipeline of its own, which begins at the first event */
    struct report report;
};

struct text {
    char s[4096];
};

__attribute__((format(printf, 1, 2))) static struct text text(const char *fmt, ...)
{
    struct text t;
    va_list args;
    va_start(args, fmt);
    vsnprintf(t.s, sizeof t.s, fmt, args);
    va_end(args);
    return t;
}

/* Progress, for those who watch. */
__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
    va_list args;
    if (!isatty(STDERR_FILENO))
        return;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
}

static struct text database(const struct bench *b, const char *name)
{
    return text("%s/%s", b->url, name);
}

/* Whether this build knows the layout. */
static int init_outbox(const struct bench *b, const char *db, const char *layout)
{
    struct text url = database(b, db), log = text("%s/init-%s.log", b->dir, db);
    const char *const argv[] = {b->outrider, "init", "--db", url.s, "--layout", layout, NULL};
    return process_try(argv, log.s) == 0;
}

struct relay {
    struct text from, to, name, log;
    const char *argv[16];
};

static void relay_init(struct bench *b, struct relay *r, const char *db, const char *to,
                       const char *once)
{
    r->from = database(b, db);
    r->to = text("%s", to);
    r->name = text("run-%ld", ++b->n_runs);
    r->log = text("%s/%s.log", b->dir, r->name.s);
    const char *const argv[] = {b->outrider, "relay",  "--from",  r->from.s, "--to",
                                r->to.s,     "--name", r->name.s, "--set",   "route.topic=latency",
                                once,        NULL};
    memcpy(r->argv, argv, sizeof argv);
}

static struct measured drain(struct bench *b, const char *db)
{
    struct relay r;
    relay_init(b, &r, db, "null:", "--once");
    return process_run(r.argv, r.log.s);
}

struct rounds {
    double limit[ROUNDS_MAX], ours[ROUNDS_MAX], held[ROUNDS_MAX];
    double mib;
};

static double greater(double a, double b)
{
    return a > b ? a : b;
}

static void measure_round(struct bench *b, long n, size_t i, struct rounds *r)
{
    struct text url = database(b, "log");
    r->limit[i] = pg_read_with_cursor(url.s, n);
    struct measured m = drain(b, "log");
    r->ours[i] = m.seconds;
    r->mib = greater(r->mib, m.peak_mib);
    /* An old snapshot: nothing that dies from here on can be cleaned up. */
    PGconn *holder = pg_open(url.s);
    pg_run(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    (void)pg_number(holder, "SELECT count(*) FROM outrider_cursor");
    r->held[i] = drain(b, "log").seconds;
    PQfinish(holder);
}

static void add(struct bench *b, const char *what, double ours, double limit, const char *unit,
                enum report_goal kind, double goal)
{
    struct report_row row = {
        .ours = ours, .limit = limit, .unit = unit, .kind = kind, .goal = goal};
    snprintf(row.what, sizeof row.what, "%s", what);
    report_add(&b->report, row);
}

static void add_memory(struct bench *b, long n, double mib)
{
    add(b, text("peak memory, %ld events", n).s, mib, 0, "MiB", GOAL_AT_MOST, 24);
}

/* Events a second of layout log, and how the others do beside it. */
static double measure_log(struct bench *b, long n, size_t n_rounds)
{
    struct rounds r = {0};
    struct text url = database(b, "log");
    if (!init_outbox(b, "log", "log"))
        bench_die("outrider init failed: see %s", b->dir);
    say("filling the outbox with %ld events\n", n);
    pg_fill(url.s, n);
    for (size_t i = 0; i < n_rounds; i++) {
        say("round %zu of %zu: %ld events to null:\n", i + 1, n_rounds, n);
        measure_round(b, n, i, &r);
    }
    double ours = (double)n / bench_percentile(r.ours, n_rounds, 0.5);
    double limit = (double)n / bench_percentile(r.limit, n_rounds, 0.5);
    double held = (double)n / bench_percentile(r.held, n_rounds, 0.5);
    add(b, "drain to null:, against a bare loop", ours, limit, "events/s", GOAL_AT_LEAST, 0.85);
    add(b, "the same beside an old snapshot", held, ours, "events/s", GOAL_AT_LEAST, 0.9);
    add_memory(b, n, r.mib);
    return ours;
}

static void measure_small_memory(struct bench *b, long n)
{
    struct relay r;
    relay_init(b, &r, "live", "null:", "--once");
    pg_fill(r.from.s, n);
    add_memory(b, n, process_run(r.argv, r.log.s).peak_mib);
}

static void refill_status(struct bench *b, long n)
{
    struct text url = database(b, "status");
    PGconn *conn = pg_open(url.s);
    pg_run(conn, "TRUNCATE outbox");
    PQfinish(conn);
    pg_fill(url.s, n);
}

/* Each run needs rows that nobody has settled: made anew for each. */
static void measure_status(struct bench *b, double log_per_second, long n, size_t n_rounds)
{
    struct text from = database(b, "log");
    double set_based[ROUNDS_MAX], ours[ROUNDS_MAX], events = (double)n;
    int has_layout = init_outbox(b, "status", "status");
    for (size_t i = 0; i < n_rounds; i++) {
        say("round %zu of %zu: %ld rows with a status\n", i + 1, n_rounds, n);
        pg_make_queue(from.s, n);
        set_based[i] = pg_skip_locked(from.s, n);
        if (!has_layout)
            continue;
        refill_status(b, n);
        ours[i] = drain(b, "status").seconds;
    }
    double theirs = events / bench_percentile(set_based, n_rounds, 0.5);
    add(b, "layout log, against SKIP LOCKED + UPDATE", log_per_second, theirs, "events/s",
        GOAL_NONE, 0);
    if (has_layout)
        add(b, "layout status, against SKIP LOCKED + UPDATE",
            events / bench_percentile(ours, n_rounds, 0.5), theirs, "events/s", GOAL_AT_LEAST, 0.8);
    else
        fputs("layout status: this build has none; left out\n", stderr);
}

static void measure_one_by_one(struct bench *b, double log_per_second, long n)
{
    struct text from = database(b, "log");
    long m = n < ONE_BY_ONE_EVENTS ? n : ONE_BY_ONE_EVENTS;
    say("%ld rows one by one\n", m);
    pg_make_queue(from.s, m);
    double seconds = pg_one_by_one(from.s, m);
    add(b, "layout log, against 100 rows + UPDATE each", log_per_second, (double)m / seconds,
        "events/s", GOAL_AT_LEAST, 80);
}

static pid_t backend_of(const struct bench *b, const struct relay *r)
{
    struct text url = database(b, "live");
    PGconn *conn = pg_open(url.s);
    struct text sql =
        text("SELECT pid FROM pg_stat_activity WHERE application_name = 'outrider:%s'", r->name.s);
    double pid = pg_number(conn, sql.s);
    PQfinish(conn);
    if (pid <= 0)
        bench_die("the relay has no session on the server");
    return (pid_t)pid;
}

static void measure_idle(struct bench *b, long seconds)
{
    struct relay r;
    say("idle: %ld s\n", seconds);
    relay_init(b, &r, "live", "null:", NULL);
    pid_t pid = process_start(r.argv, r.log.s);
    process_await_text(r.log.s, "active");
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* until it has delivered and gone quiet */
    pid_t backend = backend_of(b, &r);
    double server = process_cpu_seconds(backend), relay = process_cpu_seconds(pid);
    nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
    server = process_cpu_seconds(backend) - server;
    relay = process_cpu_seconds(pid) - relay;
    (void)process_stop(pid, r.log.s);
    add(b, "idle relay, its session on the server", 100 * server / (double)seconds, 0, "% core",
        GOAL_AT_MOST, 1);
    add(b, "idle relay, itself", 100 * relay / (double)seconds, 0, "% core", GOAL_NONE, 0);
}

static void measure_latency(struct bench *b, long seconds)
{
    struct text url = database(b, "live"), events = text("%s/events", b->dir);
    double *ms = calloc((size_t)(LATENCY_RATE * seconds), sizeof *ms);
    struct relay r;
    if (ms == NULL)
        bench_die("out of memory");
    size_t n = latency_of_disk(text("%s/plain", b->dir).s, LATENCY_RATE, seconds, ms);
    add(b, "the disk alone: write and fdatasync, p99", bench_percentile(ms, n, 0.99), 0, "ms",
        GOAL_NONE, 0);
    say("latency: twice %ld s of %d commits a second\n", seconds, LATENCY_RATE);
    double alone = process_family_cpu_seconds(b->server);
    latency_load(&latency_into_postgres, url.s, LATENCY_RATE, seconds);
    alone = process_family_cpu_seconds(b->server) - alone;
    relay_init(b, &r, "live", text("file:%s", events.s).s, NULL);
    pid_t pid = process_start(r.argv, r.log.s);
    process_await_text(r.log.s, "active");
    double with = process_family_cpu_seconds(b->server);
    n = latency_measure(&latency_into_postgres, url.s, events.s, LATENCY_RATE, seconds, ms);
    with = process_family_cpu_seconds(b->server) - with;
    double relay = process_stop(pid, r.log.s).cpu_seconds;
    add(b, "commit to log at 500/s, p50", bench_percentile(ms, n, 0.5), 0, "ms", GOAL_NONE, 0);
    add(b, "commit to log at 500/s, p99", bench_percentile(ms, n, 0.99), 0, "ms", GOAL_AT_MOST, 15);
    add(b, "the server meanwhile, with and without", 100 * with / (double)seconds,
        100 * alone / (double)seconds, "% core", GOAL_NONE, 0);
    add(b, "the relay meanwhile", 100 * relay / (double)seconds, 0, "% core", GOAL_NONE, 0);
    free(ms);
}

static void add_dead(struct bench *b, PGconn *conn, const char *what, const char *table,
                     enum report_goal kind)
{
    struct text sql =
        text("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = '%s'", table);
    add(b, what, pg_number(conn, sql.s), 0, "rows", kind, 0);
}

/* After the relays have ended: a session tells its statistics at its end. */
static void measure_dead_tuples(struct bench *b)
{
    struct text url = database(b, "live");
    PGconn *conn = pg_open(url.s);
    add_dead(b, conn, "dead tuples after that: outbox", "outbox", GOAL_AT_MOST);
    add_dead(b, conn, "dead tuples after that: outrider_parked", "outrider_parked", GOAL_AT_MOST);
    add_dead(b, conn, "dead tuples after that: outrider_cursor", "outrider_cursor", GOAL_NONE);
    add(b, "updates of the cursor that were HOT",
        100 * pg_number(conn, "SELECT n_tup_hot_upd::float8 / greatest(n_tup_upd, 1) FROM "
                              "pg_stat_user_tables WHERE relname = 'outrider_cursor'"),
        0, "%", GOAL_NONE, 0);
    PQfinish(conn);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fputs("usage: postgres-poll OUTRIDER DIR URL PID (bench/postgres-poll.sh knows them)\n",
              stderr);
        return 2;
    }
    struct bench b = {.outrider = argv[1], .dir = argv[2], .url = argv[3]};
    b.server = (pid_t)strtol(argv[4], NULL, 10);
    b.report.bench = "postgres-poll";
    long n = bench_env("BENCH_EVENTS", 1000000), rounds = bench_env("BENCH_ROUNDS", 3);
    long seconds = bench_env("BENCH_SECONDS", 10), fifth = n / 5 > 0 ? n / 5 : 1;
    if (rounds > ROUNDS_MAX)
        bench_die("BENCH_ROUNDS is at most %d", ROUNDS_MAX);
    double per_second = measure_log(&b, n, (size_t)rounds);
    measure_status(&b, per_second, fifth, (size_t)rounds);
    measure_one_by_one(&b, per_second, n);
    if (!init_outbox(&b, "live", "log"))
        bench_die("outrider init failed: see %s", b.dir);
    measure_idle(&b, seconds);
    measure_latency(&b, seconds);
    measure_dead_tuples(&b);
    measure_small_memory(&b, n / 10 > 0 ? n / 10 : 1);
    report_print(&b.report);
    report_write_json(&b.report);
    return 0;
}
