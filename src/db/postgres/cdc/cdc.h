/* SPDX-License-Identifier: MIT */
/*
 * Mode cdc: the outbox read from the server's write-ahead log. cdc.c (its life
 * and its operations), cdc/setup.c (what must be there: rights, publication,
 * slot), cdc/publication.c (whether the publication stayed as it was), cdc/tables.c (which tables,
 * and their columns), cdc/move.c (from polling to the stream and back), cdc/sweep.c and
 * cdc/snapshot.c (rows from before the slot: of our log, of others), cdc/stream.c (the stream),
 * cdc/settle.c (writing). Nobody else includes this.
 *
 *  (1) A transaction is in the stream if and only if it is not in the snapshot
 *      that the slot exported when it was made: those seqs that polling had not
 *      settled by then are `sweep`, and are read first, from the table.
 *  (2) What polling settled beyond that snapshot comes again in the stream and
 *      is left out there: seqs up to `polled` and not in `unpolled`, of commits
 *      before `polled_lsn`, where polling ended. A later commit was never polled,
 *      whatever its seq: TRUNCATE ... RESTART IDENTITY and setval() hand seqs out
 *      again.
 *  (3) Of the stream, everything up to (done_lsn, done_number) is settled. The
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
 *      remembered in memory (cdc/late.c). One cursor row, the first table's, is
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

#include "postgres/cdc/decode.h"
#include "postgres/cdc/link.h"
#include "postgres/cdc/slot.h"
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
    CDC_MARK,
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
    CDC_WAITED_FOR,
    CDC_END_READER,
    CDC_END_MAKER,
    CDC_SETTLED, /* transactions, all */
    CDC_VISIBLE, /* waits until they are */
    CDC_STATEMENTS
};

enum cdc_phase {
    CDC_READING,  /* the cursor and the server's facts */
    CDC_POLLING,  /* the log layout delivers while the slot is made */
    CDC_STOPPING, /* the log layout's last batches */
    CDC_SWEEPING,
    CDC_STREAM,
    CDC_LEFT /* back to polling: the slot is dropped */
};

struct cdc_range {
    int64_t low, high; /* both included */
};

struct cdc_ranges {
    struct cdc_range *items; /* ascending */
    size_t n;
};

/* How far the events up to some ordinal number let the slot be confirmed. */
struct cdc_commit {
    int64_t event_no;
    uint64_t end_lsn;
};

#define CDC_COMMITS_MAX 8

/* Where the last settled event of a batch stands. */
struct cdc_point {
    uint64_t commit_lsn;
    int64_t number;
    uint32_t xid;
};

#define CDC_FAILOVER_SINCE 170000 /* the server's version */
#define CDC_FACTS_TOKENS 21       /* the column behind those of struct cdc_facts */

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

enum cdc_maker {
    MAKER_NONE,
    MAKER_CONNECTING,
    MAKER_LOOKING,  /* at the publication */
    MAKER_OPENING,  /* a transaction, which will have the slot's snapshot */
    MAKER_WAITING,  /* the server makes the slot */
    MAKER_PLANNING, /* its snapshot is being read */
    MAKER_DONE
};

/* Where the reading of the snapshot stands. */
struct cdc_snapshot {
    size_t at; /* the table */
    bool is_declared, is_asking, is_asking_large;
    int limit; /* rows that were asked for */
    PGresult *rows;
    int row;
};

struct cdc_source {
    enum cdc_phase phase;
    struct cdc_tables tables;
    const struct pg_layout *poller; /* delivers while the slot is made; NULL: nobody can */
    struct cdc_late late;
    struct cdc_snapshot snapshot;
    bool is_other_policy;
    char slot[64], publication[64];
    char *published;  /* owned: the array that the cursor has or will have of it */
    bool must_record; /* the cursor is of a version that had none */
    bool owns_slot;   /* the cursor records the slot */
    bool skips_rows;  /* it begins: existing_rows: skip */
    struct pg_statement st[CDC_STATEMENTS];
    char *sql[CDC_STATEMENTS];
    struct pg_args args;
    struct pg_parked parked;
    struct cdc_facts facts;
    bool is_leaving; /* mode poll is asked for */
    char mode[16];   /* as the cursor has it */

    struct pg_cursor cursor;
    bool has_parked;         /* some lane may be blocked */
    uint64_t n_parkings;     /* settles that parked something */
    uint64_t pulse_parkings; /* the same when the pulse was sent */
    bool is_pulsing;
    int64_t pulse_us;
    struct pg_op *mark_op; /* waits for the stream */
    uint64_t mark_lsn;     /* 0: none */
    int64_t mark_deadline_us;

    /* The slot that is being made. */
    enum cdc_maker making;
    struct cdc_link maker;
    struct pg_statement st_publication, st_begin, st_snapshot, st_commit;
    char *sql_publication, sql_snapshot[160];
    int64_t maker_pause_us, maker_retry_us; /* after it failed */
    bool has_given_up;                      /* --once: the slot did not come in time */
    uint64_t made_lsn;
    char *plan; /* sweep, or the gaps of polling */
    int64_t plan_position;
    char *plan_anchor;
    int64_t ask_us;
    bool is_asking, is_saving;
    int64_t told_pid, told_us;
    bool is_paused; /* the stream is not read while a temporary slot is made */
    int64_t pause_us, pause_until_us;

    /* Contract (1) and (2). */
    struct cdc_ranges sweep;
    int64_t swept; /* read up to here */
    bool sweep_was_large;
    int64_t polled;
    uint64_t polled_lsn;
    struct cdc_ranges unpolled;

    /* The stream. */
    struct cdc_link link;
    bool is_starting;
    int64_t retry_us; /* when to ask for the stream again */
    int64_t retry_since_us;
    struct cdc_decoder decoder;
    struct cdc_message held;
    bool has_held;
    uint64_t done_lsn;
    int64_t done_number;
    uint64_t stop_lsn; /* the stream is wanted up to here only; 0: for ever */
    bool is_stopped;   /* it was reached */
    uint64_t received_lsn, confirmed_lsn, told_lsn;
    int64_t n_fetched, n_settled; /* events of the stream */
    int64_t batch_floor;          /* n_fetched when the last batch was handed out */
    struct cdc_commit commits[CDC_COMMITS_MAX];
    size_t n_commits;
    int64_t status_us;  /* when to tell the server next */
    int64_t confirm_us; /* when a confirmation that frees log only may be told */
    bool must_reply, must_confirm;
    bool asked_alive;
    struct pg_op *fetch_op; /* waits for its lanes to be looked up, or for rows */
    bool is_filling;        /* it waits for more, until then */
    int64_t round_us, filling_until_us;
    struct pg_cleaner cleaner;

    /* All transactions below an xid are settled once a position is confirmed. */
    struct cdc_settled {
        int64_t xid; /* noted, with the log's position and n_settled of then; 0: none is */
        uint64_t lsn;
        int64_t n_settled;
        int64_t saved_xid, saved_us, saved_n_settled;
        int saves_left;
    } settled;

    /* The same at an end that is in order, without waiting for pulses. */
    struct cdc_rest {
        enum { REST_NONE, REST_ASKED, REST_NOTED, REST_SAVING, REST_DONE } state;
        int64_t xid;
        uint64_t lsn;
    } rest;
};

static inline struct cdc_source *cdc_of(struct pg_source *s)
{
    return s->cdc;
}

/* cdc.c */
int outrider__cdc_parse_ranges(const char *text, struct cdc_ranges *ret,
                               struct outrider_error *err);
void outrider__cdc_ranges_release(struct cdc_ranges *r);
bool outrider__cdc_ranges_hold(const struct cdc_ranges *r, int64_t seq);
/* Reads the cursor and the facts (again). */
int outrider__cdc_restart(struct pg_source *s, struct outrider_error *err);

/* Under the epoch that was read, or that polling had. */
int outrider__cdc_take_over(struct pg_source *s, struct outrider_error *err);

/* Keeps the session alive, sees what operators did, and what was altered. */
int outrider__cdc_pulse(struct pg_source *s, struct outrider_error *err);

/* cdc/sql.c */
int outrider__cdc_prepare_sql(struct pg_source *s, struct outrider_error *err);

/* cdc/publication.c */
/* The array that the cursor records, and whether the publication still has the tables by it. */
int outrider__cdc_published_read(struct pg_source *s, const char *recorded,
                                 struct outrider_error *err);
/* A cursor that records nothing yet: as it is now. */
int outrider__cdc_published_first(struct pg_source *s, const char *now, struct outrider_error *err);
/* Arguments $1 to $3 of CDC_PUBLISHED, CDC_PULSE and CDC_MARK. */
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

/* cdc/move.c */
/* Polling, while the slot is made. */
int outrider__cdc_polling_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
int outrider__cdc_polling_tick(struct pg_source *s, struct outrider_error *err);
int outrider__cdc_waiting_tick(struct pg_source *s, struct outrider_error *err);
/* Streaming, while the way back to polling is made. */
int outrider__cdc_leaving_tick(struct pg_source *s, struct outrider_error *err);
/* The pipeline has left: drops the slot, then hands over to the log layout. */
int outrider__cdc_left_tick(struct pg_source *s, struct outrider_error *err);
/* Drops a slot nobody knows the beginning of, then begins to poll. */
int outrider__cdc_begin_polling(struct pg_source *s, struct outrider_error *err);

/* cdc/sweep.c */
int outrider__cdc_sweep_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err);

/* cdc/snapshot.c */
int outrider__cdc_snapshot_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
int outrider__cdc_snapshot_tick(struct pg_source *s, struct outrider_error *err);

/* cdc/stream.c */
int outrider__cdc_stream_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
int outrider__cdc_stream_tick(struct pg_source *s, struct outrider_error *err);
void outrider__cdc_stream_settled(struct cdc_source *c, int64_t n);
bool outrider__cdc_is_all_settled(const struct cdc_source *c);
/* The batch is filled: its lanes are looked up if need be, then it is handed on. */
int outrider__cdc_hand_on(struct pg_source *s, struct pg_op *op, struct outrider_error *err);

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
