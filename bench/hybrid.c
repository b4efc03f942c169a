/* SPDX-License-Identifier: MIT */
/*
 * How long an event takes from the return of its commit until a reader of the
 * log has it: published by the application itself (outrider/hybrid.h), by a
 * relay that streams, and by one that polls, one after the other.
 *
 *     hybrid OUTRIDER DIR URL   (bench/hybrid.py knows them)
 *
 * URL/hybrid, URL/cdc, URL/poll and URL/status are databases whose outbox is
 * made, in layout status but for cdc and poll; DIR is for logs and events.
 */
#include "support/latency.h"
#include "support/pg.h"
#include "support/process.h"
#include "support/report.h"
#include "support/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "outrider/hybrid.h"

#define RATE 200
#define WARM_UPS 5000

/* The writers of one run share it; latency.h hands them no context. */
static struct outrider_hybrid *hybrid;

struct writer {
    PGconn *conn;
    struct outrider_session *session;
};

static void *writer_open(const char *url)
{
    struct outrider_error err;
    struct writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        bench_die("out of memory");
    w->conn = pg_open(url);
    if (outrider_session_pg(w->conn, &w->session, &err) < 0 ||
        outrider_hybrid_attach(hybrid, w->session, &err) < 0)
        bench_die("%s", err.message);
    return w;
}

static void commit(struct writer *w, const char *key, const char *json, size_t len)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    struct outrider_error err;
    e.aggregate_type = "order";
    e.aggregate_id = key;
    e.event_type = "Latency";
    e.payload = json;
    e.payload_len = len;
    if (outrider_session_begin(w->session, &err) < 0 ||
        outrider_session_enqueue(w->session, &e, NULL, &err) < 0 ||
        outrider_session_commit(w->session, &err) < 0)
        bench_die("%s", err.message);
}

static void writer_commit(void *conn, long key, const char *json, int len)
{
    char text[24];
    snprintf(text, sizeof text, "%ld", key);
    commit(conn, text, json, (size_t)len);
}

static void writer_close(void *conn)
{
    struct writer *w = conn;
    outrider_session_free(w->session);
    PQfinish(w->conn);
    free(w);
}

static const struct latency_writer hybrid_writer = {
    .open = writer_open, .commit = writer_commit, .close = writer_close, .n_threads = 4};

static struct outrider_hybrid_stats stats(void)
{
    struct outrider_hybrid_stats s = OUTRIDER_HYBRID_STATS_INIT;
    if (outrider_hybrid_stats(hybrid, &s, NULL) < 0)
        bench_die("no statistics");
    return s;
}

static void start_publisher(const char *url, const char *dir)
{
    struct outrider_error err;
    char sink[4200];
    snprintf(sink, sizeof sink, "file:%s", dir);
    if (outrider_hybrid_new(NULL, &hybrid, &err) < 0 ||
        outrider_hybrid_set(hybrid, "source.url", url, &err) < 0 ||
        outrider_hybrid_set(hybrid, "sink.url", sink, &err) < 0 ||
        outrider_hybrid_set(hybrid, "route.topic", "latency", &err) < 0 ||
        outrider_hybrid_start(hybrid, &err) < 0)
        bench_die("%s", err.message);
    /* Until it is connected all is left to a relay, and here is none. */
    struct writer *w = writer_open(url);
    for (int i = 0; stats().claimed == 0; i++) {
        char key[32];
        if (i == WARM_UPS)
            bench_die("the publisher claims nothing");
        snprintf(key, sizeof key, "warm-up-%d", i);
        commit(w, key, "{}", 2);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    writer_close(w);
}

struct bench {
    const char *outrider, *dir, *url;
    long seconds;
    double *ms;
    struct report report;
};

static void add(struct bench *b, const char *how, size_t n, double p50_goal)
{
    struct report_row row = {.unit = "ms", .ours = bench_percentile(b->ms, n, 0.5)};
    snprintf(row.what, sizeof row.what, "%s, p50", how);
    if (p50_goal > 0) {
        row.kind = GOAL_AT_MOST;
        row.goal = p50_goal;
    }
    report_add(&b->report, row);
    row = (struct report_row){.unit = "ms", .ours = bench_percentile(b->ms, n, 0.99)};
    snprintf(row.what, sizeof row.what, "%s, p99", how);
    report_add(&b->report, row);
}

static void measure_hybrid(struct bench *b)
{
    char url[4096], dir[4096];
    snprintf(url, sizeof url, "%s/hybrid", b->url);
    snprintf(dir, sizeof dir, "%s/hybrid-events", b->dir);
    start_publisher(url, dir);
    size_t n = latency_measure(&hybrid_writer, url, dir, RATE, b->seconds, b->ms);
    outrider_hybrid_free(hybrid);
    add(b, "published by the application", n, 3);
}

static void measure_relay(struct bench *b, const char *database, const char *mode, const char *what)
{
    char url[4096], dir[4096], sink[4200], log[4096];
    snprintf(url, sizeof url, "%s/%s", b->url, database);
    snprintf(dir, sizeof dir, "%s/%s-events", b->dir, database);
    snprintf(sink, sizeof sink, "file:%s", dir);
    snprintf(log, sizeof log, "%s/%s.log", b->dir, database);
    const char *const argv[] = {b->outrider, "relay",  "--from", url,     "--to",
                                sink,        "--mode", mode,     "--set", "route.topic=latency",
                                NULL};
    pid_t pid = process_start(argv, log);
    process_await_text(log, "active");
    size_t n = latency_measure(&latency_into_postgres, url, dir, RATE, b->seconds, b->ms);
    (void)process_stop(pid, log);
    add(b, what, n, 0);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: hybrid OUTRIDER DIR URL (bench/hybrid.py knows them)\n", stderr);
        return 2;
    }
    struct bench b = {.outrider = argv[1], .dir = argv[2], .url = argv[3]};
    b.report.bench = "hybrid";
    b.seconds = bench_env("BENCH_SECONDS", 10);
    b.ms = calloc((size_t)(RATE * b.seconds), sizeof *b.ms);
    if (b.ms == NULL)
        bench_die("out of memory");
    char plain[4096];
    snprintf(plain, sizeof plain, "%s/plain", b.dir);
    size_t n = latency_of_disk(plain, RATE, b.seconds, b.ms);
    add(&b, "the disk alone: write and fdatasync", n, 0);
    measure_hybrid(&b);
    measure_relay(&b, "cdc", "cdc", "relay, cdc");
    measure_relay(&b, "poll", "poll", "relay, poll, layout log");
    measure_relay(&b, "status", "poll", "relay, poll, layout status");
    report_print(&b.report);
    report_write_json(&b.report);
    free(b.ms);
    return 0;
}
