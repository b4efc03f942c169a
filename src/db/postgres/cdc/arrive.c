/* SPDX-License-Identifier: MIT */
/* From polling to the stream: move.h (1). */
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"
#include "cdc_publication.sql.h"

#define WAITING_US 1000000
#define SLOT_EXISTS "42710"

enum drop_column { DROP_DROPPED, DROP_ACTIVE };

static int arrive_on_maker_ended(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)results;
    (void)n;
    return outrider__fail(
        err, OUTRIDER_STANDBY, OUTRIDER_RETRY,
        "replication slot %s is in use by server process %lld, and its beginning "
        "is not recorded; if that does not end: SELECT pg_terminate_backend(%lld)",
        c->slot, (long long)c->facts.slot_pid, (long long)c->facts.slot_pid);
}

/* A relay before this one began to make the slot, and the server still waits with it. This
 * relay holds the pipeline's lock, so nobody wants that slot. */
static int arrive_end_other_maker(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_str(&c->args, c->slot);
    return outrider__pg_request(&s->conn, &c->st[CDC_END_READER], &c->args, arrive_on_maker_ended,
                                s, err);
}

static enum slot_purpose arrive_purpose(const struct cdc_source *c)
{
    return c->tables.rows->reads_in_snapshot || c->move.skips_rows ? SLOT_TO_READ : SLOT_TO_SWEEP;
}

static int arrive_on_cleared(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    if (n > 0 && c->facts.has_slot && outrider__pg_get_int(results[n - 1], 0, DROP_ACTIVE, 0) > 0)
        return arrive_end_other_maker(s, err);
    c->move.phase = MOVE_POLLING;
    c->maker.state = MAKER_IDLE;
    c->maker.purpose = arrive_purpose(c);
    if (c->move.poller != NULL)
        return c->move.poller->begin(s, err);
    s->base.wake_us = s->now.mono_us;
    return 0;
}

static int arrive_add_publication(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    static const struct pg_block block = {sql_publication_make, "cannot make the publication",
                                          PG_READS};
    struct pg_statement st = {0};
    struct pg_words words;
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_words_add(&words, "publication", c->publication);
    outrider__pg_words_add(&words, "tables", strbuf_cstr(&c->tables.names));
    int rc = outrider__pg_statements_make(&st, &block, 1, &words, err);
    if (rc == 0)
        rc = outrider__pg_request_add(&s->conn, &st, NULL, err);
    outrider__pg_statements_release(&st, 1);
    return rc;
}

int outrider__cdc_arrive_begin(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->facts.has_publication && !c->facts.has_slot)
        return arrive_on_cleared(s, NULL, 0, err);
    if (outrider__pg_request_begin(&s->conn, arrive_on_cleared, s, err) < 0)
        return -1;
    if (!c->facts.has_publication && arrive_add_publication(s, err) < 0)
        return -1;
    if (c->facts.has_slot) {
        outrider__pg_args_clear(&c->args);
        outrider__pg_arg_str(&c->args, c->slot);
        if (outrider__pg_request_add(&s->conn, &c->st[CDC_DROP_SLOT], &c->args, err) < 0)
            return -1;
    }
    return outrider__pg_request_end(&s->conn, err);
}

/* Without a slot polling goes on, and the slot is tried again in a while. But a slot that
 * is there already has to be dropped first, which is where everything begins. */
static int arrive_forgive(struct pg_source *s, const struct outrider_error *why,
                          struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->move.poller != NULL && c->maker.state < MAKER_PLANNING &&
        why->disposition == OUTRIDER_RETRY && strcmp(why->origin, SLOT_EXISTS) != 0) {
        outrider__cdc_maker_put_off(s, why);
        return 0;
    }
    if (err != NULL)
        *err = *why;
    return -1;
}

static int arrive_make_slot(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct outrider_error why = {0};
    if (c->maker.state != MAKER_MADE && outrider__cdc_maker_tick(s, &why) < 0)
        return arrive_forgive(s, &why, err);
    if (c->maker.state == MAKER_MADE)
        c->move.phase = MOVE_STOPPING;
    return 0;
}

/* --once has no time for a slot that does not come: polling serves it. */
static int arrive_give_up(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct pg_op *op = c->goal.op;
    if (op == NULL || s->now.mono_us < c->goal.deadline_us || c->move.phase != MOVE_POLLING)
        return 0;
    c->goal.op = NULL;
    c->move.has_given_up = true;
    return outrider__cdc_maker_cancel(s, err) < 0 ? -1 : c->move.poller->start(s, op, err);
}

/* While polling delivers, it does everything; it is only kept from reading more once the
 * slot is there. A mark waits for the slot for a while, so that --once ends in mode cdc if
 * that is possible. */
int outrider__cdc_arrive_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    enum source_op_kind kind = op->op->kind;
    op->op->removed = 0;
    op->op->more = false;
    if (kind == SOURCE_MARK) {
        c->goal.op = op;
        c->goal.deadline_us = s->now.mono_us + s->config->source.connect_timeout_us;
        return 0;
    }
    if (c->move.phase == MOVE_STOPPING && (kind == SOURCE_FETCH || kind == SOURCE_CLEANUP)) {
        s->base.ready = false;
        pg_op_done(op);
        return 0;
    }
    if (kind == SOURCE_SETTLE && c->tables.rows->note_polled != NULL &&
        c->tables.rows->note_polled(s, op->op->batch, err) < 0)
        return -1;
    return c->move.poller->start(s, op, err);
}

void outrider__cdc_arrive_end_polling(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    outrider__pg_source_hold(s);
    c->move.phase = MOVE_READING;
    if (c->move.poller != NULL) {
        c->cursor.epoch = c->move.poller->epoch(s);
        c->move.poller->close(s);
    }
}

static void arrive_wake_by(struct pg_source *s, int64_t when)
{
    if (when < s->base.wake_us)
        s->base.wake_us = when;
}

/* Where nobody polls, nothing is delivered until the slot is there. */
static int arrive_wait(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->move.phase == MOVE_POLLING && arrive_make_slot(s, err) < 0)
        return -1;
    if (c->move.phase == MOVE_STOPPING && s->conn.n_requests == 0)
        return c->tables.rows->end_polling(s, err);
    s->base.wake_us = s->now.mono_us + WAITING_US;
    return outrider__cdc_pulse(s, err);
}

int outrider__cdc_arrive_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->move.poller == NULL)
        return arrive_wait(s, err);
    if (arrive_give_up(s, err) < 0)
        return -1;
    if (c->move.phase == MOVE_POLLING && !c->move.has_given_up && arrive_make_slot(s, err) < 0)
        return -1;
    size_t own = c->goal.op != NULL;
    if (c->move.phase == MOVE_STOPPING && s->n_live == 0 && s->queue.n == own &&
        s->conn.n_requests == 0)
        return c->tables.rows->end_polling(s, err);
    if (c->move.poller->tick(s, s->now, err) < 0)
        return -1;
    if (c->move.phase == MOVE_STOPPING)
        s->base.ready = false;
    if (!c->move.has_given_up)
        arrive_wake_by(s, outrider__cdc_maker_wake_us(&c->maker));
    if (c->goal.op != NULL)
        arrive_wake_by(s, c->goal.deadline_us);
    return 0;
}
