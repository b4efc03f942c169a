/* SPDX-License-Identifier: MIT */
/*
 * A relay inside an application: the engine of `outrider relay`, on a thread of
 * its own.
 *
 * It installs no signal handler (its thread has all signals blocked), writes no
 * log and shares nothing with a second one in the same process. Two relays of
 * one pipeline take turns, in whichever processes they run: one is active, the
 * other stands by.
 *
 *  (1) A handle is made, set up, started once, and freed.
 *  (2) stop, wait, stats and state may be called from any thread and at any
 *      time between new and free. The others belong to one thread at a time.
 *  (3) Callbacks run on the relay's thread, one at a time, and hold it up as
 *      long as they take. They may call stop, stats and state, and nothing else
 *      of the same handle. What they are given is valid until they return.
 *  (4) The relay's end, however it comes, loses nothing: what was under way and
 *      is not settled is delivered again by the next one.
 */
#ifndef OUTRIDER_RELAY_H
#define OUTRIDER_RELAY_H

#include <stddef.h>
#include <stdint.h>

#include "outrider/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct outrider_relay;

enum outrider_relay_state {
    OUTRIDER_RELAY_NEW,      /* not started */
    OUTRIDER_RELAY_STARTING, /* connects, or stands by while another relay is active */
    OUTRIDER_RELAY_ACTIVE,   /* relays */
    OUTRIDER_RELAY_STOPPING, /* finishes what is under way */
    OUTRIDER_RELAY_STOPPED,  /* ended as asked */
    OUTRIDER_RELAY_FAILED    /* ended for a reason that wait tells */
};

enum outrider_relay_note {
    OUTRIDER_NOTE_SOURCE_CONNECTED, /* and active */
    OUTRIDER_NOTE_SOURCE_LOST,      /* why; will reconnect */
    OUTRIDER_NOTE_STANDBY,          /* another relay is active */
    OUTRIDER_NOTE_SOURCE_WARNING,   /* no error, but people should know: why */
    OUTRIDER_NOTE_SINK_UP,
    OUTRIDER_NOTE_SINK_DOWN, /* why; waits, spends no attempts */
    OUTRIDER_NOTE_CLEANUP,   /* count rows were removed */
    OUTRIDER_NOTE_STOPPING,
    OUTRIDER_NOTE_STOPPED
};

/* Bytes that need not end with a zero. */
struct outrider_text {
    const char *data;
    size_t len;
};

/* What became of an event. */
struct outrider_relay_event {
    size_t size;
    const char *outcome; /* "delivered", "parked", "queued", "dead", "expired", "skipped" */
    struct outrider_text id, aggregate_type, aggregate_id, event_type, topic;
    uint32_t attempts;                   /* tries that failed */
    const struct outrider_error *reason; /* of the last failure, or NULL */
};

/* Every callback may be NULL. */
struct outrider_relay_observer {
    size_t size;
    void *ctx;
    void (*note)(void *ctx, enum outrider_relay_note note, uint64_t count,
                 const struct outrider_error *why);
    void (*event)(void *ctx, const struct outrider_relay_event *event);
    int wants_delivered; /* call event for delivered ones too */
};

#define OUTRIDER_RELAY_OBSERVER_INIT                                \
    {                                                               \
        sizeof(struct outrider_relay_observer), NULL, NULL, NULL, 0 \
    }

/* Totals since the start, taken together between two steps of the engine. */
struct outrider_relay_stats {
    size_t size;
    uint64_t fetched, delivered, skipped, expired, parked, queued, dead;
    uint64_t retries;    /* tries of events that had failed before */
    uint64_t reconnects; /* to the source */
    uint64_t in_flight;  /* with the sink now */
};

#define OUTRIDER_RELAY_STATS_INIT                                         \
    {                                                                     \
        sizeof(struct outrider_relay_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* End by itself when all that was committed before the start is settled. */
#define OUTRIDER_RELAY_ONCE 1u

/* A relay of the pipeline with this name; NULL: "default". */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_relay_new(const char *name, struct outrider_relay **ret_relay, struct outrider_error *err);

/*
 * Set one option, by its name in the configuration file and with a value as it
 * is written there: "source.url", "sink.url", "retry.delays". source.url and
 * sink.url must be set. Only before start.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_relay_set(struct outrider_relay *relay,
                                                        const char *option, const char *value,
                                                        struct outrider_error *err);
/* Be told what happens; the observer is copied. Only before start. */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_relay_observe(struct outrider_relay *relay, const struct outrider_relay_observer *observer,
                       struct outrider_error *err);

/*
 * Check the options, load the adapters, start the thread. It does not wait for
 * a connection: a database or receiver that is away is waited for by the relay.
 * A handle that start refused may be set up differently and started again.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_relay_start(struct outrider_relay *relay, unsigned flags, struct outrider_error *err);

/*
 * Ask the relay to end: it reads nothing more, finishes what is under way within
 * `shutdown_timeout`, and settles it. Returns at once; again changes nothing. A
 * relay that is stopped before it was started ends when it is. NULL is allowed.
 */
OUTRIDER_API void outrider_relay_stop(struct outrider_relay *relay);

/*
 * Wait until the relay has ended: 0 if it was asked to (or was done, with
 * OUTRIDER_RELAY_ONCE), -1 with the reason if it failed; TIMEOUT after
 * timeout_ms (negative: no limit). May be called again, and by several threads.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_relay_wait(struct outrider_relay *relay, int64_t timeout_ms, struct outrider_error *err);

/* Where it is now; NULL gives OUTRIDER_RELAY_NEW. */
OUTRIDER_API enum outrider_relay_state outrider_relay_state(struct outrider_relay *relay);

/* Fills as much as stats->size says that there is room for. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_relay_stats(struct outrider_relay *relay,
                                                          struct outrider_relay_stats *stats,
                                                          struct outrider_error *err);

/* Stop, wait for the end, give everything back. NULL is allowed. Not from a callback. */
OUTRIDER_API void outrider_relay_free(struct outrider_relay *relay);

#ifdef __cplusplus
}
#endif
#endif
