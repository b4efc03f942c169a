/* SPDX-License-Identifier: MIT */
/*
 * The rows from before the slot, by their seqs, in ascending order. They are
 * committed and never change, so no snapshot need be held open for them.
 */
#include "base/failpoint.h"
#include "cdc.h"

/* As the log does: a usual read ends at a large payload, the next one is for few rows of any
 * size. */
#define USUAL_PAYLOAD 8192
#define LARGE_BYTES (4LL << 20)
#define RANGES_AT_ONCE 256

struct portion {
    int64_t limit, cut;
    size_t first, n; /* ranges */
};

static struct portion choose(const struct pg_source *s, const struct batch *b)
{
    const struct cdc_source *c = s->cdc;
    int64_t max_payload = s->config->source.max_payload;
    struct portion p = {.limit = (int64_t)b->capacity, .cut = USUAL_PAYLOAD};
    if (c->sweep_was_large || max_payload < USUAL_PAYLOAD)
        p.cut = max_payload;
    if (c->sweep_was_large && max_payload > 0)
        p.limit = LARGE_BYTES / max_payload < 1 ? 1 : LARGE_BYTES / max_payload;
    if (p.limit > (int64_t)b->capacity)
        p.limit = (int64_t)b->capacity;
    while (p.first < c->sweep.n && c->sweep.items[p.first].high <= c->swept)
        p.first++;
    p.n = c->sweep.n - p.first;
    if (p.n > RANGES_AT_ONCE)
        p.n = RANGES_AT_ONCE;
    return p;
}

static bool is_left_for_large(const struct pg_source *s, const PGresult *r, int row)
{
    int64_t size = outrider__pg_get_int(r, row, EV_SIZE, 0);
    return !((const struct cdc_source *)s->cdc)->sweep_was_large && size > USUAL_PAYLOAD &&
           size <= s->config->source.max_payload;
}

static int on_rows(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct pg_source *s = op->source;
    struct cdc_source *c = cdc_of(s);
    struct batch *b = op->op->batch;
    struct portion p = choose(s, b);
    const PGresult *r = results[0];
    bool was_large = false;
    int i;
    (void)n;
    for (i = 0; i < PQntuples(r) && !batch_is_full(b); i++) {
        if (is_left_for_large(s, r, i)) {
            was_large = true;
            break;
        }
        struct event *e = outrider__pg_row(b, r, i, 0, (size_t)s->config->source.max_payload);
        if (e == NULL)
            return outrider__fail_nomem(err);
        was_large |= e->payload_len > USUAL_PAYLOAD;
        c->swept = e->seq;
    }
    /* All of these ranges were seen: seqs without a row are gone by clean-up. */
    if (i == PQntuples(r) && i < p.limit)
        c->swept = c->sweep.items[p.first + p.n - 1].high;
    c->sweep_was_large = was_large;
    b->position = c->swept;
    s->base.ready = true;
    return outrider__cdc_hand_on(s, op, err);
}

int outrider__cdc_sweep_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct portion p = choose(s, op->op->batch);
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
        int64_t low = c->sweep.items[p.first + i].low;
        outrider__pg_array_int8(a, low > c->swept ? low : c->swept + 1);
    }
    outrider__pg_array_end(a);
    outrider__pg_arg_int8(a, p.limit);
    outrider__pg_arg_int8(a, p.cut);
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < p.n; i++)
        outrider__pg_array_int8(a, c->sweep.items[p.first + i].high);
    outrider__pg_array_end(a);
    return outrider__pg_request(&s->conn, &c->st[CDC_READ_ROWS], a, on_rows, op, err);
}
