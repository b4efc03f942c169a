/* SPDX-License-Identifier: MIT */
/*
 * The bookkeeping of a stream of transactions (logical replication, a binlog): which
 * events are to be delivered, and up to which position the stream may be confirmed.
 * No connection, no clock.
 *
 * A position is the adapter's own bytes: an LSN, a file and an offset, a GTID set
 * behind a number. The tracker copies positions and compares them with the adapter's
 * function, and knows nothing else of them.
 *
 *  (1) The stream is a sequence of begin, hold*, commit; between two transactions
 *      heartbeat() says that there is nothing below a position that was not sent.
 *      begin() names the transaction by the position of its commit. Transactions come
 *      in the order of these positions, and the numbers of events ascend from 1.
 *  (2) An event's place is (position of its commit, number within the transaction).
 *      resume() says up to which place everything was settled before this stream
 *      began: is_settled() is true for exactly those. A server sends whole
 *      transactions again, from the last confirmed position on.
 *  (3) At most one event is held: it was read, and is in no batch yet. take() counts
 *      it into the batch under way; drop() says that it is to be left out. While an
 *      event is held nothing more is read.
 *  (4) Batches are handed out (hand_out()) and settled in the same order. settle(n)
 *      counts n events from the front of what was taken.
 *  (5) `confirmable` is a position up to which every event is settled. It is the end of
 *      a commit or a heartbeat, never a place inside a transaction, never beyond an
 *      event that was held or taken and is not settled, and never goes back.
 *  (6) Memory is bounded: commits that settle together share an entry. An entry is
 *      never confirmed early; when there are too many, some are confirmed late.
 *  (7) When everything that was read is settled and no transaction is open,
 *      `confirmable` is `received`.
 *  (8) stop_at() bounds the stream: a transaction whose commit is at or behind that
 *      position is not entered, and has_stopped() is true once nothing below it is
 *      left to be read. What was taken before is settled as ever.
 *  (9) polled_until() names the position at which polling ended before this stream
 *      began. Of transactions below it polling may have settled some events: the
 *      adapter asks is_before_polled_end(), and knows by seqs (seq_ranges.h) or by ids
 *      (late_ids.h) which. Transactions behind it were never polled.
 */
#ifndef COMMON_STREAM_TRACK_H
#define COMMON_STREAM_TRACK_H

#include "base/bytes.h"
#include "base/error.h"

#define TRACK_COMMITS_MAX 8

/* Below 0, 0, or above 0. */
typedef int track_compare_fn(struct bytes a, struct bytes b);

enum track_state {
    TRACK_BETWEEN,    /* no transaction is open */
    TRACK_IN_SETTLED, /* in one that was settled as a whole before */
    TRACK_IN_RESUMED, /* in the one in which the last settled event is */
    TRACK_IN_NEW,     /* in one of which nothing was settled before */
    TRACK_STOPPED     /* (8) */
};

struct track_position {
    char *data;
    size_t len; /* 0: there is none */
};

/* How far the stream may be confirmed once so many events are settled. */
struct track_commit {
    int64_t event_no;
    struct track_position end;
};

struct stream_track {
    track_compare_fn *compare;
    size_t position_max;
    char *room; /* owned: the bytes of all positions */
    enum track_state state;
    bool is_holding;
    bool is_below_polled_end; /* the transaction under way: (9) */
    struct track_position resumed, polled_end, stop, received, confirmable;
    int64_t resumed_number;
    int64_t n_taken, n_settled;
    int64_t handed_out; /* n_taken when the last batch was handed out */
    struct track_commit commits[TRACK_COMMITS_MAX];
    size_t n_commits;
};

/* position_max: no position has more bytes. */
int outrider__track_init(struct stream_track *t, track_compare_fn *compare, size_t position_max,
                         struct outrider_error *err);
void outrider__track_release(struct stream_track *t);

/* Before the stream begins. */
void outrider__track_resume(struct stream_track *t, struct bytes position, int64_t number);
void outrider__track_polled_until(struct stream_track *t, struct bytes position);
/* At any time; the stream may have passed the position already. */
void outrider__track_stop_at(struct stream_track *t, struct bytes position);

/* What is read from the stream. */
void outrider__track_begin(struct stream_track *t, struct bytes commit);
void outrider__track_commit(struct stream_track *t, struct bytes end);
void outrider__track_heartbeat(struct stream_track *t, struct bytes position);
void outrider__track_settle(struct stream_track *t, int64_t n);

/* Everything committed below the position was taken, and settled or not. */
bool outrider__track_has_passed(const struct stream_track *t, struct bytes position);

static inline struct bytes track_bytes(struct track_position p)
{
    return p.len == 0 ? BYTES_NULL : bytes_of(p.data, p.len);
}

static inline bool track_is_in_transaction(const struct stream_track *t)
{
    return t->state != TRACK_BETWEEN && t->state != TRACK_STOPPED;
}

static inline bool track_has_stopped(const struct stream_track *t)
{
    return t->state == TRACK_STOPPED;
}

/* (2), of an event of the transaction under way. */
static inline bool track_is_settled(const struct stream_track *t, int64_t number)
{
    return t->state == TRACK_IN_SETTLED ||
           (t->state == TRACK_IN_RESUMED && number <= t->resumed_number);
}

/* (9), of the transaction under way. */
static inline bool track_is_before_polled_end(const struct stream_track *t)
{
    return t->is_below_polled_end;
}

/* (3) */
static inline void track_hold(struct stream_track *t)
{
    t->is_holding = true;
}

static inline void track_take(struct stream_track *t)
{
    t->is_holding = false;
    t->n_taken++;
}

static inline void track_drop(struct stream_track *t)
{
    t->is_holding = false;
}

/* (4) */
static inline void track_hand_out(struct stream_track *t)
{
    t->handed_out = t->n_taken;
}

static inline bool track_is_all_settled(const struct stream_track *t)
{
    return t->n_settled == t->n_taken && !t->is_holding && !track_is_in_transaction(t);
}

#endif
