/* SPDX-License-Identifier: MIT */
/*
 * Hybrid publishing: an application that publishes its own events right after
 * the commit, with the relay behind it for whatever does not work at once.
 *
 * A publisher is a thread with a connection of its own and a sink. A session
 * (outrider/session.h, on PostgreSQL) that is attached to it inserts its events
 * already claimed by this process, where no unsettled event of the same key
 * exists; after the commit the publisher sends them and marks them published,
 * in batches. Everything else is inserted as ever, for the relay.
 *
 *  (1) What was rolled back is never sent, nor what may have been.
 *  (2) The first deliveries of a key's events come in order, whichever of the
 *      applications and the relay delivers them.
 *  (3) The application waits for no broker. What the publisher's bounded queue
 *      (`hybrid.queue`, and 64 MiB) has no room for, and all while its sink or its
 *      connection is away, is left to the relay.
 *  (4) A claim holds for `hybrid.lease`, and in its first half only is anything
 *      sent. What a crash leaves is the relay's when the lease has run out.
 *  (5) It needs layout `status` (columns status, locked_by, locked_at,
 *      locked_until), READ COMMITTED, a synchronous_commit other than off, and
 *      a relay that polls. Without them events are left to the relay, and so are
 *      those of a transaction with one that is above source.max_payload or
 *      source.max_headers; stats say so.
 *  (6) The publisher's options are those of the relay's pipeline: the same
 *      routes, forms and headers, or consumers see two kinds of messages.
 */
#ifndef OUTRIDER_HYBRID_H
#define OUTRIDER_HYBRID_H

#include <stddef.h>
#include <stdint.h>

#include "outrider/error.h"
#include "outrider/relay.h"
#include "outrider/session.h"

#ifdef __cplusplus
extern "C" {
#endif

struct outrider_hybrid;

/*
 * Events of committed transactions, since the start; taken together. Each was
 * claimed or left to the relay (busy, full, unsuitable), and what was claimed is
 * published, handed over or queued.
 */
struct outrider_hybrid_stats {
    size_t size;
    uint64_t claimed;     /* inserted for the publisher */
    uint64_t busy;        /* left to the relay: an earlier event of the key was not settled */
    uint64_t full;        /* left to the relay: no room in the queue, or the sink is away */
    uint64_t unsuitable;  /* left to the relay: see (5) */
    uint64_t published;   /* claimed, sent and marked */
    uint64_t handed_over; /* claimed, but failed or too late: the relay's now */
    uint64_t is_open;     /* not a count: 1 while there is room, and a connection to mark with */
    uint64_t queued;      /* now: claimed, and neither published nor handed over yet */
    uint64_t failed;      /* of the handed over: the sink refused them */
};

#define OUTRIDER_HYBRID_STATS_INIT                                      \
    {                                                                   \
        sizeof(struct outrider_hybrid_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* A publisher for the pipeline with this name; NULL: "default". */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_hybrid_new(const char *name,
                                                         struct outrider_hybrid **ret_hybrid,
                                                         struct outrider_error *err);
/* Set one option as in outrider_relay_set. source.url is the publisher's own
 * connection to the application's database. Only before start. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_hybrid_set(struct outrider_hybrid *hybrid,
                                                         const char *option, const char *value,
                                                         struct outrider_error *err);
/*
 * Be told what happens, as of a relay: why the database or the receiver is away,
 * why the publisher has ended, what became of an event. One that is parked or
 * dead here is the relay's, which decides. Callbacks run on the publisher's thread
 * and may call outrider_hybrid_stats, nothing else of the same handle. Only
 * before start.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_hybrid_observe(struct outrider_hybrid *hybrid,
                        const struct outrider_relay_observer *observer, struct outrider_error *err);
/* Start the publisher's thread; it connects by itself. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_hybrid_start(struct outrider_hybrid *hybrid,
                                                           struct outrider_error *err);
/*
 * Let a session's events go through the publisher, from its next transaction
 * on. Any number of sessions, each of its own thread, may share a publisher.
 * The session's role needs to read outbox, outrider_cursor, outrider_parked and
 * outrider_intent. An outbox that a relay publishes with exactly_once is refused.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_hybrid_attach(struct outrider_hybrid *hybrid,
                                                            struct outrider_session *session,
                                                            struct outrider_error *err);
/* From any thread. Fills as much as stats->size says that there is room for. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_hybrid_stats(struct outrider_hybrid *hybrid,
                                                           struct outrider_hybrid_stats *stats,
                                                           struct outrider_error *err);
/* Claim nothing more, send what is claimed, within `shutdown_timeout`, and end.
 * Sessions that are still attached go on, and leave all to the relay. NULL is allowed. */
OUTRIDER_API void outrider_hybrid_free(struct outrider_hybrid *hybrid);

#ifdef __cplusplus
}
#endif
#endif
