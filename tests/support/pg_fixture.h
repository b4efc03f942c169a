/* SPDX-License-Identifier: MIT */
/* A fresh database with an outbox, and how an application gets at it. */
#ifndef TESTS_PG_FIXTURE_H
#define TESTS_PG_FIXTURE_H

#include <libpq-fe.h>

#include "support/source_harness.h"

/* Sessions of an application; they stay open until the fixture is removed. */
PGconn *pg_fixture_session(int i);
/* Runs SQL in session i; fails the test on an error. */
void pg_fixture_sql(int i, const char *sql);
int64_t pg_fixture_value(int i, const char *sql);

/* A database for the sessions, made anew; and an outbox of this layout in it. */
const char *pg_fixture_database(const char *name);
void pg_fixture_init(const char *layout);
void pg_fixture_end_sessions(void);

extern const struct source_fixture pg_fixture;

#endif
