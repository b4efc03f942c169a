/* SPDX-License-Identifier: MIT */
/*
 * Whether the tables of a pipeline, the outboxes and our own, show all their rows
 * to the relay, and whether the relay looks wherever rows can be:
 *
 *  (1) Row level security: a hidden row looks like a rolled back one, and would be
 *      given up. Every session of ours that reads these tables has row_security =
 *      off, so that the server refuses instead of hiding; the look here refuses
 *      before anything is published, and stops a relay that has nothing to read.
 *  (2) Inheritance children (not partitions) of a table that is read by position or
 *      from the stream: a writer into a child holds no lock that shows it as a
 *      writer of the outbox, and the stream does not have the child's rows.
 *  (3) Partitions that are unlogged (a crash empties these) or foreign (nobody sees
 *      who writes there), of such a table too.
 *  (4) A partition that is attached with rows in it is told: those at or below the
 *      position are not looked at, and the stream does not have them.
 *
 * The source looks when it starts and then every 2 seconds, between its other
 * requests; nothing waits for the answer.
 */
#ifndef POSTGRES_GUARD_H
#define POSTGRES_GUARD_H

#include "postgres/wire/conn.h"
#include "core/config.h"

struct pg_source;

struct pg_guard {
    struct pg_statement st_look, st_new;
    struct pg_args args;
    char *partitions; /* owned: of the first table, as they were last seen; NULL: never seen */
    int64_t due_us;
    bool is_busy;
    /* The answer to the look at the start. */
    int (*then)(struct pg_source *s, struct outrider_error *err);
};

extern const char *const outrider__pg_guard_sql;
void outrider__pg_guard_args(struct pg_args *a, const struct pipeline_config *config,
                             const char *companion_schema);
/* What that statement found: STOP with the reason. is_strict: (2) and (3) as well. */
int outrider__pg_guard_check(const PGresult *r, bool is_strict, struct outrider_error *err);

/* Looks, and calls then() if all is well. */
int outrider__pg_guard_begin(struct pg_source *s,
                             int (*then)(struct pg_source *s, struct outrider_error *err),
                             struct outrider_error *err);
/* Looks when it is time to. Called while active, after the layout's own tick. */
int outrider__pg_guard_tick(struct pg_source *s, struct outrider_error *err);
void outrider__pg_guard_release(struct pg_guard *g);

#endif
