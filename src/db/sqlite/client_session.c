/* SPDX-License-Identifier: MIT */
/* A session on the application's own sqlite3: see outrider/session.h. */
#include "client.h"

#include "base/session.h"
#include "outrider/sqlite.h"

static int session_sq_begin(void *conn, struct outrider_error *err)
{
    if (!sqlite3_get_autocommit(conn))
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "%s: the connection has a transaction open that the session did not "
                              "begin; end it first",
                              outrider__sqlite_name(conn));
    return outrider__sqlite_exec(conn, "BEGIN IMMEDIATE", "cannot begin a transaction", err);
}

/* Some errors of a statement (no space, no memory) roll the whole transaction back. */
static int session_sq_check(void *conn, enum outrider_completion *ret_how,
                            struct outrider_error *err)
{
    if (!sqlite3_get_autocommit(conn))
        return 0;
    *ret_how = OUTRIDER_UNKNOWN;
    return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                          "%s: the transaction was ended by an error, or by other means than the "
                          "session; its events were dropped",
                          outrider__sqlite_name(conn));
}

static int session_sq_insert(void *conn, const struct outrider_event *events, size_t n,
                             struct outrider_error *err)
{
    return outrider_enqueue_many_sqlite(conn, events, n, 0, NULL, err);
}

static int session_sq_rollback(void *conn, struct outrider_error *err)
{
    if (sqlite3_get_autocommit(conn))
        return 0;
    return outrider__sqlite_exec(conn, "ROLLBACK", "cannot roll back", err);
}

/* A commit that others keep from happening would leave the transaction open. */
static enum outrider_completion session_sq_commit(void *conn, struct outrider_error *err)
{
    if (outrider__sqlite_exec(conn, "COMMIT", "cannot commit", err) == 0)
        return OUTRIDER_COMMITTED;
    return session_sq_rollback(conn, NULL) == 0 ? OUTRIDER_ROLLED_BACK : OUTRIDER_UNKNOWN;
}

static const struct session_ops sqlite_session_ops = {
    .database = "sqlite",
    .begin = session_sq_begin,
    .check = session_sq_check,
    .insert = session_sq_insert,
    .commit = session_sq_commit,
    .rollback = session_sq_rollback,
};

int outrider_session_sqlite(struct sqlite3 *db, struct outrider_session **ret_session,
                            struct outrider_error *err)
{
    return outrider__session_new(db, &sqlite_session_ops, SIZE_MAX, ret_session, err);
}
