/* SPDX-License-Identifier: MIT */
/*
 * The seam to a database: reads committed events in order and remembers what
 * is settled. One adapter per database and way of reading.
 *
 *  (1) Events come in commit order, or in an order that a single writer of a
 *      key would have seen. Never an event of a transaction that is not
 *      committed, never one that a crash of the database could undo, and never
 *      what a relay itself has written.
 *  (2) A committed event is returned until it is settled, across any crash.
 *      While a batch is not settled, its events are not returned again on the
 *      same connection. A FETCH may return fewer events than there are; `ready`
 *      says whether to ask again at once.
 *  (3) SETTLE is one atomic, durable step per batch: the position, the rows to
 *      park and the parked rows to remove or change go together or not at all.
 *      (Where the database itself may lose its last commits in a power cut,
 *      they are lost together: then events come again, none is lost.)
 *  (4) Nothing blocks on a network. An operation is started, advanced by
 *      poll(), and given back by poll() when it is done. Operations complete
 *      in the order in which they were started, but that a FETCH may pass a
 *      SETTLE whose events were all delivered: it finds the same either way.
 *      An operation too many is refused with INVALID; no engine starts so many.
 *  (5) An error from open(), start() or poll() ends the connection: all
 *      operations under way are void. The engine closes the source, waits with
 *      backoff if the disposition says retry, and opens it anew; what was in
 *      flight is forgotten here and read again there.
 *  (6) One relay is active per pipeline. A source that is not `active` accepts
 *      no operation; poll() makes it active when it gets the lock. A relay that
 *      lost its lock cannot settle: that is an error with code FENCED. Each
 *      pipeline has settled what it has settled itself, and a new pipeline
 *      begins with what the outbox holds. (Not so in (17); and (18) lets many
 *      relays be active.)
 *  (7) is_blocked is set on each event whose lane has parked rows (and dead
 *      ones, where dead letters block) in the database as of the fetch.
 *      A source whose rows carry their state has (17) instead of (7) and (8).
 *  (8) Parked rows leave per lane in the order of their arrival: FETCH_PARKED
 *      returns, for each lane whose first row is due, that row and those
 *      behind it, never one without those before it.
 *  (9) close() is legal at any time, also after a failed open(). Before one that is in
 *      order the engine sets is_ending, starts nothing more, and waits for a while
 *      until wants_rest is not set: what is settled is told to others then. Nothing
 *      that (2) needs depends on it.
 *
 * Exactly once (config.exactly_once; see core/progress.h) is for sources with
 * keeps_intents. A source that keeps them in some ways of reading only (and
 * not in mode cdc over a table that is not our log, say) refuses exactly_once in the
 * others with UNSUPPORTED before it is active. Then SETTLE is not used, and besides:
 *
 * (10) While active, `identity` names the outbox and the pipeline among all the
 *      databases of the world, as far as that can be known; `saved` is the
 *      intent that was saved last, and has_intent says whether it is still
 *      there, neither settled nor dropped.
 * (11) INTENT is one atomic step, and survives a power cut once it is done: it
 *      settles `batch`, whose intent was the last one, and saves the outcomes
 *      of `intent` as the new one, `progress`. Either may be NULL. An intent
 *      that was not settled and is saved over is dropped by that.
 * (12) RECALL comes first where has_intent is set at the start, and whenever the
 *      sink has committed something unexpected. `progress` is what the sink has
 *      committed, and `verdict` is what the engine concludes from it; the source
 *      obeys. CAME_TRUE: the source settles the intent as it was saved.
 *      NEVER_WAS: it drops the intent, and `progress` is what is saved then. In
 *      both cases the source sets `saved` and has_intent accordingly. Any other
 *      verdict changes nothing: the completed operation proves that this relay is
 *      still the active one. After CAME_TRUE the engine opens the source anew,
 *      because the source reads from another place then.
 * (13) A relay that lost its lock can do neither: FENCED, as in (6). Without
 *      exactly_once a database that holds an intent is refused: whether its
 *      events were published is not known here.
 *
 * Points in the outbox:
 *
 * (14) mark_reached is false from the start of a MARK until every event that was
 *      committed before that MARK has been returned. To find that out may take
 *      one more FETCH, which is empty. A FETCH that was started before the MARK
 *      does not reach it. A mark ends with the connection.
 * (15) CLEANUP removes a portion of at most cleanup.batch rows of a table (whole
 *      partitions besides), and only rows that are older than the retention and
 *      settled for every pipeline of the database. Where the row itself has a
 *      mark that says it is published, the mark decides: a stream that has not
 *      come so far does not need the row. `more` asks for the next portion. What
 *      a stream has settled may be known a moment later.
 * (16) A reader (source_ops.reader) is a source for replays: core/replay.h. It takes
 *      no lock, writes nothing, and accepts MARK and FETCH alone. It returns what is
 *      settled, from config.replay_from_seq or replay_since_us on, in order. It may
 *      return what is not settled too; where rows carry their state it does not.
 *      A table without a sequence refuses replay_from_seq with UNSUPPORTED. Nothing
 *      is blocked, so is_blocked is never set.
 *
 * Rows that carry their state (layout status and tables of applications, in mode
 * poll) remember by themselves what became of an event:
 *
 * (17) There are no parked rows: is_blocked is never set, FETCH_PARKED finds
 *      nothing, parked_due_us stays CLOCK_NEVER. FETCH returns an event that was
 *      PARKED again when its time has come by the database's clock, with its
 *      `attempts`, and then those behind it in its lane, in order. Until then it
 *      returns nothing of that lane but what is in flight already. QUEUED and
 *      RELEASED leave the row as it was. A dead row is never returned; where dead
 *      letters block, nothing of its lane is, whatever its place: which row came
 *      first is not known of rows that were committed late. What one pipeline
 *      has settled is settled for all.
 * (18) Without order (config.ordered is false), where a row can be claimed, many
 *      relays of a pipeline are active at once, and each event is with one of
 *      them. close() gives back what is claimed; a claim that nobody renews ends.
 *      A relay settles only rows whose claim is still its own, and leaves the
 *      others without an error.
 *
 * What a receiver said:
 *
 * (19) In SETTLE, INTENT and RECALL event->answer is the receiver's answer
 *      (core/answer.h) to the try that gave the event its outcome: DELIVERED, PARKED
 *      or DEAD. It is NULL for the other outcomes, and where the receiver gave none.
 *      A source may store the answer, in the same step as the outcome: (3), (11).
 *      The bytes live as long as the batch. An intent is saved before the receiver
 *      has answered its events: in RECALL the answers to delivered events are
 *      missing, and those to failed ones are there.
 */
#ifndef CORE_SOURCE_H
#define CORE_SOURCE_H

#include "core/event.h"
#include "core/progress.h"

struct pipeline_config; /* core/config.h */
struct pollfd;

enum source_op_kind {
    SOURCE_MARK,         /* note "now": mark_reached tells when all committed by now was fetched */
    SOURCE_FETCH,        /* fill the batch with new events; an empty one is a valid answer */
    SOURCE_FETCH_PARKED, /* fill the batch with due parked rows */
    SOURCE_SETTLE,       /* make the outcomes of batch->events[0..n_settle) durable */
    SOURCE_CLEANUP,      /* remove one paced portion of settled rows past their retention */
    SOURCE_INTENT,       /* exactly once: settle one batch, save the intent of another */
    SOURCE_RECALL        /* exactly once: settle or drop the intent that was found */
};

struct source_op {
    enum source_op_kind kind;
    struct batch *batch;         /* FETCH, FETCH_PARKED, SETTLE; INTENT: to be settled, or NULL */
    struct batch *intent;        /* INTENT: to be saved, or NULL */
    struct commit_mark progress; /* INTENT, RECALL */
    enum recall_verdict verdict; /* RECALL */
    int64_t now_wall_us;         /* the engine's clock: all but MARK and FETCH */
    uint64_t removed;            /* CLEANUP: rows removed */
    bool more;                   /* CLEANUP: there is more to remove right away */
    struct source_op *next;      /* the source's own queue */
};

/* Whether a FETCH finds the same before and after this operation (contract 4). This
 * looks at every event: a source asks once, when the operation is started. */
static inline bool source_op_may_be_passed(const struct source_op *op)
{
    if (op->kind != SOURCE_SETTLE || op->batch->is_parked)
        return false;
    for (size_t i = 0; i < op->batch->n_settle; i++)
        if (op->batch->events[i].outcome != OUTCOME_DELIVERED)
            return false;
    return true;
}

struct source {
    const struct source_ops *ops;
    /* Set by the source, read by the engine after every call. */
    bool active;           /* holds the pipeline's lock: operations are accepted */
    bool ready;            /* a FETCH may find something; false: wait for poll() to set it */
    bool reads_ahead;      /* a FETCH is a round trip: begin the next while the last is delivered */
    bool mark_reached;     /* every event committed before MARK has been fetched */
    int64_t parked_due_us; /* wall clock: when a parked lane is next due, CLOCK_NEVER if none */
    int64_t wake_us;       /* monotonic: call poll() at the latest then, CLOCK_NEVER if no need */
    char description[256]; /* for people, without secrets */
    char waiting_for[160]; /* while not active: who is (host, pid) where it can be known */
    char warning[256];     /* something people should know that is no error */
    uint32_t warnings;     /* counts them: a new one is told */
    bool lost_in_cleanup;  /* what failed is a clean-up: delivery is not at fault */
    bool wants_rest;       /* something is to be written down before an end: (9) */
    bool is_ending;        /* set by the engine: (9) */
    /* Exactly once only: (10). */
    char identity[512];
    struct commit_mark saved;
    bool has_intent;
};

struct source_ops {
    const char *scheme; /* the first of its adapter's */
    size_t size;        /* of the adapter's struct, whose first member is struct source */
    bool keeps_intents; /* exactly_once is possible */
    const struct source_ops *reader; /* (16); NULL: nothing can be replayed */
    /* Begins to connect. Configuration that can never work is an error with STOP. */
    int (*open)(struct source *s, const struct pipeline_config *config, struct instant now,
                struct outrider_error *err);
    /* Takes an operation on; legal only while active. */
    int (*start)(struct source *s, struct source_op *op, struct outrider_error *err);
    /* Does what can be done now. *ret_done is an operation that is complete, or
     * NULL when none is: the engine calls again until it is NULL. */
    int (*poll)(struct source *s, struct instant now, struct source_op **ret_done,
                struct outrider_error *err);
    /* What to watch with poll(2): fills up to max, returns how many. */
    int (*fds)(struct source *s, struct pollfd *ret_fds, int max);
    /* Takes in some of what the database has sent, unread: it goes on sending while
     * the engine is at work. Called in the middle of that, so it is short, it tells
     * nothing, and an error waits for poll(). NULL: no need. */
    void (*draw)(struct source *s);
    void (*close)(struct source *s);
};

#endif
