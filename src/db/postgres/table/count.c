/* SPDX-License-Identifier: MIT */
/*
 * How many events wait, have failed or are dead, in tables whose rows carry their state.
 * What a row has no place for stands in outrider_parked (poll_status/status.h (6)).
 */
#include <stdio.h>

#include "common/sql.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"
#include "table.sql.h"

/* Result columns of table_counts. */
enum { COUNT_PENDING, COUNT_FAILED, COUNT_DEAD, COUNT_PARKED, COUNT_PARKED_DEAD, COUNT_OLDEST };
/* Result columns of table_pipelines. */
enum {
    PIPELINE_NAME,
    PIPELINE_SINK,
    PIPELINE_DELIVERED,
    PIPELINE_EXPIRED,
    PIPELINE_SKIPPED,
    PIPELINE_DEAD,
    PIPELINE_SETTLED_AT,
    PIPELINE_IS_ACTIVE
};

/* The words that every block here may use. */
struct count_words {
    struct sql_word items[12];
    size_t n;
    struct strbuf outbox, id, waits, failed, dead, oldest;
};

static void count_append(const struct count_words *w, struct strbuf *sql, const char *block)
{
    outrider__sql_append(sql, block, w->items, w->n);
}

static void count_add_word(struct count_words *w, const char *name, const char *value)
{
    w->items[w->n++] = (struct sql_word){name, value};
}

/* Rows that nobody has tried yet, or that will be tried at once. $1: pipeline.
 * Mode cdc need not mark rows: what is settled it knows by their transactions. */
static void count_waits(const struct count_words *w, struct strbuf *sql,
                        const struct outbox_table *a)
{
    if (a->map.mark == MARK_NONE && a->cursor_table[0] != '\0')
        count_append(w, sql, sql_table_is_streamed);
    else
        outrider__sql_unsettled(sql, a, "o.");
    outrider__pg_sql_not_streamed(sql, a, "$1::text");
    if (!a->parks_retries) {
        strbuf_append_str(sql, " AND NOT ");
        outrider__sql_is_state(sql, a, STATE_FAILED, "o.");
    }
    if (a->parks_dead) {
        strbuf_append_str(sql, " AND ");
        count_append(w, sql, sql_table_is_not_parked);
    }
}

static void count_state(struct strbuf *sql, const struct outbox_table *a, bool is_kept,
                        enum map_state state)
{
    if (!is_kept) {
        strbuf_append_str(sql, "0::int8");
        return;
    }
    outrider__strbuf_appendf(sql, "(SELECT count(*) FROM %s o WHERE ", a->outbox);
    outrider__sql_is_state(sql, a, state, "o.");
    strbuf_append_str(sql, ")");
}

static void count_oldest(struct strbuf *sql, const struct outbox_table *a, const char *waits)
{
    if (a->map.columns[ROLE_CREATED_AT] == NULL) {
        strbuf_append_str(sql, "NULL::timestamptz");
        return;
    }
    strbuf_append_str(sql, "(SELECT ");
    outrider__pg_sql_time_of(sql, a, ROLE_CREATED_AT, "m.oldest");
    strbuf_append_str(sql, " FROM (SELECT min(");
    outrider__sql_column(sql, a, ROLE_CREATED_AT, "o.");
    outrider__strbuf_appendf(sql, ") AS oldest FROM %s o WHERE %s) m)", a->outbox, waits);
}

static void count_sql(struct strbuf *sql, const struct outbox_table *a)
{
    struct count_words w = {.n = 0};
    struct strbuf *const parts[] = {&w.outbox, &w.id, &w.waits, &w.failed, &w.dead, &w.oldest};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        outrider__strbuf_init(parts[i], SQL_TEXT_CAP);
    outrider__sql_literal(&w.outbox, a->outbox);
    outrider__pg_sql_id(&w.id, a, "o.");
    count_add_word(&w, "table", a->outbox);
    count_add_word(&w, "cursor", a->cursor_table);
    count_add_word(&w, "parked", a->parked_table);
    count_add_word(&w, "outbox", strbuf_cstr(&w.outbox));
    count_add_word(&w, "id", strbuf_cstr(&w.id));
    count_waits(&w, &w.waits, a);
    count_state(&w.failed, a, !a->parks_retries, STATE_FAILED);
    count_state(&w.dead, a, !a->parks_dead, STATE_DEAD);
    count_oldest(&w.oldest, a, strbuf_cstr(&w.waits));
    count_add_word(&w, "waits", strbuf_cstr(&w.waits));
    count_add_word(&w, "failed", strbuf_cstr(&w.failed));
    count_add_word(&w, "dead", strbuf_cstr(&w.dead));
    count_add_word(&w, "oldest", strbuf_cstr(&w.oldest));
    count_append(&w, sql, sql_table_counts);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        sql->failed |= parts[i]->failed;
        outrider__strbuf_release(parts[i]);
    }
}

/* Rows that wait for ever, unless somebody says what their state means. */
static int count_add_uncovered(struct pg_store *s, const struct outbox_table *a,
                               struct store_status *st, struct outrider_error *err)
{
    struct strbuf words;
    uint64_t n = 0;
    size_t len = strlen(st->uncovered_text);
    outrider__strbuf_init(&words, SQL_TEXT_CAP);
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

static uint64_t count_at(const PGresult *r, int column)
{
    return (uint64_t)outrider__pg_get_int(r, 0, column, 0);
}

static int count_add(struct pg_store *s, const struct outbox_table *a, void *ctx,
                     struct outrider_error *err)
{
    struct store_status *st = ctx;
    struct strbuf q;
    struct pg_args args;
    PGresult *r = NULL;
    outrider__strbuf_init(&q, SQL_TEXT_CAP);
    count_sql(&q, a);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, st->pipeline);
    int rc = outrider__pg_tables_query(s, &q, &args, "cannot count the events", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    st->pending += count_at(r, COUNT_PENDING);
    st->parked += count_at(r, COUNT_FAILED) + count_at(r, COUNT_PARKED);
    st->dead += count_at(r, COUNT_DEAD) + count_at(r, COUNT_PARKED_DEAD);
    int64_t oldest = outrider__pg_get_time(r, 0, COUNT_OLDEST, 0);
    if (oldest != 0 && (st->oldest_pending_us == 0 || oldest < st->oldest_pending_us))
        st->oldest_pending_us = oldest;
    PQclear(r);
    return count_add_uncovered(s, a, st, err);
}

static int count_add_name(struct pg_store *s, const struct outbox_table *a, void *ctx,
                          struct outrider_error *err)
{
    (void)s;
    (void)err;
    outrider__pg_array_text(ctx, bytes_str(a->outbox));
    return 0;
}

static void count_read_pipeline(const PGresult *r, int i, struct store_status *ret_status)
{
    *ret_status = (struct store_status){
        .delivered_total = (uint64_t)outrider__pg_get_int(r, i, PIPELINE_DELIVERED, 0),
        .expired_total = (uint64_t)outrider__pg_get_int(r, i, PIPELINE_EXPIRED, 0),
        .skipped_total = (uint64_t)outrider__pg_get_int(r, i, PIPELINE_SKIPPED, 0),
        .dead_total = (uint64_t)outrider__pg_get_int(r, i, PIPELINE_DEAD, 0),
        .settled_at_us = outrider__pg_get_time(r, i, PIPELINE_SETTLED_AT, 0),
        .relay_active = outrider__pg_get_bool(r, i, PIPELINE_IS_ACTIVE),
    };
    (void)snprintf(ret_status->pipeline, sizeof ret_status->pipeline, "%s",
                   outrider__pg_get_str(r, i, PIPELINE_NAME));
    (void)snprintf(ret_status->sink, sizeof ret_status->sink, "%s",
                   outrider__pg_get_str(r, i, PIPELINE_SINK));
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
    outrider__strbuf_init(&q, SQL_TEXT_CAP);
    const struct sql_word words[] = {{"cursor", s->cat.cursor_table}};
    outrider__sql_append(&q, sql_table_pipelines, words, 1);
    if (rc == 0)
        rc = outrider__pg_tables_query(s, &q, &args, "cannot read the status", &r, err);
    else
        outrider__strbuf_release(&q);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct store_status st;
        count_read_pipeline(r, i, &st);
        rc = outrider__pg_tables_each(s, count_add, &st, err);
        if (rc == 0)
            rc = outrider__pg_store_slot_status(s, &st, err);
        if (rc == 0)
            row(ctx, &st);
    }
    PQclear(r);
    return rc;
}
