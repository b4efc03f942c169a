/* SPDX-License-Identifier: MIT */
#include "postgres/shared/source.h"

#define PAUSE_US 5000
#define TELL_US 5000000
#define TELL_AGAIN_US 60000000

/* A session of a logical reader is in a database, one of a standby in none. Any
 * standby that has it: that is the one to fail over to. */
static const char sql_flushed[] =
    "SELECT pg_current_wal_flush_lsn(), (SELECT max(r.flush_lsn) " PG_STANDBYS ")";

void outrider__pg_durable_init(struct pg_durable *d)
{
    *d = (struct pg_durable){
        .st = {.sql = sql_flushed, .what = "cannot read the position of standbys"}};
}

static const struct op_slot *slot_of(const struct pg_source *s, const struct pg_op *op)
{
    return &s->queue.slots[op - s->ops];
}

static bool must_wait(const struct pg_source *s, const struct pg_op *op)
{
    if (s->config->source.durable != DURABLE_STANDBY || !slot_of(s, op)->is_done)
        return false;
    switch (op->op->kind) {
    case SOURCE_FETCH:
    case SOURCE_FETCH_PARKED:
        return op->op->batch->n > 0;
    case SOURCE_INTENT: /* one without events settles the one before, and no more */
        return op->op->intent != NULL;
    default:
        return false;
    }
}

bool outrider__pg_is_durable(const struct pg_source *s, const struct pg_op *op)
{
    return !must_wait(s, op) || (op->flushed_lsn != 0 && op->flushed_lsn <= s->durable.standby_lsn);
}

static bool does_wait(const struct pg_source *s, const struct pg_op *op)
{
    return !slot_of(s, op)->is_given && !outrider__pg_is_durable(s, op);
}

static struct pg_op *op_at(struct pg_source *s, size_t i)
{
    return &s->ops[op_queue_slot(&s->queue, i)];
}

static int on_flushed(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct pg_durable *d = &s->durable;
    uint64_t flushed = (uint64_t)outrider__pg_get_int(results[0], 0, 0, INT64_MAX);
    (void)n;
    (void)err;
    d->is_asking = false;
    d->ask_us = s->now.mono_us + PAUSE_US;
    d->standby_lsn = (uint64_t)outrider__pg_get_int(results[0], 0, 1, 0);
    for (size_t i = 0; i < s->queue.n; i++) {
        struct pg_op *op = op_at(s, i);
        if (op->is_asked && op->flushed_lsn == 0)
            op->flushed_lsn = flushed;
    }
    return 0;
}

static void tell(struct pg_source *s)
{
    struct pg_durable *d = &s->durable;
    if (s->now.mono_us - d->waiting_since_us < TELL_US ||
        (d->told_us != 0 && s->now.mono_us - d->told_us < TELL_AGAIN_US))
        return;
    d->told_us = s->now.mono_us;
    outrider__pg_source_warn(s, "durable: standby, and no standby has confirmed what was read: "
                                "events wait for one (pg_stat_replication; needs pg_monitor)");
}

int outrider__pg_durable_tick(struct pg_source *s, int64_t *ret_wake_us, struct outrider_error *err)
{
    struct pg_durable *d = &s->durable;
    bool any = false;
    for (size_t i = 0; i < s->queue.n; i++)
        any |= does_wait(s, op_at(s, i));
    *ret_wake_us = CLOCK_NEVER;
    if (!any) {
        d->waiting_since_us = 0;
        d->ask_us = 0; /* what comes next is asked for at once */
        return 0;
    }
    if (d->waiting_since_us == 0)
        d->waiting_since_us = s->now.mono_us;
    tell(s);
    if (d->is_asking)
        return 0;
    *ret_wake_us = d->ask_us;
    if (s->now.mono_us < d->ask_us)
        return 0;
    for (size_t i = 0; i < s->queue.n; i++)
        op_at(s, i)->is_asked |= does_wait(s, op_at(s, i));
    d->is_asking = true;
    *ret_wake_us = CLOCK_NEVER;
    return outrider__pg_request(&s->conn, &d->st, NULL, on_flushed, s, err);
}
