/* SPDX-License-Identifier: MIT */
/* A sink over the simulated broker: acknowledges late, in any order across
 * keys, loses acknowledgements, fails events and has outages. Exactly once it
 * has transactions, which others shut out, and commits that nobody hears of. */
#include <stdio.h>

#include "world.h"

#define HOLD 24

struct held {
    struct delivery *d;
    int64_t ready_us;
    bool is_cancelled;
    bool is_untried; /* will come back so: one before it in its lane failed */
};

enum busy { BUSY_NOT, BUSY_OPENING, BUSY_COMMITTING, BUSY_ABORTING };

struct sim_sink {
    struct sink base; /* must stay first */
    struct world *w;
    struct held held[HOLD];
    size_t n;
    /* Exactly once. */
    bool is_exact, is_broken, is_sealed;
    uint64_t producer;
    enum busy busy;
    int64_t busy_until_us;
    struct sim_txn txn;
};

static void be_busy(struct sim_sink *me, enum busy why)
{
    me->busy = why;
    me->base.is_busy = true;
    me->busy_until_us = me->base.wake_us = me->w->now.mono_us + world_below(me->w, 6000);
}

static int sink_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                     struct outrider_error *err)
{
    struct sim_sink *me = (struct sim_sink *)s;
    (void)now;
    me->w = the_world;
    s->lane_depth = me->w->lane_depth;
    s->wants_headers = world_chance(me->w, 0.5);
    if (world_chance(me->w, me->w->faults.sink_open_error))
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "simulated: no sink");
    me->is_exact = config->exactly_once;
    s->rest_us = world_below(me->w, 3000);
    if (me->is_exact != (s->identity != NULL))
        world_broken(me->w, "the sink was opened without an identity");
    if (me->is_exact)
        be_busy(me, BUSY_OPENING);
    return 0;
}

static int same_lane(const struct delivery *a, const struct delivery *b)
{
    return bytes_eq(a->key, b->key);
}

/* What the engine must not have on its way beside a delivery of the same lane. */
static void check_beside(struct world *w, const struct delivery *held, const struct delivery *d)
{
    if (!w->config.ordered)
        return;
    if (w->lane_depth == 1)
        world_broken(w, "two events of one lane are in flight to a sink that takes one");
    if (w->config.retry.on_dead == ON_DEAD_BLOCK)
        world_broken(w, "two events of one lane are in flight under on_dead: block");
    if (!bytes_eq(held->topic, d->topic))
        world_broken(w, "two events of one lane are in flight to two topics");
}

/* When the report of a delivery is ready: never before those of its lane that went first. */
static int64_t ready_after(struct sim_sink *me, const struct delivery *d, int64_t ready)
{
    for (size_t k = 0; k < me->n; k++) {
        const struct held *h = &me->held[k];
        if (!same_lane(h->d, d))
            continue;
        if (bytes_eq_str(d->topic, "dead") || bytes_eq_str(h->d->topic, "dead"))
            continue; /* a dead letter is out of its lane */
        if (ready < h->ready_us)
            ready = h->ready_us;
        if (!me->is_exact) /* exactly once: all become visible at once */
            check_beside(me->w, h->d, d);
    }
    return ready;
}

static void hold(struct sim_sink *me, struct delivery *d, struct instant now)
{
    struct world *w = me->w;
    int64_t ready = now.mono_us + world_below(w, 8000);
    bool is_dead_letter, is_untried = false;
    if (w->faults.stalls && world_chance(w, 0.02))
        ready += 200000;
    ready = ready_after(me, d, ready);
    for (size_t k = 0; k < me->n; k++)
        is_untried |= me->held[k].is_untried && same_lane(me->held[k].d, d);
    world_trace(w, "submit   e%d to %.*s [%d]", world_event_of(d, &is_dead_letter),
                (int)d->topic.len, d->topic.data, (int)((uintptr_t)me >> 4 & 0xffff));
    me->held[me->n++] = (struct held){.d = d, .ready_us = ready, .is_untried = is_untried};
}

static size_t sink_submit(struct sink *s, struct delivery **d, size_t n, struct instant now)
{
    struct sim_sink *me = (struct sim_sink *)s;
    struct world *w = me->w;
    size_t room = HOLD - me->n, take = n < room ? n : room;
    if (me->busy != BUSY_NOT || me->is_broken || me->is_sealed)
        world_broken(w, "something was submitted to a transaction that takes nothing");
    if (take > 0 && world_chance(w, w->faults.partial))
        take = (size_t)world_below(w, (int)take + 1);
    for (size_t i = 0; i < take; i++)
        hold(me, d[i], now);
    return take;
}

static void sink_flush(struct sink *s, struct instant now)
{
    (void)s;
    (void)now;
}

static void report(struct sim_sink *me, size_t at, enum sink_result result)
{
    struct delivery *d = me->held[at].d;
    struct outrider_error err;
    bool is_dead_letter, was_cancelled = me->held[at].is_cancelled;
    int event = world_event_of(d, &is_dead_letter);
    memmove(&me->held[at], &me->held[at + 1], (me->n - at - 1) * sizeof me->held[0]);
    me->n--;
    world_trace(me->w, "report   e%d %s", event,
                (const char *[]){"delivered", "down", "retry", "dead", "stop", "untried"}[result]);
    outrider__fail(&err, OUTRIDER_REJECTED, OUTRIDER_RETRY, "simulated");
    me->is_broken |= me->is_exact && result != SINK_DELIVERED;
    struct answer answer;
    struct sink_report told = {.result = result, .why = &err};
    if (!was_cancelled && world_answer(me->w, event, result, &answer))
        told.answer = &answer;
    me->base.reported(me->base.reported_ctx, d, &told);
}

/* Those behind a failed one of the same lane fail as well, at once or when
 * their time comes: sink.h (6). */
static void fail_followers(struct sim_sink *me, struct bytes key, size_t from)
{
    bool at_once = world_chance(me->w, 0.5);
    for (size_t k = from; k < me->n;) {
        bool follows = bytes_eq(me->held[k].d->key, key);
        me->held[k].is_untried |= follows;
        if (follows && at_once)
            report(me, k, SINK_UNTRIED);
        else
            k++;
    }
}

/* What the broker makes of the delivery at that place. */
static void decide(struct sim_sink *me, size_t at)
{
    struct world *w = me->w;
    struct delivery *d = me->held[at].d;
    struct bytes key = d->key;
    bool is_dead_letter;
    int i = world_event_of(d, &is_dead_letter);
    struct sim_event *e = &w->events[i];
    if (me->held[at].is_untried) {
        report(me, at, SINK_UNTRIED);
    } else if (me->held[at].is_cancelled ||
               (!is_dead_letter && e->retries_reported < e->fails_first)) {
        if (!is_dead_letter)
            e->retries_reported++;
        e->was_dead_letter |= is_dead_letter;
        world_trace(w, "refused  %s (try %d)", e->id, e->retries_reported);
        report(me, at, SINK_RETRY);
        if (w->config.ordered)
            fail_followers(me, key, at);
    } else if (e->never_works && !is_dead_letter) {
        e->n_dead_reported++;
        world_trace(w, "rejected %s", e->id);
        report(me, at, SINK_DEAD);
    } else if (me->is_exact) {
        me->txn.records[me->txn.n++] = (struct sim_record){i, is_dead_letter};
        report(me, at, world_chance(w, w->faults.ack_lost) ? SINK_DOWN : SINK_DELIVERED);
    } else {
        world_visible(w, i, is_dead_letter);
        if (world_chance(w, w->faults.ack_lost)) {
            world_trace(w, "ack lost %s", e->id);
            report(me, at, SINK_DOWN);
            for (size_t k = at; k < me->n;) {
                if (bytes_eq(me->held[k].d->key, key))
                    report(me, k, SINK_DOWN);
                else
                    k++;
            }
        } else {
            report(me, at, SINK_DELIVERED);
        }
    }
}

static void opened(struct sim_sink *me)
{
    struct world *w = me->w;
    world_decide(w, world_chance(w, 0.5));
    me->producer = ++w->producer;
    me->base.progress = w->progress;
    world_trace(w, "producer %llu, progress %llu", (unsigned long long)me->producer,
                (unsigned long long)w->progress.no);
}

/* Whatever the sink was busy with is done. */
static int finish_busy(struct sim_sink *me, struct outrider_error *err)
{
    struct world *w = me->w;
    if (me->busy == BUSY_OPENING) {
        opened(me);
    } else if (me->busy == BUSY_ABORTING) {
        while (me->n > 0)
            report(me, 0, SINK_UNTRIED);
    } else {
        world_decide(w, true);
        me->base.progress = w->progress;
        if (world_chance(w, w->faults.ack_lost))
            return outrider__fail(err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY,
                                  "simulated: sink does not say whether it committed");
    }
    me->txn.n = 0;
    me->is_broken = me->is_sealed = false;
    me->busy = BUSY_NOT;
    me->base.is_busy = false;
    return 0;
}

static int poll_exact(struct sim_sink *me, struct instant now, struct outrider_error *err)
{
    if (me->busy != BUSY_OPENING && me->producer != me->w->producer)
        return outrider__fail(err, OUTRIDER_FENCED, OUTRIDER_RETRY, "simulated: sink fenced");
    if (me->w->outage && me->busy != BUSY_NOT)
        me->busy_until_us = now.mono_us + 1000;
    if (me->busy != BUSY_NOT && now.mono_us >= me->busy_until_us && finish_busy(me, err) < 0)
        return -1;
    return 0;
}

static void sink_seal(struct sink *s, struct commit_mark progress, struct instant now)
{
    struct sim_sink *me = (struct sim_sink *)s;
    (void)now;
    if (me->busy != BUSY_NOT || me->is_broken || me->is_sealed)
        world_broken(me->w, "a transaction is to be sealed that cannot be");
    me->is_sealed = true;
    me->txn.progress = progress;
}

static void sink_commit(struct sink *s, struct instant now)
{
    struct sim_sink *me = (struct sim_sink *)s;
    struct world *w = me->w;
    struct commit_mark progress = me->txn.progress;
    (void)now;
    if (me->busy != BUSY_NOT || me->is_broken || me->n > 0 || !me->is_sealed)
        world_broken(w, "a transaction is to be committed that cannot be");
    bool is_leader = me->producer == w->producer;
    /* A database that was stolen, or restored, is another's business. */
    if (is_leader && w->db.saved.no == progress.no && !progress_is(w->db.saved, progress) &&
        !w->faults.steal_lock)
        world_broken(w, "transaction %llu is to be committed and its intent is not saved",
                     (unsigned long long)progress.no);
    if (is_leader) {
        w->txn = me->txn;
        w->txn.exists = true;
    }
    be_busy(me, BUSY_COMMITTING);
}

static void sink_abort(struct sink *s, struct instant now)
{
    (void)now;
    be_busy((struct sim_sink *)s, BUSY_ABORTING);
}

static int sink_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    struct sim_sink *me = (struct sim_sink *)s;
    struct world *w = me->w;
    if (me->is_exact && poll_exact(me, now, err) < 0)
        return -1;
    if (world_chance(w, w->faults.sink_error))
        return outrider__fail(err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY, "simulated: sink lost");
    s->trouble[0] = '\0';
    if (w->outage && w->holds) {
        if (me->n > 0)
            (void)snprintf(s->trouble, sizeof s->trouble, "simulated: sink does not answer");
        s->wake_us = now.mono_us + 5000;
        return 0;
    }
    if (w->outage) {
        while (me->n > 0)
            report(me, 0, SINK_DOWN);
    }
    for (bool again = me->busy == BUSY_NOT; again;) {
        again = false;
        for (size_t k = 0; k < me->n; k++) {
            if (me->held[k].ready_us <= now.mono_us) {
                decide(me, k);
                again = true;
                break;
            }
        }
    }
    s->wake_us = me->busy != BUSY_NOT ? me->busy_until_us : CLOCK_NEVER;
    for (size_t k = 0; k < me->n; k++)
        if (me->held[k].ready_us < s->wake_us)
            s->wake_us = me->held[k].ready_us;
    return 0;
}

static void sink_cancel(struct sink *s, struct delivery *d)
{
    struct sim_sink *me = (struct sim_sink *)s;
    for (size_t k = 0; k < me->n; k++)
        if (me->held[k].d == d && me->w->can_cancel)
            me->held[k].is_cancelled = true;
}

static void sink_close(struct sink *s)
{
    struct sim_sink *me = (struct sim_sink *)s;
    if (me->is_exact) { /* a commit that was asked for may still come true */
        if (me->busy == BUSY_COMMITTING && me->producer == me->w->producer &&
            world_chance(me->w, 0.7))
            world_decide(me->w, world_chance(me->w, 0.5));
        return;
    }
    /* What was on its way may have arrived all the same, in order. */
    for (size_t k = 0; me->w != NULL && k < me->n; k++) {
        bool is_dead_letter;
        int i = world_event_of(me->held[k].d, &is_dead_letter);
        struct sim_event *e = &me->w->events[i];
        if (me->held[k].is_untried || e->retries_reported < e->fails_first || e->never_works ||
            world_chance(me->w, 0.3))
            break;
        world_visible(me->w, i, is_dead_letter);
    }
}

const struct sink_ops sim_sink_ops = {
    .scheme = "sim",
    .size = sizeof(struct sim_sink),
    .open = sink_open,
    .submit = sink_submit,
    .flush = sink_flush,
    .cancel = sink_cancel,
    .poll = sink_poll,
    .close = sink_close,
    .seal = sink_seal,
    .commit = sink_commit,
    .abort = sink_abort,
};
