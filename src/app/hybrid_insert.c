/* SPDX-License-Identifier: MIT */
/*
 * A session's events into the outbox, claimed by this process where that is
 * safe. Under READ COMMITTED, in the before-commit phase:
 *
 *  (1) Each lane is locked until the transaction's end, in one order for all,
 *      by a statement of its own: its snapshot is older than the lock, and two
 *      writers that looked in the same statement would both see nothing.
 *  (2) The next statement looks for events of these lanes that are not settled.
 *      A lane that has one is the relay's.
 *  (3) What is claimed has a slot in the publisher's queue, and of a transaction
 *      all that could be claimed is, or nothing: never an event whose
 *      predecessor in the lane was left to the relay.
 *  (4) The lease is counted from before the INSERT was sent, so it ends here no
 *      later than in the row.
 */
#include <stdlib.h>

#include "app/hybrid.h"
#include "postgres/client/client.h"
#include "postgres/client/session.h"
#include "postgres/wire/wire.h"

/* The columns that are needed, the right to read what (2) reads, and the payload's type. */
static const char sql_suits[] =
    "SELECT (SELECT count(*) FROM pg_attribute WHERE attrelid = o.t AND NOT attisdropped AND "
    "attname IN ('id', 'seq', 'status', 'locked_by', 'locked_at', 'locked_until', 'claim', "
    "'attempts', 'next_attempt_at', 'published_at', 'last_error', 'last_error_code', "
    "'updated_at', 'created_at')) = 14 AND to_regclass('outrider_cursor') IS NOT NULL AND "
    "to_regclass('outrider_parked') IS NOT NULL AND to_regclass('outrider_intent') IS NOT NULL, "
    "has_table_privilege(o.t, 'SELECT') AND has_table_privilege(to_regclass('outrider_cursor'), "
    "'SELECT') AND has_table_privilege(to_regclass('outrider_parked'), 'SELECT') AND "
    "has_table_privilege(to_regclass('outrider_intent'), 'SELECT'), (SELECT "
    "format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = o.t AND NOT attisdropped AND "
    "attname = 'payload') FROM (SELECT to_regclass('outbox') AS t) o WHERE o.t IS NOT NULL";
/* The pipelines of this outbox whose relays publish exactly once. */
#define EXACT_PIPELINES                                                               \
    "FROM outrider_intent i CROSS JOIN unnest(i.tables) AS t(name) WHERE i.identity " \
    "<> '' AND to_regclass(t.name) = to_regclass('outbox')"
static const char sql_exact[] = "SELECT min(i.pipeline) " EXACT_PIPELINES;
/* $1 keys. No row is true where the isolation level makes the next statement blind. */
static const char sql_lock[] =
    "SELECT CASE WHEN current_setting('transaction_isolation') = 'read committed' THEN "
    "pg_advisory_xact_lock(s.h) IS NOT NULL ELSE false END FROM (SELECT DISTINCT "
    "hashtextextended('outrider:' || 'outbox'::regclass::oid || ':' || k, 0) AS h FROM "
    "unnest($1::text[]) AS k ORDER BY 1) AS s";
/* $1 keys, $2 whether dead letters block, $3 the outbox that the publisher marks in. A
 * backlog is the relay's, and is not searched for keys at every commit. Lanes are named as
 * event_key() names them, and in outrider_parked as postgres/parked.h (4) says. */
static const char sql_look[] =
    "WITH u AS MATERIALIZED (SELECT coalesce(o.partition_key, o.aggregate_id) AS key "
    "FROM outbox o WHERE o.status IN ('PENDING', 'PROCESSING', 'FAILED') ORDER BY o.seq LIMIT "
    "1001), b AS MATERIALIZED (SELECT $2::bool OR EXISTS (SELECT FROM outrider_cursor WHERE "
    "on_dead = 'block') AS blocks, (SELECT count(*) FROM u) <= 1000 AS is_short, "
    "current_setting('synchronous_commit') <> 'off' AND NOT EXISTS (SELECT FROM outrider_cursor "
    "WHERE mode <> 'poll') AND NOT EXISTS (SELECT " EXACT_PIPELINES
    ") AND current_database() || '/' || 'outbox'::regclass::oid = $3::text AS "
    "suits) SELECT b.suits, b.is_short AND k.key NOT IN (SELECT key FROM u) AND NOT (b.blocks AND "
    "EXISTS (SELECT FROM outbox o WHERE o.status = 'DEAD_LETTER' AND coalesce("
    "o.partition_key, o.aggregate_id) = k.key)) AND NOT EXISTS (SELECT FROM outrider_cursor c "
    "JOIN outrider_parked p ON p.pipeline = c.pipeline AND p.outbox = c.outbox AND "
    "hashtextextended(p.lane, 0) = hashtextextended(l.lane, 0) WHERE p.lane = l.lane AND (p.state "
    "<> 'dead' OR b.blocks)) FROM unnest($1::text[]) WITH ORDINALITY AS k(key, n) CROSS JOIN b "
    "CROSS JOIN LATERAL (SELECT CASE WHEN starts_with(k.key, '\\x') THEN '\\x' || "
    "encode(convert_to(k.key, 'UTF8'), 'hex') ELSE k.key END AS lane) l ORDER BY k.n";
/* $1 id, $2 aggregate type, $3 its id, $4 event type, $5 payload, $6 headers, $7 topic,
 * $8 key, $9 partition, $10 occurred, $11 expires, $12 owner if claimed, $13 lease. */
#define SQL_INSERT(payload)                                                                        \
    "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic, "  \
    "partition_key, partition, occurred_at, expires_at, status, locked_by, locked_at, "            \
    "locked_until, claim) SELECT u.id, u.aggregate_type, u.aggregate_id, u.event_type, " payload   \
    ", u.headers::jsonb, u.topic, u.key, u.partition, u.occurred, u.expires, CASE WHEN u.owner "   \
    "IS NULL THEN 'PENDING' ELSE 'PROCESSING' END, u.owner, CASE WHEN u.owner IS NOT NULL THEN "   \
    "clock_timestamp() END, CASE WHEN u.owner IS NOT NULL THEN clock_timestamp() + $13::int8 * "   \
    "interval '1 microsecond' END, CASE WHEN u.owner IS NULL THEN 0 ELSE 1 END FROM "              \
    "unnest($1::text[]::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[], "     \
    "$7::text[], $8::text[], $9::int4[], $10::timestamptz[], $11::timestamptz[], $12::text[]) "    \
    "WITH ORDINALITY AS u(id, aggregate_type, aggregate_id, event_type, payload, headers, topic, " \
    "key, partition, occurred, expires, owner, n) ORDER BY u.n RETURNING created_at"

static const struct {
    const char *type, *sql;
} inserts[] = {
    {"jsonb", SQL_INSERT("convert_from(u.payload, 'UTF8')::jsonb")},
    {"text", SQL_INSERT("convert_from(u.payload, 'UTF8')")},
    {"bytea", SQL_INSERT("u.payload")},
};

struct hybrid_session {
    struct outrider_hybrid *hybrid;
    const char *sql_insert; /* NULL: the table has no room for claims */
    bool is_known;          /* the table was looked at */
    struct pg_args args;
    struct hybrid_list claimed; /* of the transaction that is open */
    struct hybrid_tally tally;
    size_t n_reserved, n_bytes;
};

static PGresult *run(struct hybrid_session *s, PGconn *conn, const char *sql)
{
    const char *values[PG_ARGS_MAX];
    int lengths[PG_ARGS_MAX], formats[PG_ARGS_MAX];
    outrider__pg_args_values(&s->args, values, lengths, formats);
    return PQexecParams(conn, sql, s->args.n, s->args.types, values, lengths, formats, 1);
}

static int take_in(struct hybrid_session *s, const PGconn *conn, const PGresult *r,
                   struct outrider_error *err)
{
    s->is_known = PQntuples(r) == 1;
    if (!s->is_known || !outrider__pg_get_bool(r, 0, 0))
        return 0;
    if (!outrider__pg_get_bool(r, 0, 1))
        return outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                              "hybrid publishing reads outbox, outrider_cursor, outrider_parked "
                              "and outrider_intent before a commit, and user %s may not: GRANT "
                              "SELECT ON these to it",
                              PQuser(conn));
    for (size_t i = 0; i < sizeof inserts / sizeof *inserts; i++)
        if (strcmp(outrider__pg_get_str(r, 0, 2), inserts[i].type) == 0)
            s->sql_insert = inserts[i].sql;
    return 0;
}

/* What the table can do; where there is none yet the next commit asks again. */
static int learn(struct hybrid_session *s, PGconn *conn, struct outrider_error *err)
{
    outrider__pg_args_clear(&s->args);
    PGresult *r = run(s, conn, sql_suits);
    int rc = PQresultStatus(r) == PGRES_TUPLES_OK
                 ? take_in(s, conn, r, err)
                 : outrider__pg_fail(err, conn, r, "cannot look at the outbox");
    PQclear(r);
    return rc;
}

/* A relay that begins with it later is noticed at every commit. */
static int refuse_exact(struct hybrid_session *s, PGconn *conn, struct outrider_error *err)
{
    if (s->sql_insert == NULL)
        return 0;
    outrider__pg_args_clear(&s->args);
    PGresult *r = run(s, conn, sql_exact);
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

static const char *or_null(const char *s)
{
    return s != NULL && *s != '\0' ? s : NULL;
}

static const char *key_of(const struct outrider_event *e)
{
    return or_null(e->partition_key) != NULL ? e->partition_key : e->aggregate_id;
}

static void add_keys(struct hybrid_session *s, const struct outrider_event *events, size_t n)
{
    outrider__pg_args_clear(&s->args);
    outrider__pg_array_begin(&s->args, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        outrider__pg_array_text(&s->args, bytes_str(key_of(&events[i])));
    outrider__pg_array_end(&s->args);
}

/* See (1). False where the isolation level rules claims out. */
static int lock_lanes(struct hybrid_session *s, PGconn *conn, const struct outrider_event *events,
                      size_t n, bool *ret_can, struct outrider_error *err)
{
    add_keys(s, events, n);
    PGresult *r = run(s, conn, sql_lock);
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        rc = outrider__pg_fail(err, conn, r, "cannot lock the keys of the events");
    else
        *ret_can = outrider__pg_get_bool(r, 0, 0);
    PQclear(r);
    return rc;
}

/* See (2): ret_free[i] says whether event i has nothing before it. */
static int look(struct hybrid_session *s, PGconn *conn, const struct outrider_event *events,
                size_t n, const char *place, bool *ret_free, bool *ret_suits,
                struct outrider_error *err)
{
    add_keys(s, events, n);
    outrider__pg_arg_bool(&s->args, s->hybrid->config.retry.on_dead == ON_DEAD_BLOCK);
    outrider__pg_arg_str(&s->args, place);
    PGresult *r = run(s, conn, sql_look);
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK || (size_t)PQntuples(r) != n) {
        rc = outrider__pg_fail(err, conn, r, "cannot look for earlier events of the keys");
    } else {
        *ret_suits = outrider__pg_get_bool(r, 0, 0);
        for (size_t i = 0; i < n; i++)
            ret_free[i] = *ret_suits && outrider__pg_get_bool(r, (int)i, 1);
    }
    PQclear(r);
    return rc;
}

static void add_texts(struct pg_args *a, const struct outrider_event *events, size_t n,
                      size_t offset, bool empty_is_null)
{
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < n; i++) {
        const char *text = *(const char *const *)((const char *)&events[i] + offset);
        outrider__pg_array_text(a, bytes_str(empty_is_null ? or_null(text) : text));
    }
    outrider__pg_array_end(a);
}

static void add_times(struct pg_args *a, const struct outrider_event *events, size_t n,
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

static void add_payloads(struct pg_args *a, const struct outrider_event *events, size_t n)
{
    outrider__pg_array_begin(a, PG_BYTEA);
    for (size_t i = 0; i < n; i++)
        outrider__pg_array_text(
            a, bytes_of(events[i].payload != NULL ? events[i].payload : "", events[i].payload_len));
    outrider__pg_array_end(a);
}

static void add_partitions(struct pg_args *a, const struct outrider_event *events, size_t n)
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

static int insert(struct hybrid_session *s, PGconn *conn, const struct outrider_event *events,
                  size_t n, const bool *claims, struct outrider_error *err)
{
    struct pg_args *a = &s->args;
    outrider__pg_args_clear(a);
    add_texts(a, events, n, offsetof(struct outrider_event, id), false);
    add_texts(a, events, n, offsetof(struct outrider_event, aggregate_type), false);
    add_texts(a, events, n, offsetof(struct outrider_event, aggregate_id), false);
    add_texts(a, events, n, offsetof(struct outrider_event, event_type), false);
    add_payloads(a, events, n);
    add_texts(a, events, n, offsetof(struct outrider_event, headers), false);
    add_texts(a, events, n, offsetof(struct outrider_event, topic), true);
    add_texts(a, events, n, offsetof(struct outrider_event, partition_key), true);
    add_partitions(a, events, n);
    add_times(a, events, n, offsetof(struct outrider_event, occurred_at_us));
    add_times(a, events, n, offsetof(struct outrider_event, expires_at_us));
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        outrider__pg_array_text(a, bytes_str(claims[i] ? s->hybrid->owner : NULL));
    outrider__pg_array_end(a);
    outrider__pg_arg_int8(a, s->hybrid->config.hybrid.lease_us);
    if (a->bytes.failed)
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                              "the events of one transaction are too large to be inserted at once");
    PGresult *r = run(s, conn, s->sql_insert);
    int rc = 0;
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        rc = outrider__pg_fail(err, conn, r, "cannot insert the events");
    /* One transaction, one time. A message says the same whoever sends it. */
    for (struct hybrid_event *e = s->claimed.first; rc == 0 && e != NULL; e = e->next)
        e->created_us = outrider__pg_get_time(r, 0, 0, outrider__clock_now().wall_us);
    PQclear(r);
    return rc;
}

/* Remembers what is claimed until the transaction has ended. */
static int remember(struct hybrid_session *s, const struct outrider_event *events, size_t n,
                    const bool *claims, struct outrider_error *err)
{
    int64_t ends = outrider__clock_now().mono_us + s->hybrid->config.hybrid.lease_us / 2;
    for (size_t i = 0; i < n; i++) {
        if (!claims[i])
            continue;
        struct hybrid_event **at = s->claimed.last;
        if (outrider__hybrid_list_add(&s->claimed, &events[i], err) < 0)
            return -1;
        (*at)->claim_ends_us = ends;
    }
    return 0;
}

/* Whether a lane of several events in the transaction is free is the same answer for
 * all of them; so what is claimed is a beginning of each lane: see (3). */
static void reserve(struct hybrid_session *s, const struct outrider_event *events, size_t n,
                    bool *claims)
{
    struct outrider_hybrid *h = s->hybrid;
    size_t n_free = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        n_free += claims[i];
        bytes += claims[i] ? outrider__hybrid_event_size(&events[i]) : 0;
    }
    s->tally.busy += n - n_free;
    if (n_free > 0 && outrider__hybrid_reserve(&h->queue, n_free, bytes)) {
        s->n_reserved = n_free;
        s->n_bytes = bytes;
        s->tally.claimed += n_free;
        return;
    }
    s->tally.full += n_free;
    memset(claims, 0, n * sizeof *claims);
}

static int insert_claimed(struct hybrid_session *s, PGconn *conn,
                          const struct outrider_event *events, size_t n, const char *place,
                          struct outrider_error *err)
{
    bool can = false, suits = false;
    bool *claims = calloc(n, sizeof *claims);
    if (claims == NULL)
        return outrider__fail_nomem(err);
    int r = lock_lanes(s, conn, events, n, &can, err);
    if (r == 0 && can)
        r = look(s, conn, events, n, place, claims, &suits, err);
    if (r == 0 && suits)
        reserve(s, events, n, claims);
    else if (r == 0)
        s->tally.unsuitable += n;
    if (r == 0)
        r = remember(s, events, n, claims, err);
    if (r == 0)
        r = insert(s, conn, events, n, claims, err);
    free(claims);
    return r;
}

/* One that is above a bound is the relay's to make a dead letter of, and what comes
 * with it in the transaction is left to the relay too: see (3). */
static bool all_fit(const struct hybrid_session *s, const struct outrider_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (outrider__event_fits(&s->hybrid->config, &events[i], NULL) < 0)
            return false;
    return true;
}

static int on_insert(void *ctx, void *conn, const struct outrider_event *events, size_t n,
                     struct outrider_error *err)
{
    struct hybrid_session *s = ctx;
    char place[HYBRID_PLACE_SIZE];
    if (!s->is_known && learn(s, conn, err) < 0)
        return -1;
    bool suits = s->sql_insert != NULL && all_fit(s, events, n);
    if (suits && outrider__hybrid_is_open(&s->hybrid->queue, place))
        return insert_claimed(s, conn, events, n, place, err);
    *(suits ? &s->tally.full : &s->tally.unsuitable) += n;
    return outrider__pg_session_ops.insert(conn, events, n, err);
}

static void on_ended(void *ctx, enum outrider_completion how)
{
    struct hybrid_session *s = ctx;
    if (how == OUTRIDER_COMMITTED) {
        outrider__hybrid_push(&s->hybrid->queue, &s->claimed, &s->tally);
    } else {
        outrider__hybrid_list_clear(&s->claimed);
        outrider__hybrid_unreserve(&s->hybrid->queue, s->n_reserved, s->n_bytes);
    }
    s->n_reserved = s->n_bytes = 0;
    s->tally = (struct hybrid_tally){0};
}

static void on_release(void *ctx)
{
    struct hybrid_session *s = ctx;
    outrider__pg_args_release(&s->args);
    outrider__hybrid_unref(s->hybrid);
    free(s);
}

int outrider__hybrid_attach(struct outrider_hybrid *h, struct outrider_session *session,
                            struct outrider_error *err)
{
    PGconn *conn = outrider__session_lend(session, &outrider__pg_session_ops, err);
    if (conn == NULL)
        return -1;
    struct hybrid_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return outrider__fail_nomem(err);
    s->hybrid = h;
    atomic_fetch_add(&h->n_refs, 1);
    outrider__pg_args_init(&s->args);
    outrider__hybrid_list_init(&s->claimed);
    /* What is missing is better told now than at the first commit. */
    if (learn(s, conn, err) < 0 || refuse_exact(s, conn, err) < 0) {
        on_release(s);
        return -1;
    }
    struct session_inserter inserter = {
        .ctx = s, .insert = on_insert, .ended = on_ended, .release = on_release};
    outrider__session_insert_by(session, &inserter);
    return 0;
}
