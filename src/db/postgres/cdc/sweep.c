/* SPDX-License-Identifier: MIT */
/*
 * The rows from before the slot, by their seqs, in ascending order. They are
 * committed and never change, so no snapshot need be held open for them.
 */
#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"

#define RANGES_AT_ONCE 256

struct sweep_portion {
    size_t first, n; /* ranges */
};

static struct sweep_portion sweep_choose(const struct pg_source *s)
{
    const struct cdc_sweep *w = &cdc_of((struct pg_source *)s)->sweep;
    struct sweep_portion p = {0};
    while (p.first < w->ranges.n && w->ranges.items[p.first].high <= w->read_to)
        p.first++;
    p.n = w->ranges.n - p.first;
    if (p.n > RANGES_AT_ONCE)
        p.n = RANGES_AT_ONCE;
    return p;
}

static int sweep_on_rows(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct pg_source *s = op->source;
    struct cdc_sweep *w = &cdc_of(s)->sweep;
    struct batch *b = op->op->batch;
    struct sweep_portion p = sweep_choose(s);
    const PGresult *r = results[0];
    struct event_bounds max = outrider__event_bounds(s->config);
    int i;
    (void)n;
    for (i = 0; i < PQntuples(r) && !batch_is_full(b); i++) {
        if (outrider__read_ends_at(&w->read, outrider__pg_row_is_large(r, i, 0)))
            break;
        struct event *e = outrider__pg_row(b, r, i, 0, &max);
        if (e == NULL)
            return outrider__fail_nomem(err);
        w->read_to = e->seq;
    }
    /* All of these ranges were seen: seqs without a row are gone by clean-up. */
    if (i == PQntuples(r) && i < w->read.limit)
        w->read_to = w->ranges.items[p.first + p.n - 1].high;
    outrider__read_end(&w->read, b, i);
    b->position = w->read_to;
    s->base.ready = true;
    return outrider__cdc_finish_fetch(s, op, err);
}

int outrider__cdc_sweep_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_sweep *w = &c->sweep;
    struct sweep_portion p = sweep_choose(s);
    struct pg_args *a = &c->args;
    if (p.n == 0) {
        s->base.ready = false; /* the stream follows once this is settled */
        pg_op_done(op);
        return 0;
    }
    int errno_value = FAILPOINT("cdc.sweep");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the outbox");
    c->fetch_op = op;
    outrider__pg_args_clear(a);
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < p.n; i++) {
        int64_t low = w->ranges.items[p.first + i].low;
        outrider__pg_array_int8(a, low > w->read_to ? low : w->read_to + 1);
    }
    outrider__pg_array_end(a);
    outrider__read_begin(&w->read, s->config, op->op->batch);
    outrider__pg_arg_int8(a, w->read.limit);
    outrider__pg_arg_bounds(a, s->config, w->read.is_large);
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < p.n; i++)
        outrider__pg_array_int8(a, w->ranges.items[p.first + i].high);
    outrider__pg_array_end(a);
    return outrider__pg_request(&s->conn, &c->st[CDC_READ_ROWS], a, sweep_on_rows, op, err);
}

void outrider__cdc_sweep_tick(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    const struct seq_ranges *r = &c->sweep.ranges;
    bool is_read = r->n == 0 || r->items[r->n - 1].high <= c->sweep.read_to;
    if (!is_read || s->n_live > 0 || c->fetch_op != NULL)
        return;
    outrider__seq_ranges_release(&c->sweep.ranges);
    c->move.phase = MOVE_STREAM;
}
