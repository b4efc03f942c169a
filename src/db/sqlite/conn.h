/* SPDX-License-Identifier: MIT */
/* What source and store share: connections, the pipeline's lock, rows. */
#ifndef SQLITE_CONN_H
#define SQLITE_CONN_H

#include "client.h"
#include "core/config.h"
#include "core/event.h"

/* conn.c */

/* The path in the pipeline's source URL: allocated. */
int outrider__sqlite_path(const struct pipeline_config *config, char **ret_path,
                          struct outrider_error *err);
/* Opens an existing file for reading and writing; never makes one, unless
 * may_create. *ret_real is the path without symbolic links: allocated. */
int outrider__sqlite_open(const char *path, bool may_create, sqlite3 **ret_db, char **ret_real,
                          struct outrider_error *err);

/* lock.c */

/*
 * One relay is active per pipeline: a lock on a file beside the database. It
 * belongs to the open file, not to the process, so that two pipelines of one
 * process exclude each other like any two. The file is never removed: whoever
 * waited on a removed one would hold a lock that nobody else sees.
 */
struct sqlite_lock {
    int fd; /* -1: not held */
};

enum lock_result { LOCK_HELD, LOCK_BUSY, LOCK_FAILED };

/* Does not wait. On LOCK_BUSY ret_holder says who has it. */
enum lock_result outrider__sqlite_lock(struct sqlite_lock *l, const char *db_path,
                                       const char *pipeline, char *ret_holder, size_t size,
                                       struct outrider_error *err);
void outrider__sqlite_unlock(struct sqlite_lock *l);
/* Whether somebody holds it, and who. */
bool outrider__sqlite_lock_is_held(const char *db_path, const char *pipeline, char *ret_holder,
                                   size_t size);

/* statement.c */

/* What the words of source.sql and store.sql depend on. */
struct sqlite_words {
    bool dead_are_live; /* on_dead: block, so a dead letter holds its lane up */
    bool is_new;        /* of status: no relay has run yet */
};

/* Makes a statement of a block; words: NULL is neither. A result code. */
int outrider__sqlite_prepare(sqlite3 *db, const char *block, const struct sqlite_words *words,
                             unsigned flags, sqlite3_stmt **ret_st);

/* row.c */

#define EVENT_COLUMN_COUNT 13 /* of @event@; further columns of a statement follow from here */

/* Events of one minute share most of their timestamp's text. */
struct row_clock {
    char minute[17]; /* "2026-01-02T03:04:" */
    int64_t us;
};

/* Adds the row with the columns of @event@ to the batch, which has room. */
int outrider__sqlite_row(sqlite3_value **v, struct batch *b, const struct event_bounds *max,
                         struct row_clock *clock, struct event **ret_event,
                         struct outrider_error *err);
/* The same for the row that a statement stands on. */
int outrider__sqlite_row_of(sqlite3_stmt *st, struct batch *b, const struct event_bounds *max,
                            struct row_clock *clock, struct event **ret_event,
                            struct outrider_error *err);

#endif
