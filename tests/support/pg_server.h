/* SPDX-License-Identifier: MIT */
/*
 * A PostgreSQL server of a test's own: a cluster in a temporary directory that
 * listens on a Unix socket only, made on first use and removed at exit. Found
 * by OUTRIDER_PG_BINDIR, else the newest under /usr/lib/postgresql.
 */
#ifndef TESTS_PG_SERVER_H
#define TESTS_PG_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* False where there are no server programs: the tests are skipped then. */
bool pg_server_start(void);
/* A URL of the database, which is made anew if fresh. */
void pg_server_url(const char *database, bool fresh, char *ret_url, size_t size);
/* "-m immediate" and the like; starts it again. */
void pg_server_restart(const char *mode);
/* Runs psql with this SQL as the superuser; fails the test on an error. */
void pg_server_sql(const char *database, const char *sql);

#endif
