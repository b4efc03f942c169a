/* SPDX-License-Identifier: MIT */
/* From the stream back to polling: move.h (2) and (3). */
#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"

#define PAUSE_FIRST_US 500000
#define PAUSE_MAX_US 30000000
#define DROP_PAUSE_US 50000

enum drop_column { DROP_DROPPED, DROP_ACTIVE };

static void leave_wake_by(struct pg_source *s, int64_t when)
{
    if (when < s->base.wake_us)
        s->base.wake_us = when;
}

static int leave_on_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)results;
    (void)n;
    int errno_value = FAILPOINT("cdc.left");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save the cursor");
    outrider__cdc_link_close(&c->stream.link);
    c->move.phase = MOVE_LEFT;
    c->move.drop_us = s->now.mono_us;
    s->base.wake_us = s->now.mono_us;
    return 0;
}

static int leave_save(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const struct slot_plan *plan = &c->maker.plan;
    outrider__pg_source_hold(s);
    c->move.phase = MOVE_READING;
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, c->cursor.epoch);
    outrider__pg_arg_int8(&c->args, plan->position);
    outrider__pg_arg_str(&c->args, plan->ranges);
    if (plan->position > 0)
        outrider__pg_arg_str(&c->args, plan->anchor);
    else
        outrider__pg_arg_null(&c->args, PG_TEXT);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_LEAVING], &c->args, leave_on_saved, s,
                                err);
}

/* Some of the stream may be in memory already: then no descriptor becomes ready. */
static void leave_unpause(struct pg_source *s)
{
    outrider__cdc_stream_unpause(&cdc_of(s)->stream);
    leave_wake_by(s, s->now.mono_us);
}

/* The slot is there: the stream is read up to where the slot begins, and no further. */
static int leave_drain(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->stream.state == STREAM_PAUSED) {
        outrider__cdc_stream_stop_at(&c->stream, c->maker.slot_lsn);
        leave_unpause(s);
    }
    if (stream_has_ended(&c->stream) && c->fetch_op == NULL && s->n_live == 0 && s->queue.n == 0 &&
        s->conn.n_requests == 0)
        return leave_save(s, err);
    return 0;
}

/* The stream stands still while the slot is made. When that takes too long, delivery goes
 * on for as long as it stood still. */
static int leave_make_slot(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_move *v = &c->move;
    if (c->maker.state == MAKER_IDLE) {
        leave_wake_by(s, v->pause_until_us);
        if (s->now.mono_us < v->pause_until_us)
            return 0;
        outrider__cdc_stream_pause(&c->stream);
        c->maker.purpose = SLOT_TO_POLL;
        v->pause_us = v->pause_us == 0 ? PAUSE_FIRST_US : v->pause_us;
        v->pause_until_us = s->now.mono_us + v->pause_us;
    }
    if (outrider__cdc_maker_tick(s, err) < 0)
        return -1;
    if (c->maker.state != MAKER_WAITING && c->maker.state != MAKER_CONNECTING)
        return 0;
    leave_wake_by(s, v->pause_until_us);
    if (s->now.mono_us < v->pause_until_us)
        return 0;
    leave_unpause(s);
    v->pause_until_us = s->now.mono_us + v->pause_us;
    v->pause_us = v->pause_us * 2 < PAUSE_MAX_US ? v->pause_us * 2 : PAUSE_MAX_US;
    return outrider__cdc_maker_cancel(s, err);
}

int outrider__cdc_leave_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (!stream_is_up(&c->stream))
        return 0;
    return c->maker.state == MAKER_MADE ? leave_drain(s, err) : leave_make_slot(s, err);
}

static int leave_on_poll_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    const struct cdc_source *c = cdc_of(s);
    (void)results;
    (void)n;
    if (s->config->source.mode == MODE_CDC)
        return outrider__cdc_restart(s, err);
    /* A mark behind the end of the stream: polling reaches it. */
    s->must_mark = c->goal.lsn != 0 && !s->base.mark_reached;
    return outrider__pg_source_switch(s, &outrider__pg_layout_log, err);
}

static int leave_on_dropped(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)n;
    c->move.leaving = LEAVE_READY;
    if (outrider__pg_get_int(results[0], 0, DROP_ACTIVE, 0) > 0)
        return 0; /* the slot's last reader is not quite gone */
    c->move.leaving = LEAVE_SAVING;
    outrider__pg_cursor_args(s, &c->args);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_POLL], &c->args, leave_on_poll_saved, s,
                                err);
}

int outrider__cdc_leave_drop(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    s->base.wake_us = c->move.leaving == LEAVE_READY ? c->move.drop_us : CLOCK_NEVER;
    if (c->move.leaving != LEAVE_READY || s->now.mono_us < c->move.drop_us)
        return 0;
    c->move.leaving = LEAVE_DROPPING;
    c->move.drop_us = s->now.mono_us + DROP_PAUSE_US;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_str(&c->args, c->slot);
    return outrider__pg_request(&s->conn, &c->st[CDC_DROP_SLOT], &c->args, leave_on_dropped, s,
                                err);
}

int outrider__pg_cdc_forget_slot(struct pg_source *s, struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args args;
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__cdc_forget_slot_sql(&sql, s->cat.cursor_table);
    struct pg_statement st = {.sql = strbuf_cstr(&sql), .what = "cannot drop the replication slot"};
    outrider__pg_args_init(&args);
    outrider__pg_cursor_args(s, &args);
    int rc = sql.failed ? outrider__fail_nomem(err)
                        : outrider__pg_request(&s->conn, &st, &args, NULL, NULL, err);
    outrider__pg_args_release(&args);
    outrider__strbuf_release(&sql);
    return rc;
}
