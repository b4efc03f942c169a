/* SPDX-License-Identifier: MIT */
/*
 * The insert-only log, read by its seq. log.c (its life, probes), poll_log/fetch.c
 * (reading), poll_log/settle.c (writing). Nobody else includes this.
 *
 * Seqs are handed out before their transactions commit, so "seq > last" loses
 * events. What must stay true instead:
 *
 *  (1) One statement, that is one snapshot, reads the known gaps and the rows
 *      from the position on, in ascending order, and is cut only from the top.
 *      So whatever is below the last row handed on was looked at in the same
 *      snapshot, and a key's older event cannot follow a newer one that its
 *      writer made after it.
 *  (2) `head` is the last seq seen; never a value taken from the sequence.
 *  (3) Every seq below head is settled, in flight, in `gaps`, or known never
 *      to come (gaps.h says when that is known).
 *  (4) A batch carries the head and the gaps as they were right after its own
 *      read. Batches settle in order; saving batch k's state with it says:
 *      everything up to batch k is settled. What batch k+1 delivered out of a
 *      gap is still a gap there, and is read again after a crash.
 *  (5) A batch that is settled in part saves the last settled seq, or the head
 *      before its read if that is higher, and its unsettled seqs below that as gaps.
 *  (6) A batch is handed on only when the server's log is flushed past the
 *      insert position that was seen after its read: a crash cannot undo it.
 *  (7) The row at head, the anchor, is read again with each read, and its id
 *      compared: otherwise history was rewritten.
 *  (8) Gaps are judged only while the catalogue's rows are those that were
 *      checked at the start.
 *  (9) A row above the sequence has a seq that its writer chose. It would make all
 *      seqs below it gaps, and the position would stand above the sequence, which
 *      is what a rewritten history looks like. So a read ends before such a row;
 *      the row is told, and read when the sequence has come to it. The sequence is
 *      looked at after the read: a seq that it gave out is never above it then.
 *      Seqs below 1 are never read.
 */
#ifndef POSTGRES_LOG_H
#define POSTGRES_LOG_H

#include "postgres/shared/cleanup.h"
#include "postgres/shared/cursor.h"
#include "postgres/poll_log/gaps.h"

enum log_statement {
    LOG_ENROL,       /* makes the cursor row */
    LOG_READ_CURSOR, /* before taking over */
    LOG_TAKE,        /* the epoch */
    LOG_READ,        /* no gaps, usual rows */
    LOG_READ_EXACT,  /* the same, and how large a payload is that is not sent */
    LOG_READ_GAPS,
    LOG_WRITERS,
    LOG_FINGERPRINT,
    LOG_FACTS,   /* positions of the write-ahead log, the sequence, whether any lane is parked */
    LOG_FLUSHED, /* how far the log is flushed */
    LOG_FORCE,   /* flushes it */
    LOG_LAST,    /* the sequence alone: the probe */
    LOG_SAVE,
    LOG_OLDEST, /* the oldest writer, for people */
    LOG_AHEAD,  /* how many rows are above the sequence, for people */
    LOG_STATEMENTS
};

/* The state that settling a batch saves; in its arena. */
struct log_mark {
    int64_t position, before; /* head after and before the read */
    struct bytes anchor, anchor_before;
    const struct gap *gaps; /* after the read; groups mean nothing here */
    size_t n_gaps;
    struct bytes text; /* of an intent: the gaps as they were saved; otherwise NULL */
};

struct log_fetch {
    struct pg_op *op; /* under way, or NULL */
    uint64_t no;      /* counts fetches */
    bool with_gaps, gaps_only;
    int64_t limit;
    int i_writers, i_read, i_facts; /* which result is what; -1: not asked */
    int64_t target_lsn;
    bool is_flushed, is_asking, needs_blocked, is_forced;
    int64_t wait_since_us, ask_us;
};

struct log_source {
    struct pg_statement st[LOG_STATEMENTS];
    struct pg_args args;
    struct pg_parked parked;

    struct pg_cursor cursor;
    int64_t head;
    struct strbuf anchor;
    struct gap_set gaps;
    int64_t last_value; /* of the sequence, when it was last looked at */
    int64_t mark;       /* -1: none */
    uint64_t mark_fetch_no;
    struct log_fetch fetch;
    struct bounded_read read;

    int64_t look_us, look_gap_us;
    bool is_probing, is_pulsing;
    int64_t pulse_us;
    size_t n_out;            /* batches that were read and are not settled as a whole */
    bool has_forgotten_gaps; /* and no batch will save that */
    bool is_crowded;         /* above max_gaps */
    int64_t crowded_told_us;
    int64_t ahead_us;             /* when to count rows above the sequence again */
    int64_t ahead_n, ahead_first; /* as told last */
    struct pg_cleaner cleaner;
};

static inline struct log_source *log_of(struct pg_source *s)
{
    return s->layout_data[PG_LAYOUT_LOG];
}

/* log.c */
int outrider__pg_log_fail_history(struct pg_source *s, const char *what,
                                  struct outrider_error *err);
/* Something happened: look again soon. */
void outrider__pg_log_look_soon(struct pg_source *s);
int outrider__pg_log_check_fingerprint(struct pg_source *s, const PGresult *r,
                                       struct outrider_error *err);

/* poll_log/fetch.c */
int outrider__pg_log_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
/* Goes on waiting for the flush. */
int outrider__pg_log_fetch_tick(struct pg_source *s, struct outrider_error *err);

/* poll_log/settle.c */
int outrider__pg_log_settle(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
/* Exactly once: see struct pg_layout. */
int outrider__pg_log_own_write(struct pg_source *s, const struct batch *b, struct strbuf *out,
                               struct outrider_error *err);
int outrider__pg_log_own_read(struct pg_source *s, struct batch *b, struct bytes own,
                              struct outrider_error *err);
/* What was forgotten without a batch to save it with. Legal while n_out is 0. */
int outrider__pg_log_save_gaps(struct pg_source *s, struct outrider_error *err);
int outrider__pg_log_cleanup(struct pg_source *s, struct pg_op *op, struct outrider_error *err);

#endif
