/* SPDX-License-Identifier: MIT */
/* A session on the application's own PGconn: see outrider/session.h. */
#include "base/session.h"

#include <string.h>

#include "client.h"
#include "outrider/postgres.h"

#define PAYLOAD_MAX 0x3fffffff

static int client_session_run(PGconn *conn, const char *sql, const char *what,
                              struct outrider_error *err)
{
    PGresult *res = PQexec(conn, sql);
    int r = 0;
    if (PQresultStatus(res) != PGRES_COMMAND_OK)
        r = outrider__pg_fail(err, conn, res, what);
    PQclear(res);
    return r;
}

static int client_session_pg_begin(void *conn, struct outrider_error *err)
{
    if (PQtransactionStatus(conn) == PQTRANS_INTRANS ||
        PQtransactionStatus(conn) == PQTRANS_INERROR)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "the connection has a transaction open that the session did not "
                              "begin; end it first");
    return client_session_run(conn, "BEGIN", "cannot begin a transaction", err);
}

static int client_session_pg_check(void *conn, enum outrider_completion *ret_how,
                                   struct outrider_error *err)
{
    switch (PQtransactionStatus(conn)) {
    case PQTRANS_INTRANS:
        return 0;
    case PQTRANS_INERROR:
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "a statement of the transaction has failed: it cannot commit, and "
                              "was rolled back");
    case PQTRANS_IDLE:
        *ret_how = OUTRIDER_UNKNOWN;
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "the transaction was ended by other means than the session; its "
                              "events were dropped");
    case PQTRANS_ACTIVE:
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "the connection had a query under way at the commit");
    default:
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "the connection is lost");
    }
}

static int client_session_pg_insert(void *conn, const struct outrider_event *events, size_t n,
                                    struct outrider_error *err)
{
    return outrider_enqueue_many_pg(conn, events, n, 0, NULL, err);
}

/* COMMIT of a failed transaction succeeds, and says ROLLBACK. Where no answer
 * came the server may have done either. */
static enum outrider_completion client_session_pg_commit(void *conn, struct outrider_error *err)
{
    PGresult *res = PQexec(conn, "COMMIT");
    enum outrider_completion how = OUTRIDER_COMMITTED;
    if (PQresultStatus(res) != PGRES_COMMAND_OK) {
        (void)outrider__pg_fail(err, conn, res, "cannot commit");
        how = PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_IDLE
                  ? OUTRIDER_ROLLED_BACK
                  : OUTRIDER_UNKNOWN;
    } else if (strcmp(PQcmdStatus(res), "COMMIT") != 0) {
        (void)outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                             "the transaction had failed, and was rolled back");
        how = OUTRIDER_ROLLED_BACK;
    }
    PQclear(res);
    return how;
}

static int client_session_pg_rollback(void *conn, struct outrider_error *err)
{
    if (PQtransactionStatus(conn) == PQTRANS_IDLE)
        return 0;
    return client_session_run(conn, "ROLLBACK", "cannot roll back", err);
}

static const struct session_ops pg_session_ops = {
    .database = "postgres",
    .begin = client_session_pg_begin,
    .check = client_session_pg_check,
    .insert = client_session_pg_insert,
    .commit = client_session_pg_commit,
    .rollback = client_session_pg_rollback,
};

int outrider_session_pg(struct pg_conn *conn, struct outrider_session **ret_session,
                        struct outrider_error *err)
{
    return outrider__session_new(conn, &pg_session_ops, PAYLOAD_MAX, ret_session, err);
}
