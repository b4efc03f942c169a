/* SPDX-License-Identifier: MIT */
/* The SQLite source: opening, taking over, and working on its operations. */
#include "source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "source.sql.h"
#include "sqlite.h"

/* No call waits for a lock of another connection. The operation stays in the queue and
 * is tried again after a quarter of the time it has waited, within these bounds. */
#define BUSY_PAUSE_MIN_US 500
#define BUSY_PAUSE_MAX_US 10000
/* A check-point syncs twice, and events would wait for it. Writers make one at 1000
 * pages by default: at twice that size no writer does it, and the relay must. */
#define CHECKPOINT_PAGES "2000"
#define STANDBY_PAUSE_US 250000
/* A take-over waits for a writer no longer than this: nothing is in flight yet, and an
 * operator wants to know why nothing starts. */
#define TAKE_OVER_TIMEOUT_US 2000000

static const char *const source_blocks[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN",
    [ST_BEGIN_IMMEDIATE] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_FETCH] = sql_fetch,
    [ST_READ_SINCE] = sql_read_since,
    [ST_PROBE] = sql_probe,
    [ST_JOURNAL_MODE] = "PRAGMA main.journal_mode",
    [ST_DUE] = sql_due,
    [ST_ANY_LIVE] = sql_any_live,
    [ST_LANE_FIRST] = sql_lane_first,
    [ST_DUE_HEADS] = sql_due_heads,
    [ST_LANE_ROWS] = sql_lane_rows,
    [ST_CURSOR_READ] = sql_cursor_read,
    [ST_CURSOR_MAKE] = "INSERT INTO outrider_cursor (pipeline, created_at) VALUES (?1, ?2)",
    [ST_CURSOR_TAKE] = sql_cursor_take,
    [ST_CURSOR_SAVE] = sql_cursor_save,
    [ST_PARK] = sql_park,
    [ST_PARKED_LANE] = "SELECT lane FROM outrider_parked WHERE arrival = ?1 AND pipeline = ?2",
    [ST_PARKED_REMOVE] = "DELETE FROM outrider_parked WHERE arrival = ?1 AND pipeline = ?2",
    [ST_PARKED_UPDATE] = sql_parked_update,
    [ST_PROMOTE] = sql_promote,
    [ST_INTENT_ENROL] = sql_intent_enrol,
    [ST_INTENT_READ] = sql_intent_read,
    [ST_INTENT_BODY] = "SELECT body FROM outrider_intent WHERE pipeline = ?1",
    [ST_INTENT_SAVE] = sql_intent_save,
    [ST_INTENT_EPOCH] = "SELECT epoch FROM outrider_cursor WHERE pipeline = ?1",
};

sqlite3_stmt *outrider__sqlite_statement(struct sqlite_source *s, enum sqlite_statement which,
                                         struct outrider_error *err)
{
    sqlite3_stmt *st = s->st[which];
    if (st != NULL) {
        (void)sqlite3_reset(st);
        (void)sqlite3_clear_bindings(st);
        return st;
    }
    const struct sqlite_words words = {.dead_are_live = s->blocks};
    int rc = outrider__sqlite_prepare(s->db, source_blocks[which], &words,
                                      SQLITE_PREPARE_PERSISTENT, &s->st[which]);
    if (rc == SQLITE_OK)
        return s->st[which];
    (void)outrider__sqlite_fail(err, s->db, rc, "cannot prepare a statement");
    return NULL;
}

int outrider__sqlite_run(struct sqlite_source *s, enum sqlite_statement which)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, which, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite3_step(st);
    return sqlite3_reset(st);
}

void outrider__sqlite_rollback(struct sqlite_source *s)
{
    for (int i = 0; i < ST_COUNT; i++)
        if (s->st[i] != NULL)
            (void)sqlite3_reset(s->st[i]);
    if (!sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

enum step outrider__sqlite_stumble(struct sqlite_source *s, int rc, const char *what,
                                   struct outrider_error *err)
{
    bool is_busy = outrider__sqlite_is_busy(rc);
    (void)outrider__sqlite_fail(err, s->db, rc, what);
    outrider__sqlite_rollback(s);
    return is_busy ? STEP_BUSY : STEP_FAILED;
}

int outrider__sqlite_source_open(struct source *base, const struct pipeline_config *config,
                                 struct instant now, struct outrider_error *err)
{
    struct sqlite_source *s = sqlite_source_of(base);
    char *path = NULL;
    s->config = config;
    s->lock.fd = -1;
    s->watched.fd = -1;
    s->mark = -1;
    s->blocks = config->retry.on_dead == ON_DEAD_BLOCK;
    s->opened_us = now.mono_us;
    outrider__strbuf_init(&s->read_id, 1 << 20);
    base->parked_due_us = CLOCK_NEVER;
    base->wake_us = now.mono_us;
    int errno_value = FAILPOINT("sqlite.open");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot open the source");
    if (config->source.mode == MODE_CDC)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "a sqlite: source has no mode cdc; leave --mode out");
    if (config->source.durable == DURABLE_STANDBY)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "a sqlite: source has no standby; leave source.durable out");
    if (outrider__sqlite_path(config, &path, err) < 0)
        return -1;
    (void)snprintf(base->description, sizeof base->description, "sqlite:%s", path);
    int rc = outrider__sqlite_open(path, false, &s->db, &s->path, err);
    free(path);
    if (rc < 0)
        return -1;
    if (asprintf(&s->url, "sqlite:%s", s->path) < 0) {
        s->url = NULL;
        return outrider__fail_nomem(err);
    }
    struct stat st;
    if (stat(s->path, &st) < 0)
        return outrider__fail_errno(err, errno, "cannot look at %s", s->path);
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    (void)sqlite3_busy_timeout(s->db, 0);
    /* Triggers of the application are for its own writes, not for housekeeping. */
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    if (outrider__sqlite_check(s->db, err) < 0 || outrider__sqlite_fetch_prepare(s, err) < 0)
        return -1;
    return outrider__sqlite_exec(s->db,
                                 "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -256;"
                                 "PRAGMA wal_autocheckpoint = " CHECKPOINT_PAGES,
                                 "cannot set up the database", err);
}

static void sqlite_source_activate(struct sqlite_source *s, struct instant now)
{
    s->base.active = true;
    s->base.ready = true;
    s->base.waiting_for[0] = '\0';
    outrider__sqlite_watch_open(s);
    outrider__sqlite_watch_kick(s, now);
}

/* Takes the lock if it is free, then the pipeline. */
static int sqlite_source_try_activate(struct sqlite_source *s, struct instant now,
                                      struct outrider_error *err)
{
    if (s->lock.fd < 0) {
        enum lock_result r =
            outrider__sqlite_lock(&s->lock, s->path, s->config->name, s->base.waiting_for,
                                  sizeof s->base.waiting_for, err);
        if (r == LOCK_FAILED)
            return -1;
        if (r == LOCK_BUSY) {
            s->base.wake_us = now.mono_us + STANDBY_PAUSE_US;
            return 0;
        }
        s->busy_since_us = 0;
    }
    enum step step = outrider__sqlite_take_over(s, now, err);
    if (step == STEP_DONE) {
        s->busy_since_us = 0;
        sqlite_source_activate(s, now);
        return 0;
    }
    if (s->busy_since_us == 0)
        s->busy_since_us = now.mono_us;
    if (step == STEP_FAILED || now.mono_us - s->busy_since_us >= TAKE_OVER_TIMEOUT_US)
        return -1;
    s->base.wake_us = now.mono_us + BUSY_PAUSE_MAX_US;
    return 0;
}

int outrider__sqlite_source_start(struct source *base, struct source_op *op,
                                  struct outrider_error *err)
{
    struct sqlite_source *s = sqlite_source_of(base);
    if (!base->active)
        return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_RETRY, "pipeline '%s' is held by %s",
                              s->config->name, base->waiting_for);
    size_t slot;
    return outrider__op_queue_add(&s->queue, op, s->config->name, &slot, err);
}

static enum step sqlite_source_perform(struct sqlite_source *s, struct source_op *op,
                                       struct outrider_error *err)
{
    switch (op->kind) {
    case SOURCE_MARK:
        return outrider__sqlite_mark(s, err);
    case SOURCE_FETCH:
        return outrider__sqlite_fetch(s, op, err);
    case SOURCE_FETCH_PARKED:
        return outrider__sqlite_fetch_parked(s, op, err);
    case SOURCE_SETTLE:
        return outrider__sqlite_settle(s, op, err);
    case SOURCE_CLEANUP:
        return outrider__sqlite_cleanup(s, op, err);
    case SOURCE_INTENT:
    case SOURCE_RECALL:
        return outrider__sqlite_intent(s, op, err);
    }
    return (enum step)outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "unknown operation");
}

/* Works on the operation in that slot, and gives it back if it comes to its end. */
static enum step sqlite_source_perform_slot(struct sqlite_source *s, size_t slot,
                                            struct instant now, struct source_op **ret_done,
                                            struct outrider_error *err)
{
    struct source_op *op = s->queue.slots[slot].op;
    enum step step = sqlite_source_perform(s, op, err);
    if (step != STEP_DONE)
        return step;
    op_queue_done(&s->queue, slot);
    (void)outrider__op_queue_give(&s->queue, NULL, NULL);
    if (op->kind == SOURCE_FETCH && op->batch->n > 0)
        outrider__sqlite_watch_kick(s, now);
    *ret_done = op;
    return STEP_DONE;
}

static int64_t sqlite_source_busy_pause_us(const struct sqlite_source *s, struct instant now)
{
    int64_t pause = (now.mono_us - s->busy_since_us) / 4;
    if (pause < BUSY_PAUSE_MIN_US)
        return BUSY_PAUSE_MIN_US;
    return pause < BUSY_PAUSE_MAX_US ? pause : BUSY_PAUSE_MAX_US;
}

/* Looks for new events while the oldest operation waits for a lock. */
static int sqlite_source_watch_meanwhile(struct sqlite_source *s, struct instant now,
                                         struct outrider_error *err)
{
    int64_t lock_us = s->base.wake_us;
    if (outrider__sqlite_watch_poll(s, now, err) < 0)
        return -1;
    if (lock_us < s->base.wake_us)
        s->base.wake_us = lock_us;
    return 0;
}

/* The oldest operation waits for a lock: do what can be done meanwhile. */
static int sqlite_source_advance_behind(struct sqlite_source *s, struct instant now,
                                        struct source_op **ret_done, struct outrider_error *err)
{
    int64_t limit = s->config->source.connect_timeout_us;
    if (s->busy_since_us == 0)
        s->busy_since_us = now.mono_us;
    if (now.mono_us - s->busy_since_us >= (limit > 0 ? limit : TAKE_OVER_TIMEOUT_US))
        return -1;
    s->base.wake_us = now.mono_us + sqlite_source_busy_pause_us(s, now);
    /* A fetch needs no writer's lock: it passes settles that wait for one. */
    size_t passing = outrider__op_queue_passing(&s->queue);
    if (passing == OP_QUEUE_NONE)
        return s->queue.slots[s->queue.first].may_be_passed
                   ? sqlite_source_watch_meanwhile(s, now, err)
                   : 0;
    return sqlite_source_perform_slot(s, passing, now, ret_done, err) == STEP_FAILED ? -1 : 0;
}

static int sqlite_source_advance(struct sqlite_source *s, struct instant now,
                                 struct source_op **ret_done, struct outrider_error *err)
{
    enum step step = sqlite_source_perform_slot(s, s->queue.first, now, ret_done, err);
    if (step == STEP_BUSY)
        return sqlite_source_advance_behind(s, now, ret_done, err);
    if (step == STEP_FAILED)
        return -1;
    s->busy_since_us = 0;
    return 0;
}

static int sqlite_source_poll(struct source *base, struct instant now, struct source_op **ret_done,
                              struct outrider_error *err)
{
    struct sqlite_source *s = sqlite_source_of(base);
    *ret_done = NULL;
    if (!base->active) {
        if (now.mono_us < base->wake_us)
            return 0;
        if (sqlite_source_try_activate(s, now, err) < 0)
            return -1;
        if (!base->active)
            return 0;
    }
    if (s->queue.n > 0)
        return sqlite_source_advance(s, now, ret_done, err);
    return outrider__sqlite_watch_poll(s, now, err);
}

static int sqlite_source_fds(struct source *base, struct pollfd *ret_fds, int max)
{
    return outrider__sqlite_watch_fds(sqlite_source_of(base), ret_fds, max);
}

void outrider__sqlite_source_close(struct source *base)
{
    struct sqlite_source *s = sqlite_source_of(base);
    if (s->config == NULL)
        return;
    base->active = base->ready = false;
    for (int i = 0; i < ST_COUNT; i++) {
        sqlite3_finalize(s->st[i]);
        s->st[i] = NULL;
    }
    (void)sqlite3_close(s->db);
    s->db = NULL;
    outrider__sqlite_watch_close(s);
    outrider__sqlite_unlock(&s->lock);
    outrider__strbuf_release(&s->read_id);
    free(s->path);
    free(s->url);
    s->path = s->url = NULL;
    s->queue = (struct op_queue){0};
    s->config = NULL;
}

const struct source_ops outrider__source_sqlite = {
    .scheme = "sqlite",
    .size = sizeof(struct sqlite_source),
    .keeps_intents = true,
    .reader = &outrider__sqlite_reader,
    .open = outrider__sqlite_source_open,
    .start = outrider__sqlite_source_start,
    .poll = sqlite_source_poll,
    .fds = sqlite_source_fds,
    .close = outrider__sqlite_source_close,
};
