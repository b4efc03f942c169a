/* SPDX-License-Identifier: MIT */
/*
 * What the client library (outrider_init_sqlite, outrider_enqueue_sqlite) and
 * the adapters (source, store) share.
 */
#ifndef SQLITE_CLIENT_H
#define SQLITE_CLIENT_H

#include <sqlite3.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "outrider/event.h"

#define SQLITE_SCHEMA_VERSION 1

/* client_error.c */

/* What SQLite said, as one of our codes with its disposition; `what` says what
 * was being done ("cannot read the outbox"). Returns -1. */
int outrider__sqlite_fail(struct outrider_error *err, sqlite3 *db, int rc, const char *what);
/* BUSY and LOCKED in all their forms: waiting may help. */
bool outrider__sqlite_is_busy(int rc);
int outrider__sqlite_exec(sqlite3 *db, const char *sql, const char *what,
                          struct outrider_error *err);
/* The database's file for messages, or "the database". */
const char *outrider__sqlite_name(sqlite3 *db);
/* One integer from a statement without parameters; NULL or no row gives `otherwise`. */
int outrider__sqlite_int(sqlite3 *db, const char *sql, int64_t otherwise, int64_t *ret_value,
                         struct outrider_error *err);

/* client_schema.c */

enum sqlite_payload { SQLITE_PAYLOAD_JSON, SQLITE_PAYLOAD_TEXT, SQLITE_PAYLOAD_BLOB };

struct sqlite_init {
    enum sqlite_payload payload;
    bool inbox;
    bool dry_run;
    struct strbuf *sql; /* receives the statements, or NULL */
};

/* Makes what is missing and upgrades what is old, in one transaction. */
int outrider__sqlite_init(sqlite3 *db, const struct sqlite_init *init, struct outrider_error *err);
/* Version of the schema in the database; 0 where there is none. */
int outrider__sqlite_version(sqlite3 *db, int64_t *ret_version, struct outrider_error *err);
/* Whether the database can be relayed from as it is; otherwise the error says
 * what is missing and how to get it. */
int outrider__sqlite_check(sqlite3 *db, struct outrider_error *err);
bool outrider__sqlite_has_table(sqlite3 *db, const char *table);
bool outrider__sqlite_has_column(sqlite3 *db, const char *table, const char *column);

#endif
