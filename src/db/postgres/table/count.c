/* SPDX-License-Identifier: MIT */
/*
 * How many events wait, have failed or are dead, in tables whose rows carry their state.
 * What a row has no place for stands in outrider_parked (poll_status/status.h (6)).
 */
#include <stdio.h>

#include "postgres/store/store.h"
#include "postgres/table/table.h"

#define TABLE_SQL_CAP 131072

/* Rows that nobody has tried yet, or that will be tried at once. $1: pipeline.
 * Mode cdc need not mark rows: what is settled it knows by their transactions. */
static void count_waits(struct strbuf *q, const struct outbox_table *a)
{
    if (a->map.mark == MARK_NONE && a->cursor_table[0] != '\0')
        outrider__strbuf_appendf(q,
                                 "EXISTS (SELECT FROM %s k WHERE k.pipeline = $1::text AND k.mode "
                                 "= 'cdc')",
                                 a->cursor_table);
    else
        outrider__pg_sql_unsettled(q, a, "o.");
    outrider__pg_sql_not_streamed(q, a, "$1::text");
    if (!a->parks_retries) {
        strbuf_append_str(q, " AND NOT ");
        outrider__pg_sql_is_state(q, a, STATE_FAILED);
    }
    if (a->parks_dead) {
        strbuf_append_str(q, " AND ");
        outrider__pg_sql_id(q, a, "o.");
        outrider__strbuf_appendf(q,
                                 " NOT IN (SELECT p.id FROM %s p WHERE p.pipeline = "
                                 "$1::text AND p.id IS NOT NULL AND p.outbox = ",
                                 a->parked_table);
        outrider__pg_sql_literal(q, a->outbox);
        strbuf_append_str(q, ")");
    }
}

static void count_state(struct strbuf *q, const struct outbox_table *a, bool is_kept,
                        enum map_state state)
{
    strbuf_append_str(q, ", ");
    if (!is_kept) {
        strbuf_append_str(q, "0::int8");
        return;
    }
    outrider__strbuf_appendf(q, "(SELECT count(*) FROM %s o WHERE ", a->outbox);
    outrider__pg_sql_is_state(q, a, state);
    strbuf_append_str(q, ")");
}

/* pending, failed, dead (in the table), parked, dead (copies), oldest. */
static void count_sql(struct strbuf *q, const struct outbox_table *a)
{
    bool has_time = a->map.columns[ROLE_CREATED_AT] != NULL;
    outrider__strbuf_appendf(q, "SELECT (SELECT count(*) FROM %s o WHERE ", a->outbox);
    count_waits(q, a);
    strbuf_append_str(q, ")");
    count_state(q, a, !a->parks_retries, STATE_FAILED);
    count_state(q, a, !a->parks_dead, STATE_DEAD);
    for (int dead = 0; dead < 2; dead++) {
        outrider__strbuf_appendf(q,
                                 ", (SELECT count(*) FROM %s p WHERE p.pipeline = $1::text AND "
                                 "p.outbox = ",
                                 a->parked_table);
        outrider__pg_sql_literal(q, a->outbox);
        outrider__strbuf_appendf(q, " AND p.state %s 'dead')", dead ? "=" : "<>");
    }
    if (!has_time) {
        strbuf_append_str(q, ", NULL::timestamptz");
        return;
    }
    strbuf_append_str(q, ", (SELECT ");
    outrider__pg_sql_time_of(q, a, ROLE_CREATED_AT, "m.oldest");
    strbuf_append_str(q, " FROM (SELECT min(");
    outrider__pg_sql_column(q, a, ROLE_CREATED_AT, "o.");
    outrider__strbuf_appendf(q, ") AS oldest FROM %s o WHERE ", a->outbox);
    count_waits(q, a);
    strbuf_append_str(q, ") m)");
}

/* Rows that wait for ever, unless somebody says what their state means. */
static int count_add_uncovered(struct pg_store *s, const struct outbox_table *a,
                               struct store_status *st, struct outrider_error *err)
{
    struct strbuf words;
    uint64_t n = 0;
    size_t len = strlen(st->uncovered_text);
    outrider__strbuf_init(&words, TABLE_SQL_CAP);
    int rc = outrider__pg_tables_uncovered(s, a, st->pipeline, &words, &n, err);
    if (rc == 0 && n > 0)
        (void)snprintf(st->uncovered_text + len, sizeof st->uncovered_text - len,
                       "%s%llu %s of %s %s in a state that no word covers: %s", len > 0 ? "; " : "",
                       (unsigned long long)n, n == 1 ? "row" : "rows", a->outbox,
                       n == 1 ? "is" : "are", strbuf_cstr(&words));
    st->uncovered += n;
    outrider__strbuf_release(&words);
    return rc;
}

static int count_add(struct pg_store *s, const struct outbox_table *a, void *ctx,
                     struct outrider_error *err)
{
    struct store_status *st = ctx;
    struct strbuf q;
    struct pg_args args;
    PGresult *r = NULL;
    outrider__strbuf_init(&q, TABLE_SQL_CAP);
    count_sql(&q, a);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, st->pipeline);
    int rc = outrider__pg_tables_query(s, &q, &args, "cannot count the events", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    st->pending += (uint64_t)outrider__pg_get_int(r, 0, 0, 0);
    st->parked += (uint64_t)(outrider__pg_get_int(r, 0, 1, 0) + outrider__pg_get_int(r, 0, 3, 0));
    st->dead += (uint64_t)(outrider__pg_get_int(r, 0, 2, 0) + outrider__pg_get_int(r, 0, 4, 0));
    int64_t oldest = outrider__pg_get_time(r, 0, 5, 0);
    if (oldest != 0 && (st->oldest_pending_us == 0 || oldest < st->oldest_pending_us))
        st->oldest_pending_us = oldest;
    PQclear(r);
    return count_add_uncovered(s, a, st, err);
}

/* One row a pipeline, over all its tables; $1: tables, $2: the pipeline that is
 * shown where none has run yet. The lock is on the first table. */
static const char count_sql_pipelines[] =
    "SELECT c.pipeline, max(c.sink), sum(c.delivered_total)::int8, sum(c.expired_total)::int8, "
    "sum(c.skipped_total)::int8, sum(c.dead_total)::int8, max(c.settled_at), bool_or(EXISTS ("
    "SELECT FROM pg_locks l CROSS JOIN LATERAL (SELECT hashtextextended('outrider/' || c.outbox || "
    "'/' || c.pipeline, 0) AS key) k WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = "
    "1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND "
    "l.classid = ((k.key >> 32) & 4294967295)::oid AND l.objid = (k.key & 4294967295)::oid)) FROM "
    "(SELECT pipeline, outbox, sink, delivered_total, expired_total, skipped_total, dead_total, "
    "settled_at FROM %s WHERE outbox = ANY ($1::text[]) UNION ALL SELECT $2::text, '', '', 0, 0, "
    "0, 0, NULL WHERE NOT EXISTS (SELECT FROM %s WHERE outbox = ANY ($1::text[]))) c GROUP BY "
    "c.pipeline ORDER BY c.pipeline";

static int count_add_name(struct pg_store *s, const struct outbox_table *a, void *ctx,
                          struct outrider_error *err)
{
    (void)s;
    (void)err;
    outrider__pg_array_text(ctx, bytes_str(a->outbox));
    return 0;
}

int outrider__pg_tables_status(struct pg_store *s, void (*row)(void *, const struct store_status *),
                               void *ctx, struct outrider_error *err)
{
    struct strbuf q;
    struct pg_args args;
    PGresult *r = NULL;
    outrider__pg_args_init(&args);
    outrider__pg_array_begin(&args, PG_TEXT);
    int rc = outrider__pg_tables_each(s, count_add_name, &args, err);
    outrider__pg_array_end(&args);
    outrider__pg_arg_str(&args, s->config->name);
    outrider__strbuf_init(&q, TABLE_SQL_CAP);
    outrider__strbuf_appendf(&q, count_sql_pipelines, s->cat.cursor_table, s->cat.cursor_table);
    if (rc == 0)
        rc = outrider__pg_tables_query(s, &q, &args, "cannot read the status", &r, err);
    else
        outrider__strbuf_release(&q);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct store_status st = {
            .delivered_total = (uint64_t)outrider__pg_get_int(r, i, 2, 0),
            .expired_total = (uint64_t)outrider__pg_get_int(r, i, 3, 0),
            .skipped_total = (uint64_t)outrider__pg_get_int(r, i, 4, 0),
            .dead_total = (uint64_t)outrider__pg_get_int(r, i, 5, 0),
            .settled_at_us = outrider__pg_get_time(r, i, 6, 0),
            .relay_active = outrider__pg_get_bool(r, i, 7),
        };
        (void)snprintf(st.pipeline, sizeof st.pipeline, "%s", outrider__pg_get_str(r, i, 0));
        (void)snprintf(st.sink, sizeof st.sink, "%s", outrider__pg_get_str(r, i, 1));
        rc = outrider__pg_tables_each(s, count_add, &st, err);
        if (rc == 0)
            rc = outrider__pg_store_slot_status(s, &st, err);
        if (rc == 0)
            row(ctx, &st);
    }
    PQclear(r);
    return rc;
}
