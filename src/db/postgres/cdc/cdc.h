/* SPDX-License-Identifier: MIT */
/*
 * Mode cdc: the outbox read from the server's write-ahead log. Its three parts have
 * headers with contracts of their own, and do not know of each other:
 *
 *   maker.h   makes a replication slot
 *   stream.h  reads the slot's stream and confirms it
 *   move.h    leads a pipeline from polling to the stream, and back
 *
 * cdc.c holds the life of the layout and its operations, setup.c what must be there (rights,
 * publication, slot), publication.c whether the publication stayed as it was, tables.h which
 * tables are read (own.c, mapped.c), sweep.c and snapshot.c the rows from before the slot,
 * settle.c what is written. Nobody outside cdc/ includes this.
 *
 *  (1) A transaction is in the stream if and only if it is not in the snapshot
 *      that the slot exported when it was made: those seqs that polling had not
 *      settled by then are `sweep`, and are read first, from the table.
 *  (2) What polling settled beyond that snapshot comes again in the stream and
 *      is left out there: seqs up to polled.high and not in polled.rest, of commits
 *      before the position at which polling ended. A later commit was never polled,
 *      whatever its seq: TRUNCATE ... RESTART IDENTITY and setval() hand seqs out
 *      again.
 *  (3) Of the stream, everything up to the place that the cursor holds is settled. The
 *      server sends whole transactions, from the last confirmed commit on; what
 *      is settled of them is left out.
 *  (4) A position is confirmed only when every event committed up to it is
 *      settled: the cursor is saved first, then the server is told.
 *  (5) No transaction is ever held in memory: with protocol version 1 the
 *      server sends one only when it is committed, so its events can be handed
 *      on one by one; reading stops when the engine has no room.
 *  (6) Until the sweep is planned and saved the mode in the cursor is `poll`,
 *      and a slot that is found then is dropped: nobody knows what it misses.
 *  (7) Tables that are not our log are read by their column maps. Then (1) and
 *      (2) hold by ids instead of seqs: the sweep is read in the snapshot itself,
 *      to its end before (6) is recorded, and what polling settled at the end is
 *      remembered in memory (common/late_ids.h). One cursor row, the first table's, is
 *      the pipeline's; those of its other tables have the mode `member`.
 *  (8) With existing_rows: skip, a pipeline that never settled anything goes the way
 *      of (7) with no row to read: nothing is polled meanwhile, and it has begun once
 *      (6) is recorded.
 *  (9) The stream has all events only as long as the publication has the tables by the
 *      same rows of the catalogue as before the slot was made. No transaction is
 *      recorded as settled, and no polling begins, by a snapshot that shows others.
 */
#ifndef POSTGRES_CDC_H
#define POSTGRES_CDC_H

#include "postgres/cdc/maker.h"
#include "postgres/cdc/move.h"
#include "postgres/cdc/slot.h"
#include "postgres/cdc/stream.h"
#include "postgres/cdc/tables.h"
#include "postgres/shared/cleanup.h"
#include "postgres/shared/cursor.h"

enum cdc_statement {
    CDC_ENROL,
    CDC_READ_CURSOR,
    CDC_NAMES,
    CDC_FACTS,
    CDC_DROP_SLOT,
    CDC_TAKE,
    CDC_SAVE,
    CDC_READ_ROWS, /* of the sweep */
    CDC_POSITION,  /* of the log, with a message behind it that the stream will reach */
    CDC_PULSE,
    CDC_PUBLISHED, /* whether the publication is as it was */
    CDC_SAVE_PUBLISHED,
    CDC_PLAN_SWEEP,
    CDC_PLAN_POLL,
    CDC_SAVE_CDC,
    CDC_SAVE_MAPPED,
    CDC_SAVE_SKIPPED,
    CDC_GATHER, /* parked rows of all tables under the first one's name */
    CDC_SAVE_LEAVING,
    CDC_SAVE_POLL,
    CDC_BLOCKER, /* which transaction the server waits for with a slot */
    CDC_END_READER,
    CDC_END_MAKER,
    CDC_SETTLED, /* transactions, all */
    CDC_VISIBLE, /* waits until they are */
    CDC_STATEMENTS
};

/* Where the last settled event of a batch stands. */
struct cdc_point {
    uint64_t commit_lsn;
    int64_t number;
    uint32_t xid;
};

/* What CDC_POSITION answers with. */
enum position_column { POSITION_LSN, POSITION_MESSAGE, POSITION_XMIN, POSITION_IS_UNCHANGED };

#define CDC_FAILOVER_SINCE 170000 /* the server's version */

/* What CDC_FACTS answers with. */
enum facts_column {
    FACTS_WAL_LEVEL,
    FACTS_USER,
    FACTS_MAY_REPLICATE,
    FACTS_MAY_PUBLISH,
    FACTS_SENDER_TIMEOUT,
    FACTS_MAX_SLOTS,
    FACTS_N_SLOTS,
    FACTS_MAX_SENDERS,
    FACTS_N_SENDERS,
    FACTS_HAS_PUBLICATION,
    FACTS_PUBLICATION_FITS,
    FACTS_IS_FILTERED,
    FACTS_HAS_SLOT,
    FACTS_IS_ELSEWHERE,
    FACTS_SLOT_DATABASE,
    FACTS_IS_FOREIGN,
    FACTS_IS_LOST,
    FACTS_SLOT_PID,
    FACTS_IS_BINARY,
    FACTS_HAS_FAILOVER,
    FACTS_IS_PUBLISHED,
    FACTS_TOKENS /* the rows of the publication as they are now */
};

struct cdc_facts {
    char wal_level[16];
    char user[64]; /* quoted */
    bool may_replicate, may_publish;
    int64_t sender_timeout_us, max_slots, n_slots, max_senders, n_senders;
    bool has_publication, publication_fits, is_filtered;
    bool has_slot, is_elsewhere, is_lost, is_foreign;
    char slot_database[64];
    int64_t slot_pid;
    bool is_binary;
    bool has_failover; /* the slot is kept on standbys */
    bool is_published; /* by the rows that the cursor records */
};

/* sweep.c: the rows of our own log from before the slot. */
struct cdc_sweep {
    struct seq_ranges ranges;
    int64_t read_to;
    struct bounded_read read;
};

enum snapshot_question { SNAPSHOT_NOTHING, SNAPSHOT_ROWS, SNAPSHOT_LARGE_ROW };

/* snapshot.c: the rows of other tables from before the slot. */
struct cdc_snapshot {
    size_t at; /* the table */
    bool is_declared;
    enum snapshot_question asked; /* the answer is awaited */
    int limit;                    /* rows that were asked for */
    PGresult *rows;
    int row;
    bool is_over; /* all is settled, and that is being saved */
};

/* SOURCE_MARK: everything committed before this position is wanted. */
struct cdc_goal {
    struct pg_op *op; /* waits for the stream */
    uint64_t lsn;     /* 0: none */
    int64_t deadline_us;
};

/* outrider_cursor.settled_xid: all transactions below an xid are settled once a position is
 * confirmed. */
struct cdc_settled {
    int64_t xid; /* noted, with the log's position and n_settled of then; 0: none is */
    uint64_t lsn;
    int64_t n_settled;
    int64_t saved_xid, saved_us, saved_n_settled;
    int saves_left;
};

/* The same at an end that is in order, without waiting for pulses. */
struct cdc_rest {
    enum { REST_NONE, REST_ASKED, REST_NOTED, REST_SAVING, REST_DONE } state;
    int64_t xid;
    uint64_t lsn;
};

struct cdc_source {
    struct cdc_move move;
    struct slot_maker maker;
    struct cdc_stream stream;
    struct cdc_tables tables;
    struct cdc_facts facts;
    struct cdc_sweep sweep;
    struct cdc_snapshot snapshot;
    struct cdc_goal goal;
    struct cdc_settled settled;
    struct cdc_rest rest;
    struct pg_op *fetch_op; /* the FETCH under way: rows or lanes are awaited */

    char slot[64], publication[64];
    char *published;  /* owned: the array that the cursor has or will have of the publication */
    bool must_record; /* the cursor is of a version that had none */
    bool owns_slot;   /* the cursor records the slot */

    struct pg_statement st[CDC_STATEMENTS];
    struct pg_args args;
    struct pg_parked parked;
    struct pg_cursor cursor;
    struct pg_cleaner cleaner;
    bool is_other_policy;
    bool has_parked;         /* some lane may be blocked */
    uint64_t n_parkings;     /* settles that parked something */
    uint64_t pulse_parkings; /* the same when the pulse was sent */
    bool is_pulsing;
    int64_t pulse_us;
};

static inline struct cdc_source *cdc_of(struct pg_source *s)
{
    return s->layout_data[PG_LAYOUT_CDC];
}

/* cdc.c */
/* Reads the cursor and the facts (again). */
int outrider__cdc_restart(struct pg_source *s, struct outrider_error *err);

/* Under the epoch that was read, or that polling had. */
int outrider__cdc_take_over(struct pg_source *s, struct outrider_error *err);

/* Keeps the session alive, sees what operators did, and what was altered. */
int outrider__cdc_pulse(struct pg_source *s, struct outrider_error *err);

/* The batch is filled: its lanes are looked up if need be, then the FETCH is done. */
int outrider__cdc_finish_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err);

/* cdc/sql.c */
/* after_publish: delete on our own log. */
int outrider__cdc_own_delete(struct pg_source *s, struct pg_statement *ret,
                             struct outrider_error *err);
int outrider__cdc_prepare_sql(struct pg_source *s, struct outrider_error *err);

/* cdc/publication.c */
/* The array that the cursor records, and whether the publication still has the tables by it. */
int outrider__cdc_published_read(struct pg_source *s, const char *recorded,
                                 struct outrider_error *err);
/* A cursor that records nothing yet: as it is now. */
int outrider__cdc_published_first(struct pg_source *s, const char *now, struct outrider_error *err);
/* Arguments $1 to $3 of CDC_PUBLISHED, CDC_PULSE and CDC_POSITION. */
void outrider__cdc_published_args(const struct pg_source *s, struct pg_args *a);
/* STOP where the stream may lack something, RETRY where it has not begun. */
int outrider__cdc_fail_published(const struct pg_source *s, struct outrider_error *err);
/* Before a slot is made: asks what is to be recorded, and takes the answer. */
int outrider__cdc_published_ask(struct pg_source *s, struct outrider_error *err);
int outrider__cdc_published_answer(struct pg_source *s, struct outrider_error *err);

/* cdc/setup.c */
void outrider__cdc_read_facts(struct cdc_facts *f, const PGresult *r);
int outrider__cdc_check_facts(const struct pg_source *s, struct outrider_error *err);
int outrider__cdc_check_slot(const struct pg_source *s, struct outrider_error *err);

/* cdc/sweep.c */
int outrider__cdc_sweep_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err);

/* Goes on to the stream when all rows are settled. */
void outrider__cdc_sweep_tick(struct pg_source *s);

/* cdc/snapshot.c */
/* The cursor says that the pipeline is in mode cdc. */
int outrider__cdc_snapshot_on_saved(void *ctx, PGresult **results, int n,
                                    struct outrider_error *err);
int outrider__cdc_snapshot_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
int outrider__cdc_snapshot_tick(struct pg_source *s, struct outrider_error *err);

/* cdc/settle.c */
int outrider__cdc_settle(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
/* Which transactions are settled: notes what the pulse saw, saves it when it holds. */
int outrider__cdc_note_settled(struct pg_source *s, int64_t xid, uint64_t lsn,
                               struct outrider_error *err);
/* Before an end: saves which transactions are settled now; nobody notes it later. */
int outrider__cdc_rest_tick(struct pg_source *s, struct outrider_error *err);
/* Exactly once: see struct pg_layout. */
int outrider__cdc_own_write(struct pg_source *s, const struct batch *b, struct strbuf *out,
                            struct outrider_error *err);
int outrider__cdc_own_read(struct pg_source *s, struct batch *b, struct bytes own,
                           struct outrider_error *err);

#endif
