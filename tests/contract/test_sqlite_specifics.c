/* SPDX-License-Identifier: MIT */
/* What only a SQLite source has: history, locks of writers, wake-ups, kills. */
#include "support/source_harness.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "outrider/sqlite.h"
#include "sqlite/source.h"
#include "sqlite/sqlite.h"
#include "support/sqlite_layout.h"

static int set_up(void **state)
{
    struct harness *h = malloc(sizeof *h);
    assert_non_null(h);
    harness_init(h, &sqlite_log);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    harness_release(*state);
    free(*state);
    return 0;
}

static bool is_ready(const struct source *s)
{
    return s->ready;
}

/* Drives a source that is open but not active until it fails, on a clock of our own. */
static void activation_fails(struct harness *h, struct outrider_error *ret_err)
{
    struct source_op *done;
    struct instant now = outrider__clock_now();
    for (int i = 0; h->source != NULL && i < 1000; i++, now.mono_us += 100000)
        if (h->source->ops->poll(h->source, now, &done, ret_err) < 0) {
            harness_close(h);
            return;
        }
    fail_msg("the source did not fail");
}

/* Opens and polls until something is wrong. */
static void start_fails(struct harness *h, enum outrider_code code,
                        enum outrider_disposition disposition, const char *word)
{
    struct outrider_error err = {0};
    if (harness_open(h, &err) == 0)
        activation_fails(h, &err);
    if (err.code != code || err.disposition != disposition || strstr(err.message, word) == NULL)
        fail_msg("%s/%s: %s", outrider_code_name(err.code),
                 outrider_disposition_name(err.disposition), err.message);
}

/* A promise that cannot be kept is refused, not ignored. */
static void what_only_postgresql_can_do_is_refused(void **state)
{
    struct harness *h = *state;
    h->config.source.durable = DURABLE_STANDBY;
    start_fails(h, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP, "source.durable");
    h->config.source.durable = DURABLE_LOCAL;
    h->config.source.mode = MODE_CDC;
    start_fails(h, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP, "mode cdc");
}

static void settle_three(struct harness *h)
{
    static const char *const keys[] = {"a", "b", "c"};
    harness_insert_many(h, 3, keys, 3);
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 3);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
}

static void a_rewritten_history_stops_a_start(void **state)
{
    /* Emptied and numbered anew, with other events. */
    static const char anew[] =
        "DELETE FROM outbox; DELETE FROM sqlite_sequence WHERE name = 'outbox';"
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES "
        "('order', 1, 'X', '{}'), ('order', 1, 'X', '{}'), ('order', 1, 'X', '{}')";
    static const char *const ways[] = {
        anew,
        "DELETE FROM outbox; DELETE FROM sqlite_sequence WHERE name = 'outbox'",
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'outbox'",
        "DELETE FROM outbox WHERE seq = 3",
        "UPDATE outbox SET id = 'another' WHERE seq = 3",
    };
    struct harness *h = *state;
    settle_three(h);
    harness_close(h);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        sqlite_must(sqlite_shop.db, "BEGIN; CREATE TABLE copy AS SELECT * FROM outbox; COMMIT");
        sqlite_must(sqlite_shop.db, ways[i]);
        start_fails(h, OUTRIDER_HISTORY, OUTRIDER_STOP, "outrider resync");
        sqlite_must(sqlite_shop.db,
                    "DELETE FROM outbox; INSERT INTO outbox SELECT * FROM copy;"
                    "DROP TABLE copy; DELETE FROM sqlite_sequence WHERE name = 'outbox';"
                    "INSERT INTO sqlite_sequence VALUES ('outbox', 3)");
        harness_activate(h); /* all is as it was */
        harness_close(h);
    }
}

static void a_history_rewritten_under_a_running_relay_stops_it(void **state)
{
    static const char *const ways[] = {
        "DELETE FROM outbox WHERE seq >= 3",
        "UPDATE outbox SET id = 'another' WHERE seq = (SELECT max(seq) FROM outbox)",
        "DROP TABLE outbox; CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, "
        "aggregate_type, aggregate_id, event_type, payload, headers, topic, partition_key, "
        "partition, occurred_at, created_at, expires_at);"
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type) "
        "VALUES ('i', 'a', 'b', 'c')",
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct harness *h = *state;
        struct outrider_error err = {0};
        if (i > 0) {
            harness_release(h);
            harness_init(h, &sqlite_log);
        }
        settle_three(h);
        sqlite_must(sqlite_shop.db, ways[i]);
        outrider__batch_reset(&h->batch);
        struct source_op op = {.kind = SOURCE_FETCH, .batch = &h->batch};
        assert_int_equal(harness_do(h, &op, &err), -1);
        assert_int_equal(err.code, OUTRIDER_HISTORY);
        assert_int_equal(err.disposition, OUTRIDER_STOP);
        assert_int_equal(h->batch.n, 0);
    }
}

static void another_sink_is_refused_with_the_way_out(void **state)
{
    struct harness *h = *state;
    settle_three(h);
    harness_close(h);
    h->config.sink_identity = "file:/other";
    start_fails(h, OUTRIDER_SINK_MISMATCH, OUTRIDER_STOP,
                "outrider pipeline move --name default --to file:/other");
    sqlite_must(sqlite_shop.db,
                "UPDATE outrider_cursor SET sink = 'file:/other'"); /* as that does */
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 0);
}

static void other_schemas_are_refused(void **state)
{
    struct harness *h = *state;
    sqlite_must(sqlite_shop.db, "UPDATE outrider_schema SET version = 99");
    start_fails(h, OUTRIDER_SCHEMA_NEWER, OUTRIDER_STOP, "upgrade");
    sqlite_must(sqlite_shop.db, "UPDATE outrider_schema SET version = 0");
    start_fails(h, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP, "outrider init");
    sqlite_must(sqlite_shop.db, "DROP TABLE outrider_schema");
    start_fails(h, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP, "outrider init");
    sqlite_must(sqlite_shop.db, "DROP TABLE outbox");
    start_fails(h, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP, "outrider init --db sqlite:");
}

static void what_is_no_database_is_refused(void **state)
{
    struct harness *h = *state;
    char path[160], url[200];
    (void)snprintf(path, sizeof path, "%s/notes.txt", sqlite_shop.dir);
    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    h->config.source.url = url;
    start_fails(h, OUTRIDER_NOT_FOUND, OUTRIDER_STOP, "does not exist");
    assert_int_equal(access(path, F_OK), -1); /* and it was not made */
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        (void)fputs("these are no pages of a database\n", file);
    (void)fclose(file);
    start_fails(h, OUTRIDER_NOT_A_DATABASE, OUTRIDER_STOP, "notes.txt");
    h->config.source.url = "sqlite:/tmp";
    start_fails(h, OUTRIDER_NOT_A_DATABASE, OUTRIDER_STOP, "/tmp");
    h->config.source.url = "sqlite:";
    start_fails(h, OUTRIDER_URL, OUTRIDER_STOP, "sqlite:");
    h->config.source.url = "sqlite://host/shop.db";
    start_fails(h, OUTRIDER_URL, OUTRIDER_STOP, "sqlite:PATH");
}

static void a_damaged_file_is_told_from_a_wrong_one(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a"};
    harness_insert_many(h, 200, keys, 1);
    sqlite_must(sqlite_shop.db, "PRAGMA wal_checkpoint(TRUNCATE)");
    int fd = open(sqlite_shop.path, O_WRONLY);
    char junk[4096];
    memset(junk, 0xa5, sizeof junk);
    assert_true(fd >= 0);
    int64_t pages = sqlite_value(sqlite_shop.db, "PRAGMA page_count");
    for (int64_t page = 1; page < pages; page++)
        assert_int_equal(pwrite(fd, junk, sizeof junk, page * 4096), sizeof junk);
    (void)close(fd);
    start_fails(h, OUTRIDER_DB, OUTRIDER_STOP, "damaged");
}

#define NOBODY 65534

static void a_file_that_cannot_be_written_is_refused(void **state)
{
    struct harness *h = *state;
    bool is_root = geteuid() == 0; /* who may write everything */
    if (is_root) {
        assert_int_equal(chown(sqlite_shop.dir, NOBODY, (gid_t)-1), 0);
        assert_int_equal(chown(sqlite_shop.path, NOBODY, (gid_t)-1), 0);
        assert_int_equal(seteuid(NOBODY), 0);
    }
    assert_int_equal(chmod(sqlite_shop.path, 0444), 0);
    start_fails(h, OUTRIDER_DB_READONLY, OUTRIDER_STOP, "permissions");
    assert_int_equal(chmod(sqlite_shop.path, 0000), 0);
    start_fails(h, OUTRIDER_AUTH, OUTRIDER_STOP, "permissions");
    assert_int_equal(chmod(sqlite_shop.path, 0644), 0);
    assert_int_equal(chmod(sqlite_shop.dir, 0555), 0);
    start_fails(h, OUTRIDER_DB_READONLY, OUTRIDER_STOP, "directory");
    assert_int_equal(chmod(sqlite_shop.dir, 0755), 0);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
}

static void a_writer_that_does_not_end_is_named_as_the_reason(void **state)
{
    struct harness *h = *state;
    sqlite_must(sqlite_shop.db, "BEGIN IMMEDIATE");
    start_fails(h, OUTRIDER_DB_LOCKED, OUTRIDER_RETRY, "lock");
    sqlite_must(sqlite_shop.db, "COMMIT");
    harness_activate(h);
}

static void a_settle_waits_for_a_writer_without_giving_the_connection_up(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    struct source_op *done = NULL;
    harness_insert(h, "a");
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    harness_decide(&h->batch.events[0], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 1;
    struct source_op op = {.kind = SOURCE_SETTLE, .batch = &h->batch, .now_wall_us = 1};
    sqlite_must(sqlite_shop.db, "BEGIN IMMEDIATE");
    assert_int_equal(h->source->ops->start(h->source, &op, &err), 0);
    struct instant now = outrider__clock_now();
    for (int i = 0; i < 5; i++, now.mono_us += 100000) {
        assert_int_equal(h->source->ops->poll(h->source, now, &done, &err), 0);
        assert_null(done);
        assert_true(h->source->wake_us > now.mono_us);
    }
    sqlite_must(sqlite_shop.db, "COMMIT");
    assert_int_equal(h->source->ops->poll(h->source, now, &done, &err), 0);
    assert_ptr_equal(done, &op);
    assert_int_equal(sqlite_value(sqlite_shop.db, "SELECT position FROM outrider_cursor"), 1);
}

static void a_settle_that_waits_beyond_connect_timeout_is_an_error(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_insert(h, "a");
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    harness_decide(&h->batch.events[0], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 1;
    struct source_op op = {.kind = SOURCE_SETTLE, .batch = &h->batch, .now_wall_us = 1};
    sqlite_must(sqlite_shop.db, "BEGIN IMMEDIATE");
    assert_int_equal(h->source->ops->start(h->source, &op, &err), 0);
    activation_fails(h, &err);
    assert_int_equal(err.code, OUTRIDER_DB_LOCKED);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    sqlite_must(sqlite_shop.db, "COMMIT");
}

/* A settle that waits for a writer, and a fetch started behind it; whether the
 * fetch is done while the writer still holds its lock. */
static bool fetch_passes_a_waiting_settle(struct harness *h, enum outcome outcome)
{
    struct outrider_error err = {0};
    struct batch second;
    assert_int_equal(outrider__batch_init(&second, HARNESS_BATCH, 1 << 20, NULL), 0);
    harness_insert(h, "a");
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    harness_insert(h, "b");
    harness_decide(&h->batch.events[0], outcome, 0);
    h->batch.n_settle = 1;
    struct source_op settle = {.kind = SOURCE_SETTLE, .batch = &h->batch, .now_wall_us = 1};
    struct source_op fetch = {.kind = SOURCE_FETCH, .batch = &second};
    sqlite_must(sqlite_shop.db, "BEGIN IMMEDIATE");
    assert_int_equal(h->source->ops->start(h->source, &settle, &err), 0);
    assert_int_equal(h->source->ops->start(h->source, &fetch, &err), 0);
    struct source_op *done = harness_poll(h);
    bool passes = done == &fetch && second.n == 1;
    assert_true(passes || done == NULL);
    sqlite_must(sqlite_shop.db, "COMMIT");
    assert_ptr_equal(harness_poll(h), &settle);
    assert_ptr_equal(harness_poll(h), passes ? NULL : &fetch);
    assert_int_equal(second.n, 1);
    outrider__batch_release(&second);
    return passes;
}

static void a_fetch_passes_a_settle_that_waits_for_a_writer(void **state)
{
    assert_true(fetch_passes_a_waiting_settle(*state, OUTCOME_DELIVERED));
}

static void a_fetch_does_not_pass_a_settle_that_parks(void **state)
{
    assert_false(fetch_passes_a_waiting_settle(*state, OUTCOME_PARKED));
}

/* Fetches until there is nothing, then polls until the source waits for its descriptor. */
static void go_idle(struct harness *h)
{
    struct pollfd fds[2];
    struct outrider_error err;
    struct source_op *done;
    struct instant now = outrider__clock_now();
    while (harness_fetch(h) > 0)
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    for (int i = 0; i < 100; i++) {
        now.mono_us += 1000000;
        assert_int_equal(h->source->ops->poll(h->source, now, &done, &err), 0);
        assert_false(h->source->ready);
    }
    assert_int_equal(h->source->ops->fds(h->source, fds, 2), 1);
}

static void a_commit_wakes_an_idle_source(void **state)
{
    struct harness *h = *state;
    struct pollfd fd;
    h->config.source.poll_interval_us = 3600000000; /* the fall-back is an hour away */
    harness_activate(h);
    harness_insert(h, "a");
    go_idle(h);
    harness_insert(h, "a");
    assert_int_equal(h->source->ops->fds(h->source, &fd, 1), 1);
    assert_int_equal(poll(&fd, 1, 10000), 1);
    struct sqlite_source *s = sqlite_source_of(h->source);
    s->looked_us = 0; /* go_idle() ran ahead of the clock */
    harness_wait(h, is_ready);
    assert_int_equal(harness_fetch(h), 1);
}

static void without_notifications_a_commit_is_found_by_looking(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    outrider__sqlite_watch_close(sqlite_source_of(h->source));
    assert_int_equal(harness_fetch(h), 0);
    harness_insert(h, "a");
    harness_wait(h, is_ready);
    assert_int_equal(harness_fetch(h), 1);
}

static void expect_looks_every(struct harness *h, int64_t *now_us, int64_t gap_us)
{
    struct outrider_error err;
    struct source_op *done;
    for (int i = 0; i < 20; i++) {
        struct instant now = {.mono_us = *now_us, .wall_us = 1};
        assert_int_equal(h->source->ops->poll(h->source, now, &done, &err), 0);
        if (i > 0) /* the first one may still grow */
            assert_int_equal(h->source->wake_us, now.mono_us + gap_us);
        *now_us = h->source->wake_us;
    }
}

static void
an_idle_source_looks_once_a_second_or_without_notifications_each_poll_interval(void **state)
{
    struct harness *h = *state;
    h->config.source.poll_interval_us = 100000;
    harness_activate(h);
    go_idle(h);
    int64_t now_us = h->source->wake_us;
    expect_looks_every(h, &now_us, 1000000);
    outrider__sqlite_watch_close(sqlite_source_of(h->source));
    expect_looks_every(h, &now_us, 100000);
}

static void an_operators_retry_is_noticed(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    harness_settle(h, &h->batch, OUTCOME_DEAD);
    assert_true(h->source->parked_due_us == CLOCK_NEVER);
    struct store *store = calloc(1, outrider__store_sqlite.size);
    struct dead_filter all = {0};
    struct outrider_error err = {0};
    uint64_t n = 0;
    assert_non_null(store);
    assert_int_equal(outrider__store_sqlite.open(store, &h->config, &err), 0);
    assert_int_equal(outrider__store_sqlite.dead_retry(store, &all, &n, &err), 0);
    assert_int_equal(n, 1);
    outrider__store_sqlite.close(store);
    free(store);
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (h->source->parked_due_us != 0 && outrider__clock_now().mono_us < deadline) {
        struct source_op *done;
        assert_int_equal(h->source->ops->poll(h->source, outrider__clock_now(), &done, &err), 0);
    }
    assert_int_equal(harness_fetch_parked(h, 1), 1);
    assert_int_equal(h->parked.events[0].attempts, 0);
}

static void a_file_moved_over_the_database_is_noticed(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    char other[200];
    settle_three(h);
    (void)snprintf(other, sizeof other, "VACUUM INTO '%s/backup.db'", sqlite_shop.dir);
    sqlite_must(sqlite_shop.db, other);
    (void)snprintf(other, sizeof other, "%s/backup.db", sqlite_shop.dir);
    assert_int_equal(rename(other, sqlite_shop.path), 0);
    activation_fails(h, &err);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    assert_non_null(strstr(err.message, "replaced"));
}

static void an_idle_source_notices_that_its_file_is_gone(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    settle_three(h);
    assert_int_equal(unlink(sqlite_shop.path), 0);
    activation_fails(h, &err);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    assert_non_null(strstr(err.message, "replaced"));
    start_fails(h, OUTRIDER_NOT_FOUND, OUTRIDER_STOP, "does not exist");
}

static void rows_that_make_no_sense_become_malformed_events(void **state)
{
    struct harness *h = *state;
    sqlite_must(sqlite_shop.db,
                "DROP TABLE outbox; CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, "
                "id, aggregate_type, aggregate_id, event_type, payload, headers, topic, "
                "partition_key, partition, occurred_at, created_at, expires_at);"
                "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, created_at) "
                "VALUES (NULL, 'a', 'b', 'c', '2026-01-01'), ('i1', 'a', 'b', NULL, '2026-01-01'), "
                "('i2', 'a', 'b', 'c', 'yesterday'), ('i3', 1, 2.5, x'61', '2026-01-01 00:00:00')");
    sqlite_must(sqlite_shop.db,
                "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, "
                "created_at, expires_at) VALUES ('i4', 'a', 'b', 'c', '2026-01-01', 'soon')");
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 5);
    for (size_t i = 0; i < 5; i++) {
        struct event *e = &h->batch.events[i];
        assert_int_equal(e->is_malformed, i != 3);
        assert_true(e->id.len > 0);
        assert_false(bytes_is_null(e->event_type));
        if (i != 3)
            assert_int_equal(e->failure->disposition, OUTRIDER_DEAD);
    }
    assert_true(bytes_eq_str(h->batch.events[3].aggregate_type, "1"));
    assert_true(bytes_eq_str(h->batch.events[3].event_type, "a"));
    harness_settle(h, &h->batch, OUTCOME_DEAD);
    assert_int_equal(sqlite_value(sqlite_shop.db, "SELECT count(*) FROM outrider_parked"), 5);
    assert_int_equal(harness_fetch(h), 0);
    harness_close(h);
    harness_activate(h);
}

static void an_outbox_in_utf16_is_read_as_utf8(void **state)
{
    struct harness *h = *state;
    char path[160], url[200];
    sqlite3 *db;
    (void)snprintf(path, sizeof path, "%s/wide.db", sqlite_shop.dir);
    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite_must(db, "PRAGMA encoding = 'UTF-16'");
    assert_int_equal(outrider_init_sqlite(db, NULL), 0);
    sqlite_must(db, "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                    "VALUES ('order', '\xc3\xa4', 'X', '{\"n\":3}')");
    h->config.source.url = url;
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    assert_true(bytes_eq_str(h->batch.events[0].aggregate_id, "\xc3\xa4"));
    assert_int_equal(harness_number(&h->batch.events[0]), 3);
    harness_settle(h, &h->batch, OUTCOME_PARKED);
    assert_int_equal(harness_fetch_parked(h, 1), 1);
    assert_int_equal(harness_number(&h->parked.events[0]), 3);
    harness_close(h);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_pipelines_name_may_hold_any_bytes(void **state)
{
    struct harness *h = *state;
    h->config.name = "../x/'; DROP TABLE outbox; --\xc3\xa4";
    harness_insert(h, "a");
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(harness_fetch(h), 0);
}

static void two_paths_to_one_database_share_one_lock(void **state)
{
    struct harness *h = *state;
    struct harness second = {.fixture = &sqlite_log, .config = h->config};
    struct outrider_error err = {0};
    struct source_op *done;
    char link_path[160], url[200];
    (void)snprintf(link_path, sizeof link_path, "%s/link.db", sqlite_shop.dir);
    (void)snprintf(url, sizeof url, "sqlite:%s", link_path);
    assert_int_equal(symlink(sqlite_shop.path, link_path), 0);
    second.config.source.url = url;
    harness_activate(h);
    assert_int_equal(harness_open(&second, &err), 0);
    assert_int_equal(second.source->ops->poll(second.source, outrider__clock_now(), &done, &err),
                     0);
    assert_false(second.source->active);
    harness_close(&second);
}

/* Writers at once. */

#define WRITERS 4
#define TRANSACTIONS 60

struct writer {
    pthread_t thread;
    unsigned number; /* from 1; 0: has ended */
    uint64_t written;
};

static void *write_events(void *arg)
{
    struct writer *w = arg;
    unsigned seed = w->number;
    char key[32];
    sqlite3 *db = NULL;
    (void)snprintf(key, sizeof key, "writer-%u", w->number);
    if (sqlite3_open(sqlite_shop.path, &db) != SQLITE_OK)
        abort();
    (void)sqlite3_busy_timeout(db, 60000);
    (void)sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    uint64_t n = 0;
    for (int i = 0; i < TRANSACTIONS; i++) {
        bool commit = rand_r(&seed) % 4 != 0;
        int events = 1 + rand_r(&seed) % 3;
        if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
            abort();
        for (int k = 0; k < events; k++) {
            char payload[32];
            struct outrider_event e = OUTRIDER_EVENT_INIT;
            e.aggregate_type = e.event_type = "x";
            e.aggregate_id = key;
            e.payload = payload;
            e.payload_len = (size_t)snprintf(payload, sizeof payload, "{\"n\":%" PRIu64 "}",
                                             commit ? n + (uint64_t)k : 999999);
            if (outrider_enqueue_sqlite(db, &e, 0, NULL, NULL) < 0)
                abort();
        }
        if (sqlite3_exec(db, commit ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
            abort();
        n += commit ? (uint64_t)events : 0;
    }
    (void)sqlite3_close(db);
    w->written = n;
    return NULL;
}

static size_t count_running(struct writer *w)
{
    size_t n = 0;
    for (size_t i = 0; i < WRITERS; i++) {
        if (w[i].number != 0 && pthread_tryjoin_np(w[i].thread, NULL) == 0)
            w[i].number = 0;
        n += w[i].number != 0;
    }
    return n;
}

static void of_writers_at_once_nothing_is_lost_invented_or_reordered(void **state)
{
    struct harness *h = *state;
    struct writer w[WRITERS] = {0};
    uint64_t next[WRITERS] = {0};
    harness_activate(h);
    for (unsigned i = 0; i < WRITERS; i++) {
        w[i].number = i + 1;
        assert_int_equal(pthread_create(&w[i].thread, NULL, write_events, &w[i]), 0);
    }
    int64_t deadline = outrider__clock_now().mono_us + 5 * HARNESS_TIMEOUT_US;
    for (bool ended = false, at_end = false; !ended || !at_end;) {
        ended = count_running(w) == 0; /* asked first: what they wrote is there to be read */
        at_end = harness_fetch(h) == 0;
        for (size_t i = 0; i < h->batch.n; i++) {
            struct event *e = &h->batch.events[i];
            size_t writer = (size_t)(e->aggregate_id.data[7] - '1');
            assert_int_equal(harness_number(e), next[writer]++);
        }
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
        assert_true(outrider__clock_now().mono_us < deadline);
    }
    for (size_t i = 0; i < WRITERS; i++)
        assert_int_equal(next[i], w[i].written);
}

/* Kills. */

/* In a child: fetches four events, parks one, delivers the others, settles. */
static void relay_once(const struct pipeline_config *config)
{
    struct harness h = {.fixture = &sqlite_log, .config = *config};
    if (outrider__batch_init(&h.batch, HARNESS_BATCH, 1 << 20, NULL) < 0)
        _exit(9);
    harness_activate(&h);
    if (harness_fetch(&h) != 4)
        _exit(8);
    for (size_t i = 0; i < 4; i++)
        harness_decide(&h.batch.events[i], i == 1 ? OUTCOME_PARKED : OUTCOME_DELIVERED, 1);
    h.batch.n_settle = 4;
    harness_settle(&h, &h.batch, OUTCOME_PENDING);
    _exit(0);
}

static void a_kill_at_any_point_leaves_a_batch_settled_or_not_at_all(void **state)
{
    static const struct {
        const char *point;
        bool is_settled;
    } cases[] = {
        {"sqlite.open", false},          {"sqlite.fetch", false},
        {"sqlite.before_sync", false},   {"sqlite.after_sync", false},
        {"settle.before_begin", false},  {"settle.before_park", false},
        {"settle.before_commit", false}, {"settle.after_commit", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct harness *h = *state;
        static const char *const keys[] = {"a", "b"};
        int status;
        if (i > 0) {
            harness_release(h);
            harness_init(h, &sqlite_log);
        }
        harness_insert_many(h, 4, keys, 2);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            char points[64];
            (void)snprintf(points, sizeof points, "%s=kill", cases[i].point);
            (void)setenv("OUTRIDER_FAILPOINTS", points, 1);
            relay_once(&h->config);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("%s: the child was not killed there (%d)", cases[i].point, status);
        assert_int_equal(sqlite_value(sqlite_shop.db, "SELECT count(*) FROM outrider_cursor WHERE "
                                                      "position = 4 AND delivered_total = 3"),
                         cases[i].is_settled);
        assert_int_equal(sqlite_value(sqlite_shop.db, "SELECT count(*) FROM outrider_parked"),
                         cases[i].is_settled);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: failpoints are read once, and a child inherits what was read. */
        T(a_kill_at_any_point_leaves_a_batch_settled_or_not_at_all),
        T(what_only_postgresql_can_do_is_refused),
        T(a_rewritten_history_stops_a_start),
        T(a_history_rewritten_under_a_running_relay_stops_it),
        T(another_sink_is_refused_with_the_way_out),
        T(other_schemas_are_refused),
        T(what_is_no_database_is_refused),
        T(a_damaged_file_is_told_from_a_wrong_one),
        T(a_file_that_cannot_be_written_is_refused),
        T(a_writer_that_does_not_end_is_named_as_the_reason),
        T(a_settle_waits_for_a_writer_without_giving_the_connection_up),
        T(a_settle_that_waits_beyond_connect_timeout_is_an_error),
        T(a_fetch_passes_a_settle_that_waits_for_a_writer),
        T(a_fetch_does_not_pass_a_settle_that_parks),
        T(a_commit_wakes_an_idle_source),
        T(without_notifications_a_commit_is_found_by_looking),
        T(an_idle_source_looks_once_a_second_or_without_notifications_each_poll_interval),
        T(an_operators_retry_is_noticed),
        T(a_file_moved_over_the_database_is_noticed),
        T(an_idle_source_notices_that_its_file_is_gone),
        T(rows_that_make_no_sense_become_malformed_events),
        T(an_outbox_in_utf16_is_read_as_utf8),
        T(a_pipelines_name_may_hold_any_bytes),
        T(two_paths_to_one_database_share_one_lock),
        T(of_writers_at_once_nothing_is_lost_invented_or_reordered),
    };
    return cmocka_run_group_tests_name("sqlite_source", tests, NULL, NULL);
}
