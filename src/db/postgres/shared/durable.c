/* SPDX-License-Identifier: MIT */
#include "postgres/shared/source.h"
#include "shared.sql.h"

#define PAUSE_US 5000
#define TELL_US 5000000
#define TELL_AGAIN_US 60000000

void outrider__pg_durable_init(struct pg_durable *d)
{
    *d = (struct pg_durable){
        .st = {.sql = sql_standbys, .what = "cannot read the position of standbys"}};
}

static const struct op_slot *durable_slot_of(const struct pg_source *s, const struct pg_op *op)
{
    return &s->queue.slots[op - s->ops];
}

static bool durable_must_wait(const struct pg_source *s, const struct pg_op *op)
{
    if (s->config->source.durable != DURABLE_STANDBY || !durable_slot_of(s, op)->is_done)
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
    return !durable_must_wait(s, op) ||
           (op->flushed_lsn != 0 && op->flushed_lsn <= s->durable.standby_lsn);
}

static bool durable_does_wait(const struct pg_source *s, const struct pg_op *op)
{
    return !durable_slot_of(s, op)->is_given && !outrider__pg_is_durable(s, op);
}

static struct pg_op *durable_op_at(struct pg_source *s, size_t i)
{
    return &s->ops[op_queue_slot(&s->queue, i)];
}

static int durable_on_flushed(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct pg_durable *d = &s->durable;
    uint64_t flushed =
        (uint64_t)outrider__pg_get_int(results[0], 0, STANDBYS_SERVER_LSN, INT64_MAX);
    (void)n;
    (void)err;
    d->is_asking = false;
    d->ask_us = s->now.mono_us + PAUSE_US;
    d->standby_lsn = (uint64_t)outrider__pg_get_int(results[0], 0, STANDBYS_LSN, 0);
    for (size_t i = 0; i < s->queue.n; i++) {
        struct pg_op *op = durable_op_at(s, i);
        if (op->is_asked && op->flushed_lsn == 0)
            op->flushed_lsn = flushed;
    }
    return 0;
}

static void durable_tell(struct pg_source *s)
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
        any |= durable_does_wait(s, durable_op_at(s, i));
    *ret_wake_us = CLOCK_NEVER;
    if (!any) {
        d->waiting_since_us = 0;
        d->ask_us = 0; /* what comes next is asked for at once */
        return 0;
    }
    if (d->waiting_since_us == 0)
        d->waiting_since_us = s->now.mono_us;
    durable_tell(s);
    if (d->is_asking)
        return 0;
    *ret_wake_us = d->ask_us;
    if (s->now.mono_us < d->ask_us)
        return 0;
    for (size_t i = 0; i < s->queue.n; i++)
        durable_op_at(s, i)->is_asked |= durable_does_wait(s, durable_op_at(s, i));
    d->is_asking = true;
    *ret_wake_us = CLOCK_NEVER;
    return outrider__pg_request(&s->conn, &d->st, NULL, durable_on_flushed, s, err);
}
