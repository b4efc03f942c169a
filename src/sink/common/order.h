/* SPDX-License-Identifier: MIT */
/*
 * Order within a lane while several messages of the lane are in flight, for every
 * sink whose broker confirms messages one by one.
 *
 * The sink hands each delivery to this helper. The helper decides when a message goes
 * to the broker and what the engine is told when the message comes back. The sink owns
 * the connection; the helper owns the queues.
 *
 * Words. A *lane* is the deliveries of one group with the same key and partition. A
 * *group* is what the broker may reject together, because it may share a batch (for
 * Kafka: a topic). A message is *in flight* from send() until it has returned.
 *
 * What the sink promises:
 *  (1) send() never waits and never calls the helper. After SENT the message returns
 *      exactly once, through outrider__order_returned(), until release().
 *  (2) may_follow() says yes for a lane only if the broker accepts nothing of the lane
 *      behind a message that it rejected. A sink without such a broker has no
 *      may_follow(); then one message of a lane is in flight at a time.
 *  (3) returned() and advance() are called from the sink's poll() only: the two report.
 *      now_us is set before every call.
 *
 * What the helper promises:
 *  (4) A message is in one place: in flight, held in its lane, waiting in its group, or
 *      judged (in the list that advance() reports). Of one lane, all in flight were
 *      submitted before all held, and all held before all that wait.
 *  (5) Each message is reported exactly once, and the messages of a lane are sent in the
 *      order in which they were submitted.
 *  (6) A lane is broken once one of its messages was reported neither DELIVERED nor DEAD.
 *      All messages of a broken lane that are still here are reported UNTRIED (or
 *      DELIVERED, if the broker took them), and none of them is sent. The lane is whole
 *      again when its last message has left.
 *  (7) A broker that rejects a batch does not name the culprit. So all messages of the
 *      batch are UNTRIED and the group becomes careful: one of its messages in flight,
 *      then two, then four, and one of a lane at a time. A message that is rejected
 *      while it is the only one of its group in flight is the culprit, and gets the
 *      broker's verdict. After ORDER_CALM_US without a rejection the group is not
 *      careful any more.
 *  (8) release() is legal at any time; nothing is reported after it.
 */
#ifndef SINK_COMMON_ORDER_H
#define SINK_COMMON_ORDER_H

#include "core/sink.h"

#define ORDER_BUCKETS 4096
#define ORDER_CALM_US 60000000
/* A message that send() could not take is offered again after this time. */
#define ORDER_STUCK_US 20000

struct order_message;

struct order_list {
    struct order_message *head, *tail;
};

struct order_lane {
    uint64_t hash; /* identifies the lane; never 0 */
    struct order_lane *chain;
    struct order_group *group;
    size_t n;       /* messages, wherever they are */
    size_t n_out;   /* of them, in flight */
    bool is_broken; /* (6) */
    struct order_list held;
};

/* The sink puts this into its own struct of a topic, a stream or a queue. */
struct order_group {
    struct order_group *next, *prev;
    uint64_t hash;   /* set by the sink: differs between groups */
    size_t n, n_out; /* messages; of them, in flight */
    bool is_careful; /* (7) */
    bool is_paused;  /* send() said PAUSED; until outrider__order_resume() */
    size_t window;   /* careful: how many may be in flight */
    int64_t calm_us; /* careful: until then */
    struct order_list waiting;
};

struct order_message {
    struct delivery *d;
    struct order_lane *lane;   /* NULL: order does not matter */
    struct order_group *group; /* NULL: judged before it had one */
    struct order_message *next;
    bool is_alone;           /* in flight, and nothing else of its group is */
    enum sink_result result; /* judged messages only, as why */
    struct outrider_error *why;
};

enum order_send {
    ORDER_SENT,
    ORDER_NOT_NOW, /* no room in the client, or no connection: offered again soon */
    ORDER_PAUSED,  /* the whole group has to wait: the sink calls outrider__order_resume() */
    ORDER_REFUSED  /* the client refuses the message: *ret_verdict says why */
};

/* Which messages the broker's verdict may be about. */
enum order_blame {
    ORDER_BLAME_MESSAGE, /* this one alone, or the connection: no reason for care */
    ORDER_BLAME_GROUP,   /* every message of the group */
    ORDER_BLAME_BATCH    /* any message of a batch: (7) */
};

struct order_verdict {
    enum sink_result result;
    enum order_blame blame;      /* of DELIVERED: MESSAGE */
    struct outrider_error why;   /* of anything but DELIVERED */
    const struct answer *answer; /* the receiver's, or NULL: (13) of core/sink.h */
};

struct order_ops {
    enum order_send (*send)(void *ctx, struct order_message *m, struct order_verdict *ret_verdict);
    /* Optional: (2). Asked only while a message of the lane is in flight. */
    bool (*may_follow)(void *ctx, const struct order_lane *l);
};

struct order_chunk;

struct order {
    const struct order_ops *ops;
    void *ctx;
    struct sink *sink;
    bool is_ordered; /* of the pipeline: false makes no lanes */
    bool is_atomic;  /* messages become visible in one transaction: a careful group stays at
                        one message at a time, until the culprit is found */
    int64_t now_us;  /* monotonic: (3) */
    size_t n_messages, n_bytes;
    bool is_stuck; /* send() said NOT_NOW since the last advance() */
    struct order_list judged;
    struct order_group *groups;
    struct order_lane *lanes[ORDER_BUCKETS], *free_lanes;
    struct order_message *free_messages;
    struct order_chunk *chunks;
};

/* Everything else of *o is zero before. */
void outrider__order_init(struct order *o, struct sink *s, const struct order_ops *ops, void *ctx,
                          bool is_ordered);
void outrider__order_release(struct order *o);

/* A group joins before its first message, and leaves when it has none. */
void outrider__order_group_add(struct order *o, struct order_group *g);
void outrider__order_group_remove(struct order *o, struct order_group *g);

/* Takes the delivery: sends the message or lets it wait. -1: out of memory, not taken. */
int outrider__order_submit(struct order *o, struct order_group *g, struct delivery *d);
/* Takes the delivery and judges it unsent; g may be NULL. -1: out of memory, not taken. */
int outrider__order_reject(struct order *o, struct order_group *g, struct delivery *d,
                           enum sink_result result, const struct outrider_error *why);
/* A message that was in flight is back; verdict NULL: DELIVERED, without an answer. Reports
 * the message, sends what may go now, and frees the message. Returns what was reported. */
enum sink_result outrider__order_returned(struct order *o, struct order_message *m,
                                          const struct order_verdict *verdict);
/* Ends a pause. */
void outrider__order_resume(struct order *o, struct order_group *g);
/* Judges all that wait in the group, and ends a pause: the first of each lane gets the
 * result, the others are UNTRIED. */
void outrider__order_refuse_waiting(struct order *o, struct order_group *g, enum sink_result result,
                                    const struct outrider_error *why);
/* Judges UNTRIED what is not in flight, and breaks all lanes. */
void outrider__order_give_back(struct order *o);
/* Offers again what send() could not take, and reports what is judged. */
void outrider__order_advance(struct order *o);
/* When advance() is wanted next; CLOCK_NEVER: after the next message that returns. */
int64_t outrider__order_wake_us(const struct order *o);

#endif
