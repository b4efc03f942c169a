/* SPDX-License-Identifier: MIT */
/*
 * An event into the outbox, on the application's own connection.
 *
 *  (1) The transaction stays the application's: nothing here begins, commits
 *      or rolls back. (A refused event fails the transaction, as any failed
 *      statement does; what can be refused beforehand is.)
 *  (2) Nothing of the session changes: one statement, unprepared. The type of
 *      the payload's column is asked for once and kept with the connection by
 *      libpq's own means (instance data).
 */
#include "client.h"

#include <libpq-events.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/event_check.h"
#include "base/uuid.h"
#include "outrider/postgres.h"

static const char sql_insert[] =
    "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic, "
    "partition_key, partition, occurred_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, "
    "$9, $10, $11)";
#define N_ARGS 11
#define TYPE_JSONB 3802
#define PAYLOAD_MAX 0x3fffffff

static const char sql_type[] =
    "SELECT coalesce((SELECT atttypid FROM pg_attribute WHERE attrelid = to_regclass('outbox') AND "
    "attname = 'payload' AND NOT attisdropped), 0)";

static int check_transaction(const PGconn *conn, unsigned flags, struct outrider_error *err)
{
    switch (PQtransactionStatus(conn)) {
    case PQTRANS_INTRANS:
        return 0;
    case PQTRANS_IDLE:
        if ((flags & OUTRIDER_ENQUEUE_AUTOCOMMIT) != 0)
            return 0;
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "no transaction is open: the event would not share the fate of the "
                              "data it tells of; BEGIN first");
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

static bool is_ours(const PGresult *res, const char *constraint)
{
    const char *name = PQresultErrorField(res, PG_DIAG_CONSTRAINT_NAME);
    return name != NULL && strcmp(name, constraint) == 0;
}

static int fail_insert(PGconn *conn, const PGresult *res, struct outrider_error *err)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    if (state == NULL)
        return outrider__pg_fail(err, conn, res, "cannot insert the event");
    int rc = 0;
    if (strcmp(state, "42P01") == 0)
        rc = outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                            "the search path has no table outbox; run `outrider init`");
    else if (strcmp(state, "22P02") == 0)
        rc = outrider__fail(err, OUTRIDER_NOT_JSON, OUTRIDER_DEAD,
                            "event: payload is not valid JSON, which this outbox asks for; "
                            "`outrider init --payload text` or `bytea` takes other forms");
    else if (strcmp(state, "22021") == 0)
        rc = outrider__event_fail_field(err, "payload",
                                        "is not UTF-8 text, which the outbox asks for; "
                                        "`outrider init --payload bytea` takes any bytes");
    else if (strcmp(state, "23505") == 0 && is_ours(res, "outbox_id_key"))
        rc = outrider__event_fail_field(err, "id", "is in the outbox already");
    else
        return outrider__pg_fail(err, conn, res, "cannot insert the event");
    outrider__error_origin(err, state);
    return rc;
}

/* An empty topic or key means "none", as it does in JSON that leaves it out. */
static const char *or_null(const char *s)
{
    return s != NULL && *s != '\0' ? s : NULL;
}

/* Only its address matters: it is the key of the instance data. */
static int on_event(PGEventId id, void *info, void *ctx)
{
    (void)id;
    (void)info;
    (void)ctx;
    return 1;
}

static int payload_type(PGconn *conn, Oid *ret_type, struct outrider_error *err)
{
    uintptr_t known = (uintptr_t)PQinstanceData(conn, on_event);
    if (known == 0) {
        PGresult *res = PQexec(conn, sql_type);
        if (PQresultStatus(res) != PGRES_TUPLES_OK) {
            int rc = fail_insert(conn, res, err);
            PQclear(res);
            return rc;
        }
        known = (uintptr_t)strtoul(PQgetvalue(res, 0, 0), NULL, 10);
        PQclear(res);
        (void)PQregisterEventProc(conn, on_event, "outrider", NULL);
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): libpq keeps one pointer, this is a number */
        (void)PQsetInstanceData(conn, on_event, (void *)known);
    }
    *ret_type = (Oid)known;
    return 0;
}

/* The bytes as the column's binary form: jsonb has a version byte before them. */
static int encode_payload(const struct outrider_event *e, Oid type, char **ret_copy,
                          struct outrider_error *err)
{
    *ret_copy = NULL;
    if (type != TYPE_JSONB)
        return 0;
    *ret_copy = malloc(e->payload_len + 1);
    if (*ret_copy == NULL)
        return outrider__fail_nomem(err);
    (*ret_copy)[0] = 1;
    if (e->payload_len > 0)
        memcpy(*ret_copy + 1, e->payload, e->payload_len);
    return 0;
}

static int insert(PGconn *conn, const struct outrider_event *e, const char *id,
                  struct outrider_error *err)
{
    Oid type = 0;
    char *copy = NULL;
    if (payload_type(conn, &type, err) < 0 || encode_payload(e, type, &copy, err) < 0)
        return -1;
    char partition[16], occurred[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];
    (void)snprintf(partition, sizeof partition, "%d", e->partition);
    outrider__clock_format(e->occurred_at_us, occurred);
    outrider__clock_format(e->expires_at_us, expires);
    const char *values[N_ARGS] = {id,
                                  e->aggregate_type,
                                  e->aggregate_id,
                                  e->event_type,
                                  copy != NULL         ? copy
                                  : e->payload != NULL ? e->payload
                                                       : "",
                                  e->headers,
                                  or_null(e->topic),
                                  or_null(e->partition_key),
                                  e->partition >= 0 ? partition : NULL,
                                  e->occurred_at_us != 0 ? occurred : NULL,
                                  e->expires_at_us != 0 ? expires : NULL};
    int lengths[N_ARGS] = {[4] = (int)e->payload_len + (copy != NULL)};
    int formats[N_ARGS] = {[4] = 1};
    PGresult *res = PQexecParams(conn, sql_insert, N_ARGS, NULL, values, lengths, formats, 0);
    free(copy);
    int rc = 0;
    if (PQresultStatus(res) != PGRES_COMMAND_OK) {
        rc = fail_insert(conn, res, err);
        (void)PQsetInstanceData(conn, on_event, NULL); /* the column may have changed */
    }
    PQclear(res);
    return rc;
}

int outrider_enqueue_pg(PGconn *conn, const struct outrider_event *event, unsigned flags,
                        char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    char id[OUTRIDER_ID_SIZE];
    if (conn == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    if (outrider__event_check(event, PAYLOAD_MAX, err) < 0 ||
        check_transaction(conn, flags, err) < 0)
        return -1;
    if (event->id != NULL)
        memcpy(id, event->id, sizeof id);
    else if (outrider__uuid_new(outrider__clock_now().wall_us, id) < 0)
        return outrider__fail(err, OUTRIDER_IO, OUTRIDER_RETRY, "the system has no random bytes");
    if (insert(conn, event, id, err) < 0)
        return -1;
    if (ret_id != NULL)
        memcpy(ret_id, id, sizeof id);
    return 0;
}
