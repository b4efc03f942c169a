/* SPDX-License-Identifier: MIT */
/* A session's events into the outbox, claimed by this process where core/hybrid.h allows it. */
#include "postgres/hybrid/hybrid.h"

#include <libpq-fe.h>
#include <stdlib.h>

#include "common/sql.h"
#include "core/config.h"
#include "hybrid.sql.h"
#include "postgres/client/client.h"

enum suits_column { SUITS_OUTBOX, SUITS_RIGHTS, SUITS_PAYLOAD };
enum look_column { LOOK_SUITS, LOOK_IS_FREE };

/* How a payload's bytes become the column's type. */
static const struct {
    const char *type, *cast;
} payloads[] = {
    {"jsonb", "convert_from(u.payload, 'UTF8')::jsonb"},
    {"text", "convert_from(u.payload, 'UTF8')"},
    {"bytea", "u.payload"},
};

static struct pg_claimer *claimer_of(struct hybrid_claimer *base)
{
    return (struct pg_claimer *)base;
}

static PGresult *claimer_run(struct pg_claimer *c, PGconn *conn, const char *sql)
{
    const char *values[PG_ARGS_MAX];
    int lengths[PG_ARGS_MAX], formats[PG_ARGS_MAX];
    outrider__pg_args_values(&c->args, values, lengths, formats);
    return PQexecParams(conn, sql, c->args.n, c->args.types, values, lengths, formats, 1);
}

static void claimer_clear(struct pg_claimer *c)
{
    if (c->args.bytes.cap == 0)
        outrider__pg_args_init(&c->args);
    outrider__pg_args_clear(&c->args);
}

static int claimer_take_in(struct pg_claimer *c, const PGconn *conn, const PGresult *r,
                           struct outrider_error *err)
{
    c->base.is_known = PQntuples(r) == 1;
    if (!c->base.is_known || !outrider__pg_get_bool(r, 0, SUITS_OUTBOX))
        return 0;
    if (!outrider__pg_get_bool(r, 0, SUITS_RIGHTS))
        return outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                              "hybrid publishing reads outbox, outrider_cursor, outrider_parked "
                              "and outrider_intent before a commit, and user %s may not: GRANT "
                              "SELECT ON these to it",
                              PQuser(conn));
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        const struct sql_word words[] = {{"payload", payloads[i].cast}};
        if (strcmp(outrider__pg_get_str(r, 0, SUITS_PAYLOAD), payloads[i].type) != 0)
            continue;
        free(c->sql_insert);
        c->sql_insert = outrider__sql_expand(sql_hybrid_insert, words, 1);
        if (c->sql_insert == NULL)
            return outrider__fail_nomem(err);
        c->base.suits = true;
    }
    return 0;
}

int outrider__pg_claimer_learn(struct hybrid_claimer *base, void *conn, struct outrider_error *err)
{
    struct pg_claimer *c = claimer_of(base);
    claimer_clear(c);
    PGresult *r = claimer_run(c, conn, sql_hybrid_suits);
    int rc = PQresultStatus(r) == PGRES_TUPLES_OK
                 ? claimer_take_in(c, conn, r, err)
                 : outrider__pg_fail(err, conn, r, "cannot look at the outbox");
    PQclear(r);
    return rc;
}

int outrider__pg_claimer_refuse_exact(struct hybrid_claimer *base, void *conn,
                                      struct outrider_error *err)
{
    struct pg_claimer *c = claimer_of(base);
    if (!c->base.suits)
        return 0;
    claimer_clear(c);
    PGresult *r = claimer_run(c, conn, sql_hybrid_exact);
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        rc = outrider__pg_fail(err, conn, r, "cannot look for pipelines with exactly_once");
    else if (!PQgetisnull(r, 0, 0))
        rc = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                            "pipeline '%s' of this outbox runs with exactly_once, which hybrid "
                            "publishing cannot keep: what an application sends is in none of the "
                            "relay's transactions; leave one of them out, and start the relay once "
                            "without exactly_once if that is the one",
                            outrider__pg_get_str(r, 0, 0));
    PQclear(r);
    return rc;
}

static const char *claimer_or_null(const char *s)
{
    return s != NULL && *s != '\0' ? s : NULL;
}

static const char *claimer_key(const struct outrider_event *e)
{
    return claimer_or_null(e->partition_key) != NULL ? e->partition_key : e->aggregate_id;
}

static void claimer_add_keys(struct pg_claimer *c, const struct outrider_event *events, size_t n)
{
    claimer_clear(c);
    outrider__pg_array_begin(&c->args, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        outrider__pg_array_text(&c->args, bytes_str(claimer_key(&events[i])));
    outrider__pg_array_end(&c->args);
}

/* False where the isolation level rules claims out. */
static int claimer_lock(struct pg_claimer *c, PGconn *conn, const struct outrider_event *events,
                        size_t n, bool *ret_can, struct outrider_error *err)
{
    claimer_add_keys(c, events, n);
    PGresult *r = claimer_run(c, conn, sql_hybrid_lock);
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        rc = outrider__pg_fail(err, conn, r, "cannot lock the keys of the events");
    else
        *ret_can = outrider__pg_get_bool(r, 0, 0);
    PQclear(r);
    return rc;
}

int outrider__pg_claimer_look(struct hybrid_claimer *base, void *conn,
                              const struct outrider_event *events, size_t n, const char *place,
                              bool *ret_free, bool *ret_suits, struct outrider_error *err)
{
    struct pg_claimer *c = claimer_of(base);
    bool can = false;
    *ret_suits = false;
    if (claimer_lock(c, conn, events, n, &can, err) < 0)
        return -1;
    if (!can)
        return 0;
    claimer_add_keys(c, events, n);
    outrider__pg_arg_bool(&c->args, c->base.config->retry.on_dead == ON_DEAD_BLOCK);
    outrider__pg_arg_str(&c->args, place);
    PGresult *r = claimer_run(c, conn, sql_hybrid_look);
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK || (size_t)PQntuples(r) != n) {
        rc = outrider__pg_fail(err, conn, r, "cannot look for earlier events of the keys");
    } else {
        *ret_suits = outrider__pg_get_bool(r, 0, LOOK_SUITS);
        for (size_t i = 0; i < n; i++)
            ret_free[i] = *ret_suits && outrider__pg_get_bool(r, (int)i, LOOK_IS_FREE);
    }
    PQclear(r);
    return rc;
}

static void claimer_add_texts(struct pg_args *a, const struct outrider_event *events, size_t n,
                              size_t offset, bool empty_is_null)
{
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < n; i++) {
        const char *text = *(const char *const *)((const char *)&events[i] + offset);
        outrider__pg_array_text(a, bytes_str(empty_is_null ? claimer_or_null(text) : text));
    }
    outrider__pg_array_end(a);
}

static void claimer_add_times(struct pg_args *a, const struct outrider_event *events, size_t n,
                              size_t offset)
{
    outrider__pg_array_begin(a, PG_TIMESTAMPTZ);
    for (size_t i = 0; i < n; i++) {
        int64_t us = *(const int64_t *)((const char *)&events[i] + offset);
        if (us != 0)
            outrider__pg_array_time(a, us);
        else
            outrider__pg_array_null(a);
    }
    outrider__pg_array_end(a);
}

static void claimer_add_payloads(struct pg_args *a, const struct outrider_event *events, size_t n)
{
    outrider__pg_array_begin(a, PG_BYTEA);
    for (size_t i = 0; i < n; i++)
        outrider__pg_array_text(
            a, bytes_of(events[i].payload != NULL ? events[i].payload : "", events[i].payload_len));
    outrider__pg_array_end(a);
}

static void claimer_add_partitions(struct pg_args *a, const struct outrider_event *events, size_t n)
{
    outrider__pg_array_begin(a, PG_INT4);
    for (size_t i = 0; i < n; i++) {
        if (events[i].partition >= 0)
            outrider__pg_array_int4(a, events[i].partition);
        else
            outrider__pg_array_null(a);
    }
    outrider__pg_array_end(a);
}

static void claimer_add_events(struct pg_claimer *c, const struct outrider_event *events, size_t n,
                               const bool *claims)
{
    struct pg_args *a = &c->args;
    claimer_clear(c);
    claimer_add_texts(a, events, n, offsetof(struct outrider_event, id), false);
    claimer_add_texts(a, events, n, offsetof(struct outrider_event, aggregate_type), false);
    claimer_add_texts(a, events, n, offsetof(struct outrider_event, aggregate_id), false);
    claimer_add_texts(a, events, n, offsetof(struct outrider_event, event_type), false);
    claimer_add_payloads(a, events, n);
    claimer_add_texts(a, events, n, offsetof(struct outrider_event, headers), false);
    claimer_add_texts(a, events, n, offsetof(struct outrider_event, topic), true);
    claimer_add_texts(a, events, n, offsetof(struct outrider_event, partition_key), true);
    claimer_add_partitions(a, events, n);
    claimer_add_times(a, events, n, offsetof(struct outrider_event, occurred_at_us));
    claimer_add_times(a, events, n, offsetof(struct outrider_event, expires_at_us));
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        outrider__pg_array_text(a, bytes_str(claims[i] ? c->base.owner : NULL));
    outrider__pg_array_end(a);
    outrider__pg_arg_int8(a, c->base.config->hybrid.lease_us);
}

int outrider__pg_claimer_insert(struct hybrid_claimer *base, void *conn,
                                const struct outrider_event *events, size_t n, const bool *claims,
                                int64_t *ret_created_us, struct outrider_error *err)
{
    struct pg_claimer *c = claimer_of(base);
    claimer_add_events(c, events, n, claims);
    if (c->args.bytes.failed)
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                              "the events of one transaction are too large to be inserted at once");
    PGresult *r = claimer_run(c, conn, c->sql_insert);
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        rc = outrider__pg_fail(err, conn, r, "cannot insert the events");
    else
        *ret_created_us = outrider__pg_get_time(r, 0, 0, outrider__clock_now().wall_us);
    PQclear(r);
    return rc;
}

void outrider__pg_claimer_release(struct hybrid_claimer *base)
{
    struct pg_claimer *c = claimer_of(base);
    outrider__pg_args_release(&c->args);
    free(c->sql_insert);
    c->sql_insert = NULL;
}
