/* SPDX-License-Identifier: MIT */
/*
 * What a settle covers, and how many events have which outcome: these numbers go
 * into the totals of the pipeline's cursor.
 *
 *  (1) A position never passes an event without an outcome. Where a position is
 *      saved, a settle covers the events before the first one that is PENDING or
 *      RELEASED, and no event behind that one.
 *  (2) Parked rows, and rows that carry their state, are settled one by one: such a
 *      settle covers all of batch->events[0 .. n_settle).
 */
#ifndef COMMON_TALLY_H
#define COMMON_TALLY_H

#include "core/event.h"

struct tally {
    int64_t delivered, expired, skipped, dead, parked;
    size_t n;         /* events that the settle covers, from the first one on */
    int64_t last_seq; /* the highest seq of these events; 0 where they have none */
};

/* For a position: (1), and (2) where the batch holds parked rows. */
struct tally outrider__tally_prefix(const struct batch *b);
/* For rows that carry their state: (2). */
struct tally outrider__tally_all(const struct batch *b);

static inline int64_t tally_published(const struct tally *t)
{
    return t->delivered + t->skipped;
}

#endif
