/* SPDX-License-Identifier: MIT */
/* SQLite as a source: for the contract suite, and for what only SQLite has. */
#ifndef TESTS_SQLITE_LAYOUT_H
#define TESTS_SQLITE_LAYOUT_H

#include "support/source_harness.h"
#include "support/sqlite_fixture.h"

/* The database that sqlite_log has set up. */
extern struct sqlite_fixture sqlite_shop;
extern const struct source_fixture sqlite_log;

#endif
