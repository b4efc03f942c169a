/* SPDX-License-Identifier: MIT */
#include "sink/common/order.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_MAX 1000000
#define CHUNK_MESSAGES 512

struct order_chunk {
    struct order_chunk *next;
    struct order_message messages[CHUNK_MESSAGES];
};

static void order_push(struct order_list *l, struct order_message *m)
{
    m->next = NULL;
    if (l->tail != NULL)
        l->tail->next = m;
    else
        l->head = m;
    l->tail = m;
}

static struct order_message *order_pop(struct order_list *l)
{
    struct order_message *m = l->head;
    if (m != NULL) {
        l->head = m->next;
        if (l->head == NULL)
            l->tail = NULL;
        m->next = NULL;
    }
    return m;
}

/* Moves all of `from` to the front of `to`. */
static void order_prepend(struct order_list *to, struct order_list *from)
{
    if (from->head == NULL)
        return;
    from->tail->next = to->head;
    if (to->tail == NULL)
        to->tail = from->tail;
    to->head = from->head;
    *from = (struct order_list){0};
}

void outrider__order_init(struct order *o, struct sink *s, const struct order_ops *ops, void *ctx,
                          bool is_ordered)
{
    o->sink = s;
    o->ops = ops;
    o->ctx = ctx;
    o->is_ordered = is_ordered;
}

void outrider__order_release(struct order *o)
{
    for (struct order_message *m = o->judged.head; m != NULL; m = m->next)
        free(m->why);
    for (size_t i = 0; i < ORDER_BUCKETS; i++) {
        for (struct order_lane *l = o->lanes[i], *next; l != NULL; l = next) {
            next = l->chain;
            free(l);
        }
    }
    for (struct order_lane *l = o->free_lanes, *next; l != NULL; l = next) {
        next = l->chain;
        free(l);
    }
    for (struct order_chunk *c = o->chunks, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    memset(o, 0, sizeof *o);
}

void outrider__order_group_add(struct order *o, struct order_group *g)
{
    g->prev = NULL;
    g->next = o->groups;
    if (g->next != NULL)
        g->next->prev = g;
    o->groups = g;
}

void outrider__order_group_remove(struct order *o, struct order_group *g)
{
    if (g->next != NULL)
        g->next->prev = g->prev;
    if (g->prev != NULL)
        g->prev->next = g->next;
    else
        o->groups = g->next;
    g->next = g->prev = NULL;
}

static int order_chunk_add(struct order *o)
{
    struct order_chunk *c = malloc(sizeof *c);
    if (c == NULL)
        return -1;
    c->next = o->chunks;
    o->chunks = c;
    for (size_t i = 0; i < CHUNK_MESSAGES; i++) {
        c->messages[i].next = o->free_messages;
        o->free_messages = &c->messages[i];
    }
    return 0;
}

static struct order_message *order_message_new(struct order *o, struct order_group *g,
                                               struct delivery *d)
{
    if (o->free_messages == NULL && order_chunk_add(o) < 0)
        return NULL;
    struct order_message *m = o->free_messages;
    o->free_messages = m->next;
    *m = (struct order_message){.d = d, .group = g};
    o->n_messages++;
    o->n_bytes += d->payload.len + d->key.len;
    if (g != NULL)
        g->n++;
    return m;
}

static uint64_t lane_hash(const struct order_group *g, const struct delivery *d)
{
    uint64_t h = outrider__bytes_hash(d->key);
    h ^= g->hash * 0x9e3779b97f4a7c15ULL;
    h ^= (uint64_t)(uint32_t)d->partition * 0xc2b2ae3d27d4eb4fULL;
    return (h ^ h >> 29) | 1;
}

/* Sets m->lane, or leaves it NULL where order does not matter. */
static int lane_join(struct order *o, struct order_message *m)
{
    if (!o->is_ordered || (bytes_is_null(m->d->key) && m->d->partition < 0))
        return 0;
    uint64_t hash = lane_hash(m->group, m->d);
    struct order_lane **bucket = &o->lanes[hash % ORDER_BUCKETS], *l = *bucket;
    while (l != NULL && l->hash != hash)
        l = l->chain;
    if (l == NULL) {
        l = o->free_lanes;
        if (l != NULL)
            o->free_lanes = l->chain;
        else if ((l = malloc(sizeof *l)) == NULL)
            return -1;
        *l = (struct order_lane){.hash = hash, .group = m->group, .chain = *bucket};
        *bucket = l;
    }
    l->n++;
    m->lane = l;
    return 0;
}

static void lane_leave(struct order *o, struct order_lane *l)
{
    if (--l->n > 0)
        return;
    struct order_lane **at = &o->lanes[l->hash % ORDER_BUCKETS];
    while (*at != l)
        at = &(*at)->chain;
    *at = l->chain;
    l->chain = o->free_lanes;
    o->free_lanes = l;
}

static void order_message_free(struct order *o, struct order_message *m)
{
    o->n_messages--;
    o->n_bytes -= m->d->payload.len + m->d->key.len;
    if (m->lane != NULL)
        lane_leave(o, m->lane);
    if (m->group != NULL)
        m->group->n--;
    free(m->why);
    m->why = NULL;
    m->next = o->free_messages;
    o->free_messages = m;
}

static void order_judge(struct order *o, struct order_message *m, enum sink_result result,
                        const struct outrider_error *why)
{
    m->result = result;
    m->why = malloc(sizeof *m->why);
    if (m->why != NULL)
        *m->why = *why;
    order_push(&o->judged, m);
    o->sink->wake_us = o->now_us;
}

static void order_judge_untried(struct order *o, struct order_message *m)
{
    struct outrider_error why;
    outrider__fail(&why, OUTRIDER_CANCELLED, OUTRIDER_RETRY,
                   "not tried: an earlier event of its key is tried again first");
    order_judge(o, m, SINK_UNTRIED, &why);
}

static void lane_break(struct order *o, struct order_lane *l)
{
    struct order_message *m;
    l->is_broken = true;
    while ((m = order_pop(&l->held)) != NULL)
        order_judge_untried(o, m);
}

/* Whether one more message of the lane may be in flight. */
static bool lane_is_open(const struct order *o, const struct order_lane *l)
{
    return l == NULL || l->n_out == 0 ||
           (!l->group->is_careful && o->ops->may_follow != NULL && o->ops->may_follow(o->ctx, l));
}

/* The message is in no list. After NOT_NOW and PAUSED the caller puts it into one. */
static enum order_send order_send(struct order *o, struct order_message *m)
{
    struct order_group *g = m->group;
    struct order_verdict verdict;
    enum order_send sent = o->ops->send(o->ctx, m, &verdict);
    if (sent == ORDER_SENT) {
        m->is_alone = g->is_careful && g->window == 1 && g->n_out == 0;
        g->n_out++;
        if (m->lane != NULL)
            m->lane->n_out++;
    } else if (sent == ORDER_REFUSED) {
        order_judge(o, m, verdict.result, &verdict.why);
        if (verdict.result != SINK_DEAD && m->lane != NULL)
            lane_break(o, m->lane);
    } else if (sent == ORDER_PAUSED) {
        g->is_paused = true;
    } else {
        o->is_stuck = true;
    }
    return sent;
}

static bool order_is_gone(enum order_send sent)
{
    return sent == ORDER_SENT || sent == ORDER_REFUSED;
}

/* Sends what waits in the group, as far as its lanes and its window allow. */
static void group_advance(struct order *o, struct order_group *g)
{
    while (g->waiting.head != NULL && !g->is_paused) {
        struct order_message *m = g->waiting.head;
        struct order_lane *l = m->lane;
        if (l != NULL && l->is_broken) {
            order_judge_untried(o, order_pop(&g->waiting));
            continue;
        }
        bool must_hold = l != NULL && (l->held.head != NULL || !lane_is_open(o, l));
        if (g->is_careful && (must_hold || g->n_out >= g->window))
            return;
        (void)order_pop(&g->waiting);
        if (must_hold) {
            order_push(&l->held, m);
        } else if (!order_is_gone(order_send(o, m))) {
            struct order_list back = {m, m};
            order_prepend(&g->waiting, &back);
            return;
        }
    }
}

/* A message of the lane is back: sends what was held behind it. */
static void lane_advance(struct order *o, struct order_lane *l)
{
    if (l == NULL)
        return;
    if (l->is_broken) {
        lane_break(o, l);
        return;
    }
    struct order_group *g = l->group;
    while (!g->is_careful && !g->is_paused && l->held.head != NULL && lane_is_open(o, l)) {
        struct order_message *m = order_pop(&l->held);
        if (!order_is_gone(order_send(o, m))) {
            struct order_list back = {m, m};
            order_prepend(&l->held, &back);
            break;
        }
    }
    /* Nothing of the lane may be left that could bring the lane here again: (4) allows to
     * move all that is held to the front of what waits. */
    if (g->is_careful || g->is_paused || l->n_out == 0)
        order_prepend(&g->waiting, &l->held);
}

static void group_check_calm(const struct order *o, struct order_group *g)
{
    if (g->is_careful && g->n_out == 0 && g->waiting.head == NULL && o->now_us >= g->calm_us)
        g->is_careful = false;
}

static void order_place(struct order *o, struct order_message *m)
{
    struct order_group *g = m->group;
    struct order_lane *l = m->lane;
    group_check_calm(o, g);
    if (l != NULL && l->is_broken) {
        order_judge_untried(o, m);
    } else if (g->is_careful || g->is_paused || g->waiting.head != NULL) {
        order_push(&g->waiting, m);
        group_advance(o, g);
    } else if (l != NULL && (l->held.head != NULL || !lane_is_open(o, l))) {
        order_push(&l->held, m);
    } else if (!order_is_gone(order_send(o, m))) {
        order_push(&g->waiting, m);
    }
}

int outrider__order_submit(struct order *o, struct order_group *g, struct delivery *d)
{
    struct order_message *m = order_message_new(o, g, d);
    if (m == NULL)
        return -1;
    if (lane_join(o, m) < 0) {
        order_message_free(o, m);
        return -1;
    }
    order_place(o, m);
    return 0;
}

int outrider__order_reject(struct order *o, struct order_group *g, struct delivery *d,
                           enum sink_result result, const struct outrider_error *why)
{
    struct order_message *m = order_message_new(o, g, d);
    if (m == NULL)
        return -1;
    order_judge(o, m, result, why);
    return 0;
}

/* From now on few messages of the group go together. */
static void group_take_care(const struct order *o, struct order_group *g, enum order_blame blame)
{
    if (!g->is_careful)
        g->window = WINDOW_MAX;
    g->is_careful = true;
    g->calm_us = o->now_us + ORDER_CALM_US;
    if (blame == ORDER_BLAME_BATCH)
        g->window = 1;
}

static void order_report(const struct order *o, const struct order_message *m,
                         enum sink_result result, const struct order_verdict *v)
{
    bool is_decided = result == SINK_DELIVERED || result == SINK_RETRY || result == SINK_DEAD;
    struct sink_report report = {
        .result = result,
        .why = result == SINK_DELIVERED ? NULL : &v->why,
        .answer = is_decided && v != NULL ? v->answer : NULL,
    };
    o->sink->reported(o->sink->reported_ctx, m->d, &report);
}

static void order_delivered(const struct order *o, const struct order_message *m,
                            const struct order_verdict *v)
{
    struct order_group *g = m->group;
    if (g->is_careful && g->window < WINDOW_MAX && !o->is_atomic)
        g->window *= 2;
    order_report(o, m, SINK_DELIVERED, v);
}

static enum sink_result order_failed(const struct order *o, struct order_message *m,
                                     const struct order_verdict *v)
{
    struct order_group *g = m->group;
    enum sink_result result = v->result;
    if (v->blame != ORDER_BLAME_MESSAGE)
        group_take_care(o, g, v->blame);
    if (v->blame == ORDER_BLAME_BATCH && !m->is_alone)
        result = SINK_UNTRIED;
    if (m->lane != NULL && m->lane->is_broken && result != SINK_STOP)
        result = SINK_UNTRIED;
    if (m->lane != NULL && result != SINK_DEAD)
        m->lane->is_broken = true;
    if (o->is_atomic && m->is_alone && (result == SINK_RETRY || result == SINK_DEAD))
        g->is_careful =
            false; /* the culprit is found, and the next transaction has a fresh start */
    order_report(o, m, result, v);
    return result;
}

enum sink_result outrider__order_returned(struct order *o, struct order_message *m,
                                          const struct order_verdict *verdict)
{
    struct order_group *g = m->group;
    enum sink_result result = SINK_DELIVERED;
    g->n_out--;
    if (m->lane != NULL)
        m->lane->n_out--;
    if (verdict == NULL || verdict->result == SINK_DELIVERED)
        order_delivered(o, m, verdict);
    else
        result = order_failed(o, m, verdict);
    lane_advance(o, m->lane);
    group_advance(o, g);
    order_message_free(o, m);
    return result;
}

void outrider__order_resume(struct order *o, struct order_group *g)
{
    g->is_paused = false;
    group_advance(o, g);
}

void outrider__order_refuse_waiting(struct order *o, struct order_group *g, enum sink_result result,
                                    const struct outrider_error *why)
{
    struct order_message *m;
    g->is_paused = false;
    while ((m = order_pop(&g->waiting)) != NULL) {
        bool is_broken = m->lane != NULL && m->lane->is_broken;
        order_judge(o, m, is_broken ? SINK_UNTRIED : result, why);
        if (m->lane != NULL && result != SINK_DEAD)
            lane_break(o, m->lane);
    }
}

void outrider__order_give_back(struct order *o)
{
    struct order_message *m;
    for (size_t i = 0; i < ORDER_BUCKETS; i++)
        for (struct order_lane *l = o->lanes[i]; l != NULL; l = l->chain)
            lane_break(o, l);
    for (struct order_group *g = o->groups; g != NULL; g = g->next)
        while ((m = order_pop(&g->waiting)) != NULL)
            order_judge_untried(o, m);
    o->is_stuck = false;
}

static void order_report_judged(struct order *o)
{
    struct outrider_error unknown;
    struct order_message *m;
    outrider__fail_nomem(&unknown);
    while ((m = order_pop(&o->judged)) != NULL) {
        sink_report(o->sink, m->d, m->result, m->why != NULL ? m->why : &unknown);
        order_message_free(o, m);
    }
}

void outrider__order_advance(struct order *o)
{
    bool was_stuck = o->is_stuck;
    o->is_stuck = false;
    for (struct order_group *g = o->groups; was_stuck && g != NULL; g = g->next)
        group_advance(o, g);
    order_report_judged(o);
}

int64_t outrider__order_wake_us(const struct order *o)
{
    if (o->judged.head != NULL)
        return o->now_us;
    return o->is_stuck ? o->now_us + ORDER_STUCK_US : CLOCK_NEVER;
}
