/* SPDX-License-Identifier: MIT */
/*
 * Writing. One request is one transaction: it saves the cursor (and fails where the
 * epoch is not ours any more), adds the rows to park, and changes or removes parked
 * rows. Clean-up is here too.
 */
#include "postgres/poll_log/log.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/failpoint.h"

static void log_settle_append_range(struct strbuf *text, int64_t low, int64_t high)
{
    outrider__strbuf_appendf(text, "%s[%" PRId64 ",%" PRId64 "]", text->len > 1 ? "," : "", low,
                             high);
}

/* Gaps below the position, and unsettled events of the batch below it: both are
 * in ascending order and share nothing. Contract (5). */
static void log_settle_render_gaps(const struct batch *b, size_t n_settled, int64_t position,
                                   struct strbuf *text)
{
    const struct log_mark *m = b->source_data;
    size_t e = n_settled;
    strbuf_append_char(text, '{');
    for (size_t i = 0; i < m->n_gaps && m->gaps[i].low < position; i++) {
        for (; e < b->n && b->events[e].seq < m->gaps[i].low; e++)
            if (b->events[e].seq < position)
                log_settle_append_range(text, b->events[e].seq, b->events[e].seq);
        log_settle_append_range(text, m->gaps[i].low, m->gaps[i].high);
    }
    for (; e < b->n && b->events[e].seq < position; e++)
        log_settle_append_range(text, b->events[e].seq, b->events[e].seq);
    strbuf_append_char(text, '}');
}

/* Three arguments: position, gaps and anchor, or NULLs. */
static int log_settle_add_position(struct pg_args *a, const struct batch *b, const struct tally *t,
                                   struct outrider_error *err)
{
    const struct log_mark *m = b->source_data;
    if (b->is_parked || m == NULL) {
        outrider__pg_arg_null(a, PG_INT8);
        outrider__pg_arg_null(a, PG_TEXT);
        outrider__pg_arg_null(a, PG_TEXT);
        return 0;
    }
    struct strbuf text;
    const struct event *last = &b->events[t->n - 1];
    bool is_whole = t->n == b->n, is_new = last->seq > m->before;
    int64_t position = is_whole ? m->position : is_new ? last->seq : m->before;
    outrider__strbuf_init(&text, (size_t)1 << 28);
    if (bytes_is_null(m->text))
        log_settle_render_gaps(b, t->n, position, &text);
    else
        outrider__strbuf_append(&text, m->text);
    outrider__pg_arg_int8(a, position);
    outrider__pg_arg_text(a, strbuf_bytes(&text));
    outrider__pg_arg_text(a, is_whole ? m->anchor : is_new ? last->id : m->anchor_before);
    bool failed = text.failed;
    outrider__strbuf_release(&text);
    return failed ? outrider__fail_nomem(err) : 0;
}

/* "position {gaps} anchor"; nothing for parked rows. */
int outrider__pg_log_own_write(struct pg_source *s, const struct batch *b, struct strbuf *out,
                               struct outrider_error *err)
{
    const struct log_mark *m = b->source_data;
    (void)s;
    if (b->is_parked || m == NULL)
        return 0;
    outrider__strbuf_appendf(out, "%" PRId64 " ", m->position);
    /* A range begins without a comma where nothing stands before the brace. */
    struct strbuf gaps;
    outrider__strbuf_init(&gaps, (size_t)1 << 28);
    log_settle_render_gaps(b, b->n, m->position, &gaps);
    outrider__strbuf_append(out, strbuf_bytes(&gaps));
    out->failed |= gaps.failed;
    outrider__strbuf_release(&gaps);
    strbuf_append_char(out, ' ');
    outrider__strbuf_append(out, m->anchor);
    return out->failed ? outrider__fail_nomem(err) : 0;
}

int outrider__pg_log_own_read(struct pg_source *s, struct batch *b, struct bytes own,
                              struct outrider_error *err)
{
    (void)s;
    if (b->is_parked || own.len == 0)
        return 0;
    struct log_mark *m = outrider__arena_alloc(&b->arena, sizeof *m);
    if (m == NULL)
        return outrider__fail_nomem(err);
    char *end; /* a zero byte follows what is in an arena */
    int64_t position = strtoll(own.data, &end, 10);
    const char *brace = strchr(end, '}');
    if (*end != ' ' || end[1] != '{' || brace == NULL || brace[1] != ' ')
        return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                              "the intent in outrider_intent has no position");
    size_t at = (size_t)(brace + 2 - own.data);
    *m = (struct log_mark){.position = position,
                           .before = position,
                           .text = bytes_of(end + 1, (size_t)(brace - end)),
                           .anchor = bytes_of(own.data + at, own.len - at)};
    b->source_data = m;
    return 0;
}

static int log_settle_add_save(struct pg_source *s, const struct source_op *op,
                               const struct tally *t, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct pg_args *a = &l->args;
    outrider__pg_cursor_args(s, a);
    outrider__pg_arg_int8(a, l->cursor.epoch);
    if (log_settle_add_position(a, op->batch, t, err) < 0)
        return -1;
    outrider__pg_cursor_totals(a, op->now_wall_us, t, &l->cursor);
    return outrider__pg_request_add(&s->conn, &l->st[LOG_SAVE], a, err);
}

static int log_settle_on_settled(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct pg_source *s = op->source;
    int errno_value = FAILPOINT("settle.after_commit");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    struct log_source *l = log_of(s);
    const struct batch *b = op->op->batch;
    l->cursor.tid = outrider__pg_get_tid(results[0], 0, SAVE_TID);
    if (!b->is_parked && l->n_out > 0 && outrider__tally_prefix(b).n == b->n)
        l->n_out--;
    if (op->changes_parked) {
        const PGresult *due = results[n - 1]; /* was added last */
        s->base.parked_due_us = outrider__pg_parked_due_us(due);
    }
    pg_op_done(op);
    return 0;
}

int outrider__pg_log_settle(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct batch *b = op->op->batch;
    struct tally t = outrider__tally_prefix(b);
    if (t.n == 0) {
        pg_op_done(op);
        return 0;
    }
    int errno_value = FAILPOINT("settle.before_begin");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    if (outrider__pg_request_begin(&s->conn, log_settle_on_settled, op, err) < 0 ||
        log_settle_add_save(s, op->op, &t, err) < 0 || outrider__pg_intent_add(s, op, err) < 0)
        return -1;
    int n_parked = outrider__pg_parked_settle(&l->parked, &s->conn, b->events, t.n, b->is_parked,
                                              op->op->now_wall_us, err);
    if (n_parked < 0)
        return -1;
    op->changes_parked = n_parked > 0;
    if (op->changes_parked && outrider__pg_parked_add_due(&l->parked, &s->conn, err) < 0)
        return -1;
    errno_value = FAILPOINT("settle.before_commit");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    return outrider__pg_request_end(&s->conn, err);
}

static int log_settle_on_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    (void)n;
    (void)err;
    log_of(s)->cursor.tid = outrider__pg_get_tid(results[0], 0, SAVE_TID);
    return 0;
}

int outrider__pg_log_save_gaps(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct pg_args *a = &l->args;
    struct strbuf text;
    outrider__strbuf_init(&text, (size_t)1 << 28);
    strbuf_append_char(&text, '{');
    for (size_t i = 0; i < l->gaps.n; i++)
        log_settle_append_range(&text, l->gaps.items[i].low, l->gaps.items[i].high);
    strbuf_append_char(&text, '}');
    if (text.failed) {
        outrider__strbuf_release(&text);
        return outrider__fail_nomem(err);
    }
    outrider__pg_cursor_args(s, a);
    outrider__pg_arg_int8(a, l->cursor.epoch);
    outrider__pg_arg_int8(a, l->head);
    outrider__pg_arg_text(a, strbuf_bytes(&text));
    outrider__pg_arg_text(a, strbuf_bytes(&l->anchor));
    outrider__strbuf_release(&text);
    outrider__pg_arg_null(a, PG_TIMESTAMPTZ);
    for (int i = 0; i < 4; i++)
        outrider__pg_arg_int8(a, 0);
    outrider__pg_arg_tid(a, l->cursor.tid);
    l->has_forgotten_gaps = false;
    return outrider__pg_request(&s->conn, &l->st[LOG_SAVE], a, log_settle_on_saved, s, err);
}

int outrider__pg_log_cleanup(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    return outrider__pg_cleanup_start(s, &log_of(s)->cleaner, op, err);
}
