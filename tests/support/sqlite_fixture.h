/* SPDX-License-Identifier: MIT */
/* A fresh SQLite database with an outbox in a temporary directory, for tests. */
#ifndef TESTS_SQLITE_FIXTURE_H
#define TESTS_SQLITE_FIXTURE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outrider/event.h"

struct sqlite_fixture {
    char dir[64];
    char path[128]; /* of the database */
    char url[160];
    sqlite3 *db; /* an application's connection */
};

/* The directory and an open, empty database. */
void sqlite_fixture_make(struct sqlite_fixture *f);
/* And the outbox in it. */
void sqlite_fixture_init(struct sqlite_fixture *f);
void sqlite_fixture_remove(struct sqlite_fixture *f);

/* Fails the test if the statements fail. */
void sqlite_must(sqlite3 *db, const char *sql);
int64_t sqlite_value(sqlite3 *db, const char *sql);
/* The first column of the first row, in a buffer that the next call overwrites. */
const char *sqlite_text(sqlite3 *db, const char *sql);

#endif
