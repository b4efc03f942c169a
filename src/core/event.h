/* SPDX-License-Identifier: MIT */
/*
 * An event on its way, and the batch that owns its bytes.
 *
 *  (1) All bytes of an event, and of its delivery, live in its batch's arena.
 *  (2) A batch lives until its last event has an outcome, the source has
 *      settled it, and the sink has given back every delivery it took.
 *  (3) Events of a batch stand in the order in which the source read them.
 */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "outrider/event.h"

/* What became of an event. Everything but PENDING lets the batch settle. */
enum outcome {
    OUTCOME_PENDING,   /* not decided yet */
    OUTCOME_DELIVERED, /* the sink has it for good */
    OUTCOME_SKIPPED,   /* left out by select: */
    OUTCOME_EXPIRED,   /* its expiry passed before it could be delivered */
    OUTCOME_PARKED,    /* failed; failure says when the next try is due */
    OUTCOME_QUEUED,    /* waits behind a parked event of its lane */
    OUTCOME_DEAD,      /* a dead letter; failure says why */
    OUTCOME_RELEASED,  /* untouched: the source still has it as it was */
    OUTCOME_COUNT
};

/* Stable names, used in logs, --json output and metrics. */
const char *outrider__outcome_name(enum outcome o);

struct header {
    struct bytes name, value;
};

/* What a sink gets to see of an event. */
struct delivery {
    struct bytes topic;
    struct bytes key;     /* data NULL: no key */
    struct bytes payload; /* data NULL: a tombstone */
    const struct header *headers;
    size_t n_headers;
    int32_t partition;    /* negative: the sink chooses by key */
    int64_t timestamp_us; /* wall clock */
    void *sink_data;      /* for the sink's own use while it holds the delivery */
};

struct lane;
struct batch;
struct source_op;
struct answer;
struct answer_space;

/* How far an event has come; the engine's own. */
enum event_stage {
    STAGE_WAITING,   /* in its lane, not yet offered to the sink */
    STAGE_READY,     /* in the ready queue */
    STAGE_IN_FLIGHT, /* the sink has it */
    STAGE_DONE       /* has an outcome */
};

/* Exactly once: what the sink said of an event in a transaction that was aborted. */
enum verdict {
    VERDICT_NONE,
    VERDICT_RETRY, /* is parked the next time */
    VERDICT_DEAD,  /* is a dead letter the next time */
    VERDICT_UNTOLD /* and not even that could be published */
};

struct event {
    /* Set by the source. */
    int64_t seq; /* position in the outbox; 0 where the source has none */
    union {
        int64_t arrival; /* is_parked: the number of the parked row */
        int64_t claim;   /* else, where rows carry claims: the number of the claim */
    };
    struct bytes id; /* as text, never empty */
    struct bytes aggregate_type, aggregate_id, event_type;
    struct bytes payload;       /* NULL data: SQL NULL */
    struct bytes headers;       /* JSON object as text, or NULL data */
    struct bytes topic;         /* or NULL data */
    struct bytes partition_key; /* or NULL data */
    int32_t partition;          /* or -1 */
    uint32_t attempts;          /* tries already spent */
    int64_t occurred_at_us;
    int64_t created_at_us;
    int64_t expires_at_us; /* 0: never */
    int64_t claim_ends_us; /* monotonic: offered to no sink from then on, but EXPIRED; 0: no end */
    size_t payload_len;    /* also where the payload was too large to be read */
    const char *large_column; /* is_oversize: the first column above its bound; NULL: the payload */
    size_t large_len;         /* and its bytes */
    bool is_parked;           /* comes from the parked rows, not from the outbox */
    bool is_blocked;          /* the database holds parked rows of its lane: must queue behind */
    bool is_oversize;         /* columns are above their bounds: see struct event_bounds */
    bool is_malformed; /* the source could not make sense of it: dead, with `failure` as the reason
                        */

    /* Set by the engine. */
    enum outcome outcome;
    struct outrider_error *failure; /* in the arena; PARKED, DEAD, and why it was last tried */
    int64_t next_attempt_us;        /* wall clock; PARKED only */
    const struct answer *answer;    /* core/answer.h: the receiver's, to this outcome; or NULL */
    struct delivery delivery;

    /* The engine's bookkeeping; nobody else's business. */
    enum event_stage stage;
    bool is_doomed;      /* will die in its turn, for the reason in failure */
    bool is_dead_letter; /* the delivery under way is the dead letter's, not the event's */
    int64_t submitted_us;
    struct batch *batch;
    struct lane *lane;
    struct event *lane_next, *lane_prev; /* the unresolved events of a lane, in order */
    struct event *ready_next, *ready_prev;
    bool is_cancelled; /* the sink was asked to give it up */
    bool blocks_lane;  /* counted in its lane's n_unsettled_parks */
    struct answer_space *answer_space;
    /* Exactly once only. */
    bool is_routed;
    enum verdict verdict;
};

static inline struct event *event_of(struct delivery *d)
{
    return (struct event *)((char *)d - offsetof(struct event, delivery));
}

/* The lane's name: partition key, else aggregate id. An empty partition key is one: who writes
 * events stores none as NULL. */
static inline struct bytes event_key(const struct event *e)
{
    return bytes_is_null(e->partition_key) ? e->aggregate_id : e->partition_key;
}

/*
 * The largest that a source reads of an event, in bytes. What is above is not kept in
 * memory: a payload or headers are left out, of another text its beginning stands for
 * it (outrider__text_cut). Such an event is_oversize and becomes a dead letter; what
 * was not read is copied inside the database, so that raising the bound is enough.
 */
struct event_bounds {
    size_t payload, headers;
    size_t text; /* of aggregate_type, aggregate_id, event_type, topic and partition_key each */
    size_t id;   /* or all of it, where rows are settled by it: an index bounds it then */
};

struct pipeline_config; /* core/config.h */
struct event_bounds outrider__event_bounds(const struct pipeline_config *config);
#define EVENT_ANY_SIZE (SIZE_MAX / 4)
#define EVENT_UNBOUNDED \
    ((struct event_bounds){EVENT_ANY_SIZE, EVENT_ANY_SIZE, EVENT_ANY_SIZE, EVENT_ANY_SIZE})
/* Texts of an event that are so bounded, its id among them. */
#define EVENT_TEXTS 6
/* A text's beginning, in characters: as left() and substr() of SQL count them. */
#define EVENT_TEXT_CUT 1024

/* All that such an event may have. */
static inline size_t event_bounds_total(const struct event_bounds *m)
{
    return m->payload + m->headers + EVENT_TEXTS * m->text;
}

/* Whether an event that an application writes is within them; TOO_LARGE otherwise. */
int outrider__event_fits(const struct pipeline_config *config, const struct outrider_event *e,
                         struct outrider_error *err);
/* Notes that a column is above its bound; the first one is told. */
void outrider__event_too_large(struct event *e, const char *column, size_t len);
/* The first EVENT_TEXT_CUT characters. */
struct bytes outrider__text_cut(struct bytes text);
/* The same of what need not be text: so many bytes, as substr() of bytea counts them. */
struct bytes outrider__bytes_cut(struct bytes b);

struct batch {
    struct arena arena;
    struct event *events; /* allocated once */
    size_t n_slots;       /* that events has room for */
    size_t capacity;
    size_t max_bytes; /* a source stops adding once the arena holds this much */
    size_t n;         /* events in it */
    size_t n_settle;  /* settle() covers events[0 .. n_settle) */
    bool is_parked;   /* holds parked rows, not outbox rows */

    /* The source's own: where the batch ends, opaque to the engine. */
    int64_t position;
    void *source_data;

    /* The engine's bookkeeping. */
    size_t n_done, n_in_flight;
    size_t answer_bytes; /* of the arena: room for answers */
    int state;
    uint64_t fetch_no; /* when its fetch was started, on the relay's count of operations */
    struct source_op *op;
};

int outrider__batch_init(struct batch *b, size_t capacity, size_t max_bytes,
                         struct outrider_error *err);
void outrider__batch_reset(struct batch *b);
void outrider__batch_release(struct batch *b);
static inline bool batch_is_full(const struct batch *b)
{
    return b->n == b->capacity || (b->n > 0 && b->arena.used >= b->max_bytes);
}
/* The next event, zeroed but for partition = -1; NULL when full. Count it with n++ when filled. */
struct event *outrider__batch_slot(struct batch *b);
/* For a source whose columns may be bytes: an event of which a type or the topic is no UTF-8 text
 * becomes malformed. Only memory can fail. */
int outrider__event_check_texts(struct event *e, struct outrider_error *err);

#endif
