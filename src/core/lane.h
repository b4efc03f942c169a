/* SPDX-License-Identifier: MIT */
/*
 * Lanes: the unresolved events of each key, in order.
 *
 *  (1) A lane is known by a 64-bit hash of its key. Two keys that share one
 *      share a lane, which costs them nothing but their independence: order
 *      holds, and what is parked is parked under its own key.
 *  (2) A lane exists while a batch that touched it is not settled (refs), and
 *      holds in its list those events that have no outcome yet.
 *  (3) The table never grows: it has as many lanes as events fit in memory.
 */
#ifndef CORE_LANE_H
#define CORE_LANE_H

#include "core/event.h"

struct lane {
    uint64_t hash;
    struct lane *chain;           /* next in the bucket, or in the free list */
    struct event *head, *tail;    /* events without an outcome, in order */
    struct event *next_waiting;   /* first of them that was not offered to the sink */
    uint32_t refs;                /* events in memory whose batch is not settled */
    uint32_t n_outstanding;       /* ready or in flight */
    uint32_t n_unsettled_parks;   /* events parked or queued whose batch is not settled */
    uint64_t parked_until;        /* batches fetched before this operation must queue */
    const struct batch *released; /* the batch of parked rows in which this lane failed again */
    uint64_t blocked_in;          /* exactly once: the plan in which nothing of it may go on */
};

struct lane_table {
    struct lane *lanes; /* all of them; memory that nobody touched costs nothing */
    size_t max_lanes, n_touched;
    struct lane *free; /* of those that were touched */
    struct lane **buckets;
    size_t n_buckets; /* a power of two */
};

int outrider__lanes_init(struct lane_table *t, size_t max_lanes, struct outrider_error *err);
void outrider__lanes_release(struct lane_table *t);
/* Forgets every lane. */
void outrider__lanes_clear(struct lane_table *t);
/* The key's lane, made if need be, with one reference more. */
struct lane *outrider__lane_get(struct lane_table *t, struct bytes key);
void outrider__lane_unref(struct lane_table *t, struct lane *l);

void outrider__lane_append(struct lane *l, struct event *e);
void outrider__lane_remove(struct event *e);

#endif
