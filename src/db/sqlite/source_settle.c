/* SPDX-License-Identifier: MIT */
/*
 * Writing. One transaction per batch saves the position, adds the rows to park, and
 * changes or removes parked rows. Clean-up is here too.
 *
 * Every transaction begins with the cursor row under `epoch = mine`, so that a
 * relay that was taken over changes nothing any more.
 */
#include "source.h"

#include "base/failpoint.h"
#include "common/outcome.h"
#include "common/tally.h"
#include "housekeeping.h"

static enum step sqlite_settle_failed(int errno_value, struct outrider_error *err)
{
    return (enum step)outrider__fail_errno(err, errno_value, "cannot settle");
}

static enum step sqlite_settle_save_cursor(struct sqlite_source *s, const struct batch *b,
                                           int64_t now_us, const struct tally *t,
                                           struct outrider_error *err)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_CURSOR_SAVE, err);
    if (st == NULL)
        return STEP_FAILED;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 2, s->epoch);
    if (!b->is_parked && t->n > 0) {
        const struct event *last = &b->events[t->n - 1];
        struct bytes anchor = outrider__text_cut(last->id);
        (void)sqlite3_bind_int64(st, 3, last->seq);
        (void)sqlite3_bind_text64(st, 4, anchor.data, anchor.len, SQLITE_STATIC, SQLITE_UTF8);
    }
    (void)sqlite3_bind_int64(st, 5, now_us);
    (void)sqlite3_bind_int64(st, 6, t->delivered);
    (void)sqlite3_bind_int64(st, 7, t->expired);
    (void)sqlite3_bind_int64(st, 8, t->skipped);
    (void)sqlite3_bind_int64(st, 9, t->dead);
    (void)sqlite3_step(st);
    int rc = sqlite3_reset(st);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot settle", err);
    if (sqlite3_changes(s->db) == 1)
        return STEP_DONE;
    outrider__sqlite_rollback(s);
    struct cursor_place at = outrider__sqlite_place(s);
    return (enum step)outrider__cursor_fail_fenced(&at, err);
}

static void sqlite_settle_bind_lane(const struct sqlite_source *s, sqlite3_stmt *st,
                                    struct bytes lane)
{
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text64(st, 2, lane.data, lane.len, SQLITE_STATIC, SQLITE_UTF8);
}

/* *ret_arrival: the first live row of the lane, 0 if there is none. */
static int sqlite_settle_lane_first(struct sqlite_source *s, struct bytes lane,
                                    int64_t *ret_arrival)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_LANE_FIRST, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    sqlite_settle_bind_lane(s, st, lane);
    *ret_arrival = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    return sqlite3_reset(st);
}

struct parked_state {
    const char *name;
    bool has_next;
    int64_t next_us;
};

/* The first row of a lane is parked and has a time; rows behind it are queued. */
static struct parked_state sqlite_settle_state_of(const struct event *e, bool is_first)
{
    if (e->outcome == OUTCOME_DEAD)
        return (struct parked_state){.name = "dead"};
    if (!is_first)
        return (struct parked_state){.name = "queued"};
    return (struct parked_state){
        .name = "parked",
        .has_next = true,
        .next_us = e->outcome == OUTCOME_PARKED ? e->next_attempt_us : 0,
    };
}

static void sqlite_settle_bind_text(sqlite3_stmt *st, int i, struct bytes text)
{
    if (!bytes_is_null(text))
        (void)sqlite3_bind_text64(st, i, text.data, text.len, SQLITE_STATIC, SQLITE_UTF8);
}

static void sqlite_settle_bind_failure(sqlite3_stmt *st, int first, const struct event *e)
{
    struct outcome_failure why = outrider__outcome_failure(e);
    sqlite_settle_bind_text(st, first, why.code);
    sqlite_settle_bind_text(st, first + 1, why.origin);
    sqlite_settle_bind_text(st, first + 2, why.message);
}

/* The database itself copies the row: an event that is too large needs no memory here. */
static int sqlite_settle_park(struct sqlite_source *s, const struct event *e, int64_t now_us)
{
    struct bytes lane = outcome_lane(e, s->config->ordered);
    int64_t first = 0;
    int rc = sqlite_settle_lane_first(s, lane, &first);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_PARK, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    struct parked_state state = sqlite_settle_state_of(e, first == 0);
    sqlite_settle_bind_lane(s, st, lane);
    (void)sqlite3_bind_text(st, 3, state.name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 4, e->seq);
    (void)sqlite3_bind_int64(st, 5, e->attempts);
    if (state.has_next)
        (void)sqlite3_bind_int64(st, 6, state.next_us);
    sqlite_settle_bind_failure(st, 7, e);
    (void)sqlite3_bind_int64(st, 10, now_us);
    (void)sqlite3_step(st);
    return sqlite3_reset(st);
}

static int sqlite_settle_promote(struct sqlite_source *s, struct bytes lane, int64_t now_us)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_PROMOTE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    sqlite_settle_bind_lane(s, st, lane);
    (void)sqlite3_bind_int64(st, 3, now_us);
    (void)sqlite3_step(st);
    return sqlite3_reset(st);
}

static int sqlite_settle_remove_parked(struct sqlite_source *s, const struct event *e)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_PARKED_REMOVE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite3_bind_int64(st, 1, e->arrival);
    (void)sqlite3_bind_text(st, 2, s->config->name, -1, SQLITE_STATIC);
    (void)sqlite3_step(st);
    return sqlite3_reset(st);
}

/* The row may not be the first of its lane any more: an operator may have retried
 * another one. */
static int sqlite_settle_update_parked(struct sqlite_source *s, const struct event *e,
                                       struct bytes lane, int64_t now_us)
{
    int64_t first = 0;
    int rc = sqlite_settle_lane_first(s, lane, &first);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_PARKED_UPDATE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    struct parked_state state = sqlite_settle_state_of(e, first == e->arrival);
    (void)sqlite3_bind_int64(st, 1, e->arrival);
    (void)sqlite3_bind_text(st, 2, state.name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 3, e->attempts);
    if (state.has_next)
        (void)sqlite3_bind_int64(st, 4, state.next_us);
    sqlite_settle_bind_failure(st, 5, e);
    (void)sqlite3_bind_int64(st, 8, now_us);
    (void)sqlite3_step(st);
    return sqlite3_reset(st);
}

/* The lane under which the row was parked; the row knows it, because `ordered` may have
 * changed since. A null lane: an operator has discarded the row meanwhile. */
static int sqlite_settle_lane_of_parked(struct sqlite_source *s, const struct event *e,
                                        struct bytes *ret_lane)
{
    *ret_lane = BYTES_NULL;
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_PARKED_LANE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite3_bind_int64(st, 1, e->arrival);
    (void)sqlite3_bind_text(st, 2, s->config->name, -1, SQLITE_STATIC);
    if (sqlite3_step(st) == SQLITE_ROW) {
        const char *lane = (const char *)sqlite3_column_text(st, 0);
        struct bytes found = bytes_of(lane, (size_t)sqlite3_column_bytes(st, 0));
        if (outrider__arena_dup(&e->batch->arena, found, ret_lane) < 0)
            return SQLITE_NOMEM;
    }
    return sqlite3_reset(st);
}

static int sqlite_settle_parked(struct sqlite_source *s, const struct event *e, int64_t now_us)
{
    struct bytes lane;
    int rc = sqlite_settle_lane_of_parked(s, e, &lane);
    if (rc != SQLITE_OK || bytes_is_null(lane))
        return rc;
    rc = outcome_is_removed(e) ? sqlite_settle_remove_parked(s, e)
                               : sqlite_settle_update_parked(s, e, lane, now_us);
    return rc == SQLITE_OK ? sqlite_settle_promote(s, lane, now_us) : rc;
}

static int sqlite_settle_event(struct sqlite_source *s, const struct event *e, int64_t now_us)
{
    switch (outcome_change(e)) {
    case ROW_ADDED:
        return sqlite_settle_park(s, e, now_us);
    case ROW_CHANGED:
    case ROW_REMOVED:
        return sqlite_settle_parked(s, e, now_us);
    default:
        return SQLITE_OK;
    }
}

enum step outrider__sqlite_settle_batch(struct sqlite_source *s, struct batch *b, int64_t now_us,
                                        struct outrider_error *err)
{
    struct tally t = outrider__tally_prefix(b);
    enum step step = sqlite_settle_save_cursor(s, b, now_us, &t, err);
    if (step != STEP_DONE)
        return step;
    int errno_value = FAILPOINT("settle.before_park");
    if (errno_value != 0)
        return sqlite_settle_failed(errno_value, err);
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < t.n; i++)
        rc = sqlite_settle_event(s, &b->events[i], now_us);
    return rc == SQLITE_OK ? STEP_DONE : outrider__sqlite_stumble(s, rc, "cannot settle", err);
}

static enum step sqlite_settle_write_batch(struct sqlite_source *s, struct source_op *op,
                                           struct outrider_error *err)
{
    enum step step = outrider__sqlite_settle_batch(s, op->batch, op->now_wall_us, err);
    if (step != STEP_DONE)
        return step;
    int rc = outrider__sqlite_read_due(s);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot settle", err);
    int errno_value = FAILPOINT("settle.before_commit");
    if (errno_value != 0)
        return sqlite_settle_failed(errno_value, err);
    rc = outrider__sqlite_run(s, ST_COMMIT);
    return rc == SQLITE_OK ? STEP_DONE : outrider__sqlite_stumble(s, rc, "cannot settle", err);
}

enum step outrider__sqlite_settle(struct sqlite_source *s, struct source_op *op,
                                  struct outrider_error *err)
{
    struct tally t = outrider__tally_prefix(op->batch);
    if (t.n == 0)
        return STEP_DONE;
    int errno_value = FAILPOINT("settle.before_begin");
    if (errno_value != 0)
        return sqlite_settle_failed(errno_value, err);
    int rc = outrider__sqlite_run(s, ST_BEGIN_IMMEDIATE);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot settle", err);
    enum step step = sqlite_settle_write_batch(s, op, err);
    if (step != STEP_DONE) {
        outrider__sqlite_rollback(s);
        return step;
    }
    if (!op->batch->is_parked)
        s->position = op->batch->events[t.n - 1].seq;
    errno_value = FAILPOINT("settle.after_commit");
    return errno_value != 0 ? sqlite_settle_failed(errno_value, err) : STEP_DONE;
}

enum step outrider__sqlite_cleanup(struct sqlite_source *s, struct source_op *op,
                                   struct outrider_error *err)
{
    int64_t limit = s->config->cleanup.batch > 0 ? s->config->cleanup.batch : 1000;
    int64_t retention_us = s->config->cleanup.retention_us;
    op->removed = 0;
    op->more = false;
    if (retention_us <= 0)
        return STEP_DONE;
    int errno_value = FAILPOINT("sqlite.cleanup");
    if (errno_value != 0)
        return (enum step)outrider__fail_errno(err, errno_value, "cannot clean up");
    int rc =
        outrider__sqlite_remove_settled(s->db, op->now_wall_us - retention_us, limit, &op->removed);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot clean up", err);
    op->more = op->removed == (uint64_t)limit;
    return STEP_DONE;
}
