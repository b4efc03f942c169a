/* SPDX-License-Identifier: MIT */
/*
 * A thread that writes for a pipeline, so that the pipeline's own thread never
 * waits for a disk or a full pipe.
 *
 * Deliveries are gathered into groups; the thread takes one group at a time,
 * formats and writes it as a whole, and gives it back. Formatting is the
 * thread's work too: it needs the offsets, which only the one who writes
 * knows, and the bytes stay where they are until they are reported (contract
 * 3 of core/sink.h), so a group is nothing but pointers.
 *
 *  (1) A group is taken by the thread when it was flushed or is full; until
 *      then it grows. At most FLUSHER_GROUPS exist; when none has room,
 *      submit takes nothing.
 *  (2) Groups are written and reported in the order in which they were filled.
 *  (3) After a group that failed nothing is written until it was reported, and
 *      everything taken meanwhile is reported with it: an event never
 *      overtakes one that must be submitted again.
 *  (4) stop() waits until the thread has ended; nothing is reported after it.
 */
#ifndef SINK_FILE_FLUSHER_H
#define SINK_FILE_FLUSHER_H

#include "core/sink.h"

#include <pthread.h>

#define FLUSHER_GROUPS 3
#define FLUSHER_GROUP_ITEMS 4096
#define FLUSHER_GROUP_BYTES ((size_t)1 << 20)

struct flusher_group {
    struct delivery *items[FLUSHER_GROUP_ITEMS];
    unsigned char results[FLUSHER_GROUP_ITEMS]; /* enum sink_result */
    size_t n, bytes;
    struct outrider_error why; /* of every result but DELIVERED and DEAD */
};

struct flusher_ops {
    /* On the thread: writes the group, sets every result. False: something in
     * it has to be submitted again, or can never be. */
    bool (*write)(struct sink *s, struct flusher_group *g);
    /* On the pipeline's thread: why a delivery was marked DEAD. */
    void (*explain)(struct sink *s, const struct delivery *d, struct outrider_error *ret_why);
};

struct flusher {
    struct sink *sink; /* the one that holds this flusher */
    const struct flusher_ops *ops;
    struct flusher_group *groups; /* a ring of FLUSHER_GROUPS */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    int done_fd; /* readable when there is something to report */
    bool started;

    /* Under the mutex. Numbers of groups, counted for ever:
     * head <= work <= fill <= head + FLUSHER_GROUPS. */
    unsigned long head; /* the next to report */
    unsigned long work; /* the next to write, or the one being written */
    unsigned long fill; /* the one being filled */
    bool wanted;        /* the one being filled shall be written as it is */
    bool halted;        /* group work - 1 failed and is not reported yet */
    bool stopping;
};

/* The base of a sink that writes through a flusher: its first member. */
struct flusher_sink {
    struct sink base; /* must stay first */
    struct flusher flusher;
};

/* Calls of struct sink_ops for such a sink. Its own open() ends with flusher_start(), its
 * own close() begins with flusher_stop(). */
size_t outrider__flusher_sink_submit(struct sink *s, struct delivery **d, size_t n,
                                     struct instant now);
void outrider__flusher_sink_flush(struct sink *s, struct instant now);
int outrider__flusher_sink_poll(struct sink *s, struct instant now, struct outrider_error *err);
int outrider__flusher_sink_fds(struct sink *s, struct pollfd *ret_fds, int max);

int outrider__flusher_start(struct flusher *f, struct sink *s, const struct flusher_ops *ops,
                            struct outrider_error *err);
/* Legal after a failed start, and on one that is all zero. */
void outrider__flusher_stop(struct flusher *f);

/* What an error means for those that wait for the group. */
static inline enum sink_result flusher_result(const struct outrider_error *why)
{
    return why->disposition == OUTRIDER_STOP ? SINK_STOP : SINK_DOWN;
}

#endif
