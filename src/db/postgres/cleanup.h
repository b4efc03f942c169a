/* SPDX-License-Identifier: MIT */
/*
 * Removing what is settled from a log, for the relay and for the command.
 *
 *  (1) A row goes only if its seq is below the position of every pipeline of
 *      the outbox, outside all of their saved gaps, and no anchor. created_at
 *      is when its transaction began: it says how old a row is, and nothing of
 *      its being settled.
 *  (2) A partition goes only if that holds for every row in it, checked under
 *      a lock that no writer can pass; the lock is not waited for.
 */
#ifndef POSTGRES_CLEANUP_H
#define POSTGRES_CLEANUP_H

#include "base/strbuf.h"
#include "catalog.h"

/* Arguments: 1 the outbox's name, 2 the cutoff (timestamptz), 3 how many (int8). */
void outrider__pg_cleanup_sql(struct strbuf *sql, const struct pg_catalog *cat);
/* Partitions, where cat->has_upkeep. Argument: the cutoff. Result: how many
 * events went with those that were dropped. */
void outrider__pg_upkeep_sql(struct strbuf *sql, const struct pg_catalog *cat);

#endif
