/* SPDX-License-Identifier: MIT */
#include "support/backlog.h"
#include "support/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 1000
#define KEYS 10000

/* The columns of the source's own statement (src/db/sqlite/conn.h). */
static const char sql_read[] =
    "SELECT seq, id, aggregate_type, aggregate_id, event_type, payload, headers, topic, "
    "partition_key, partition, occurred_at, created_at, expires_at "
    "FROM outbox WHERE seq >= 0 ORDER BY seq";
static const char sql_insert[] =
    "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
    "VALUES ('order', ?1, ?2, ?3)";

static const char *const types[] = {"OrderCreated", "OrderPaid", "OrderPacked", "OrderShipped",
                                    "OrderDelivered"};

static void must(sqlite3 *db, int rc, const char *what)
{
    if (rc != SQLITE_OK)
        bench_die("%s: %s", what, sqlite3_errmsg(db));
}

sqlite3 *backlog_open(const char *path)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 30000);
    must(db,
         sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL,
                      NULL),
         path);
    return db;
}

int backlog_payload(long i, char *ret_json, size_t size)
{
    return snprintf(
        ret_json, size,
        "{\"order\":\"%ld\",\"number\":%ld,\"customer\":{\"id\":%ld,\"name\":\"Ada Example %ld\","
        "\"email\":\"ada.%ld@example.org\"},\"lines\":[{\"sku\":\"A-%05ld\",\"quantity\":%ld,"
        "\"price\":"
        "\"19.90\"},{\"sku\":\"B-%05ld\",\"quantity\":1,\"price\":\"249.00\"}],\"currency\":"
        "\"EUR\","
        "\"total\":\"%ld.80\",\"note\":\"leave with the neighbour if nobody is at home\"}",
        i % KEYS, i, i % 5000, i % 5000, i % 5000, i % 99999, i % 7 + 1, i % 88888, i % 1000 + 100);
}

const char *backlog_type(long i)
{
    return types[i % 5];
}

long backlog_key(long i)
{
    return i % KEYS;
}

static void insert(sqlite3_stmt *st, long i)
{
    char key[32], json[512];
    int len = backlog_payload(i, json, sizeof json);
    snprintf(key, sizeof key, "%ld", backlog_key(i));
    sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, backlog_type(i), -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 3, json, len, SQLITE_STATIC);
    (void)sqlite3_step(st);
    if (sqlite3_reset(st) != SQLITE_OK)
        bench_die("cannot fill the outbox: %s", sqlite3_errmsg(sqlite3_db_handle(st)));
}

void backlog_fill(const char *path, long n)
{
    sqlite3 *db = backlog_open(path);
    sqlite3_stmt *st;
    must(db, sqlite3_prepare_v2(db, sql_insert, -1, &st, NULL), path);
    for (long i = 0; i < n; i++) {
        if (i % 10000 == 0)
            must(db, sqlite3_exec(db, i > 0 ? "COMMIT; BEGIN" : "BEGIN", NULL, NULL, NULL), path);
        insert(st, i);
    }
    must(db, sqlite3_exec(db, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL), path);
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static void write_batch(int fd, size_t size)
{
    static char bytes[1 << 20];
    if (bytes[0] == '\0')
        memset(bytes, 'x', sizeof bytes);
    while (size > 0) {
        ssize_t n = write(fd, bytes, size < sizeof bytes ? size : sizeof bytes);
        if (n < 0)
            bench_die("cannot write: %s", strerror(errno));
        size -= (size_t)n;
    }
    if (fdatasync(fd) < 0)
        bench_die("cannot sync: %s", strerror(errno));
}

/* fd negative: step only. */
static double loop(const char *path, long expected, double bytes_per_event, int fd)
{
    int64_t started_ns = bench_now_ns();
    sqlite3 *db = backlog_open(path);
    sqlite3_stmt *st;
    long n = 0, written = 0;
    must(db, sqlite3_prepare_v2(db, sql_read, -1, &st, NULL), path);
    while (sqlite3_step(st) == SQLITE_ROW) {
        n++;
        if (fd >= 0 && (n - written == BATCH || n == expected)) {
            write_batch(fd, (size_t)((double)(n - written) * bytes_per_event));
            written = n;
        }
    }
    must(db, sqlite3_finalize(st), path);
    sqlite3_close(db);
    if (n != expected)
        bench_die("%s holds %ld events, not %ld", path, n, expected);
    return (double)(bench_now_ns() - started_ns) / 1e9;
}

double backlog_step(const char *path, long n)
{
    return loop(path, n, 0, -1);
}

double backlog_step_and_write(const char *path, long n, double bytes_per_event, const char *out)
{
    int fd = open(out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        bench_die("%s: %s", out, strerror(errno));
    double seconds = loop(path, n, bytes_per_event, fd);
    close(fd);
    unlink(out);
    return seconds;
}
