/* SPDX-License-Identifier: MIT */
/*
 * outrider_parked on PostgreSQL: the statements of common/parked.h as parts of the
 * caller's requests, so that cursor and parked rows change in one transaction.
 */
#ifndef POSTGRES_PARKED_H
#define POSTGRES_PARKED_H

#include "common/parked.h"
#include "postgres/wire/catalog.h"
#include "postgres/wire/conn.h"
#include "core/config.h"
#include "core/source.h"

struct pg_parked {
    const struct pipeline_config *config;
    char outbox[PG_NAME_MAX]; /* value of the column outbox */
    struct parked_sql text;
    struct pg_statement st[PARKED_STATEMENTS];
    struct pg_args args;
    bool sends_values; /* events are copied from memory, not from the outbox */
};

/* copy_sql, whole_sql: see struct parked_names. Example of copy_sql:
 *   " o.id::text, ..., o.expires_at FROM u JOIN public.outbox o ON o.seq = u.seq" */
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
