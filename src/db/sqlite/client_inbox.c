/* SPDX-License-Identifier: MIT */
/*
 * The inbox on an application's own connection.
 *
 *  (1) Of two transactions that mark the same event at most one commits: SQLite
 *      has one writer at a time, and refuses one that has read what another has
 *      changed since (SQLITE_BUSY_SNAPSHOT).
 *  (2) Nothing here begins, commits or rolls back, and no statement stays behind.
 */
#include "client.h"

#include "base/clock.h"
#include "base/event_check.h"
#include "client.sql.h"
#include "outrider/sqlite.h"
#include "schema_inbox.sql.h"

static const char sql_mark[] =
    "INSERT INTO main.outrider_inbox (consumer, event_id, processed_at) VALUES (?1, ?2, ?3)";
static const char sql_check[] =
    "SELECT 1 FROM main.outrider_inbox WHERE consumer = ?1 AND event_id = ?2";

static int inbox_fail(sqlite3 *db, int rc, struct outrider_error *err)
{
    if ((rc & 0xff) == SQLITE_ERROR && strstr(sqlite3_errmsg(db), "no such table") != NULL)
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "%s has no table outrider_inbox; call outrider_inbox_init_sqlite() "
                              "or run `outrider init --inbox`",
                              outrider__sqlite_name(db));
    if (rc == SQLITE_CONSTRAINT_PRIMARYKEY)
        return outrider__fail(err, OUTRIDER_DUPLICATE, OUTRIDER_DEAD,
                              "inbox: the event was handled by another transaction meanwhile; roll "
                              "back and only acknowledge it");
    return outrider__sqlite_fail(err, db, rc, "cannot use the inbox");
}

/* 1 with a row, 0 without, or -1. */
static int inbox_run(sqlite3 *db, const char *sql, const char *consumer, const char *event_id,
                     int64_t time_us, int64_t limit, struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (rc != SQLITE_OK)
        return inbox_fail(db, sqlite3_extended_errcode(db), err);
    int n = sqlite3_bind_parameter_count(st);
    (void)sqlite3_bind_text(st, 1, consumer, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 2, event_id, -1, SQLITE_STATIC);
    if (n >= 3)
        (void)sqlite3_bind_int64(st, 3, time_us);
    if (n >= 4)
        (void)sqlite3_bind_int64(st, 4, limit);
    rc = sqlite3_step(st);
    int result = rc == SQLITE_ROW ? 1 : 0;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        result = inbox_fail(db, sqlite3_extended_errcode(db), err);
    sqlite3_finalize(st);
    return result;
}

static int inbox_check(sqlite3 *db, bool needs_transaction, const char *consumer,
                       const char *event_id, struct outrider_error *err)
{
    if (db == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    if (outrider__inbox_check_names(consumer, event_id, err) < 0)
        return -1;
    if (needs_transaction && sqlite3_get_autocommit(db))
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "%s: no transaction is open: the mark would not share the fate of "
                              "the event's effect; BEGIN first",
                              outrider__sqlite_name(db));
    return 0;
}

int outrider_inbox_init_sqlite(sqlite3 *db, struct outrider_error *err)
{
    if (db == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    return outrider__sqlite_exec(db, sql_schema_inbox, "cannot make the inbox", err);
}

int outrider_inbox_mark_sqlite(sqlite3 *db, const char *consumer, const char *event_id,
                               struct outrider_error *err)
{
    if (inbox_check(db, true, consumer, event_id, err) < 0)
        return -1;
    return inbox_run(db, sql_mark, consumer, event_id, outrider__clock_now().wall_us, 0, err);
}

/* The mark comes first, so that the answer is given under the write lock. */
int outrider_inbox_sqlite(sqlite3 *db, const char *consumer, const char *event_id,
                          struct outrider_error *err)
{
    struct outrider_error why = {0};
    if (outrider_inbox_mark_sqlite(db, consumer, event_id, &why) == 0)
        return OUTRIDER_INBOX_NEW;
    if (why.code == OUTRIDER_DUPLICATE)
        return OUTRIDER_INBOX_SEEN;
    if (err != NULL)
        *err = why;
    return -1;
}

int outrider_inbox_check_sqlite(sqlite3 *db, const char *consumer, const char *event_id,
                                struct outrider_error *err)
{
    if (inbox_check(db, false, consumer, event_id, err) < 0)
        return -1;
    int found = inbox_run(db, sql_check, consumer, event_id, 0, 0, err);
    return found < 0 ? -1 : found ? OUTRIDER_INBOX_SEEN : OUTRIDER_INBOX_NEW;
}

int outrider_inbox_cleanup_sqlite(sqlite3 *db, const char *consumer, int64_t before_us,
                                  size_t limit, size_t *ret_removed, struct outrider_error *err)
{
    if (inbox_check(db, false, consumer != NULL ? consumer : "any", "any", err) < 0)
        return -1;
    int64_t most = limit < INT32_MAX ? (int64_t)limit : INT32_MAX;
    if (inbox_run(db, sql_inbox_cleanup, consumer, NULL, before_us, most, err) < 0)
        return -1;
    if (ret_removed != NULL)
        *ret_removed = (size_t)sqlite3_changes(db);
    return 0;
}
