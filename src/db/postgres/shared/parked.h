/* SPDX-License-Identifier: MIT */
/*
 * The table outrider_parked, for every layout: events that failed, those that
 * queue behind them, and dead letters.
 *
 *  (1) Rows of a lane leave in the order of `arrival`. The first live row of a
 *      lane is 'parked' with the time of its next attempt, those behind it are
 *      'queued' without one; 'dead' rows count as live only under on_dead: block.
 *  (2) Everything is set-based: a fixed number of statements per batch, added
 *      to a request of the caller's, so that cursor and parked rows change in
 *      one transaction.
 *  (3) The caller's request must begin with a statement that fails when the
 *      epoch is not ours any more.
 *  (4) lane, aggregate_type, aggregate_id, event_type, headers, topic and
 *      partition_key are text columns, and an event's values are bytes: what
 *      is no text, or begins with "\x", is stored as "\x" and hex digits
 *      (base/hex.h). A lane has one form only: text as it is wherever that
 *      can be. The others may be hex although they are text.
 */
#ifndef POSTGRES_PARKED_H
#define POSTGRES_PARKED_H

#include "postgres/wire/catalog.h"
#include "postgres/wire/conn.h"
#include "core/config.h"
#include "core/source.h"

enum pg_parked_statement {
    PARKED_INSERT,
    PARKED_REMOVE,
    PARKED_UPDATE,
    PARKED_MEND,
    PARKED_DUE,
    PARKED_ANY, /* has the pipeline any live row? Also a part of other statements */
    PARKED_BLOCKED,
    PARKED_FETCH,
    PARKED_STATEMENTS
};

struct pg_parked {
    const struct pipeline_config *config;
    char outbox[PG_NAME_MAX]; /* value of the column outbox */
    struct pg_statement st[PARKED_STATEMENTS];
    char *sql[PARKED_STATEMENTS]; /* owned */
    struct pg_args args;
    bool sends_values; /* events are copied from memory, not from the outbox */
};

/*
 * copy_sql: how a row of the outbox becomes a copy. A SELECT list of
 * id, aggregate_type, aggregate_id, event_type (text), payload (bytea), headers
 * (text), topic, partition_key (text), partition (int4), occurred_at,
 * created_at, expires_at (timestamptz) and a FROM clause with the outbox as
 * `o`, joined to the input `u` ON its key: u.seq (int8) and u.id (text) are
 * there. Example:
 *   " o.id::text, ..., o.expires_at FROM u JOIN public.outbox o ON o.seq = u.seq"
 * NULL: the events' own values are sent, for rows that may be gone already (or
 * never were). Then whole_sql is a SELECT of id, aggregate_type, aggregate_id,
 * event_type, payload (bytea), headers, topic and partition_key, so named: the row
 * of the outbox where u.is_cut = 1, which is where some of it was too large to be read.
 */
int outrider__pg_parked_init(struct pg_parked *p, const struct pg_catalog *cat,
                             const struct pipeline_config *config, const char *copy_sql,
                             const char *whole_sql, struct outrider_error *err);
void outrider__pg_parked_release(struct pg_parked *p);

/* Adds what the outcomes of events[0..n) ask for to the open request: for new
 * events inserts of parked, queued and dead ones; for parked ones updates and
 * removals. Returns how many statements were added, the last of which (if any)
 * mends the lanes' states; negative on error. */
int outrider__pg_parked_settle(struct pg_parked *p, struct pg_conn *c, const struct event *events,
                               size_t n, bool is_parked, int64_t now_us,
                               struct outrider_error *err);

/* Adds: mends every lane, where on_dead is another than before. */
int outrider__pg_parked_add_mend(struct pg_parked *p, struct pg_conn *c, int64_t now_us,
                                 struct outrider_error *err);

/* Adds: when is the next lane due? Result: one row, one timestamptz or NULL. */
int outrider__pg_parked_add_due(struct pg_parked *p, struct pg_conn *c, struct outrider_error *err);
int64_t outrider__pg_parked_due_us(const PGresult *r);

/* Adds: has the pipeline any live parked row? Result: one bool. */
int outrider__pg_parked_add_any(struct pg_parked *p, struct pg_conn *c, struct outrider_error *err);
/* Adds: which lanes of the batch have live rows? apply() sets is_blocked. */
int outrider__pg_parked_add_blocked(struct pg_parked *p, struct pg_conn *c, const struct batch *b,
                                    struct outrider_error *err);
int outrider__pg_parked_apply_blocked(struct batch *b, const PGresult *r,
                                      struct outrider_error *err);

/* Adds the fetch of due lanes; fill() copies the result into the batch. */
int outrider__pg_parked_add_fetch(struct pg_parked *p, struct pg_conn *c, const struct batch *b,
                                  int64_t now_us, struct outrider_error *err);
int outrider__pg_parked_fill(const struct pipeline_config *config, struct batch *b,
                             const PGresult *r, struct outrider_error *err);

#endif
