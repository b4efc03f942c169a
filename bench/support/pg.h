/* SPDX-License-Identifier: MIT */
/*
 * A backlog of events in PostgreSQL, and other ways to read it: the least that
 * could be done, and what people do.
 */
#ifndef BENCH_PG_H
#define BENCH_PG_H

#include "support/latency.h"

#include <libpq-fe.h>

PGconn *pg_open(const char *url);
/* One or several statements whose results do not matter. */
void pg_run(PGconn *conn, const char *sql);
/* The first column of the first row, as a number. */
double pg_number(PGconn *conn, const char *sql);

/* The first n events into the table "outbox", then VACUUM: no reader finds work
 * that an earlier one has spared it. */
void pg_fill(const char *url, long n);

/* Seconds to read n events in batches of 1,000, as the relay does it (its
 * columns, prepared, binary), and to save a cursor after each. Nothing else. */
double pg_read_with_cursor(const char *url, long n);

/* For the next two: a table "queue" of n events whose rows have a status. */
void pg_make_queue(const char *url, long n);
/* Seconds to settle them 1,000 at a time: lock them and skip what is locked,
 * one UPDATE, commit. */
double pg_skip_locked(const char *url, long n);
/* Seconds to settle them as the usual tutorial does: SELECT 100, then an UPDATE
 * each, in a transaction of its own. */
double pg_one_by_one(const char *url, long n);

extern const struct latency_writer latency_into_postgres;

#endif
