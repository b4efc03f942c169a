/* SPDX-License-Identifier: MIT */
/* The PostgreSQL store: status, and dead letters. */
#include "postgres/store/store.h"

#include "postgres/table/table.h"

#include <stdio.h>

/* $K: cursor table, $P: parked table, $T: the outbox, $S: its sequence. Positions and the
 * outbox are read in one snapshot; what is above the sequence waits (log.h (9)). */
#define COUNT_PARKED(state)                                                             \
    "(SELECT count(*) FROM $P p WHERE p.pipeline = c.pipeline AND p.outbox = c.outbox " \
    "AND p.state = '" state "'), "
#define N_PARKED COUNT_PARKED("parked")
#define N_QUEUED COUNT_PARKED("queued")
#define N_DEAD COUNT_PARKED("dead")
static const char sql_status[] =
    "WITH q AS MATERIALIZED (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS top FROM $S) "
    "SELECT c.pipeline, c.sink, "
    "c.position, "
    "coalesce((SELECT max(seq) FROM $T WHERE seq <= (SELECT top FROM q)), 0), "
    "(SELECT count(*) FROM $T o WHERE o.seq > c.position AND o.seq <= (SELECT top FROM q)) + "
    "coalesce((SELECT count(*) FROM "
    "unnest(c.gaps) g JOIN $T o ON o.seq >= lower(g) AND o.seq < upper(g)), 0), " N_PARKED N_QUEUED
        N_DEAD "(SELECT min(created_at) FROM (SELECT o.created_at FROM $T o WHERE o.seq > "
    "c.position AND o.seq "
    "<= (SELECT top FROM q) ORDER BY o.seq LIMIT 100) f), c.delivered_total, c.expired_total, "
    "c.skipped_total, c.dead_total, "
    "c.settled_at, EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND "
    "l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database WHERE datname = "
    "current_database()) AND l.classid = ((k.key >> 32) & 4294967295)::oid AND l.objid = (k.key & "
    "4294967295)::oid), (SELECT count(*) FROM $T o WHERE o.seq > (SELECT top FROM q)) FROM (SELECT "
    "pipeline, outbox, sink, position, gaps, delivered_total, "
    "expired_total, skipped_total, dead_total, settled_at FROM $K WHERE outbox = $1 UNION ALL "
    "SELECT $2, $1, '', 0, '{}', 0, 0, 0, 0, NULL WHERE NOT EXISTS (SELECT FROM $K WHERE outbox = "
    "$1)) c CROSS JOIN LATERAL (SELECT hashtextextended('outrider/' || c.outbox || '/' || "
    "c.pipeline, 0) AS key) k ORDER BY c.pipeline";

static const char sql_count_failed[] =
    "SELECT count(*) FILTER (WHERE state <> 'dead'), count(*) FILTER (WHERE state = 'dead') FROM "
    "$P WHERE outbox = $1 AND pipeline = $2";

/* As parked.h (4) may hold it. */
#define STORED_HEX(text) "'\\x' || encode(convert_to(" text ", 'UTF8'), 'hex')"
#define DEAD_FILTER                                                                       \
    " ($1::text IS NULL OR pipeline = $1) AND ($2::text[] IS NULL OR id = ANY ($2)) AND " \
    "($3::text IS NULL OR event_type IN ($3, " STORED_HEX(                                \
        "$3") ")) AND updated_at >= $4 AND (state = 'dead' OR $5)"
static const char sql_list[] =
    "SELECT seq, id, aggregate_type, aggregate_id, event_type, payload, headers, topic, "
    "partition_key, partition, occurred_at, created_at, expires_at, NULL::int8, NULL::text, "
    "arrival, "
    "attempts, pipeline, state, error_code, error_message, parked_at, next_attempt_at, updated_at "
    "FROM $P "
    "WHERE" DEAD_FILTER " ORDER BY arrival";
/* Lanes are mended under each pipeline's own rule of whether a dead letter
 * blocks: the first live row is due at once, those behind it are queued. */
static const char sql_retry[] =
    "UPDATE $P SET state = 'queued', next_attempt_at = NULL, attempts = 0, updated_at = now() "
    "WHERE" DEAD_FILTER;
static const char sql_discard[] = "DELETE FROM $P WHERE" DEAD_FILTER;
static const char sql_mend[] =
    "WITH f AS MATERIALIZED (SELECT DISTINCT ON (p.pipeline, p.outbox, p.lane) p.pipeline, "
    "p.outbox, p.lane, p.arrival AS first FROM $P p LEFT JOIN $K c ON c.pipeline = p.pipeline AND "
    "c.outbox = p.outbox WHERE p.state <> 'dead' OR c.on_dead = 'block' ORDER BY p.pipeline, "
    "p.outbox, p.lane, p.arrival), s AS MATERIALIZED (SELECT p.arrival, p.arrival = f.first AS "
    "is_first FROM f JOIN $P p USING (pipeline, outbox, lane) WHERE p.state <> 'dead' AND "
    "(p.arrival = f.first) = (p.state = 'queued')) UPDATE $P p SET state = CASE WHEN s.is_first "
    "THEN 'parked' ELSE 'queued' END, next_attempt_at = CASE WHEN s.is_first THEN to_timestamp(0) "
    "END, updated_at = now() FROM s WHERE p.arrival = s.arrival";

/* With $T, $K and $P filled in. */
static int query(struct pg_store *s, const char *template, const struct pg_args *args,
                 const char *what, PGresult **ret_result, struct outrider_error *err)
{
    struct strbuf sql;
    outrider__strbuf_init(&sql, 32768);
    for (const char *p = template; *p != '\0'; p++) {
        const char *name = p[0] != '$'   ? NULL
                           : p[1] == 'T' ? s->cat.table
                           : p[1] == 'K' ? s->cat.cursor_table
                           : p[1] == 'P' ? s->cat.parked_table
                           : p[1] == 'S' ? s->cat.sequence
                                         : NULL;
        if (name == NULL) {
            strbuf_append_char(&sql, *p);
            continue;
        }
        strbuf_append_str(&sql, name);
        p++;
    }
    int rc = sql.failed
                 ? outrider__fail_nomem(err)
                 : outrider__pg_store_query(s, strbuf_cstr(&sql), args, what, ret_result, err);
    outrider__strbuf_release(&sql);
    return rc;
}

static void read_status(const PGresult *r, int row, struct store_status *st)
{
    *st = (struct store_status){
        .position = outrider__pg_get_int(r, row, 2, 0),
        .head = outrider__pg_get_int(r, row, 3, 0),
        .pending = (uint64_t)outrider__pg_get_int(r, row, 4, 0),
        .parked = (uint64_t)outrider__pg_get_int(r, row, 5, 0),
        .queued = (uint64_t)outrider__pg_get_int(r, row, 6, 0),
        .dead = (uint64_t)outrider__pg_get_int(r, row, 7, 0),
        .oldest_pending_us = outrider__pg_get_time(r, row, 8, 0),
        .delivered_total = (uint64_t)outrider__pg_get_int(r, row, 9, 0),
        .expired_total = (uint64_t)outrider__pg_get_int(r, row, 10, 0),
        .skipped_total = (uint64_t)outrider__pg_get_int(r, row, 11, 0),
        .dead_total = (uint64_t)outrider__pg_get_int(r, row, 12, 0),
        .settled_at_us = outrider__pg_get_time(r, row, 13, 0),
        .relay_active = outrider__pg_get_bool(r, row, 14),
        .ahead = (uint64_t)outrider__pg_get_int(r, row, 15, 0),
    };
    (void)snprintf(st->pipeline, sizeof st->pipeline, "%s", outrider__pg_get_str(r, row, 0));
    (void)snprintf(st->sink, sizeof st->sink, "%s", outrider__pg_get_str(r, row, 1));
}

static void tell_ahead(const struct pg_store *s, struct store_status *st)
{
    if (st->ahead > 0)
        (void)snprintf(st->ahead_text, sizeof st->ahead_text,
                       "%llu rows of %.150s have a seq above its sequence and wait until it comes "
                       "there; insert them anew without a seq, and delete these",
                       (unsigned long long)st->ahead, s->cat.table);
}

int outrider__pg_store_status(struct store *base, void (*row)(void *, const struct store_status *),
                              void *ctx, struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct pg_args args;
    PGresult *r = NULL;
    if (outrider__pg_store_ready(s, err) < 0)
        return -1;
    if (outrider__pg_store_has_states(s))
        return outrider__pg_tables_status(s, row, ctx, err);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, s->cat.table);
    outrider__pg_arg_str(&args, s->config->name);
    int rc = query(s, sql_status, &args, "cannot read the status", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    for (int i = 0; i < PQntuples(r); i++) {
        struct store_status st;
        read_status(r, i, &st);
        tell_ahead(s, &st);
        rc = outrider__pg_store_slot_status(s, &st, err);
        if (rc < 0)
            break;
        row(ctx, &st);
    }
    PQclear(r);
    return rc;
}

struct failed {
    const char *pipeline;
    uint64_t parked, dead;
};

static void add_failed(void *ctx, const struct store_status *st)
{
    struct failed *failed = ctx;
    if (strcmp(st->pipeline, failed->pipeline) == 0) {
        failed->parked += st->parked + st->queued;
        failed->dead += st->dead;
    }
}

int outrider__pg_store_count_failed(struct store *base, uint64_t *ret_parked, uint64_t *ret_dead,
                                    struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct failed failed = {.pipeline = s->config->name};
    struct pg_args args;
    PGresult *r = NULL;
    if (outrider__pg_store_ready(s, err) < 0)
        return -1;
    if (outrider__pg_store_has_states(s)) {
        if (outrider__pg_tables_status(s, add_failed, &failed, err) < 0)
            return -1;
    } else {
        outrider__pg_args_init(&args);
        outrider__pg_arg_str(&args, s->cat.table);
        outrider__pg_arg_str(&args, s->config->name);
        int rc = query(s, sql_count_failed, &args, "cannot count failures", &r, err);
        outrider__pg_args_release(&args);
        if (rc < 0)
            return -1;
        failed.parked = (uint64_t)outrider__pg_get_int(r, 0, 0, 0);
        failed.dead = (uint64_t)outrider__pg_get_int(r, 0, 1, 0);
        PQclear(r);
    }
    *ret_parked = failed.parked;
    *ret_dead = failed.dead;
    return 0;
}

static void add_filter(struct pg_args *args, const struct dead_filter *f)
{
    outrider__pg_args_init(args);
    outrider__pg_arg_str(args, f->pipeline);
    if (f->n_ids > 0) {
        outrider__pg_array_begin(args, PG_TEXT);
        for (size_t i = 0; i < f->n_ids; i++)
            outrider__pg_array_text(args, bytes_str(f->ids[i]));
        outrider__pg_array_end(args);
    } else {
        outrider__pg_arg_null(args, PG_TEXT_ARRAY);
    }
    outrider__pg_arg_str(args, f->event_type);
    outrider__pg_arg_time(args, f->since_us);
    outrider__pg_arg_bool(args, f->with_parked);
}

static int tell_row(const PGresult *r, int row, struct batch *b,
                    void (*tell)(void *, const struct dead_row *), void *ctx,
                    struct outrider_error *err)
{
    enum {
        ARRIVAL = EV_COLUMNS,
        ATTEMPTS,
        PIPELINE,
        STATE,
        CODE,
        MESSAGE,
        PARKED_AT,
        NEXT,
        UPDATED
    };
    struct dead_row d = {0};
    outrider__batch_reset(b);
    d.event = outrider__pg_row_stored(b, r, row, &EVENT_UNBOUNDED);
    if (d.event == NULL)
        return outrider__fail_nomem(err);
    if (outrider__pg_row_show(d.event, err) < 0)
        return -1;
    d.event->is_parked = true;
    d.event->arrival = outrider__pg_get_int(r, row, ARRIVAL, 0);
    d.event->attempts = (uint32_t)outrider__pg_get_int(r, row, ATTEMPTS, 0);
    d.pipeline = outrider__pg_get_str(r, row, PIPELINE);
    d.state = outrider__pg_get_str(r, row, STATE);
    d.error_code = outrider__pg_get_str(r, row, CODE);
    d.error_message = outrider__pg_get_str(r, row, MESSAGE);
    d.parked_at_us = outrider__pg_get_time(r, row, PARKED_AT, 0);
    d.next_attempt_us = outrider__pg_get_time(r, row, NEXT, 0);
    d.updated_at_us = outrider__pg_get_time(r, row, UPDATED, 0);
    tell(ctx, &d);
    return 0;
}

int outrider__pg_store_dead_list(struct store *base, const struct dead_filter *f,
                                 void (*row)(void *, const struct dead_row *), void *ctx,
                                 struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct pg_args args;
    struct batch b;
    PGresult *r = NULL;
    if (outrider__pg_store_ready(s, err) < 0 || outrider__batch_init(&b, 1, SIZE_MAX, err) < 0)
        return -1;
    add_filter(&args, f);
    int rc = query(s, sql_list, &args, "cannot list the parked events", &r, err);
    outrider__pg_args_release(&args);
    if (rc == 0) {
        for (int i = 0; rc == 0 && i < PQntuples(r); i++)
            rc = tell_row(r, i, &b, row, ctx, err);
        PQclear(r);
    }
    outrider__batch_release(&b);
    if (rc == 0 && outrider__pg_store_has_states(s))
        rc = outrider__pg_tables_dead_list(s, f, row, ctx, err);
    return rc;
}

/* A relay settles under its cursor row's lock: taking the same locks first, in
 * one order, keeps the two from waiting for each other. */
static int change(struct pg_store *s, const char *sql, const struct dead_filter *f, uint64_t *ret_n,
                  struct outrider_error *err)
{
    struct pg_args args;
    PGresult *r = NULL;
    uint64_t n_adopted = 0;
    int rc = query(s, "SELECT 1 FROM $K ORDER BY pipeline, outbox FOR UPDATE", NULL,
                   "cannot lock the cursors", NULL, err);
    if (rc < 0)
        return -1;
    if (outrider__pg_store_has_states(s) &&
        outrider__pg_tables_dead_change(s, f, sql == sql_discard, &n_adopted, err) < 0)
        return -1;
    add_filter(&args, f);
    rc = query(s, sql, &args, "cannot change the parked events", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    uint64_t n = outrider__pg_store_changed(r);
    PQclear(r);
    if (query(s, sql_mend, NULL, "cannot mend the lanes", NULL, err) < 0)
        return -1;
    *ret_n = n + n_adopted;
    return 0;
}

static int change_all(struct store *base, const char *sql, const struct dead_filter *f,
                      uint64_t *ret_n, struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    uint64_t n = 0;
    if (outrider__pg_store_ready(s, err) < 0 ||
        outrider__pg_store_exec(s, "BEGIN", "cannot begin", err) < 0)
        return -1;
    int rc = change(s, sql, f, &n, err);
    if (rc == 0)
        rc = outrider__pg_store_exec(s, "COMMIT", "cannot commit", err);
    if (rc < 0) {
        (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
        return -1;
    }
    *ret_n = n;
    return 0;
}

int outrider__pg_store_dead_retry(struct store *base, const struct dead_filter *f, uint64_t *ret_n,
                                  struct outrider_error *err)
{
    return change_all(base, sql_retry, f, ret_n, err);
}

int outrider__pg_store_dead_discard(struct store *base, const struct dead_filter *f,
                                    uint64_t *ret_n, struct outrider_error *err)
{
    return change_all(base, sql_discard, f, ret_n, err);
}
