/* SPDX-License-Identifier: MIT */
/*
 * What is claimed by this process, between the application's threads that
 * commit and the publisher's thread that sends.
 *
 *  (1) A slot is reserved before an event is inserted as claimed, and is given
 *      back when the event is settled or forgotten. So a push never fails and
 *      never waits.
 *  (2) So is room for its bytes, until the engine takes it: slots alone would not
 *      bound the memory of an application whose events are large.
 *  (3) Nothing is reserved unless the publisher can send: its connection is
 *      there, and its sink; while that is away one transaction at a time is let
 *      through, for otherwise nobody would notice when it is back.
 */
#ifndef APP_HYBRID_QUEUE_H
#define APP_HYBRID_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/hybrid.h"
#include "outrider/event.h"

#define HYBRID_BYTES_MAX ((size_t)64 << 20)

/* An event of a committed transaction; its bytes stand behind it. */
struct hybrid_event {
    struct hybrid_event *next;
    struct outrider_event event;
    size_t bytes;          /* outrider__hybrid_event_size() */
    int64_t claim_ends_us; /* monotonic: not to be sent from then on */
    int64_t created_us;    /* wall clock: created_at */
};

struct hybrid_list {
    struct hybrid_event *first, **last;
};

/* What was decided of a transaction's events; counts only if it is committed. */
struct hybrid_tally {
    uint64_t claimed, busy, full, unsuitable;
};

struct hybrid_queue {
    pthread_mutex_t mutex;
    pthread_cond_t emptied;
    int wake_fd; /* the publisher's: readable when something was pushed */
    struct hybrid_list events;
    size_t n_slots, n_used;
    size_t n_bytes;                /* see (2) */
    bool is_closed;                /* the publisher ends */
    bool is_connected, is_sink_up; /* see (3) */
    char place[HYBRID_PLACE_SIZE]; /* which outbox the publisher marks in: database/table */
    struct hybrid_tally tally;
    uint64_t published, handed_over, failed; /* of the claimed; failed ones are handed over */
};

int outrider__hybrid_queue_init(struct hybrid_queue *q, size_t n_slots, struct outrider_error *err);
void outrider__hybrid_queue_release(struct hybrid_queue *q);

/* All or none: n slots, and room for so many bytes. */
bool outrider__hybrid_reserve(struct hybrid_queue *q, size_t n, size_t bytes);
/* What a copy of the event takes. */
size_t outrider__hybrid_event_size(const struct outrider_event *e);
/* Whether there is anything to be reserved, and where it would be marked. */
bool outrider__hybrid_is_open(struct hybrid_queue *q, char ret_place[HYBRID_PLACE_SIZE]);
/* bytes: 0 for events that were popped. */
void outrider__hybrid_unreserve(struct hybrid_queue *q, size_t n, size_t bytes);
/* A transaction is committed: counts it, and takes over all events of the list, in order. */
void outrider__hybrid_push(struct hybrid_queue *q, struct hybrid_list *list,
                           const struct hybrid_tally *tally);
/* The first, which is the caller's now; NULL if there is none. Its slot stays taken. */
struct hybrid_event *outrider__hybrid_pop(struct hybrid_queue *q);
bool outrider__hybrid_has_events(struct hybrid_queue *q);
/* Nothing is reserved any more; waits until all slots are given back, at most so long. */
void outrider__hybrid_drain(struct hybrid_queue *q, int64_t timeout_us);

void outrider__hybrid_list_init(struct hybrid_list *l);
/* A copy of the event at the list's end. */
int outrider__hybrid_list_add(struct hybrid_list *l, const struct outrider_event *e,
                              struct outrider_error *err);
void outrider__hybrid_list_clear(struct hybrid_list *l);

#endif
