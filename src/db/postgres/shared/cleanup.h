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
#include "postgres/wire/statements.h"

/* Adds the words of cleanup_rows: @needed@, whether a pipeline needs a row. */
void outrider__pg_cleanup_words(struct pg_words *words);
/* SQL that keeps the partitions up, where cat->has_upkeep. $1 is the cutoff; the result is
 * how many events went with the partitions that were dropped. */
void outrider__pg_upkeep_sql(struct strbuf *sql, const struct pg_catalog *cat);

/* SOURCE_CLEANUP for a source whose outbox is a log. */
struct pg_cleaner {
    struct pg_statement rows;
    struct pg_args args;
};

int outrider__pg_cleaner_init(struct pg_cleaner *k, const struct pg_catalog *cat,
                              struct outrider_error *err);
void outrider__pg_cleaner_release(struct pg_cleaner *k);
int outrider__pg_cleanup_start(struct pg_source *s, struct pg_cleaner *k, struct pg_op *op,
                               struct outrider_error *err);

#endif
