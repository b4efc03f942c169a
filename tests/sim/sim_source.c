/* SPDX-License-Identifier: MIT */
/* A source over the simulated database: late, unreliable, and fenced. */
#include "world.h"

#include <stdio.h>

uint64_t sim_draws;

struct sim_source {
    struct source base; /* must stay first */
    struct world *w;
    int64_t epoch, read_pos, mark;
    bool is_exact, must_recall, must_reopen;
    struct source_op *first, *last;
    int64_t op_ready_us;
};

static int sim_open(struct source *s, const struct pipeline_config *config, struct instant now,
                    struct outrider_error *err)
{
    struct sim_source *me = (struct sim_source *)s;
    (void)now;
    me->w = the_world;
    me->mark = -1;
    me->is_exact = config->exactly_once;
    if (world_chance(me->w, me->w->faults.source_open_error))
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "simulated: no connection");
    s->wake_us = 0;
    s->reads_ahead = world_chance(me->w, 0.5);
    return 0;
}

static void try_lock(struct sim_source *me)
{
    struct world *w = me->w;
    bool steals = w->faults.steal_lock && world_chance(w, 0.02);
    if (w->lock_owner != NULL && !steals) {
        (void)snprintf(me->base.waiting_for, sizeof me->base.waiting_for, "another");
        me->base.wake_us = w->now.mono_us + 5000;
        return;
    }
    w->lock_owner = me;
    me->epoch = ++w->epoch;
    me->base.active = true;
    (void)snprintf(me->base.identity, sizeof me->base.identity, "sim");
    me->base.saved = w->db.saved;
    me->base.has_intent = me->must_recall = w->db.intent.exists;
    me->read_pos = w->db.position;
    me->base.parked_due_us = world_parked_due(w);
}

static void fill(struct event *e, struct batch *b, struct world *w, int i)
{
    const struct sim_event *s = &w->events[i];
    *e = (struct event){.seq = i + 1, .partition = -1, .batch = b};
    e->id = bytes_str(s->id);
    e->aggregate_type = BYTES_LIT("order");
    e->event_type = s->is_unwanted ? BYTES_LIT("unwanted") : BYTES_LIT("wanted");
    e->aggregate_id = bytes_str(s->key);
    e->payload = BYTES_LIT("{}");
    e->topic = s->topic == 0 ? BYTES_NULL : s->topic == 1 ? BYTES_LIT("one") : BYTES_LIT("two");
    e->expires_at_us = s->expires_us;
    e->is_oversize = s->is_oversize;
}

static void do_fetch(struct sim_source *me, struct batch *b)
{
    struct world *w = me->w;
    size_t limit = 1 + (size_t)world_below(w, (int)b->capacity);
    while (b->n < limit && me->read_pos < w->n_committed) {
        struct event *e = &b->events[b->n];
        fill(e, b, w, (int)me->read_pos);
        e->is_blocked = w->config.ordered && world_lane_is_live(w, w->events[me->read_pos].key);
        b->n++;
        me->read_pos++;
    }
    me->base.mark_reached = me->mark >= 0 && me->read_pos >= me->mark;
}

static void do_fetch_parked(struct sim_source *me, struct source_op *op)
{
    struct world *w = me->w;
    struct batch *b = op->batch;
    for (int i = 0; i < w->db.n_rows; i++) {
        const struct sim_row *head = &w->db.rows[i];
        if (head->state == ROW_DEAD || head->next_us > op->now_wall_us || !world_is_head(w, head))
            continue;
        /* The lane's rows from its head on, as long as they are due and follow. */
        for (int k = i; k < w->db.n_rows && b->n < b->capacity; k++) {
            const struct sim_row *row = &w->db.rows[k];
            if (strcmp(w->events[row->event].key, w->events[head->event].key) != 0)
                continue;
            if (row->state == ROW_DEAD && w->config.retry.on_dead == ON_DEAD_SKIP)
                continue;
            if (row->state == ROW_DEAD || row->next_us > op->now_wall_us)
                break;
            struct event *e = &b->events[b->n++];
            fill(e, b, w, row->event);
            e->is_parked = true;
            e->arrival = row->arrival;
            e->attempts = row->attempts;
            if (!w->config.ordered)
                break;
        }
    }
}

static int do_settle(struct sim_source *me, struct batch *b, struct outrider_error *err)
{
    if (me->epoch != me->w->epoch)
        return outrider__fail(err, OUTRIDER_FENCED, OUTRIDER_RETRY, "simulated: fenced");
    world_settle(me->w, b);
    return 0;
}

static int do_intent(struct sim_source *me, struct source_op *op, struct outrider_error *err)
{
    if (me->epoch != me->w->epoch)
        return outrider__fail(err, OUTRIDER_FENCED, OUTRIDER_RETRY, "simulated: fenced");
    if (op->kind == SOURCE_INTENT) {
        world_intent(me->w, op->batch, op->intent, op->progress);
        return 0;
    }
    me->must_reopen = op->verdict == RECALL_CAME_TRUE;
    me->must_recall = false;
    world_recall(me->w, op->progress, op->verdict);
    return 0;
}

static int run_op(struct sim_source *me, struct source_op *op, struct outrider_error *err)
{
    if (me->must_reopen || (me->must_recall && op->kind != SOURCE_RECALL))
        world_broken(me->w, "an operation was started and the intent was not recalled");
    if ((op->kind == SOURCE_SETTLE || op->kind == SOURCE_INTENT) && me->epoch == me->w->epoch &&
        world_refuse(me->w, err) < 0)
        return -1;
    switch (op->kind) {
    case SOURCE_MARK:
        me->mark = me->w->n_committed;
        me->base.mark_reached = me->read_pos >= me->mark;
        break;
    case SOURCE_FETCH:
        do_fetch(me, op->batch);
        break;
    case SOURCE_FETCH_PARKED:
        do_fetch_parked(me, op);
        break;
    case SOURCE_SETTLE:
        if (me->is_exact)
            world_broken(me->w, "a batch was settled without an intent");
        return do_settle(me, op->batch, err);
    case SOURCE_INTENT:
    case SOURCE_RECALL:
        return do_intent(me, op, err);
    case SOURCE_CLEANUP:
        op->removed = (uint64_t)world_below(me->w, 3);
        op->more = world_chance(me->w, 0.3);
        break;
    }
    return 0;
}

static int sim_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    struct sim_source *me = (struct sim_source *)s;
    (void)err;
    if (!s->active)
        world_broken(me->w, "an operation was started on a source that is not active");
    op->next = NULL;
    if (me->last != NULL) {
        me->last->next = op;
    } else {
        me->first = op;
        me->op_ready_us = me->w->now.mono_us + world_below(me->w, 3000);
    }
    me->last = op;
    return 0;
}

static int sim_poll(struct source *s, struct instant now, struct source_op **ret_done,
                    struct outrider_error *err)
{
    struct sim_source *me = (struct sim_source *)s;
    struct world *w = me->w;
    *ret_done = NULL;
    if (!s->active) {
        try_lock(me);
        if (!s->active)
            return 0;
    }
    struct source_op *op = me->first;
    if (world_chance(w, w->faults.source_error)) {
        /* The connection is lost; its last commit may have come through. */
        bool refuses = op != NULL && op->kind != SOURCE_RECALL && world_refuses(w);
        if (op != NULL && op->kind == SOURCE_SETTLE && world_chance(w, 0.5) && !refuses)
            (void)do_settle(me, op->batch, err);
        else if (op != NULL && op->kind >= SOURCE_INTENT && world_chance(w, 0.5) && !refuses)
            (void)do_intent(me, op, err);
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "simulated: lost");
    }
    s->parked_due_us = world_parked_due(w);
    s->ready = me->read_pos < w->n_committed;
    s->wake_us = CLOCK_NEVER; /* commits wake it, as a descriptor would */
    if (op == NULL)
        return 0;
    if (now.mono_us < me->op_ready_us) {
        s->wake_us = me->op_ready_us;
        return 0;
    }
    if (run_op(me, op, err) < 0)
        return -1;
    me->first = op->next;
    if (me->first == NULL)
        me->last = NULL;
    me->op_ready_us = now.mono_us + world_below(w, 3000);
    s->ready = me->read_pos < w->n_committed;
    s->parked_due_us = world_parked_due(w);
    *ret_done = op;
    return 0;
}

static void sim_draw(struct source *s)
{
    struct sim_source *me = (struct sim_source *)s;
    if (me->w != the_world)
        world_broken(the_world, "a source is drawn from that is not open");
    sim_draws++;
}

static void sim_close(struct source *s)
{
    struct sim_source *me = (struct sim_source *)s;
    if (me->w != NULL && me->w->lock_owner == me)
        me->w->lock_owner = NULL;
    me->w = NULL;
}

const struct source_ops sim_source_ops = {
    .scheme = "sim",
    .size = sizeof(struct sim_source),
    .keeps_intents = true,
    .open = sim_open,
    .start = sim_start,
    .poll = sim_poll,
    .draw = sim_draw,
    .close = sim_close,
};
