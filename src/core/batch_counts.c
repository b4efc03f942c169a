/* SPDX-License-Identifier: MIT */
#include "core/batch_counts.h"

#define KIND_BUCKETS (4 * BATCH_KINDS) /* a power of two; three of four stay empty */

static bool batch_counts_kind_is(const struct kind_counts *k, const struct event *e)
{
    return bytes_eq(k->aggregate_type, e->aggregate_type) && bytes_eq(k->event_type, e->event_type);
}

/* The place of the event's kind. places[] is a hash table with open addressing: the
 * number of a kind, counted from 1; 0: free. */
static struct kind_counts *batch_counts_kind_of(struct batch_counts *c, uint8_t *places,
                                                const struct event *e)
{
    uint64_t hash =
        outrider__bytes_hash(e->aggregate_type) * 31 + outrider__bytes_hash(e->event_type);
    size_t at = hash & (KIND_BUCKETS - 1);
    while (places[at] != 0 && !batch_counts_kind_is(&c->kinds[places[at] - 1], e))
        at = (at + 1) & (KIND_BUCKETS - 1);
    if (places[at] != 0)
        return &c->kinds[places[at] - 1];
    if (c->n_kinds == BATCH_KINDS)
        return &c->others;
    struct kind_counts *k = &c->kinds[c->n_kinds++];
    *k = (struct kind_counts){.aggregate_type = e->aggregate_type, .event_type = e->event_type};
    places[at] = (uint8_t)c->n_kinds;
    return k;
}

void outrider__batch_count(const struct batch *b, struct batch_counts *ret_counts)
{
    uint8_t places[KIND_BUCKETS] = {0};
    struct kind_counts *k = NULL;
    ret_counts->n_kinds = 0;
    ret_counts->others = (struct kind_counts){.aggregate_type = BYTES_NULL};
    ret_counts->is_parked = b->is_parked;
    for (size_t i = 0; i < b->n_settle; i++) {
        const struct event *e = &b->events[i];
        if (k == NULL ||
            !batch_counts_kind_is(k, e)) /* events of one kind often follow each other */
            k = batch_counts_kind_of(ret_counts, places, e);
        k->outcomes[e->outcome]++;
    }
}
