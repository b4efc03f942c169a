/* SPDX-License-Identifier: MIT */
/*
 * Removing what is settled from a log, for the relay and for the command.
 *
 *  (1) A row goes only if no pipeline of the outbox needs it any more. Polling:
 *      its seq is below the position, outside all saved gaps, and no anchor. Mode
 *      cdc: it is not of the sweep, and its transaction is below settled_xid,
 *      which follows the slot's confirmed position. created_at is when its
 *      transaction began: it says how old a row is, and nothing of its being settled.
 *  (2) A partition goes only if that holds for every row in it, checked under
 *      a lock that no writer can pass; the lock is not waited for.
 */
#ifndef POSTGRES_CLEANUP_H
#define POSTGRES_CLEANUP_H

#include "base/strbuf.h"
#include "postgres/shared/source.h"

/* Whether pipeline k has not settled the row `row`, of which seq and xmin (as
 * int8) are there. Transaction numbers are compared as the server does, in a circle; those
 * of another cluster mean nothing. */
void outrider__pg_needs_sql(struct strbuf *sql, const struct pg_catalog *cat, const char *row);
/* Arguments: 1 the outbox's name, 2 the cutoff (timestamptz), 3 how many (int8). */
void outrider__pg_cleanup_sql(struct strbuf *sql, const struct pg_catalog *cat);
/* Partitions, where cat->has_upkeep. Argument: the cutoff. Result: how many
 * events went with those that were dropped. */
void outrider__pg_upkeep_sql(struct strbuf *sql, const struct pg_catalog *cat);

/* SOURCE_CLEANUP for a source whose outbox is a log. */
struct pg_cleaner {
    struct pg_statement rows;
    char *rows_sql; /* owned */
    struct pg_args args;
};

int outrider__pg_cleaner_init(struct pg_cleaner *k, const struct pg_catalog *cat,
                              struct outrider_error *err);
void outrider__pg_cleaner_release(struct pg_cleaner *k);
int outrider__pg_cleanup_start(struct pg_source *s, struct pg_cleaner *k, struct pg_op *op,
                               struct outrider_error *err);

#endif
