/* SPDX-License-Identifier: MIT */
/*
 * Every way in which PostgreSQL is read, for the contract suite. Each fixture
 * keeps one database for all tests of a program and empties the database before
 * each test.
 */
#ifndef TESTS_PG_LAYOUTS_H
#define TESTS_PG_LAYOUTS_H

#include "support/source_harness.h"

extern const struct source_fixture pg_log;
extern const struct source_fixture pg_status;
/* Tables as applications have them (tests/support/seeds). In the first, a row has
 * columns for all that can happen to its event; in the second a row has a state, and
 * retries and dead letters are in outrider_parked. */
extern const struct source_fixture pg_adopted_states;
extern const struct source_fixture pg_adopted_mark;
/* Mode cdc, from the first event on in the stream. */
extern const struct source_fixture pg_cdc_log;
extern const struct source_fixture pg_cdc_table;

#endif
