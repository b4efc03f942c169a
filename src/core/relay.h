/* SPDX-License-Identifier: MIT */
/*
 * The engine: drives one pipeline from its source to its sink.
 *
 * It does no I/O of its own, reads no clock and starts no thread: relay_step()
 * does all that can be done at an instant and says when to come back; the
 * caller waits with poll(2) on what relay_fds() names. So the whole of it runs
 * under a simulator (tests/sim).
 *
 * What always holds:
 *  (1) Batches are settled in the order in which they were fetched.
 *  (2) Of one lane, an event is offered to the sink only when every earlier
 *      one has an outcome that lets the lane go on (delivered, skipped,
 *      expired, or dead under on_dead: skip), or is itself in flight to the
 *      same partition of the same topic of a sink that keeps order.
 *  (3) Behind an event that was parked (or died under on_dead: block) every
 *      later one of the lane gets the outcome QUEUED until the database has no
 *      parked row of the lane.
 *  (4) A lane is remembered until every batch that touched it is settled:
 *      only then can the database answer for it.
 *  (5) Memory is bounded by RELAY_BATCHES batches, whatever the backlog.
 *  (6) An outage of the sink spends no attempts and parks nothing.
 */
#ifndef CORE_RELAY_H
#define CORE_RELAY_H

#include "core/batch_counts.h"
#include "core/config.h"
#include "core/route.h"
#include "core/sink.h"
#include "core/source.h"

enum relay_note {
    NOTE_SOURCE_CONNECTED, /* and active */
    NOTE_SOURCE_LOST,      /* why; will reconnect */
    NOTE_STANDBY,          /* another relay is active */
    NOTE_SOURCE_WARNING,   /* no error, but people should know */
    NOTE_SINK_UP,
    NOTE_SINK_DOWN, /* why; waits, spends no attempts */
    NOTE_CLEANUP,   /* count rows removed */
    NOTE_STOPPING,
    NOTE_STOPPED
};

/* Told what happens and when; every callback may be NULL. Called from relay_step()
 * and relay_stop(), with the time of that call. */
struct relay_observer {
    struct relay_observer *next; /* told after this one; NULL: the last */
    void *ctx;
    void (*note)(void *ctx, struct instant now, enum relay_note note, uint64_t count,
                 const struct outrider_error *why);
    /* An event got its outcome. Delivered ones only if wants_delivered, which may be
     * changed on the thread that calls relay_step(). */
    void (*event)(void *ctx, struct instant now, const struct event *e);
    bool wants_delivered;
    /* A batch was settled: durable. */
    void (*settled)(void *ctx, struct instant now, const struct batch *b);
    /* The same as counts by aggregate type, event type and outcome. */
    void (*counted)(void *ctx, struct instant now, const struct batch_counts *counts);
};

struct relay_stats {
    uint64_t fetched;
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t retries; /* parked events offered again */
    uint64_t settles;
    uint64_t removed; /* by clean-up */
    uint64_t reconnects;
    size_t in_flight; /* now */
};

struct relay;

struct relay_setup {
    const struct pipeline_config *config; /* outlives the relay */
    const struct source_ops *source_ops;
    const struct sink_ops *sink_ops;
    struct relay_observer *observers; /* a list, which outlives the relay; NULL: nobody */
    uint64_t seed;                    /* of jitter */
};

/* Whether source and sink can do what the configuration asks of them together. */
int outrider__relay_check(const struct pipeline_config *config, const struct source_ops *source,
                          const struct sink_ops *sink, struct outrider_error *err);
int outrider__relay_new(const struct relay_setup *setup, struct relay **ret_relay,
                        struct outrider_error *err);
void outrider__relay_free(struct relay *r);

enum relay_state { RELAY_RUNNING, RELAY_DONE, RELAY_FAILED };

/* Does what can be done now; *ret_wake_us is when to call again at the latest
 * (monotonic). FAILED leaves the reason in err. */
enum relay_state outrider__relay_step(struct relay *r, struct instant now, int64_t *ret_wake_us,
                                      struct outrider_error *err);
int outrider__relay_fds(struct relay *r, struct pollfd *ret_fds, int max);

/* Fetch nothing more, finish what is in flight within shutdown_timeout, settle, be done. */
void outrider__relay_stop(struct relay *r, struct instant now);
/* Takes over a new configuration's reloadable options, and no others; the router
 * is made anew. The configuration outlives the relay, or the next reload. */
int outrider__relay_reload(struct relay *r, const struct pipeline_config *config,
                           struct outrider_error *err);

const struct relay_stats *outrider__relay_stats(const struct relay *r);
const struct source *outrider__relay_source(const struct relay *r);
const struct sink *outrider__relay_sink(const struct relay *r);

#endif
