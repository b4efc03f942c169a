/* SPDX-License-Identifier: MIT */
#include "client.h"

int outrider__pg_check_idle(const PGconn *conn, bool needs_transaction, const char *what,
                            struct outrider_error *err)
{
    if (conn == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "the connection is in pipeline mode; leave it first");
    switch (PQtransactionStatus(conn)) {
    case PQTRANS_INTRANS:
        return 0;
    case PQTRANS_IDLE:
        if (!needs_transaction)
            return 0;
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "no transaction is open: %s would not share the fate of the data it "
                              "tells of; BEGIN first",
                              what);
    case PQTRANS_INERROR:
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "the transaction has failed already; roll back");
    case PQTRANS_ACTIVE:
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "the connection has a query under way");
    default:
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "the connection is lost");
    }
}
