/* SPDX-License-Identifier: MIT */
/*
 * Events into the outbox, on the application's own connection.
 *
 *  (1) The transaction stays the application's: nothing here begins, commits
 *      or rolls back. (A refused event fails the transaction, as any failed
 *      statement does; what can be refused beforehand is.)
 *  (2) One-shot calls change nothing of the session: one statement, unprepared.
 *      A writer's prepared statements are the only thing that stays, under
 *      names that nobody else gives, until it is freed.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/event_check.h"
#include "base/json.h"
#include "client.sql.h"
#include "outrider/postgres.h"

/* One of the two statements, prepared on the server or not. */
struct statement {
    char name[32];   /* "": not prepared */
    unsigned resets; /* of the connection, when it was */
};

struct pg_writer {
    struct outrider_writer base; /* must stay first: see client_enqueue_writer_of() */
    PGconn *conn;
    bool is_unprepared;
    struct statement one, many;
    struct strbuf buf;
};

static struct pg_writer *client_enqueue_writer_of(struct outrider_writer *w)
{
    return (struct pg_writer *)w;
}

/* The id is the primary key in layout status. */
static bool client_enqueue_is_about_id(const PGresult *res)
{
    const char *name = PQresultErrorField(res, PG_DIAG_CONSTRAINT_NAME);
    return name != NULL && (strcmp(name, "outbox_id_key") == 0 || strcmp(name, "outbox_pkey") == 0);
}

static int client_enqueue_fail_insert(PGconn *conn, const PGresult *res, struct outrider_error *err)
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
    else if (strcmp(state, "23505") == 0 && client_enqueue_is_about_id(res))
        rc = outrider__event_fail_field(err, "id", "is in the outbox already");
    else
        return outrider__pg_fail(err, conn, res, "cannot insert the event");
    outrider__error_origin(err, state);
    return rc;
}

/* Whether the server's refusal can be this event's: it names no row itself. */
static bool client_enqueue_is_culprit(const PGresult *res, const struct outrider_event *e,
                                      const char *id)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *detail = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL);
    struct bytes payload = bytes_of(e->payload, e->payload_len);
    if (strcmp(state, "22P02") == 0)
        return !outrider__json_is_valid(payload);
    if (strcmp(state, "22021") == 0)
        return !outrider__bytes_is_utf8(payload) ||
               (payload.len > 0 && memchr(payload.data, '\0', payload.len) != NULL);
    return strcmp(state, "23505") == 0 && detail != NULL && strcasestr(detail, id) != NULL;
}

static void client_enqueue_blame(const PGresult *res, const struct outrider_event *events, size_t n,
                                 const writer_id *ids, struct outrider_error *err)
{
    if (PQresultErrorField(res, PG_DIAG_SQLSTATE) == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        struct outrider_event e = writer_event_at(events, i);
        if (client_enqueue_is_culprit(res, &e, ids[i])) {
            outrider__writer_blame(err, i);
            return;
        }
    }
}

/* The table may have become another one, and a statement can be gone (DISCARD
 * ALL, a pooler): the next call starts anew. */
static void client_enqueue_forget(struct pg_writer *w, struct statement *st, const PGresult *res)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    struct pg_known *known = outrider__pg_known_kept(w->conn);
    if (known != NULL)
        known->payload = 0;
    if (state == NULL || strncmp(state, "23", 2) != 0)
        st->name[0] = '\0';
}

static int client_enqueue_prepare(struct pg_writer *w, struct statement *st, struct pg_known *known,
                                  const char *sql, const Oid *types, struct outrider_error *err)
{
    if (w->is_unprepared || (st->name[0] != '\0' && st->resets == known->resets))
        return 0;
    char name[sizeof st->name];
    (void)snprintf(name, sizeof name, "outrider_enqueue_%u", ++known->statements);
    PGresult *res = PQprepare(w->conn, name, sql, types != NULL ? PG_EVENT_ARGS : 0, types);
    int rc = 0;
    if (PQresultStatus(res) != PGRES_COMMAND_OK) {
        rc = client_enqueue_fail_insert(w->conn, res, err);
        client_enqueue_forget(w, st, res);
    } else {
        memcpy(st->name, name, sizeof name);
        st->resets = known->resets;
    }
    PQclear(res);
    return rc;
}

static PGresult *client_enqueue_execute(struct pg_writer *w, const struct statement *st,
                                        const char *sql, const Oid *types,
                                        const char *const *values, const int *lengths,
                                        const int *formats)
{
    if (st->name[0] == '\0')
        return PQexecParams(w->conn, sql, PG_EVENT_ARGS, types, values, lengths, formats, 0);
    return PQexecPrepared(w->conn, st->name, PG_EVENT_ARGS, values, lengths, formats, 0);
}

/* The bytes as the column's binary form: jsonb has a version byte before them. */
static int client_enqueue_encode_payload(struct pg_writer *w, const struct pg_known *known,
                                         const struct outrider_event *e, struct bytes *ret_payload,
                                         struct outrider_error *err)
{
    *ret_payload = bytes_of(e->payload != NULL ? e->payload : "", e->payload_len);
    if (known->payload != PG_TYPE_JSONB)
        return 0;
    outrider__strbuf_clear(&w->buf);
    strbuf_append_char(&w->buf, 1);
    outrider__strbuf_append(&w->buf, *ret_payload);
    if (w->buf.failed)
        return outrider__fail_nomem(err);
    *ret_payload = strbuf_bytes(&w->buf);
    return 0;
}

static int client_enqueue_insert_one(struct pg_writer *w, struct pg_known *known,
                                     const struct outrider_event *e, const char *id,
                                     struct outrider_error *err)
{
    struct bytes payload;
    if (client_enqueue_prepare(w, &w->one, known, sql_enqueue, NULL, err) < 0 ||
        client_enqueue_encode_payload(w, known, e, &payload, err) < 0)
        return -1;
    char partition[16], occurred[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];
    (void)snprintf(partition, sizeof partition, "%d", e->partition);
    outrider__clock_format(e->occurred_at_us, occurred);
    outrider__clock_format(e->expires_at_us, expires);
    const char *values[PG_EVENT_ARGS] = {id,
                                         e->aggregate_type,
                                         e->aggregate_id,
                                         e->event_type,
                                         payload.data,
                                         e->headers,
                                         writer_or_null(e->topic),
                                         writer_or_null(e->partition_key),
                                         e->partition >= 0 ? partition : NULL,
                                         e->occurred_at_us != 0 ? occurred : NULL,
                                         e->expires_at_us != 0 ? expires : NULL};
    const int lengths[PG_EVENT_ARGS] = {[4] = (int)payload.len};
    static const int formats[PG_EVENT_ARGS] = {[4] = 1};
    PGresult *res = client_enqueue_execute(w, &w->one, sql_enqueue, NULL, values, lengths, formats);
    int rc = 0;
    if (PQresultStatus(res) != PGRES_COMMAND_OK) {
        rc = client_enqueue_fail_insert(w->conn, res, err);
        client_enqueue_forget(w, &w->one, res);
    }
    PQclear(res);
    return rc;
}

static int client_enqueue_insert_many(struct pg_writer *w, struct pg_known *known,
                                      const struct outrider_event *events, size_t n,
                                      const writer_id *ids, struct outrider_error *err)
{
    static const int formats[PG_EVENT_ARGS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct pg_arrays a;
    if (outrider__pg_arrays(&w->buf, known, events, n, ids, &a, err) < 0 ||
        client_enqueue_prepare(w, &w->many, known, sql_enqueue_many, a.types, err) < 0)
        return -1;
    PGresult *res = client_enqueue_execute(w, &w->many, sql_enqueue_many, a.types, a.values,
                                           a.lengths, formats);
    int rc = 0;
    if (PQresultStatus(res) != PGRES_COMMAND_OK) {
        rc = client_enqueue_fail_insert(w->conn, res, err);
        client_enqueue_blame(res, events, n, ids, err);
        client_enqueue_forget(w, &w->many, res);
    }
    PQclear(res);
    return rc;
}

static int client_enqueue_writer_check(struct outrider_writer *base, unsigned flags,
                                       struct outrider_error *err)
{
    return outrider__pg_check_idle(client_enqueue_writer_of(base)->conn,
                                   (flags & OUTRIDER_ENQUEUE_AUTOCOMMIT) == 0, "the event", err);
}

static int client_enqueue_writer_insert(struct outrider_writer *base,
                                        const struct outrider_event *events, size_t n,
                                        const writer_id *ids, struct outrider_error *err)
{
    struct pg_writer *w = client_enqueue_writer_of(base);
    struct pg_known *known = NULL;
    if (outrider__pg_known(w->conn, &known, err) < 0)
        return -1;
    if (known->payload == 0)
        return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                              "the search path has no table outbox with a payload; run "
                              "`outrider init`");
    struct outrider_event first = writer_event_at(events, 0);
    return n == 1 ? client_enqueue_insert_one(w, known, &first, ids[0], err)
                  : client_enqueue_insert_many(w, known, events, n, ids, err);
}

/* In a failed transaction the server takes no statement: then the name stays. */
static void client_enqueue_deallocate(struct pg_writer *w, const struct statement *st)
{
    const struct pg_known *known = outrider__pg_known_kept(w->conn);
    char sql[64];
    if (st->name[0] == '\0' || known == NULL || known->resets != st->resets ||
        outrider__pg_check_idle(w->conn, false, "", NULL) < 0)
        return;
    (void)snprintf(sql, sizeof sql, "DEALLOCATE %s", st->name);
    PQclear(PQexec(w->conn, sql));
}

static void client_enqueue_writer_release(struct pg_writer *w)
{
    outrider__strbuf_release(&w->buf);
    outrider__writer_release(&w->base);
}

static void client_enqueue_writer_free(struct outrider_writer *base)
{
    struct pg_writer *w = client_enqueue_writer_of(base);
    client_enqueue_deallocate(w, &w->one);
    client_enqueue_deallocate(w, &w->many);
    client_enqueue_writer_release(w);
    free(w);
}

static const struct writer_ops writer_ops = {
    .max_payload = PG_MESSAGE_MAX,
    .check = client_enqueue_writer_check,
    .insert = client_enqueue_writer_insert,
    .free = client_enqueue_writer_free,
};

static int client_enqueue_writer_init(struct pg_writer *w, PGconn *conn, unsigned flags,
                                      struct outrider_error *err)
{
    if (conn == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    memset(w, 0, sizeof *w);
    outrider__writer_init(&w->base, &writer_ops);
    outrider__strbuf_init(&w->buf, PG_MESSAGE_MAX);
    w->conn = conn;
    w->is_unprepared = (flags & OUTRIDER_WRITER_UNPREPARED) != 0;
    return 0;
}

int outrider_writer_new_pg(PGconn *conn, unsigned flags, struct outrider_writer **ret_writer,
                           struct outrider_error *err)
{
    if ((flags & ~OUTRIDER_WRITER_UNPREPARED) != 0 || ret_writer == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "a writer needs a place to go to, and no flag but "
                              "OUTRIDER_WRITER_UNPREPARED");
    struct pg_writer *w = malloc(sizeof *w);
    if (w == NULL)
        return outrider__fail_nomem(err);
    if (client_enqueue_writer_init(w, conn, flags, err) < 0) {
        free(w);
        return -1;
    }
    *ret_writer = &w->base;
    return 0;
}

int outrider_enqueue_pg(PGconn *conn, const struct outrider_event *event, unsigned flags,
                        char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    struct pg_writer w;
    if (client_enqueue_writer_init(&w, conn, OUTRIDER_WRITER_UNPREPARED, err) < 0)
        return -1;
    int rc = outrider_writer_put(&w.base, event, flags, ret_id, err);
    client_enqueue_writer_release(&w);
    return rc;
}

int outrider_enqueue_many_pg(PGconn *conn, const struct outrider_event *events, size_t n,
                             unsigned flags, char (*ret_ids)[OUTRIDER_ID_SIZE],
                             struct outrider_error *err)
{
    struct pg_writer w;
    if (client_enqueue_writer_init(&w, conn, OUTRIDER_WRITER_UNPREPARED, err) < 0)
        return -1;
    int rc = outrider_writer_put_many(&w.base, events, n, flags, ret_ids, err);
    client_enqueue_writer_release(&w);
    return rc;
}
