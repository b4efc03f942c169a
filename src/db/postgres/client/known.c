/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <libpq-events.h>
#include <stdlib.h>

#include "client.sql.h"

enum known_column { KNOWN_TYPE, KNOWN_ARRAY_TYPE };

/* Its address is also the key of the instance data. */
static int known_on_event(PGEventId id, void *info, void *ctx)
{
    (void)ctx;
    if (id == PGEVT_CONNDESTROY) {
        free(PQinstanceData(((PGEventConnDestroy *)info)->conn, known_on_event));
    } else if (id == PGEVT_CONNRESET) {
        struct pg_known *known = PQinstanceData(((PGEventConnReset *)info)->conn, known_on_event);
        if (known != NULL) {
            known->payload = 0;
            known->resets++;
        }
    }
    return 1;
}

struct pg_known *outrider__pg_known_kept(const PGconn *conn)
{
    return PQinstanceData(conn, known_on_event);
}

/* NULL only when there is no memory. */
static struct pg_known *known_keep(PGconn *conn)
{
    (void)PQregisterEventProc(conn, known_on_event, "outrider", NULL); /* 0: it is already */
    struct pg_known *known = calloc(1, sizeof *known);
    if (known == NULL || !PQsetInstanceData(conn, known_on_event, known)) {
        free(known);
        return NULL;
    }
    return known;
}

int outrider__pg_known(PGconn *conn, struct pg_known **ret_known, struct outrider_error *err)
{
    struct pg_known *known = outrider__pg_known_kept(conn);
    if (known == NULL)
        known = known_keep(conn);
    if (known == NULL)
        return outrider__fail_nomem(err);
    if (known->payload == 0) {
        PGresult *res = PQexec(conn, sql_known_payload);
        if (PQresultStatus(res) != PGRES_TUPLES_OK) {
            int rc = outrider__pg_fail(err, conn, res, "cannot insert the event");
            PQclear(res);
            return rc;
        }
        if (PQntuples(res) == 1) {
            known->payload = (Oid)strtoul(PQgetvalue(res, 0, KNOWN_TYPE), NULL, 10);
            known->payload_array = (Oid)strtoul(PQgetvalue(res, 0, KNOWN_ARRAY_TYPE), NULL, 10);
        }
        PQclear(res);
    }
    *ret_known = known;
    return 0;
}
