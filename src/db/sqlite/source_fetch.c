/* SPDX-License-Identifier: MIT */
/* Reading: new events behind the cursor, and parked rows that are due. */
#include "source.h"

#include "base/failpoint.h"

#include <stdio.h>

/* Columns of probe, of due_heads, and those of lane_rows behind the event's. */
enum probe_column { PROBE_NEWEST, PROBE_DUE };
enum head_column { HEAD_ARRIVAL, HEAD_LANE };
enum lane_column { LANE_ARRIVAL = EVENT_COLUMN_COUNT, LANE_ATTEMPTS, LANE_IS_DEAD };

static int64_t sqlite_fetch_int_or(sqlite3_stmt *st, int i, int64_t otherwise)
{
    return sqlite3_column_type(st, i) != SQLITE_NULL ? sqlite3_column_int64(st, i) : otherwise;
}

static int sqlite_fetch_bind_pipeline(const struct sqlite_source *s, sqlite3_stmt *st)
{
    return sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
}

int outrider__sqlite_read_due(struct sqlite_source *s)
{
    s->base.parked_due_us = CLOCK_NEVER;
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_DUE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite_fetch_bind_pipeline(s, st);
    if (sqlite3_step(st) == SQLITE_ROW)
        s->base.parked_due_us = sqlite_fetch_int_or(st, 0, CLOCK_NEVER);
    return sqlite3_reset(st);
}

int outrider__sqlite_probe(struct sqlite_source *s, int64_t *ret_newest)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_PROBE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite_fetch_bind_pipeline(s, st);
    if (sqlite3_step(st) == SQLITE_ROW) {
        *ret_newest = sqlite_fetch_int_or(st, PROBE_NEWEST, 0);
        s->base.parked_due_us = sqlite_fetch_int_or(st, PROBE_DUE, CLOCK_NEVER);
    }
    return sqlite3_reset(st);
}

static int sqlite_fetch_sync_file(struct sqlite_source *s, int which, struct outrider_error *err)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(s->db, "main", which, &file);
    if (rc == SQLITE_OK && file != NULL && file->pMethods != NULL)
        rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot sync the database");
}

int outrider__sqlite_sync(struct sqlite_source *s, struct outrider_error *err)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_JOURNAL_MODE, err);
    if (st == NULL)
        return -1;
    bool is_wal = false;
    if (sqlite3_step(st) == SQLITE_ROW)
        is_wal = sqlite3_stricmp((const char *)sqlite3_column_text(st, 0), "wal") == 0;
    (void)sqlite3_reset(st);
    return sqlite_fetch_sync_file(
        s, is_wal ? SQLITE_FCNTL_JOURNAL_POINTER : SQLITE_FCNTL_FILE_POINTER, err);
}

/*
 * Under synchronous=NORMAL a commit that everybody sees is not on the disk yet. A
 * power cut undoes the commit, and its events must not have been published by then.
 * So the file that holds the commits is synced before events leave. That is done
 * through SQLite's own descriptor: closing another descriptor of the same file would
 * drop the locks of the process on the file.
 */
int outrider__sqlite_make_durable(struct sqlite_source *s, int64_t newest,
                                  struct outrider_error *err)
{
    int errno_value = FAILPOINT("sqlite.before_sync");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot sync the database");
    if (outrider__sqlite_sync(s, err) < 0)
        return -1;
    s->durable_seq = newest;
    errno_value = FAILPOINT("sqlite.after_sync");
    return errno_value != 0 ? outrider__fail_errno(err, errno_value, "cannot sync the database")
                            : 0;
}

/* Each read begins at the row that was read last. Where that row is gone or is another
 * one, the seqs do not mean what they did. */
static bool sqlite_fetch_is_anchor(const struct sqlite_source *s, sqlite3_value **v)
{
    const char *id = (const char *)sqlite3_value_text(v[1]);
    struct bytes found = outrider__text_cut(bytes_of(id, (size_t)sqlite3_value_bytes(v[1])));
    /* A row without an id got one when it was read: any id fits. */
    return sqlite3_value_int64(v[0]) == s->read_seq &&
           (bytes_eq(found, strbuf_bytes(&s->read_id)) || found.len == 0);
}

/*
 * SQL function, one call per row in the order of seq: takes the row, answers
 * whether to stop. Stepping from row to row through SQLite's API and asking it
 * for each column costs as much again as reading the rows.
 */
static void sqlite_fetch_take(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    struct sqlite_source *s = sqlite3_user_data(ctx);
    struct fetch_run *run = &s->run;
    struct event *e;
    (void)n;
    if (run->batch == NULL) {
        sqlite3_result_error(ctx, "outrider_take() is for the relay alone", -1);
    } else if (run->expects_anchor) {
        run->expects_anchor = false;
        run->is_rewritten = !sqlite_fetch_is_anchor(s, v);
        sqlite3_result_int(ctx, run->is_rewritten);
    } else if (outrider__sqlite_row(v, run->batch, &run->max, &s->clock, &e, &run->error) < 0) {
        sqlite3_result_error_nomem(ctx);
    } else {
        sqlite3_result_int(ctx, batch_is_full(run->batch));
    }
}

int outrider__sqlite_fetch_prepare(struct sqlite_source *s, struct outrider_error *err)
{
    int rc = sqlite3_create_function_v2(s->db, "outrider_take", EVENT_COLUMN_COUNT,
                                        SQLITE_UTF8 | SQLITE_DIRECTONLY, s, sqlite_fetch_take, NULL,
                                        NULL, NULL);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot set up the source");
}

static int sqlite_fetch_fail_anchor(struct sqlite_source *s, const char *what,
                                    struct outrider_error *err)
{
    char text[128];
    (void)snprintf(text, sizeof text, "row %lld is %s", (long long)s->read_seq, what);
    struct cursor_place at = outrider__sqlite_place(s);
    return outrider__cursor_fail_history(&at, text, err);
}

enum step outrider__sqlite_read(struct sqlite_source *s, sqlite3_stmt *st, struct batch *b,
                                bool expects_anchor, bool *ret_at_end, struct outrider_error *err)
{
    s->run = (struct fetch_run){
        .batch = b, .max = outrider__event_bounds(s->config), .expects_anchor = expects_anchor};
    int rc = sqlite3_step(st);
    s->run.batch = NULL;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return outrider__sqlite_stumble(s, rc, "cannot read the outbox", err);
    (void)sqlite3_reset(st);
    if (s->run.is_rewritten)
        return (enum step)sqlite_fetch_fail_anchor(s, "gone or is another one now", err);
    if (s->run.expects_anchor)
        return (enum step)sqlite_fetch_fail_anchor(s, "gone", err);
    *ret_at_end = rc == SQLITE_DONE;
    return STEP_DONE;
}

/* Reads behind the row that was read last, which is read again as the anchor. */
static enum step sqlite_fetch_read_rows(struct sqlite_source *s, struct batch *b, bool *ret_at_end,
                                        struct outrider_error *err)
{
    bool expects_anchor = s->read_seq > 0;
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_FETCH, err);
    if (st == NULL)
        return STEP_FAILED;
    (void)sqlite3_bind_int64(st, 1, expects_anchor ? s->read_seq : 1);
    return outrider__sqlite_read(s, st, b, expects_anchor, ret_at_end, err);
}

/* Contract (7): the database is asked for the keys of this batch. */
static int sqlite_fetch_mark_blocked(struct sqlite_source *s, struct batch *b)
{
    if (b->n == 0)
        return SQLITE_OK;
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_ANY_LIVE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite_fetch_bind_pipeline(s, st);
    bool has_parked = sqlite3_step(st) == SQLITE_ROW;
    int rc = sqlite3_reset(st);
    if (rc != SQLITE_OK || !has_parked)
        return rc;
    st = outrider__sqlite_statement(s, ST_LANE_FIRST, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite_fetch_bind_pipeline(s, st);
    for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
        struct event *e = &b->events[i];
        struct bytes lane = event_key(e);
        (void)sqlite3_bind_text64(st, 2, lane.data, lane.len, SQLITE_STATIC, SQLITE_UTF8);
        e->is_blocked = sqlite3_step(st) == SQLITE_ROW;
        rc = sqlite3_reset(st);
    }
    return rc;
}

static int sqlite_fetch_remember_last(struct sqlite_source *s, const struct batch *b,
                                      struct outrider_error *err)
{
    if (b->n == 0)
        return 0;
    const struct event *last = &b->events[b->n - 1];
    outrider__strbuf_clear(&s->read_id);
    outrider__strbuf_append(&s->read_id, outrider__text_cut(last->id));
    if (s->read_id.failed)
        return outrider__fail_nomem(err);
    s->read_seq = last->seq;
    return 0;
}

enum step outrider__sqlite_fetch(struct sqlite_source *s, struct source_op *op,
                                 struct outrider_error *err)
{
    struct batch *b = op->batch;
    bool at_end = false;
    int64_t newest = 0;
    int errno_value = FAILPOINT("sqlite.fetch");
    if (errno_value != 0)
        return (enum step)outrider__fail_errno(err, errno_value, "cannot read the outbox");
    if (b->n != 0)
        outrider__batch_reset(b); /* an earlier try found a writer's lock */
    b->is_parked = false;
    int rc = outrider__sqlite_run(s, ST_BEGIN);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read the outbox", err);
    enum step step = sqlite_fetch_read_rows(s, b, &at_end, err);
    if (step != STEP_DONE) {
        outrider__sqlite_rollback(s);
        return step;
    }
    rc = outrider__sqlite_probe(s, &newest);
    if (rc == SQLITE_OK && s->config->ordered)
        rc = sqlite_fetch_mark_blocked(s, b);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_run(s, ST_COMMIT);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read the outbox", err);
    if (sqlite_fetch_remember_last(s, b, err) < 0)
        return STEP_FAILED;
    if (b->n > 0 && s->read_seq > s->durable_seq &&
        outrider__sqlite_make_durable(s, newest, err) < 0)
        return STEP_FAILED;
    s->base.ready = !at_end;
    if (s->mark >= 0 && (at_end || s->read_seq >= s->mark))
        s->base.mark_reached = true;
    return STEP_DONE;
}

enum step outrider__sqlite_mark(struct sqlite_source *s, struct outrider_error *err)
{
    int64_t newest = 0;
    int rc = outrider__sqlite_probe(s, &newest);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read the outbox", err);
    s->mark = newest;
    s->base.mark_reached = s->read_seq >= newest;
    if (!s->base.mark_reached)
        s->base.ready = true;
    return STEP_DONE;
}

/* Reads the row `head` and the rows behind it, up to a share of the batch: a long lane
 * must not keep the other lanes waiting. */
static int sqlite_fetch_read_lane(struct sqlite_source *s, struct batch *b, int64_t head,
                                  struct bytes lane, struct outrider_error *err)
{
    struct event_bounds max = outrider__event_bounds(s->config);
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_LANE_ROWS, err);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite_fetch_bind_pipeline(s, st);
    (void)sqlite3_bind_text64(st, 2, lane.data, lane.len, SQLITE_STATIC, SQLITE_UTF8);
    (void)sqlite3_bind_int64(st, 3, head);
    (void)sqlite3_bind_int64(st, 4, (int64_t)(b->capacity / 4 + 1));
    while (!batch_is_full(b) && sqlite3_step(st) == SQLITE_ROW) {
        struct event *e;
        if (sqlite3_column_int(st, LANE_IS_DEAD))
            break; /* dead letters are read only where they block */
        if (outrider__sqlite_row_of(st, b, &max, &s->clock, &e, err) < 0)
            return SQLITE_NOMEM;
        e->is_parked = true;
        e->arrival = sqlite3_column_int64(st, LANE_ARRIVAL);
        e->attempts = (uint32_t)sqlite3_column_int64(st, LANE_ATTEMPTS);
    }
    return sqlite3_reset(st);
}

static int sqlite_fetch_read_due_lanes(struct sqlite_source *s, struct batch *b, int64_t now_us,
                                       struct outrider_error *err)
{
    sqlite3_stmt *heads = outrider__sqlite_statement(s, ST_DUE_HEADS, err);
    if (heads == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite_fetch_bind_pipeline(s, heads);
    (void)sqlite3_bind_int64(heads, 2, now_us);
    int rc = SQLITE_OK;
    while (rc == SQLITE_OK && !batch_is_full(b) && sqlite3_step(heads) == SQLITE_ROW) {
        const char *lane = (const char *)sqlite3_column_text(heads, HEAD_LANE);
        rc = sqlite_fetch_read_lane(s, b, sqlite3_column_int64(heads, HEAD_ARRIVAL),
                                    bytes_of(lane, (size_t)sqlite3_column_bytes(heads, HEAD_LANE)),
                                    err);
    }
    int finished = sqlite3_reset(heads);
    return rc == SQLITE_OK ? finished : rc;
}

enum step outrider__sqlite_fetch_parked(struct sqlite_source *s, struct source_op *op,
                                        struct outrider_error *err)
{
    struct batch *b = op->batch;
    int errno_value = FAILPOINT("sqlite.fetch_parked");
    if (errno_value != 0)
        return (enum step)outrider__fail_errno(err, errno_value, "cannot read the parked events");
    if (b->n != 0)
        outrider__batch_reset(b);
    b->is_parked = true;
    int rc = outrider__sqlite_run(s, ST_BEGIN);
    if (rc == SQLITE_OK)
        rc = sqlite_fetch_read_due_lanes(s, b, op->now_wall_us, err);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_read_due(s);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_run(s, ST_COMMIT);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read the parked events", err);
    return STEP_DONE;
}
