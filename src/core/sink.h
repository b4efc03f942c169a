/* SPDX-License-Identifier: MIT */
/*
 * The seam to a receiver: publishes deliveries, asynchronously, and reports
 * each one's outcome.
 *
 *  (1) submit() never blocks. It returns how many deliveries it took, from the
 *      front; the rest are offered again. That is all the backpressure there is.
 *  (2) Each delivery taken is reported exactly once through sink->reported, from
 *      poll() only, never from submit().
 *  (3) Bytes live in the batch's arena, which outlives the last report.
 *  (4) close() is legal at any time, also after a failed open(). What was not
 *      reported counts as not delivered and is not reported any more; its bytes
 *      are not read any more. A receiver that does not answer is waited for within
 *      a bound only: what cannot end without it ends later, without the sink.
 *  (5) DOWN means: the receiver is away, nobody's fault and nobody's attempt;
 *      the engine pauses and offers the same delivery again. UNTRIED says the
 *      same of this one delivery alone, without a pause. RETRY spends an
 *      attempt of this event, DEAD makes it a dead letter, STOP ends the
 *      pipeline: an operator must act.
 *  (6) Deliveries with the same topic, key and partition become visible in the
 *      order in which they were submitted. If one of them is reported DOWN or
 *      RETRY, those behind it, and any taken while one of these is still out,
 *      are reported DOWN or UNTRIED; otherwise the sink must set lane_depth to 1, and gets one per
 *      lane at a time.
 *  (7) An error from poll() means that the sink is lost as a whole: the engine
 *      closes it and opens it anew with backoff, or ends if it says STOP.
 *
 * Exactly once is for sinks that have seal(), commit() and abort(); see core/progress.h.
 * The engine asks for it by setting `identity` before open(). Then, besides:
 *
 *  (8) open() begins to shut out whoever was opened with the same identity
 *      before. It is complete when is_busy is false: then nothing of theirs can
 *      become visible any more, and `progress` is the last transaction that was
 *      committed under that identity, by anybody.
 *  (9) What is taken belongs to one transaction. DELIVERED says that it is in
 *      there; nobody sees it before commit(). After any other report the
 *      transaction can only be aborted, which the engine does.
 * (10) seal() says that the transaction has all its events, and what its progress
 *      is; they need not be reported yet, and abort() may still follow. commit()
 *      is asked for after it, when all that was taken is DELIVERED. When is_busy
 *      is false again, its events and the new progress are visible, together.
 *      If poll() fails before, they are or they are not, together: the progress
 *      after the next open() tells, and does not change any more.
 * (11) abort() forgets the transaction. What is still out is reported, in any
 *      way, before is_busy is false again.
 * (12) An error FENCED from poll(): somebody else was opened with the identity.
 *
 * With and without exactly once:
 *
 * (13) A report may carry the receiver's answer (core/answer.h), with DELIVERED,
 *      RETRY and DEAD only: the other results say that the receiver did not decide.
 *      The engine copies what it keeps of the answer before reported() returns.
 */
#ifndef CORE_SINK_H
#define CORE_SINK_H

#include "core/answer.h"
#include "core/finding.h"
#include "core/progress.h"

struct pipeline_config;

enum sink_result { SINK_DELIVERED, SINK_DOWN, SINK_RETRY, SINK_DEAD, SINK_STOP, SINK_UNTRIED };

struct sink_report {
    enum sink_result result;
    const struct outrider_error *why; /* NULL for DELIVERED, and for no other result */
    const struct answer *answer;      /* (13), or NULL */
};

struct sink {
    const struct sink_ops *ops;
    /* Set by the engine before open(). The report and what it points to are valid
     * until reported() returns. */
    void (*reported)(void *ctx, struct delivery *d, const struct sink_report *report);
    void *reported_ctx;
    const char *identity; /* exactly once, under this name; NULL: at least once */
    /* Set by the sink in open(). */
    bool wants_headers;    /* deliveries carry headers; otherwise they are not even built */
    int lane_depth;        /* how many of one lane and topic it may hold: 1, or 0 for any number */
    int64_t wake_us;       /* monotonic: call poll() at the latest then */
    char description[256]; /* for people, without secrets */
    char trouble[256];     /* why nothing of what it holds moves; empty: it does, or nobody knows */
    /* Exactly once only; set by the sink, read by the engine after every call. */
    bool is_busy;    /* opening, committing or aborting: takes nothing */
    int64_t rest_us; /* it goes on ending a committed transaction for about so long: what is
                        small and follows later than that arrives sooner */
    struct commit_mark progress;
};

/* A report without an answer. */
static inline void sink_report(struct sink *s, struct delivery *d, enum sink_result result,
                               const struct outrider_error *why)
{
    s->reported(s->reported_ctx, d, &(struct sink_report){.result = result, .why = why});
}

struct pollfd;

struct sink_ops {
    const char *scheme; /* matched against the sink's URL */
    size_t size;        /* of the adapter's struct, whose first member is struct sink */
    int (*open)(struct sink *s, const struct pipeline_config *config, struct instant now,
                struct outrider_error *err);
    size_t (*submit)(struct sink *s, struct delivery **d, size_t n, struct instant now);
    /* The engine has nothing more to submit for the moment: what waits for company goes now. */
    void (*flush)(struct sink *s, struct instant now);
    /* Optional: give up a delivery whose send_timeout has passed. It is still
     * reported once: RETRY with TIMEOUT, or DELIVERED if it got through. A sink
     * without it is waited for, which is reported as an outage. */
    void (*cancel)(struct sink *s, struct delivery *d);
    int (*poll)(struct sink *s, struct instant now, struct outrider_error *err);
    int (*fds)(struct sink *s, struct pollfd *ret_fds, int max);
    void (*close)(struct sink *s);
    /* Optional: whether the configuration makes sense to it. No I/O. */
    int (*check)(const struct pipeline_config *config, struct outrider_error *err);
    /* Optional, all or none: (10), (11). */
    void (*seal)(struct sink *s, struct commit_mark progress, struct instant now);
    void (*commit)(struct sink *s, struct instant now);
    void (*abort)(struct sink *s, struct instant now);
    /* Optional: looks at the receiver without publishing anything, and says what
     * works and what does not. May wait, within connect_timeout. An error says
     * that it could not look at all. */
    int (*doctor)(const struct pipeline_config *config, finding_fn *found, void *ctx,
                  struct outrider_error *err);
};

#endif
