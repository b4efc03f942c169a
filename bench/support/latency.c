/* SPDX-License-Identifier: MIT */
#include "support/latency.h"
#include "support/backlog.h"
#include "support/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 30000
#define THREADS_MAX 8
#define MARK "\"n\":"

static const char sql_insert[] =
    "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
    "VALUES ('order', ?1, 'Latency', ?2)";

struct meter {
    const struct latency_writer *writer;
    const char *db;
    long n, rate;
    int64_t started_ns;
    int64_t *committed_ns, *seen_ns;
};

struct sqlite_conn {
    sqlite3 *db;
    sqlite3_stmt *insert;
};

static void *sqlite_open(const char *path)
{
    struct sqlite_conn *c = calloc(1, sizeof *c);
    if (c == NULL)
        bench_die("out of memory");
    c->db = backlog_open(path);
    if (sqlite3_prepare_v2(c->db, sql_insert, -1, &c->insert, NULL) != SQLITE_OK)
        bench_die("%s", sqlite3_errmsg(c->db));
    return c;
}

static void sqlite_commit(void *conn, long key, const char *json, int len)
{
    struct sqlite_conn *c = conn;
    sqlite3_bind_int64(c->insert, 1, key);
    sqlite3_bind_text(c->insert, 2, json, len, SQLITE_STATIC);
    bool ok = sqlite3_exec(c->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    (void)sqlite3_step(c->insert);
    ok &= sqlite3_reset(c->insert) == SQLITE_OK;
    ok &= sqlite3_exec(c->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
    if (!ok)
        bench_die("cannot commit: %s", sqlite3_errmsg(c->db));
}

static void sqlite_close(void *conn)
{
    struct sqlite_conn *c = conn;
    sqlite3_finalize(c->insert);
    sqlite3_close(c->db);
    free(c);
}

const struct latency_writer latency_into_sqlite = {
    .open = sqlite_open, .commit = sqlite_commit, .close = sqlite_close, .n_threads = 1};

/* Event 0 is not counted: it makes the topic's file, or only load. */
static int64_t commit_one(const struct meter *m, void *conn, long i)
{
    char json[400];
    int len = snprintf(json, sizeof json, "{" MARK "%ld,\"note\":\"%0260d\"}", i, 0);
    m->writer->commit(conn, i % 100, json, len);
    return bench_now_ns();
}

static int64_t due_ns(int64_t started_ns, long i, long rate)
{
    return started_ns + i * INT64_C(1000000000) / rate;
}

/* Until the i-th of events at this rate is due. */
static void pace(int64_t started_ns, long i, long rate)
{
    int64_t ns = due_ns(started_ns, i, rate);
    struct timespec due = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        continue;
}

struct share {
    struct meter *m;
    long first;
    pthread_t thread;
};

static void *write_share(void *arg)
{
    const struct share *share = arg;
    struct meter *m = share->m;
    void *conn = m->writer->open(m->db);
    for (long i = share->first; i <= m->n; i += m->writer->n_threads) {
        pace(m->started_ns, i, m->rate);
        if (m->committed_ns != NULL)
            m->committed_ns[i] = commit_one(m, conn, i);
        else
            (void)commit_one(m, conn, 0);
    }
    m->writer->close(conn);
    return NULL;
}

static void start_writers(struct meter *m, struct share *shares)
{
    m->started_ns = bench_now_ns();
    for (int k = 0; k < m->writer->n_threads; k++) {
        shares[k] = (struct share){.m = m, .first = k + 1};
        if (pthread_create(&shares[k].thread, NULL, write_share, &shares[k]) != 0)
            bench_die("cannot start a thread");
    }
}

static void join_writers(struct meter *m, struct share *shares)
{
    for (int k = 0; k < m->writer->n_threads; k++)
        pthread_join(shares[k].thread, NULL);
}

void latency_load(const struct latency_writer *w, const char *db, long rate, long seconds)
{
    struct meter m = {.writer = w, .db = db, .n = rate * seconds, .rate = rate};
    struct share shares[THREADS_MAX];
    start_writers(&m, shares);
    join_writers(&m, shares);
}

/* Notes the events of complete lines in text; returns how many bytes those were. */
static size_t note_lines(struct meter *m, const char *text, size_t len, int64_t now_ns,
                         long *n_seen)
{
    size_t used = 0;
    const char *end;
    while ((end = memchr(text + used, '\n', len - used)) != NULL) {
        const char *mark = memmem(text + used, (size_t)(end - text) - used, MARK, strlen(MARK));
        long i = mark != NULL ? strtol(mark + strlen(MARK), NULL, 10) : 0;
        if (i > 0 && i <= m->n && m->seen_ns[i] == 0) {
            m->seen_ns[i] = now_ns;
            (*n_seen)++;
        }
        used = (size_t)(end - text) + 1;
    }
    return used;
}

/* The topic's only file; -1 while there is none. */
static int open_log(const char *topic_dir)
{
    DIR *d = opendir(topic_dir);
    int fd = -1;
    for (struct dirent *e; d != NULL && fd < 0 && (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, ".jsonl") != NULL)
            fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
    if (d != NULL)
        closedir(d);
    return fd;
}

static int await_log(const char *topic_dir)
{
    int64_t give_up_ns = bench_now_ns() + PATIENCE_MS * INT64_C(1000000);
    int fd;
    while ((fd = open_log(topic_dir)) < 0) {
        if (bench_now_ns() > give_up_ns)
            bench_die("no log appeared in %s", topic_dir);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return fd;
}

static void read_until_all_seen(struct meter *m, int fd, int watch)
{
    static char buffer[1 << 20];
    size_t len = 0;
    long n_seen = 0;
    while (n_seen < m->n) {
        char notices[4096];
        ssize_t n = read(fd, buffer + len, sizeof buffer - len);
        if (n < 0)
            bench_die("cannot read the log: %s", strerror(errno));
        if (n > 0) {
            len += (size_t)n;
            size_t used = note_lines(m, buffer, len, bench_now_ns(), &n_seen);
            memmove(buffer, buffer + used, len - used);
            len -= used;
            continue;
        }
        if (poll(&(struct pollfd){.fd = watch, .events = POLLIN}, 1, PATIENCE_MS) == 0)
            bench_die("the log stopped growing after %ld of %ld events", n_seen, m->n);
        (void)!read(watch, notices, sizeof notices);
    }
}

static void send_first(const struct meter *m)
{
    void *conn = m->writer->open(m->db);
    (void)commit_one(m, conn, 0);
    m->writer->close(conn);
}

size_t latency_measure(const struct latency_writer *w, const char *db, const char *dir, long rate,
                       long seconds, double *ret_ms)
{
    struct meter m = {.writer = w, .db = db, .n = rate * seconds, .rate = rate};
    struct share shares[THREADS_MAX];
    char topic_dir[4096];
    m.committed_ns = calloc((size_t)m.n + 1, sizeof *m.committed_ns);
    m.seen_ns = calloc((size_t)m.n + 1, sizeof *m.seen_ns);
    if (m.committed_ns == NULL || m.seen_ns == NULL)
        bench_die("out of memory");
    snprintf(topic_dir, sizeof topic_dir, "%s/latency", dir);
    send_first(&m);
    int fd = await_log(topic_dir);
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch < 0 || inotify_add_watch(watch, topic_dir, IN_MODIFY) < 0)
        bench_die("cannot watch %s", topic_dir);
    start_writers(&m, shares);
    read_until_all_seen(&m, fd, watch);
    join_writers(&m, shares);
    for (long i = 1; i <= m.n; i++) {
        int64_t ns = m.seen_ns[i] - m.committed_ns[i];
        ret_ms[i - 1] = ns > 0 ? (double)ns / 1e6 : 0;
    }
    close(fd);
    close(watch);
    free(m.committed_ns);
    free(m.seen_ns);
    return (size_t)m.n;
}

size_t latency_of_disk(const char *path, long rate, long seconds, double *ret_ms)
{
    static const char page[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        bench_die("%s: %s", path, strerror(errno));
    int64_t started_ns = bench_now_ns();
    for (long i = 0; i < rate * seconds; i++) {
        pace(started_ns, i + 1, rate);
        if (write(fd, page, sizeof page) != (ssize_t)sizeof page || fdatasync(fd) < 0)
            bench_die("%s: %s", path, strerror(errno));
        ret_ms[i] = (double)(bench_now_ns() - due_ns(started_ns, i + 1, rate)) / 1e6;
    }
    close(fd);
    unlink(path);
    return (size_t)(rate * seconds);
}
