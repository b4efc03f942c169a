/* SPDX-License-Identifier: MIT */
/*
 * The stream of a slot: from the messages of the server to batches of events, and the
 * confirmations back. It knows nothing of how the slot was made, and nothing of polling
 * but which events polling has settled.
 *
 *  (1) tick() connects, starts the stream, reads, confirms and answers. fetch() gives it
 *      a batch to fill. Both read through one function: without a batch until one event
 *      is held, which makes the source `ready`; with a batch until the batch is full or
 *      nothing more is there. draw() moves bytes into memory and reads nothing.
 *  (2) No transaction is held in memory: with protocol version 1 the server sends a
 *      transaction only when it is committed. Reading stops when there is no batch.
 *  (3) The tracker (common/stream_track.h) decides which events are delivered and what
 *      is confirmed. The cursor is saved first (settled()), then the server is told.
 *  (4) The server ends a stream whose reader is silent for wal_sender_timeout, and looks
 *      for replies even while it waits for room to send. So the position is sent on a
 *      timer, whether anything is read or not: a sink that stalls for hours does not end
 *      the stream. A server that is silent for ALIVE_END_US is an error.
 *  (5) pause() stops the reading, not the replies; stop_at() ends the stream at a
 *      position: has_ended() says when every event before it was handed out.
 *
 *            connect           answered            pause()
 *   WAITING ---------> CONNECTING ---> ASKING ---> READING <---> PAUSED
 *      ^                                 |
 *      +---------------------------------+  the slot is still in use
 */
#ifndef POSTGRES_CDC_STREAM_H
#define POSTGRES_CDC_STREAM_H

#include "common/late_ids.h"
#include "common/seq_ranges.h"
#include "common/stream_track.h"
#include "postgres/cdc/decode.h"
#include "postgres/cdc/link.h"

struct pg_source;
struct pg_op;

enum stream_state {
    STREAM_WAITING,    /* closed, until retry_us */
    STREAM_CONNECTING, /* the replication connection is being made */
    STREAM_ASKING,     /* the server was asked for the stream */
    STREAM_READING,
    STREAM_PAUSED
};

/* What polling settled, and the stream sends again: cdc.h (2) and (7). */
struct stream_polled {
    int64_t high;           /* seqs up to here, of transactions before the end of polling */
    struct seq_ranges rest; /* but for these */
    struct late_ids late;
};

struct cdc_stream {
    enum stream_state state;
    struct cdc_link link;
    int64_t retry_us, retry_since_us;
    bool is_ending_reader; /* the slot's other reader is being ended */
    struct cdc_decoder decoder;
    struct stream_track track;
    struct cdc_message held;
    struct stream_polled polled;
    /* The batch under way. */
    int64_t round_us; /* when it is filled further; CLOCK_NEVER: no batch waits for that */
    int64_t filling_until_us;
    /* Replies. */
    uint64_t confirmed_lsn; /* as the server was told */
    int64_t reply_us;       /* when to reply at the latest */
    int64_t confirm_us;     /* when a confirmation that frees disk space only may be sent */
    bool owes_reply;        /* the server asked */
    bool has_settled;       /* since the last reply: then a confirmation is sent at once */
    bool asked_alive;       /* the server was asked to answer, and has not */
};

/* From where the stream goes on: the cursor's. Everything up to the event with that number
 * of the transaction committed at `lsn` is settled (lsn 0: nothing is); polling settled the
 * seqs up to polled_high, but for polled_rest (taken over), of commits before polled_lsn. */
struct stream_place {
    uint64_t lsn;
    int64_t number;
    uint64_t polled_lsn;
    int64_t polled_high;
    struct seq_ranges polled_rest;
};

int outrider__cdc_stream_init(struct cdc_stream *st, struct outrider_error *err);
void outrider__cdc_stream_release(struct cdc_stream *st);
void outrider__cdc_stream_resume(struct cdc_stream *st, const struct stream_place *place);

int outrider__cdc_stream_tick(struct pg_source *s, struct outrider_error *err);
int outrider__cdc_stream_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
void outrider__cdc_stream_draw(struct cdc_stream *st);
int outrider__cdc_stream_fds(const struct pg_source *s, struct pollfd *ret_fds, int max);
/* The next n events are settled, and the cursor says so. */
void outrider__cdc_stream_settled(struct cdc_stream *st, int64_t n);

void outrider__cdc_stream_pause(struct cdc_stream *st);
void outrider__cdc_stream_unpause(struct cdc_stream *st);
void outrider__cdc_stream_stop_at(struct cdc_stream *st, uint64_t lsn);
/* Every event committed before the position was handed out. */
bool outrider__cdc_stream_has_passed(const struct cdc_stream *st, uint64_t lsn);
/* Up to here every event is settled. */
uint64_t outrider__cdc_stream_confirmable(const struct cdc_stream *st);

static inline bool stream_is_up(const struct cdc_stream *st)
{
    return st->state == STREAM_READING || st->state == STREAM_PAUSED;
}

static inline bool stream_has_ended(const struct cdc_stream *st)
{
    return track_has_stopped(&st->track) && !st->track.is_holding;
}

#endif
