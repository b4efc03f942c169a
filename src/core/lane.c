/* SPDX-License-Identifier: MIT */
#include "core/lane.h"

#include <assert.h>
#include <string.h>

#include "base/pages.h"

int outrider__lanes_init(struct lane_table *t, size_t max_lanes, struct outrider_error *err)
{
    size_t n = 16;
    while (n < max_lanes * 2)
        n *= 2;
    t->n_buckets = n;
    t->max_lanes = max_lanes;
    t->lanes = outrider__pages_new(max_lanes, sizeof *t->lanes);
    t->buckets = outrider__pages_new(n, sizeof(struct lane *));
    t->free = NULL;
    t->n_touched = 0;
    return t->lanes != NULL && t->buckets != NULL ? 0 : outrider__fail_nomem(err);
}

void outrider__lanes_release(struct lane_table *t)
{
    outrider__pages_free(t->lanes, t->max_lanes, sizeof *t->lanes);
    outrider__pages_free(t->buckets, t->n_buckets, sizeof(struct lane *));
    *t = (struct lane_table){0};
}

void outrider__lanes_clear(struct lane_table *t)
{
    if (t->n_touched > 0)
        memset(t->buckets, 0, t->n_buckets * sizeof(struct lane *));
    t->free = NULL;
    t->n_touched = 0;
}

static struct lane *lane_take_free(struct lane_table *t)
{
    struct lane *l = t->free;
    if (l == NULL) {
        assert(t->n_touched < t->max_lanes); /* there are as many lanes as events */
        return &t->lanes[t->n_touched++];
    }
    t->free = l->chain;
    return l;
}

struct lane *outrider__lane_get(struct lane_table *t, struct bytes key)
{
    uint64_t hash = outrider__bytes_hash(key);
    struct lane **bucket = &t->buckets[hash & (t->n_buckets - 1)];
    struct lane *l = *bucket;
    while (l != NULL && l->hash != hash)
        l = l->chain;
    if (l == NULL) {
        l = lane_take_free(t);
        *l = (struct lane){.hash = hash, .chain = *bucket};
        *bucket = l;
    }
    l->refs++;
    return l;
}

void outrider__lane_unref(struct lane_table *t, struct lane *l)
{
    assert(l->refs > 0);
    if (--l->refs > 0)
        return;
    assert(l->head == NULL);
    struct lane **p = &t->buckets[l->hash & (t->n_buckets - 1)];
    while (*p != l)
        p = &(*p)->chain;
    *p = l->chain;
    l->chain = t->free;
    t->free = l;
}

void outrider__lane_append(struct lane *l, struct event *e)
{
    e->lane_next = NULL;
    e->lane_prev = l->tail;
    if (l->tail != NULL)
        l->tail->lane_next = e;
    else
        l->head = e;
    l->tail = e;
    if (l->next_waiting == NULL)
        l->next_waiting = e;
}

void outrider__lane_remove(struct event *e)
{
    struct lane *l = e->lane;
    if (l->next_waiting == e)
        l->next_waiting = e->lane_next;
    *(e->lane_prev != NULL ? &e->lane_prev->lane_next : &l->head) = e->lane_next;
    *(e->lane_next != NULL ? &e->lane_next->lane_prev : &l->tail) = e->lane_prev;
    e->lane_next = e->lane_prev = NULL;
}
