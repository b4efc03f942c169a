/* SPDX-License-Identifier: MIT */
/*
 * What became of the events of one settled batch, counted by aggregate type, event
 * type and outcome: for metrics.
 *
 *  (1) A count covers the events that were settled, once each. The sum of all counts
 *      is the batch's n_settle.
 *  (2) At most BATCH_KINDS pairs of types have a place of their own. All events of
 *      other pairs are counted under `others`, so that a table of metrics stays
 *      bounded whatever an application writes.
 *  (3) Nothing is allocated. The types are borrowed from the batch: whoever keeps them
 *      copies them.
 *  (4) The counts are made once per batch, and only if an observer wants them.
 */
#ifndef CORE_BATCH_COUNTS_H
#define CORE_BATCH_COUNTS_H

#include "core/event.h"

#define BATCH_KINDS 64

struct kind_counts {
    struct bytes aggregate_type, event_type; /* BYTES_NULL both: others */
    uint64_t outcomes[OUTCOME_COUNT];
};

struct batch_counts {
    size_t n_kinds;
    struct kind_counts kinds[BATCH_KINDS]; /* in the order in which the batch has them */
    struct kind_counts others;
    bool is_parked; /* the events were tried before: the batch held parked rows */
};

/* Counts events[0 .. n_settle) of the batch. */
void outrider__batch_count(const struct batch *b, struct batch_counts *ret_counts);

#endif
