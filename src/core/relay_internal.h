/* SPDX-License-Identifier: MIT */
/*
 * What the engine's files share: relay.c (the life of a pipeline),
 * relay_flow.c (events on their way to an outcome), relay_sink.c (the sink and
 * its health), relay_source.c (the source and its operations), relay_exact.c
 * (the other way through the engine: exactly once). No other file includes this.
 */
#ifndef CORE_RELAY_INTERNAL_H
#define CORE_RELAY_INTERNAL_H

#include "core/intent.h"
#include "core/lane.h"
#include "core/relay.h"

/* Batches of new events in memory; one more holds parked rows. Five let the
 * source read while the sink writes and the batch before is being settled. */
#define RELAY_NEW_BATCHES 5
#define RELAY_BATCHES (RELAY_NEW_BATCHES + 1)
#define RELAY_DRAW_EVERY 64 /* moves: see relay_draw() */

/* The one that is committed, the one that is sent, and the next. */
#define EXACT_NEW_BATCHES 3

/*
 * What the engine knows about the sink.
 *
 *     UP       the sink takes deliveries, and answers
 *     STALLED  the sink does not answer, and keeps what it has
 *     PAUSED   the sink gave something back, or was lost: nothing is offered
 *     PROBING  the pause is over: everything is offered again
 *
 * UP -> STALLED or PAUSED; STALLED -> PAUSED; PAUSED -> PROBING; PROBING -> PAUSED.
 * An answer of the sink ends STALLED and PROBING, and the sink is UP. An answer
 * does not end PAUSED: what was in flight when the outage began says nothing about
 * the receiver now.
 */
enum sink_health { HEALTH_UP, HEALTH_STALLED, HEALTH_PAUSED, HEALTH_PROBING };

enum batch_state {
    BATCH_FREE,
    BATCH_FETCHING, /* the source fills it */
    BATCH_LIVE,     /* its events are on their way */
    BATCH_SETTLING, /* the source makes it durable */
    BATCH_VOID      /* forgotten; waits for the sink to give its deliveries back */
};

enum exact_state {
    EXACT_OFF,       /* at least once */
    EXACT_WAITING,   /* for the sink, to hear what it has committed */
    EXACT_RECALLING, /* the source settles or drops the intent that was found */
    EXACT_IDLE,      /* between two transactions */
    EXACT_SENDING,   /* the source saves the intent, and events go into the transaction */
    EXACT_ABORTING,  /* something failed: the transaction goes, and is planned anew */
    EXACT_SEALED,    /* the sink has them all; the commit waits for them and the intent */
    EXACT_COMMITTING /* the sink decides */
};

/* What must stay true stands in relay_exact.c. */
struct exact {
    enum exact_state state;
    bool is_ready;            /* what was found at the start is settled or dropped */
    struct commit_mark saved; /* the intent that was saved last */
    bool has_intent;          /* it is in the database still */
    struct commit_mark next;  /* the transaction under way */
    struct batch *batch;      /* its events; NULL: there is none */
    struct batch *committed;  /* the batch whose intent waits to be settled; or NULL */
    size_t n_offered;         /* the sink took what there was to send before this event */
    size_t n_left;            /* events to send that are not in the transaction yet */
    bool is_saving;           /* the intent of this plan is saved, or on its way */
    bool is_broken;           /* something failed */
    bool batch_holds;         /* it has events that wait, or make others wait; */
    bool committed_holds;     /* so has that one */
    bool was_parked;          /* the last one held parked rows: new events are next */
    uint64_t plan_no;
    int64_t committed_us; /* monotonic: since when `committed` waits */
    struct source_op op;
    bool op_busy;
};

struct relay {
    struct pipeline_config config;
    struct router *router;
    struct relay_observer *observers;
    struct relay_stats stats;
    struct instant now;
    uint64_t random;

    /* Source. */
    const struct source_ops *source_ops;
    struct source *source; /* open, or NULL */
    uint32_t source_failures;
    uint32_t settle_failures; /* losses in a row that took published events along, unsettled */
    uint32_t refusals;        /* of these, the ones that waiting does not mend */
    int64_t failing_since_us; /* monotonic: the first of the losses above */
    int64_t source_retry_us;
    bool was_active, standby_noted, is_connected_noted;
    int64_t inactive_since_us; /* monotonic */
    struct outrider_error source_error;
    uint32_t warnings; /* of this source, told so far */
    uint64_t op_no;    /* operations started or completed so far */
    size_t n_ops;      /* under way */
    struct source_op mark_op, cleanup_op;
    bool mark_busy, cleanup_busy, fetch_busy;
    struct source_op ops[RELAY_BATCHES];

    /* Batches: batches[0] holds parked rows; the others go round in order. */
    struct batch batches[RELAY_BATCHES];
    struct batch *fifo[RELAY_NEW_BATCHES]; /* not free ones, oldest first */
    size_t n_fifo;
    struct lane_table lanes;
    uint64_t n_moves; /* of single events: admitted, submitted, settled */

    /* Sink. */
    const struct sink_ops *sink_ops;
    struct sink *sink; /* open, or NULL */
    struct event *ready_head, *ready_tail;
    struct exact exact;
    bool needs_flush;
    bool is_sink_full; /* it took fewer than it was offered */
    enum sink_health health;
    uint32_t sink_failures;
    int64_t sink_retry_us; /* PAUSED: when everything is offered again */
    int64_t timeout_check_us;
    int64_t down_since_us;            /* --once: since when the sink is away; 0: it is not */
    struct outrider_error down_error; /* the reason for the last outage */

    /* Clean-up. */
    int64_t cleanup_us; /* monotonic: next portion */
    uint64_t cleanup_removed;
    int64_t parked_not_before_us;

    /* Life. */
    int64_t started_us;
    int64_t once_wall_us;
    bool mark_started, once_parked_done;
    bool stopping, is_final; /* is_final: the last settle was started */
    int64_t stop_us;
    int64_t rest_us; /* until then the source may write down what it has */
    bool needs_step; /* it was told something that it acts on when it is polled */
    bool failed;
    struct outrider_error error;
    enum relay_state state;
};

/* How long a relay that lost its source keeps the sink: long enough for a
 * connection that comes right back, too short to be in a successor's way. */
#define SINK_GRACE_US 500000

static inline bool relay_is_exact(const struct relay *r)
{
    return r->exact.state != EXACT_OFF;
}

/* An outage in which nothing is offered to the sink. What is in memory is enough
 * then, so nothing is fetched either. */
static inline bool relay_sink_is_paused(const struct relay *r)
{
    return r->health == HEALTH_PAUSED;
}

/* Whether people were told that the sink is down. */
static inline bool relay_sink_in_outage(const struct relay *r)
{
    return r->health != HEALTH_UP;
}

/* Whether an answer of the sink proves that it is up again. */
static inline bool relay_sink_awaits_answer(const struct relay *r)
{
    return r->health == HEALTH_STALLED || r->health == HEALTH_PROBING;
}

/* Batches in use: parked rows, and new events. */
static inline size_t relay_n_batches(const struct relay *r)
{
    return 1 + (relay_is_exact(r) ? EXACT_NEW_BATCHES : RELAY_NEW_BATCHES);
}

static inline bool relay_is_active(const struct relay *r)
{
    return r->source != NULL && r->source->active;
}

static inline double relay_random01(struct relay *r)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return (double)(r->random >> 11) / 9007199254740992.0;
}

static inline void relay_note(struct relay *r, enum relay_note note, uint64_t count,
                              const struct outrider_error *why)
{
    for (struct relay_observer *o = r->observers; o != NULL; o = o->next)
        if (o->note != NULL)
            o->note(o->ctx, r->now, note, count, why);
}

/* In between, one by one, as events are worked on: see struct source_ops. */
static inline void relay_draw(struct relay *r)
{
    if (++r->n_moves % RELAY_DRAW_EVERY == 0 && r->source != NULL && r->source->ops->draw != NULL)
        r->source->ops->draw(r->source);
}

/* The pipeline cannot go on. */
static inline void relay_fail(struct relay *r, const struct outrider_error *why)
{
    if (!r->failed) {
        r->failed = true;
        r->error = *why;
    }
}

/* relay_flow.c */
/* -1: there is no memory now; the caller drops the source, and tries again later. */
int outrider__relay_admit(struct relay *r, struct batch *b, struct outrider_error *err);
bool outrider__relay_submit(struct relay *r);
void outrider__relay_reported(void *ctx, struct delivery *d, const struct sink_report *report);
/* The sink does not hold the event any more: back into the lane, to be offered again. */
void outrider__relay_put_back(struct relay *r, struct event *e);
/* The same for all events in the ready queue. */
void outrider__relay_take_back_ready(struct relay *r);
/* Makes an event that was put back ready, as far as its lane allows. */
void outrider__relay_offer_again(struct relay *r, struct event *e);
bool outrider__relay_is_expired(const struct relay *r, const struct event *e);
void outrider__relay_keep_failure(struct event *e, const struct outrider_error *why);
/* Replaces the event's delivery by its dead letter, where one is to be published. */
bool outrider__relay_dead_letter(struct relay *r, struct event *e);
/* Fails with RETRY for want of memory, otherwise because the event can never be routed. */
int outrider__relay_route(struct relay *r, struct event *e, struct outrider_error *err);
/* Routes the event. 1: the event can never be offered; its failure says why. */
int outrider__relay_prepare(struct relay *r, struct event *e, struct outrider_error *err);
/* The event has its outcome: counts the outcome, and tells the observers. */
void outrider__relay_tell(struct relay *r, struct event *e);

/* relay_sink.c */
bool outrider__relay_sink_poll(struct relay *r);
void outrider__relay_sink_connect(struct relay *r);
/* Closes the sink. `why` begins an outage; NULL: the engine itself wants the sink closed. */
void outrider__relay_sink_drop(struct relay *r, const struct outrider_error *why);
/* Ends a pause that is over, and looks for timeouts. */
bool outrider__relay_sink_check(struct relay *r);
/* The sink is away: begins an outage, or a new pause of the same outage. */
void outrider__relay_sink_down(struct relay *r, const struct outrider_error *why);
/* Called on an answer from the sink; ends an outage. */
void outrider__relay_sink_up(struct relay *r);

/* relay_source.c */
bool outrider__relay_source_poll(struct relay *r);
bool outrider__relay_source_start(struct relay *r);
bool outrider__relay_start_settles(struct relay *r);
void outrider__relay_source_connect(struct relay *r);
void outrider__relay_source_drop(struct relay *r, const struct outrider_error *why);
void outrider__relay_void_collect(struct relay *r);
void outrider__relay_settle_final(struct relay *r);
bool outrider__relay_has_void(const struct relay *r);
bool outrider__relay_start_op(struct relay *r, struct source_op *op);
/* The batch is durable: the database answers for its lanes from now on. */
void outrider__relay_batch_settled(struct relay *r, struct batch *b);

/* relay_exact.c */
void outrider__relay_exact_init(struct relay *r);
int outrider__relay_exact_admit(struct relay *r, struct batch *b, struct outrider_error *err);
bool outrider__relay_exact_step(struct relay *r);
void outrider__relay_exact_reported(struct relay *r, struct event *e,
                                    const struct sink_report *report);
/* An operation of the source is complete. */
void outrider__relay_exact_done(struct relay *r, const struct source_op *op);
void outrider__relay_exact_sink_lost(struct relay *r);
void outrider__relay_exact_source_lost(struct relay *r);
/* Whether the source may be asked for events. */
bool outrider__relay_exact_may_fetch(const struct relay *r);
void outrider__relay_exact_final(struct relay *r);
bool outrider__relay_exact_is_idle(const struct relay *r);
int64_t outrider__relay_exact_wake(const struct relay *r);

#endif
