/* SPDX-License-Identifier: MIT */
/*
 * The receiver's answer to a delivery: a status number and some bytes, an HTTP
 * status and the beginning of the response body for example.
 *
 *  (1) A sink lends an answer for the duration of a report. The engine copies the
 *      answer into the arena of the event's batch.
 *  (2) The copy has at most ANSWER_MAX bytes of the body. All bodies of a batch
 *      together have at most source.batch_bytes; an answer that finds no room keeps
 *      its status alone. So memory stays bounded by what batches may hold.
 *  (3) event->answer is the answer of the report that decided the event's outcome.
 *      An answer is a help for people and applications: without memory for the
 *      answer the event is settled all the same.
 */
#ifndef CORE_ANSWER_H
#define CORE_ANSWER_H

#include "core/event.h"

#define ANSWER_MAX 4096

struct answer {
    int32_t status;    /* as the receiver counts: 200, 503; 0 where it has no numbers */
    struct bytes body; /* any bytes, or NULL */
    bool is_cut;       /* the receiver's answer was longer; set by the engine */
};

/* Gives the event this answer, and no other any more. NULL: the event has none. */
void outrider__answer_keep(struct event *e, const struct answer *from);

#endif
