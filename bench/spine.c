/* SPDX-License-Identifier: MIT */
/*
 * The spine, from SQLite to nowhere and to the event log: how far the relay is
 * from the least that could be done, and what it costs while it does nothing.
 *
 *     spine OUTRIDER DIR     DIR is used for files of a few GiB
 *
 * Ours and limit take turns, and medians are compared: a machine has moods.
 */
#include "support/backlog.h"
#include "support/latency.h"
#include "support/process.h"
#include "support/report.h"
#include "support/util.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 9
#define MEMORY_GOAL_MIB 16
#define IDLE_GOAL_PERCENT 0.5
#define LATENCY_GOAL_MS 10
#define LATENCY_RATE 200

struct spine {
    const char *outrider, *dir;
    long n_runs; /* every run is a pipeline of its own, which begins at the first event */
    struct report report;
};

struct path {
    char text[4096];
};

__attribute__((format(printf, 2, 3))) static struct path in_dir(const struct spine *s,
                                                                const char *fmt, ...)
{
    struct path p;
    char name[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    snprintf(p.text, sizeof p.text, "%s/%s", s->dir, name);
    return p;
}

static int64_t tree_bytes;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)flag;
    (void)ftw;
    if (S_ISREG(st->st_mode))
        tree_bytes += st->st_size;
    return remove(path);
}

/* Returns how many bytes its files had. */
static int64_t remove_tree(const char *path)
{
    tree_bytes = 0;
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return tree_bytes;
}

static struct path make_outbox(const struct spine *s, const char *name, long n)
{
    struct path db = in_dir(s, "%s", name), log = in_dir(s, "init.log");
    char url[4200];
    snprintf(url, sizeof url, "sqlite:%s", db.text);
    const char *const argv[] = {s->outrider, "init", "--db", url, NULL};
    (void)process_run(argv, log.text);
    if (n > 0)
        backlog_fill(db.text, n);
    return db;
}

static void remove_outbox(struct path db)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-outrider"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char name[4200];
        snprintf(name, sizeof name, "%s%s", db.text, suffixes[i]);
        unlink(name);
    }
}

struct relay {
    char from[4200], to[4200], name[32];
    struct path log;
    const char *argv[16];
};

/* sink: "null:", or "file:" for a log in DIR/events. */
static void relay_init(struct spine *s, struct relay *r, struct path db, const char *sink)
{
    snprintf(r->from, sizeof r->from, "sqlite:%s", db.text);
    snprintf(r->to, sizeof r->to, "%s%s", sink,
             strcmp(sink, "file:") == 0 ? in_dir(s, "events").text : "");
    snprintf(r->name, sizeof r->name, "run-%ld", ++s->n_runs);
    r->log = in_dir(s, "%s.log", r->name);
    const char *const argv[] = {s->outrider, "relay",  "--from", r->from, "--to",
                                r->to,       "--name", r->name,  "--set", "route.topic=latency",
                                NULL};
    memcpy(r->argv, argv, sizeof argv);
}

static struct measured drain(struct spine *s, struct path db, const char *sink)
{
    struct relay r = {0};
    relay_init(s, &r, db, sink);
    size_t end = 0;
    while (r.argv[end] != NULL)
        end++;
    r.argv[end] = "--once";
    r.argv[end + 1] = NULL;
    sync();
    return process_run(r.argv, r.log.text);
}

struct rounds {
    double step[2 * ROUNDS_MAX], to_null[ROUNDS_MAX], written[ROUNDS_MAX], to_file[ROUNDS_MAX];
    double null_mib, file_mib;
};

static double greater(double a, double b)
{
    return a > b ? a : b;
}

static void measure_round(struct spine *s, struct path db, long n, size_t i, struct rounds *r)
{
    struct path events = in_dir(s, "events"), plain = in_dir(s, "plain");
    r->step[2 * i] = backlog_step(db.text, n);
    struct measured m = drain(s, db, "null:");
    r->to_null[i] = m.seconds;
    r->null_mib = greater(r->null_mib, m.peak_mib);
    r->step[2 * i + 1] = backlog_step(db.text, n);

    m = drain(s, db, "file:");
    r->to_file[i] = m.seconds;
    r->file_mib = greater(r->file_mib, m.peak_mib);
    double bytes_per_event = (double)remove_tree(events.text) / (double)n;
    sync();
    r->written[i] = backlog_step_and_write(db.text, n, bytes_per_event, plain.text);
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

static void add_memory(struct spine *s, const char *sink, long n, double mib)
{
    struct report_row row = {
        .ours = mib, .unit = "MiB", .kind = GOAL_AT_MOST, .goal = MEMORY_GOAL_MIB};
    snprintf(row.what, sizeof row.what, "peak memory to %s, %ld events", sink, n);
    report_add(&s->report, row);
}

static void measure_drain(struct spine *s, long n, size_t n_rounds)
{
    struct path db = make_outbox(s, "backlog.db", n);
    struct rounds r = {0};
    for (size_t i = 0; i < n_rounds; i++) {
        say("round %zu of %zu: %ld events to null: and to file:\n", i + 1, n_rounds, n);
        measure_round(s, db, n, i, &r);
    }
    double events = (double)n;
    report_add(&s->report,
               (struct report_row){.what = "drain to null:, against bare stepping",
                                   .ours = events / bench_percentile(r.to_null, n_rounds, 0.5),
                                   .limit = events / bench_percentile(r.step, 2 * n_rounds, 0.5),
                                   .unit = "events/s",
                                   .kind = GOAL_AT_LEAST,
                                   .goal = 0.6});
    report_add(&s->report,
               (struct report_row){.what = "drain to file:, against stepping + writing",
                                   .ours = events / bench_percentile(r.to_file, n_rounds, 0.5),
                                   .limit = events / bench_percentile(r.written, n_rounds, 0.5),
                                   .unit = "events/s",
                                   .kind = GOAL_AT_LEAST,
                                   .goal = 0.8});
    add_memory(s, "null:", n, r.null_mib);
    add_memory(s, "file:", n, r.file_mib);
    remove_outbox(db);
}

static void measure_memory(struct spine *s, long n)
{
    say("memory: %ld events\n", n);
    struct path db = make_outbox(s, "memory.db", n), events = in_dir(s, "events");
    add_memory(s, "null:", n, drain(s, db, "null:").peak_mib);
    add_memory(s, "file:", n, drain(s, db, "file:").peak_mib);
    (void)remove_tree(events.text);
    remove_outbox(db);
}

static void measure_idle(struct spine *s, long seconds)
{
    say("idle: %ld s\n", seconds);
    struct path db = make_outbox(s, "idle.db", 1000);
    struct relay r = {0};
    relay_init(s, &r, db, "null:");
    pid_t pid = process_start(r.argv, r.log.text);
    process_await_text(r.log.text, "active");
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* until it has delivered and gone quiet */
    double before = process_cpu_seconds(pid);
    nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
    double percent = 100 * (process_cpu_seconds(pid) - before) / (double)seconds;
    (void)process_stop(pid, r.log.text);
    report_add(&s->report, (struct report_row){.what = "idle relay, share of a core",
                                               .ours = percent,
                                               .unit = "%",
                                               .kind = GOAL_AT_MOST,
                                               .goal = IDLE_GOAL_PERCENT});
    remove_outbox(db);
}

/* Commit to log with all files in s->dir, into ms. */
static size_t latency_in_dir(struct spine *s, long seconds, double *ret_ms)
{
    struct path db = make_outbox(s, "latency.db", 0), events = in_dir(s, "events");
    struct relay r = {0};
    relay_init(s, &r, db, "file:");
    pid_t pid = process_start(r.argv, r.log.text);
    size_t n =
        latency_measure(&latency_into_sqlite, db.text, events.text, LATENCY_RATE, seconds, ret_ms);
    (void)process_stop(pid, r.log.text);
    (void)remove_tree(events.text);
    remove_outbox(db);
    return n;
}

static void add_ms(struct spine *s, const char *what, double ms, double goal)
{
    struct report_row row = {.ours = ms, .unit = "ms", .goal = goal};
    if (goal > 0)
        row.kind = GOAL_AT_MOST;
    snprintf(row.what, sizeof row.what, "%s", what);
    report_add(&s->report, row);
}

/* The same with files in memory: what is left is the relay's own share. */
static void measure_latency_in_memory(struct spine *s, long seconds, double *ms)
{
    char dir[] = "/dev/shm/outrider-spine.XXXXXX";
    const char *disk = s->dir;
    if (mkdtemp(dir) == NULL)
        return;
    s->dir = dir;
    size_t n = latency_in_dir(s, seconds, ms);
    s->dir = disk;
    (void)remove_tree(dir);
    add_ms(s, "the same with files in memory, p99", bench_percentile(ms, n, 0.99), 0);
}

static void measure_latency(struct spine *s, long seconds)
{
    say("latency: %ld s of %d commits a second\n", seconds, LATENCY_RATE);
    double *ms = calloc((size_t)(LATENCY_RATE * seconds), sizeof *ms);
    if (ms == NULL)
        bench_die("out of memory");
    size_t n = latency_of_disk(in_dir(s, "plain").text, LATENCY_RATE, seconds, ms);
    add_ms(s, "the disk alone: write and fdatasync, p99", bench_percentile(ms, n, 0.99), 0);
    n = latency_in_dir(s, seconds, ms);
    add_ms(s, "commit to log at 200/s, p50", bench_percentile(ms, n, 0.5), 0);
    add_ms(s, "commit to log at 200/s, p99", bench_percentile(ms, n, 0.99), LATENCY_GOAL_MS);
    measure_latency_in_memory(s, seconds, ms);
    free(ms);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: spine OUTRIDER DIR (bench/spine.sh knows both)\n", stderr);
        return 2;
    }
    struct spine s = {.outrider = argv[1], .dir = argv[2], .report = {.bench = "spine"}};
    long n = bench_env("BENCH_EVENTS", 1000000), rounds = bench_env("BENCH_ROUNDS", 3);
    long seconds = bench_env("BENCH_SECONDS", 10);
    if (rounds > ROUNDS_MAX)
        bench_die("BENCH_ROUNDS is at most %d", ROUNDS_MAX);
    measure_drain(&s, n, (size_t)rounds);
    measure_memory(&s, n / 10 > 0 ? n / 10 : 1);
    if (getenv("BENCH_FULL") != NULL)
        measure_memory(&s, 5 * n);
    measure_idle(&s, seconds);
    measure_latency(&s, seconds);
    report_print(&s.report);
    report_write_json(&s.report);
    return 0;
}
