/* SPDX-License-Identifier: MIT */
/*
 * Layout `status`: the row carries its own state. poll_status/status.c (taking over,
 * the round of tables, leases), poll_status/sql.c (statements from the column
 * map), poll_status/fetch.c and poll_status/settle.c (one operation each),
 * poll_status/words.c
 * (words that are not known yet, and rows that no word covers).
 * Nobody else includes this.
 *
 *  (1) A batch holds rows of one table. Tables take turns.
 *  (2) One statement, one snapshot reads all that may be taken. In ordered mode
 *      that excludes every key of which an earlier row waits: failed and not
 *      due, dead where dead letters block, claimed by somebody else.
 *  (3) A claim is written where others can see and need it: relays that
 *      compete, and tables that are not ours but have a place for it. Otherwise
 *      the lock of the pipeline is the claim, and what is in flight is known in
 *      memory only.
 *  (4) Every outcome is written only to a row that is still ours: by owner and
 *      claim number where there are such columns, by state otherwise. The owner
 *      is another one for every batch, so that it tells claims apart even where
 *      nobody counts them. In ordered mode the epoch of the pipeline is checked
 *      in the same transaction.
 *  (5) Failed rows come back through the same door: when they are due they may
 *      be taken like any other, in order, those behind them with them. There
 *      are no parked batches.
 *      A mark without effect (a rule, a trigger that returns NULL) would let an event
 *      be published for ever: when that event comes a second time, it is an error.
 *  (6) What a table has no columns for (attempts, the next one's time, being
 *      dead) stands in outrider_parked, under the row's id.
 */
#ifndef POSTGRES_SOURCE_STATUS_H
#define POSTGRES_SOURCE_STATUS_H

#include "common/status_sql.h"
#include "postgres/table/reader.h"

#define STATUS_FLIGHTS_MAX 8
#define STATUS_OWNER_SIZE 224

struct status_table {
    struct outbox_table a;
    bool claims;    /* a claim is written */
    bool has_owner; /* and says whose it is */
    int64_t epoch;
    char *sql[ST_COUNT]; /* owned; NULL: nothing to do */
    struct pg_statement st[ST_COUNT];
    bool is_exhausted; /* nothing more was there when it was last read */
    struct bounded_read read;
    struct strbuf seen;      /* words that rows had when they were last looked at in vain */
    struct strbuf uncovered; /* what was told last of rows that no word covers */
    uint64_t n_uncovered;
};

/* A batch that is with the engine. */
struct status_flight {
    struct batch *batch; /* NULL: the slot is free */
    struct status_table *table;
    bool has_copies;  /* outrider_parked knows some of its rows */
    bool is_settling; /* the statements that settle the batch are sent */
    char owner[STATUS_OWNER_SIZE];
};

/* What a fetch returns behind an event's columns. */
enum status_column {
    STATUS_ATTEMPTS = EV_COLUMNS + STATUS_FETCH_ATTEMPTS,
    STATUS_CLAIM = EV_COLUMNS + STATUS_FETCH_CLAIM,
    STATUS_HAS_COPY = EV_COLUMNS + STATUS_FETCH_HAS_COPY
};

struct status_source {
    struct pg_source *s;
    struct arena arena;
    struct pg_args args;
    struct status_table *tables;
    size_t n_tables, next_table;
    struct status_flight flights[STATUS_FLIGHTS_MAX];
    struct status_flight fetching; /* the fetch under way */
    size_t n_tried;                /* tables that this fetch found empty */
    int64_t limit;                 /* rows it asked for */
    struct pg_op *fetch_op;
    bool competes;         /* no lock of the pipeline: many relays */
    bool must_lock;        /* ordered: false, but the table has no place for an owner */
    bool is_marked;        /* --once */
    bool is_before_mark;   /* the fetch under way was sent before the mark: it proves nothing */
    char owner_prefix[72]; /* how owners of this pipeline begin: "default@" */
    char host[80], nonce[12];
    uint64_t n_claims;
    int64_t look_us, look_gap_us;
    int64_t renew_us;
    bool is_renewing;
    int64_t words_us;   /* when to look for rows that no word covers */
    size_t words_table; /* the table that is looked at */
    bool is_looking;
    int64_t beat_us; /* when the server must hear of us at the latest */
    struct pg_statement st_session, st_flush, st_beat;
    struct table_reader reader;
    size_t taking; /* the table whose cursor row is being taken over */
};

static inline struct status_source *status_of(struct pg_source *s)
{
    return s->layout_data[PG_LAYOUT_STATUS];
}

/* poll_status/sql.c */
int outrider__pg_status_statements(struct status_source *d, struct status_table *t,
                                   struct outrider_error *err);
/* poll_status/fetch.c */
int outrider__pg_status_fetch(struct status_source *d, struct pg_op *op,
                              struct outrider_error *err);
/* Events that may still be taken under `concurrency`. */
int64_t outrider__pg_status_room(const struct status_source *d);
/* The table had nothing: the next one, or the end of this fetch. */
int outrider__pg_status_was_empty(struct status_source *d, struct outrider_error *err);
/* poll_status/words.c: the fetch of a table whose words are not known. */
int outrider__pg_status_learn(struct status_source *d, struct status_table *t,
                              struct outrider_error *err);
void outrider__pg_status_tell_waiting(const struct status_source *d);
/* Looks for rows that no word covers, when that is due, and tells them. */
int outrider__pg_status_watch_words(struct status_source *d, struct outrider_error *err);
/* poll_status/settle.c */
int outrider__pg_status_settle(struct status_source *d, struct pg_op *op,
                               struct outrider_error *err);
int outrider__pg_status_try(struct status_source *d, struct status_table *t,
                            struct outrider_error *err);
/* Exactly once: see struct pg_layout. */
int outrider__pg_status_own_write(struct pg_source *s, const struct batch *b, struct strbuf *out,
                                  struct outrider_error *err);
int outrider__pg_status_own_read(struct pg_source *s, struct batch *b, struct bytes own,
                                 struct outrider_error *err);
/* poll_status/status.c */
/* Makes the statements of a table whose map is known. */
int outrider__pg_status_prepare(struct status_source *d, struct status_table *t,
                                struct outrider_error *err);
/* What ST_TAKE takes. */
void outrider__pg_status_take_args(struct status_source *d, const struct status_table *t);
struct status_flight *outrider__pg_status_flight(struct status_source *d, const struct batch *b);
/* Look again soon; or, after an empty look, later than the last time. */
void outrider__pg_status_look_soon(struct status_source *d);
void outrider__pg_status_look_later(struct status_source *d);

extern const struct pg_layout outrider__pg_layout_status;

#endif
