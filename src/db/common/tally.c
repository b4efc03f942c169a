/* SPDX-License-Identifier: MIT */
#include "common/tally.h"

static void tally_add(struct tally *t, const struct event *e)
{
    t->n++;
    if (e->seq > t->last_seq)
        t->last_seq = e->seq;
    t->delivered += e->outcome == OUTCOME_DELIVERED;
    t->expired += e->outcome == OUTCOME_EXPIRED;
    t->skipped += e->outcome == OUTCOME_SKIPPED;
    t->dead += e->outcome == OUTCOME_DEAD;
    t->parked += e->outcome == OUTCOME_PARKED;
}

struct tally outrider__tally_prefix(const struct batch *b)
{
    struct tally t = {0};
    if (b->is_parked)
        return outrider__tally_all(b);
    while (t.n < b->n_settle && b->events[t.n].outcome != OUTCOME_PENDING &&
           b->events[t.n].outcome != OUTCOME_RELEASED)
        tally_add(&t, &b->events[t.n]);
    return t;
}

struct tally outrider__tally_all(const struct batch *b)
{
    struct tally t = {0};
    while (t.n < b->n_settle)
        tally_add(&t, &b->events[t.n]);
    return t;
}
