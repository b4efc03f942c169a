/* SPDX-License-Identifier: MIT */
/*
 * The inbox on an application's own connection.
 *
 *  (1) Of two transactions that mark the same event at most one commits: the
 *      primary key makes the later one wait for the earlier one's end.
 *  (2) Nothing here begins, commits or rolls back, and no state stays behind.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/event_check.h"
#include "client.sql.h"
#include "outrider/postgres.h"
#include "schema_inbox.sql.h"

static const char sql_first_insert[] =
    "INSERT INTO outrider_inbox (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
static const char sql_check[] = "SELECT FROM outrider_inbox WHERE consumer = $1 AND event_id = $2";
static const char sql_mark[] = "INSERT INTO outrider_inbox (consumer, event_id) VALUES ($1, $2)";

static int fail_inbox(PGconn *conn, const PGresult *res, struct outrider_error *err)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    int rc = 0;
    if (state != NULL && strcmp(state, "42P01") == 0)
        rc = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                            "the search path has no table outrider_inbox; call "
                            "outrider_inbox_init_pg() or run `outrider init --inbox`");
    else if (state != NULL && strcmp(state, "23505") == 0)
        rc = outrider__fail(err, OUTRIDER_DUPLICATE, OUTRIDER_DEAD,
                            "inbox: the event was handled by another transaction meanwhile; roll "
                            "back and only acknowledge it");
    else
        return outrider__pg_fail(err, conn, res, "cannot use the inbox");
    outrider__error_origin(err, state);
    return rc;
}

/* How many rows were found or changed, or -1. */
static int client_inbox_run(PGconn *conn, const char *sql, int n, const char *const *values,
                            bool is_query, struct outrider_error *err)
{
    PGresult *res = PQexecParams(conn, sql, n, NULL, values, NULL, NULL, 0);
    bool ok = PQresultStatus(res) == (is_query ? PGRES_TUPLES_OK : PGRES_COMMAND_OK);
    int rows = ok ? (int)strtol(PQcmdTuples(res), NULL, 10) : fail_inbox(conn, res, err);
    PQclear(res);
    return rows;
}

static int client_inbox_run_named(PGconn *conn, const char *sql, const char *consumer,
                                  const char *event_id, bool is_query, struct outrider_error *err)
{
    if (outrider__inbox_check_names(consumer, event_id, err) < 0 ||
        outrider__pg_check_idle(conn, !is_query, "the mark", err) < 0)
        return -1;
    return client_inbox_run(conn, sql, 2, (const char *const[]){consumer, event_id}, is_query, err);
}

int outrider_inbox_init_pg(PGconn *conn, struct outrider_error *err)
{
    if (outrider__pg_check_idle(conn, false, "", err) < 0)
        return -1;
    return client_inbox_run(conn, sql_schema_inbox, 0, NULL, false, err);
}

int outrider_inbox_pg(PGconn *conn, const char *consumer, const char *event_id,
                      struct outrider_error *err)
{
    int rows = client_inbox_run_named(conn, sql_first_insert, consumer, event_id, false, err);
    return rows < 0 ? -1 : rows == 1 ? OUTRIDER_INBOX_NEW : OUTRIDER_INBOX_SEEN;
}

int outrider_inbox_check_pg(PGconn *conn, const char *consumer, const char *event_id,
                            struct outrider_error *err)
{
    int rows = client_inbox_run_named(conn, sql_check, consumer, event_id, true, err);
    return rows < 0 ? -1 : rows == 0 ? OUTRIDER_INBOX_NEW : OUTRIDER_INBOX_SEEN;
}

int outrider_inbox_mark_pg(PGconn *conn, const char *consumer, const char *event_id,
                           struct outrider_error *err)
{
    return client_inbox_run_named(conn, sql_mark, consumer, event_id, false, err) < 0 ? -1 : 0;
}

int outrider_inbox_cleanup_pg(PGconn *conn, const char *consumer, int64_t before_us, size_t limit,
                              size_t *ret_removed, struct outrider_error *err)
{
    char before[CLOCK_TEXT_SIZE], most[24];
    if ((consumer != NULL && outrider__inbox_check_names(consumer, "any", err) < 0) ||
        outrider__pg_check_idle(conn, false, "", err) < 0)
        return -1;
    outrider__clock_format(before_us, before);
    (void)snprintf(most, sizeof most, "%zu", limit < INT32_MAX ? limit : INT32_MAX);
    int rows = client_inbox_run(conn, sql_inbox_cleanup, 3,
                                (const char *const[]){before, consumer, most}, false, err);
    if (rows < 0)
        return -1;
    if (ret_removed != NULL)
        *ret_removed = (size_t)rows;
    return 0;
}
