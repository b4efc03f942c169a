/* SPDX-License-Identifier: MIT */
/*
 * Tables of applications in mode cdc, and our own layout status: read by their column maps.
 * Their rows from before the slot are read in the slot's snapshot (snapshot.c). What polling
 * settles at the end comes again in the stream, and is known by its id.
 */
#include <stdlib.h>

#include "common/outcome.h"
#include "postgres/cdc/cdc.h"
#include "postgres/poll_status/status.h"

/* Which role of a map fills which part of an event. */
static const struct {
    enum cdc_role to;
    enum column_role from;
} mapped_roles[] = {{COL_ID, ROLE_ID},
                    {COL_AGGREGATE_TYPE, ROLE_AGGREGATE_TYPE},
                    {COL_AGGREGATE_ID, ROLE_AGGREGATE_ID},
                    {COL_EVENT_TYPE, ROLE_EVENT_TYPE},
                    {COL_PAYLOAD, ROLE_PAYLOAD},
                    {COL_HEADERS, ROLE_HEADERS},
                    {COL_TOPIC, ROLE_TOPIC},
                    {COL_PARTITION_KEY, ROLE_PARTITION_KEY},
                    {COL_PARTITION, ROLE_PARTITION},
                    {COL_OCCURRED_AT, ROLE_OCCURRED_AT},
                    {COL_CREATED_AT, ROLE_CREATED_AT},
                    {COL_EXPIRES_AT, ROLE_EXPIRES_AT}};

/* The first part of a quoted name, without its quotes. */
static void mapped_schema(const char *quoted, char ret_schema[64])
{
    size_t n = 0;
    bool is_quoted = *quoted == '"';
    for (const char *p = quoted + is_quoted; *p != '\0' && n < 63; p++) {
        if (is_quoted && *p == '"') {
            if (p[1] != '"')
                break;
            p++;
        } else if (!is_quoted && *p == '.') {
            break;
        }
        ret_schema[n++] = *p;
    }
    ret_schema[n] = '\0';
}

static struct cdc_outbox mapped_outbox(struct cdc_table *t)
{
    struct cdc_outbox o = {.oid = t->a.id,
                           .schema = t->schema,
                           .table = t->a.table.name,
                           .is_mapped = true,
                           .aggregate_type = t->a.map.aggregate_type,
                           .event_type = t->a.map.event_type,
                           .epoch = t->a.map.epoch};
    for (size_t i = 0; i < sizeof mapped_roles / sizeof *mapped_roles; i++) {
        const struct map_column *c = t->a.map.columns[mapped_roles[i].from];
        if (c == NULL)
            continue;
        o.columns[mapped_roles[i].to] = c->name;
        o.is_bytes[mapped_roles[i].to] = c->kind == KIND_BYTES;
    }
    for (; o.n_headers < t->a.map.n_headers; o.n_headers++)
        o.headers[o.n_headers] = (struct cdc_header){t->a.map.headers[o.n_headers].name,
                                                     t->a.map.headers[o.n_headers].column->name};
    return o;
}

static void mapped_append_row_is(struct strbuf *q, const struct outbox_table *a, const char *id)
{
    outrider__sql_column(q, a, ROLE_ID, "o.");
    outrider__strbuf_appendf(q, " = %s::%s", id, a->map.columns[ROLE_ID]->type);
}

static void mapped_append_delete(struct strbuf *q, const struct outbox_table *a)
{
    outrider__strbuf_appendf(q, "DELETE FROM %s o WHERE ", a->outbox);
    outrider__sql_column(q, a, ROLE_ID, "o.");
    outrider__strbuf_appendf(q, " = ANY ($1::text[]::%s[])", a->map.columns[ROLE_ID]->type);
}

/* The rows that polling had not settled. A table without a mark does not say that: then all
 * of its rows. */
static void mapped_append_snapshot(struct strbuf *q, const struct pg_source *s,
                                   const struct outbox_table *a)
{
    struct pg_bounds bounds = outrider__pg_bounds_fixed(s->config, false);
    strbuf_append_str(q, "DECLARE outrider_sweep BINARY NO SCROLL CURSOR FOR SELECT ");
    outrider__pg_sql_event(q, a, "o.", &bounds);
    outrider__strbuf_appendf(q, " FROM %s o WHERE ", a->outbox);
    if (a->map.mark != MARK_NONE) {
        outrider__sql_unsettled(q, a, "o.");
        strbuf_append_str(q, " AND ");
    }
    outrider__pg_sql_id(q, a, "o.");
    outrider__strbuf_appendf(q, " NOT IN (SELECT p.id FROM %s p WHERE p.id IS NOT NULL AND ",
                             a->parked_table);
    strbuf_append_str(q, "p.pipeline = ");
    outrider__sql_literal(q, s->config->name);
    strbuf_append_str(q, " AND p.outbox = ");
    outrider__sql_literal(q, a->outbox);
    strbuf_append_str(q, ")");
    outrider__pg_sql_order(q, a, "o.");
}

static int mapped_prepare_cleanup(struct pg_source *s, struct cdc_table *t,
                                  struct outrider_error *err)
{
    struct strbuf q;
    if (t->a.map.mark == MARK_NONE || (!t->a.is_ours && !s->config->cleanup.adopted))
        return 0;
    outrider__strbuf_init(&q, CDC_SQL_CAP);
    outrider__pg_sql_cleanup(&q, &t->a);
    t->cleanup =
        (struct pg_statement){.sql = q.data, .what = "cannot clean up", .purpose = PG_CLEANS};
    return outrider__cdc_take_sql(&t->cleanup_sql, &q, err);
}

static int mapped_prepare_snapshot(struct pg_source *s, struct cdc_table *t,
                                   struct outrider_error *err)
{
    struct strbuf q;
    outrider__strbuf_init(&q, CDC_SQL_CAP);
    mapped_append_snapshot(&q, s, &t->a);
    free(t->snapshot_sql);
    t->snapshot_sql = NULL;
    return outrider__cdc_take_sql(&t->snapshot_sql, &q, err);
}

static int mapped_learn(struct pg_source *s, size_t i, const struct column_map *polled,
                        struct outrider_error *err)
{
    struct cdc_table *t = &cdc_of(s)->tables.items[i];
    if (!t->a.map.waits_for_words || polled->waits_for_words)
        return 0;
    memcpy(t->a.map.values, polled->values, sizeof t->a.map.values);
    t->a.map.waits_for_words = false;
    return mapped_prepare_snapshot(s, t, err);
}

static int mapped_refuse_generated(const struct cdc_table *t, const char *column,
                                   struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' is generated from others, and the server does not "
                          "stream such columns; name the column that holds the value, or poll the "
                          "table (--mode poll)",
                          t->a.outbox, column);
}

/* From PostgreSQL 18 on a publication can have generated columns. */
static int mapped_check_streamed(const struct pg_source *s, const struct cdc_table *t,
                                 struct outrider_error *err)
{
    if (s->cat.version >= 180000)
        return 0;
    for (size_t i = 0; i < sizeof mapped_roles / sizeof *mapped_roles; i++) {
        const struct map_column *c = t->a.map.columns[mapped_roles[i].from];
        if (c != NULL && c->is_generated)
            return mapped_refuse_generated(t, c->name, err);
    }
    for (size_t i = 0; i < t->a.map.n_headers; i++)
        if (t->a.map.headers[i].column->is_generated)
            return mapped_refuse_generated(t, t->a.map.headers[i].column->name, err);
    return 0;
}

static int mapped_prepare_table(struct pg_source *s, struct cdc_table *t,
                                struct outrider_error *err)
{
    int after = s->config->source.after_publish;
    struct strbuf q;
    mapped_schema(t->a.outbox, t->schema);
    if (mapped_check_streamed(s, t, err) < 0 || mapped_prepare_snapshot(s, t, err) < 0)
        return -1;
    if (after == AFTER_PUBLISH_MARK && t->a.map.mark == MARK_NONE)
        return outrider__cdc_refuse_mark(t->a.outbox, err);
    if (after == AFTER_PUBLISH_MARK && t->a.map.waits_for_words)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "after_publish: mark: nothing tells yet which word in column '%s' of "
                              "%s means published; say it with map.status_values: {pending: VALUE, "
                              "published: VALUE}",
                              t->a.map.columns[ROLE_STATUS]->name, t->a.outbox);
    if (after != AFTER_PUBLISH_MARK && after != AFTER_PUBLISH_DELETE)
        return 0;
    outrider__strbuf_init(&q, CDC_SQL_CAP);
    if (after == AFTER_PUBLISH_MARK)
        outrider__pg_mark_sql(&q, &t->a);
    else
        mapped_append_delete(&q, &t->a);
    if (outrider__cdc_take_sql(&t->settle_sql, &q, err) < 0)
        return -1;
    t->settle = (struct pg_statement){.sql = t->settle_sql,
                                      .what = after == AFTER_PUBLISH_MARK
                                                  ? "cannot mark events as published"
                                                  : "cannot remove published events"};
    return 0;
}

/* A column in the form in which parked.h (4) stores it. */
static void mapped_append_stored(struct strbuf *q, const char *column)
{
    outrider__pg_stored_sql(q, column);
    outrider__strbuf_appendf(q, " AS %s, ", strchr(column, '.') + 1);
}

/* An id is cast to the type of its own table only: the cast to another table's type may
 * fail. */
static void mapped_append_whole_row(struct strbuf *q, const struct outbox_table *a)
{
    static const char *const stored[] = {"e.aggregate_type", "e.aggregate_id", "e.event_type",
                                         "e.headers",        "e.topic",        "e.partition_key"};
    struct strbuf id;
    outrider__strbuf_init(&id, 256);
    outrider__strbuf_appendf(&id, "(CASE WHEN u.is_cut = 1 AND u.seq = %u THEN u.id END)", a->id);
    strbuf_append_str(q, "SELECT e.id, ");
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
        mapped_append_stored(q, stored[i]);
    outrider__pg_bytea_sql(q, a->map.columns[ROLE_PAYLOAD]->type_id, "e.payload");
    strbuf_append_str(q, " AS payload FROM (SELECT ");
    outrider__pg_sql_event(q, a, "o.", NULL);
    outrider__strbuf_appendf(q, " FROM %s o WHERE ", a->outbox);
    mapped_append_row_is(q, a, strbuf_cstr(&id));
    strbuf_append_str(q,
                      " OFFSET 0) AS e(seq, id, aggregate_type, aggregate_id, event_type, payload, "
                      "headers, topic, partition_key, partition, occurred_at, created_at, "
                      "expires_at, size, large)");
    q->failed |= id.failed;
    outrider__strbuf_release(&id);
}

static void mapped_append_oversize(struct strbuf *sql, const struct pg_source *s)
{
    const struct cdc_tables *t = &cdc_of((struct pg_source *)s)->tables;
    for (size_t i = 0; i < t->n; i++) {
        strbuf_append_str(sql, i > 0 ? " UNION ALL " : "");
        mapped_append_whole_row(sql, &t->items[i].a);
    }
}

static const char *mapped_name(const struct pg_source *s, size_t i)
{
    return cdc_of((struct pg_source *)s)->tables.items[i].a.outbox;
}

/* Every table has a mark, and the relay may write it. */
static const struct pg_layout *mapped_poller(const struct pg_source *s)
{
    const struct cdc_tables *t = &cdc_of((struct pg_source *)s)->tables;
    for (size_t i = 0; i < t->n; i++)
        if (!t->items[i].a.can_be_polled)
            return NULL;
    return &outrider__pg_layout_status;
}

/* Tries the statements of after_publish without a row: they must be possible before an event
 * is published. */
static int mapped_try_settles(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (outrider__pg_request_begin(&s->conn, NULL, NULL, err) < 0)
        return -1;
    outrider__pg_args_clear(&c->args);
    outrider__pg_array_begin(&c->args, PG_TEXT);
    outrider__pg_array_end(&c->args);
    for (size_t i = 0; i < c->tables.n; i++)
        if (c->tables.items[i].settle_sql != NULL &&
            outrider__pg_request_try(&s->conn, &c->tables.items[i].settle, &c->args, err) < 0)
            return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int mapped_prepare(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    for (size_t i = 0; i < t->n; i++) {
        if (mapped_prepare_table(s, &t->items[i], err) < 0 ||
            mapped_prepare_cleanup(s, &t->items[i], err) < 0)
            return -1;
        t->outboxes[i] = mapped_outbox(&t->items[i]);
    }
    return mapped_try_settles(s, err);
}

static int mapped_settle_table(struct pg_source *s, struct cdc_table *t, const struct event *events,
                               size_t n, struct pg_args *a, struct outrider_error *err)
{
    size_t n_done = 0;
    outrider__pg_args_clear(a);
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        if (cdc_event_table(&events[i]) == (int64_t)t->a.id &&
            outrider__cdc_is_finished(s, &events[i])) {
            outrider__pg_array_text(a, events[i].id);
            n_done++;
        }
    outrider__pg_array_end(a);
    return n_done > 0 ? outrider__pg_request_add(&s->conn, &t->settle, a, err) : 0;
}

static int mapped_settle(struct pg_source *s, const struct event *events, size_t n,
                         struct pg_args *a, struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    for (size_t i = 0; i < t->n; i++)
        if (t->items[i].settle_sql != NULL &&
            mapped_settle_table(s, &t->items[i], events, n, a, err) < 0)
            return -1;
    return 0;
}

static int mapped_on_cleaned(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)err;
    for (int i = 0; i < n; i++) {
        uint64_t removed = strtoull(PQcmdTuples(results[i]), NULL, 10);
        op->op->removed += removed;
        op->op->more |= removed > 0 && removed >= (uint64_t)op->source->config->cleanup.batch;
    }
    pg_op_done(op);
    return 0;
}

static int mapped_cleanup(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    size_t n = 0;
    op->op->removed = 0;
    op->op->more = false;
    for (size_t i = 0; i < c->tables.n; i++)
        n += c->tables.items[i].cleanup_sql != NULL;
    if (n == 0 || s->config->cleanup.retention_us <= 0) {
        pg_op_done(op);
        return 0;
    }
    if (outrider__pg_request_begin(&s->conn, mapped_on_cleaned, op, err) < 0)
        return -1;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_time(&c->args, op->op->now_wall_us - s->config->cleanup.retention_us);
    outrider__pg_arg_int8(&c->args, s->config->cleanup.batch);
    for (size_t i = 0; i < c->tables.n; i++) {
        struct cdc_table *t = &c->tables.items[i];
        if (t->cleanup_sql != NULL &&
            outrider__pg_request_add(&s->conn, &t->cleanup, &c->args, err) < 0)
            return -1;
    }
    return outrider__pg_request_end(&s->conn, err);
}

/* Parked rows of all tables stand under the first table's name. */
static int mapped_add_take_over(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->move.mode == CURSOR_CDC)
        return 0;
    outrider__pg_cursor_args(s, &c->args);
    outrider__cdc_tables_names(s, &c->args);
    outrider__cdc_tables_oids(s, &c->args);
    return outrider__pg_request_add(&s->conn, &c->st[CDC_GATHER], &c->args, err);
}

/* What polling settles last may come again in the stream: cdc.h (7). A failed event comes
 * again on purpose, unless it has a copy that is tried by itself. */
static int mapped_note_polled(struct pg_source *s, const struct batch *b,
                              struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const struct outbox_table *t = c->move.poller->table_of(s, b);
    for (size_t i = 0; t != NULL && i < b->n_settle; i++) {
        const struct event *e = &b->events[i];
        bool is_final = outcome_is_published(e) || outcome_is_given_up(e) ||
                        (e->outcome == OUTCOME_PARKED && t->parks_retries);
        if (is_final &&
            outrider__late_ids_note(&c->stream.polled.late, t->id, e->id, s->now.mono_us) < 0)
            return outrider__fail_nomem(err);
    }
    return 0;
}

static int mapped_end_polling(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const struct pg_layout *poller = c->move.poller;
    outrider__late_ids_freeze(&c->stream.polled.late);
    for (size_t i = 0; poller != NULL && i < c->tables.n; i++)
        if (mapped_learn(s, i, &poller->table_at(s, i)->map, err) < 0)
            return -1;
    outrider__cdc_arrive_end_polling(s);
    if (c->move.skips_rows)
        c->snapshot.at = c->tables.n;
    return outrider__cdc_take_over(s, err);
}

/* The pipeline's other tables become members. */
static int mapped_save_cdc(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const char *sink = s->config->sink_identity;
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, c->cursor.epoch);
    outrider__cdc_tables_names(s, &c->args);
    outrider__pg_arg_str(&c->args, sink != NULL ? sink : "");
    outrider__pg_arg_str(&c->args, c->published);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_MAPPED], &c->args,
                                outrider__cdc_snapshot_on_saved, s, err);
}

const struct cdc_rows_ops outrider__cdc_rows_mapped = {
    .reads_in_snapshot = true,
    .has_seqs = false,
    .poller = mapped_poller,
    .prepare = mapped_prepare,
    .name = mapped_name,
    .append_oversize = mapped_append_oversize,
    .add_take_over = mapped_add_take_over,
    .note_polled = mapped_note_polled,
    .end_polling = mapped_end_polling,
    .fetch = outrider__cdc_snapshot_fetch,
    .tick = outrider__cdc_snapshot_tick,
    .save_cdc = mapped_save_cdc,
    .settle = mapped_settle,
    .cleanup = mapped_cleanup,
};
