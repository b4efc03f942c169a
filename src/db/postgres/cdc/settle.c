/* SPDX-License-Identifier: MIT */
/*
 * Settling: one request, which is one transaction, saves the place of the last settled
 * event (only while the epoch is ours), writes the rows to park and removes parked rows.
 * The slot is confirmed afterwards. And settled_xid, which says to others what is settled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"

#define SAVES_AFTER_SETTLE 5
#define SAVE_IDLE_US 60000000

/* A batch of the stream has points; a batch of the sweep has seqs. */
static bool settle_is_of_stream(const struct batch *b)
{
    return !b->is_parked && b->source_data != NULL;
}

static void settle_add_place(struct pg_args *a, const struct batch *b, const struct tally *t)
{
    char lsn[32];
    if (settle_is_of_stream(b)) {
        const struct cdc_point *p = (const struct cdc_point *)b->source_data + (t->n - 1);
        (void)snprintf(lsn, sizeof lsn, "%X/%X", (unsigned)(p->commit_lsn >> 32),
                       (unsigned)p->commit_lsn);
        outrider__pg_arg_str(a, lsn);
        outrider__pg_arg_int8(a, p->number);
        outrider__pg_arg_null(a, PG_INT8);
        return;
    }
    outrider__pg_arg_null(a, PG_TEXT);
    outrider__pg_arg_null(a, PG_INT8);
    if (b->is_parked)
        outrider__pg_arg_null(a, PG_INT8);
    else
        outrider__pg_arg_int8(a, t->n == b->n ? b->position : b->events[t->n - 1].seq);
}

static int settle_add_save(struct pg_source *s, const struct source_op *op, const struct tally *t,
                           struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct pg_args *a = &c->args;
    outrider__pg_cursor_args(s, a);
    outrider__pg_arg_int8(a, c->cursor.epoch);
    settle_add_place(a, op->batch, t);
    outrider__pg_cursor_totals(a, op->now_wall_us, t, &c->cursor);
    outrider__pg_arg_int8(a, c->tables.rows->has_seqs ? t->last_seq : 0);
    return outrider__pg_request_add(&s->conn, &c->st[CDC_SAVE], a, err);
}

/* Whether settling touches rows of the outbox: then these rows must be visible. */
static bool settle_needs_rows(const struct pg_source *s, const struct batch *b, size_t n)
{
    int after = s->config->source.after_publish;
    if (after == AFTER_PUBLISH_MARK || after == AFTER_PUBLISH_DELETE)
        return true;
    for (size_t i = 0; i < n; i++)
        if (b->events[i].is_oversize)
            return true;
    return false;
}

/* Whether this event begins another transaction than the event before it. */
static bool settle_is_next_xid(const struct cdc_point *points, size_t i)
{
    return points[i].xid != 0 && (i == 0 || points[i].xid != points[i - 1].xid);
}

static int settle_add_visible(struct pg_source *s, const struct source_op *op, size_t n,
                              struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const struct batch *b = op->batch;
    const struct cdc_point *points = b->source_data;
    if (!settle_is_of_stream(b) || (op->kind != SOURCE_RECALL && !settle_needs_rows(s, b, n)))
        return 0;
    outrider__pg_args_clear(&c->args);
    outrider__pg_array_begin(&c->args, PG_INT8);
    for (size_t i = 0; i < n; i++)
        if (settle_is_next_xid(points, i))
            outrider__pg_array_int8(&c->args, points[i].xid);
    outrider__pg_array_end(&c->args);
    return outrider__pg_request_add(&s->conn, &c->st[CDC_VISIBLE], &c->args, err);
}

static int settle_on_done(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct pg_source *s = op->source;
    struct cdc_source *c = cdc_of(s);
    int errno_value = FAILPOINT("cdc.after_settle");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    c->cursor.tid = outrider__pg_get_tid(results[0], 0, 0);
    if (op->changes_parked)
        s->base.parked_due_us = outrider__pg_parked_due_us(results[n - 1]);
    if (settle_is_of_stream(op->op->batch) && op->op->kind != SOURCE_RECALL)
        outrider__cdc_stream_settled(&c->stream, (int64_t)outrider__tally_prefix(op->op->batch).n);
    pg_op_done(op);
    return 0;
}

int outrider__cdc_settle(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct batch *b = op->op->batch;
    struct tally t = outrider__tally_prefix(b);
    if (t.n == 0) {
        pg_op_done(op);
        return 0;
    }
    int errno_value = FAILPOINT("cdc.before_settle");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    if (outrider__pg_request_begin(&s->conn, settle_on_done, op, err) < 0 ||
        settle_add_save(s, op->op, &t, err) < 0 || outrider__pg_intent_add(s, op, err) < 0 ||
        settle_add_visible(s, op->op, t.n, err) < 0)
        return -1;
    int n_parked = outrider__pg_parked_settle(&c->parked, &s->conn, b->events, t.n, b->is_parked,
                                              op->op->now_wall_us, err);
    if (n_parked < 0)
        return -1;
    op->changes_parked = n_parked > 0;
    if (op->changes_parked) {
        /* From now on lanes are looked up: this request comes before any that looks. */
        c->has_parked = true;
        c->n_parkings++;
    }
    if (c->tables.rows->settle(s, b->events, t.n, &c->args, err) < 0 ||
        (op->changes_parked && outrider__pg_parked_add_due(&c->parked, &s->conn, err) < 0))
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static bool settle_is_polling(const struct pg_source *s)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    return (c->move.phase == MOVE_POLLING || c->move.phase == MOVE_STOPPING) &&
           c->move.poller != NULL && pg_layout_is_open(s, c->move.poller);
}

/* "stream LSN NUMBER XID..." or "sweep SEQ"; while another layout polls, what that layout
 * writes. The xids are the transactions that must be visible when the intent is settled. */
int outrider__cdc_own_write(struct pg_source *s, const struct batch *b, struct strbuf *out,
                            struct outrider_error *err)
{
    if (settle_is_polling(s))
        return cdc_of(s)->move.poller->own_write(s, b, out, err);
    if (settle_is_of_stream(b)) {
        const struct cdc_point *points = b->source_data, *p = &points[b->n - 1];
        bool needs = settle_needs_rows(s, b, b->n);
        outrider__strbuf_appendf(out, "stream %llu %lld", (unsigned long long)p->commit_lsn,
                                 (long long)p->number);
        for (size_t i = 0; needs && i < b->n; i++)
            if (settle_is_next_xid(points, i))
                outrider__strbuf_appendf(out, " %u", (unsigned)points[i].xid);
    } else if (!b->is_parked) {
        outrider__strbuf_appendf(out, "sweep %lld", (long long)b->position);
    }
    return out->failed ? outrider__fail_nomem(err) : 0;
}

/* An intent does not say which event was of which transaction, and nobody asks for that. */
static int settle_read_points(struct batch *b, const char *text, struct outrider_error *err)
{
    struct cdc_point *points = outrider__arena_alloc(&b->arena, b->n * sizeof *points);
    char *end;
    if (points == NULL)
        return outrider__fail_nomem(err);
    memset(points, 0, b->n * sizeof *points);
    points[b->n - 1].commit_lsn = strtoull(text, &end, 10);
    points[b->n - 1].number = strtoll(end, &end, 10);
    for (size_t i = 0; i < b->n && *end == ' '; i++)
        points[i].xid = (uint32_t)strtoul(end, &end, 10);
    b->source_data = points;
    return 0;
}

int outrider__cdc_own_read(struct pg_source *s, struct batch *b, struct bytes own,
                           struct outrider_error *err)
{
    static const char stream[] = "stream ", sweep[] = "sweep ";
    const char *text = own.len > 0 ? own.data : "";
    bool is_stream = strncmp(text, stream, sizeof stream - 1) == 0;
    bool is_sweep = strncmp(text, sweep, sizeof sweep - 1) == 0;
    if (b->is_parked || b->n == 0)
        return 0;
    if (settle_is_polling(s) && !is_stream && !is_sweep)
        return cdc_of(s)->move.poller->own_read(s, b, own, err);
    if (is_stream && !settle_is_polling(s))
        return settle_read_points(b, text + sizeof stream - 1, err);
    if (is_sweep && !settle_is_polling(s)) {
        b->position = strtoll(text + sizeof sweep - 1, NULL, 10);
        return 0;
    }
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "the intent in outrider_intent is of another mode than outrider_cursor "
                          "says: one of them was changed");
}

static int settle_on_xid_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    (void)n;
    (void)err;
    if (PQntuples(results[0]) == 1)
        cdc_of(s)->cursor.tid = outrider__pg_get_tid(results[0], 0, 0);
    return 0;
}

/* Whether settled_xid is worth a write. After a settle the next few values are: a transaction
 * may seem to run for a moment after its commit was streamed, and others run beside it. Later,
 * beside a busy table, one write a minute is enough. */
static bool settle_is_worth_saving(struct cdc_settled *n, int64_t now_us)
{
    if (n->n_settled != n->saved_n_settled)
        n->saves_left = SAVES_AFTER_SETTLE;
    n->saved_n_settled = n->n_settled;
    if (n->xid == n->saved_xid || (n->saves_left == 0 && now_us - n->saved_us < SAVE_IDLE_US))
        return false;
    n->saves_left -= n->saves_left > 0;
    n->saved_us = now_us;
    n->saved_xid = n->xid;
    return true;
}

/* A transaction that had ended when a snapshot was taken stands in the log before the insert
 * position of that moment. When that position is confirmed, the transaction is settled. */
int outrider__cdc_note_settled(struct pg_source *s, int64_t xid, uint64_t lsn,
                               struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_settled *n = &c->settled;
    if (n->xid != 0 && outrider__cdc_stream_confirmable(&c->stream) < n->lsn)
        return 0;
    bool saves = n->xid != 0 && settle_is_worth_saving(n, s->now.mono_us);
    n->xid = xid;
    n->lsn = lsn;
    n->n_settled = c->stream.track.n_settled;
    if (!saves)
        return 0;
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, c->cursor.epoch);
    outrider__pg_arg_int8(&c->args, n->saved_xid);
    return outrider__pg_request(&s->conn, &c->st[CDC_SETTLED], &c->args, settle_on_xid_saved, s,
                                err);
}

static int settle_on_rest_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    cdc_of(s)->rest.state = REST_DONE;
    s->base.wants_rest = false;
    return settle_on_xid_saved(ctx, results, n, err);
}

static int settle_on_rest_noted(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_rest *r = &cdc_of(s)->rest;
    (void)n;
    if (!outrider__pg_get_bool(results[0], 0, POSITION_IS_UNCHANGED))
        return outrider__cdc_fail_published(s, err);
    r->lsn = (uint64_t)outrider__pg_get_int(results[0], 0, POSITION_LSN, INT64_MAX);
    r->xid = outrider__pg_get_int(results[0], 0, POSITION_XMIN, 0);
    r->state = REST_NOTED;
    return 0;
}

/* Where rows do not carry their state, the command `status` knows by settled_xid alone what is
 * settled. Without this, events of the last seconds would be shown as pending until another
 * relay runs. An event that is held is not settled, and the stream stops there. */
int outrider__cdc_rest_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_rest *r = &c->rest;
    s->base.wants_rest = !c->tables.rows->has_seqs && !c->move.is_leaving &&
                         r->state != REST_DONE && !c->stream.track.is_holding &&
                         stream_is_up(&c->stream);
    if (!s->base.wants_rest || !s->base.is_ending)
        return 0;
    if (r->state == REST_NONE) {
        r->state = REST_ASKED;
        outrider__cdc_published_args(s, &c->args);
        return outrider__pg_request(&s->conn, &c->st[CDC_POSITION], &c->args, settle_on_rest_noted,
                                    s, err);
    }
    if (r->state != REST_NOTED || !outrider__cdc_stream_has_passed(&c->stream, r->lsn) ||
        !track_is_all_settled(&c->stream.track))
        return 0;
    r->state = REST_SAVING;
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, c->cursor.epoch);
    outrider__pg_arg_int8(&c->args, r->xid);
    return outrider__pg_request(&s->conn, &c->st[CDC_SETTLED], &c->args, settle_on_rest_saved, s,
                                err);
}
