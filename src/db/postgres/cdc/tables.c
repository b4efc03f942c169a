/* SPDX-License-Identifier: MIT */
/* The tables of mode cdc: their maps, and what is done to their rows. */
#include "common/outcome.h"
#include "postgres/cdc/tables.h"

#include <stdlib.h>

#include "postgres/cdc/cdc.h"

#define SQL_CAP 131072

/* Another pipeline that polls reads the rows, and one that has not finished its
 * sweep does too. $1 pipeline, $2 outbox. */
static const char sql_delete_log[] =
    "DELETE FROM $T o WHERE o.seq = ANY ($3::int8[]) AND NOT EXISTS (SELECT FROM $K k WHERE "
    "k.outbox = $2 AND k.pipeline <> $1 AND CASE WHEN k.mode = 'cdc' THEN k.sweep @> o.seq ELSE "
    "k.position <= o.seq OR k.gaps @> o.seq END)";

/* Which column of a map is which of an event's. */
static const struct {
    enum cdc_role to;
    enum column_role from;
} roles[] = {{COL_ID, ROLE_ID},
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

bool outrider__cdc_is_mapped(const struct pg_catalog *cat, const struct pipeline_config *config)
{
    return outrider__pg_table_has_states(cat, config);
}

static struct outbox_table *table_at(struct pg_source *s, size_t i)
{
    return &cdc_of(s)->tables.items[i].a;
}

int outrider__cdc_tables_begin(struct pg_source *s,
                               int (*done)(struct pg_source *, struct outrider_error *),
                               struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    t->is_mapped = outrider__cdc_is_mapped(&s->cat, s->config);
    outrider__arena_init(&t->arena, 16384);
    outrider__strbuf_init(&t->names, SQL_CAP);
    /* What was delivered of the rows that stood there before is not in the cursor. */
    if (t->is_mapped && s->config->exactly_once)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "exactly_once in mode cdc reads an outbox of layout log, and %s is "
                              "none; poll it (--mode poll), or leave exactly_once out",
                              s->cat.table);
    if (!t->is_mapped)
        return outrider__pg_catalog_check_log(&s->cat, err) < 0 ? -1 : done(s, err);
    int n = outrider__study_count(s->config, err);
    if (n < 0)
        return -1;
    t->items = calloc((size_t)n, sizeof *t->items);
    if (t->items == NULL)
        return outrider__fail_nomem(err);
    t->n = (size_t)n;
    t->adoption = (struct table_reader){
        .s = s, .n = t->n, .table = table_at, .done = done, .arena = &t->arena};
    return outrider__pg_table_reader_begin(&t->adoption, err);
}

/* The first part of a quoted name, without its quotes. */
static void schema_of(const char *quoted, char ret_schema[64])
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

static struct cdc_outbox outbox_of(struct cdc_table *t)
{
    struct cdc_outbox o = {.oid = t->a.id,
                           .schema = t->schema,
                           .table = t->a.table.name,
                           .aggregate_type = t->a.map.aggregate_type,
                           .event_type = t->a.map.event_type,
                           .epoch = t->a.map.epoch};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const struct map_column *c = t->a.map.columns[roles[i].from];
        if (c == NULL)
            continue;
        o.columns[roles[i].to] = c->name;
        o.is_bytes[roles[i].to] = c->kind == KIND_BYTES;
    }
    for (; o.n_headers < t->a.map.n_headers; o.n_headers++)
        o.headers[o.n_headers] = (struct cdc_header){t->a.map.headers[o.n_headers].name,
                                                     t->a.map.headers[o.n_headers].column->name};
    return o;
}

static void append_row_is(struct strbuf *q, const struct outbox_table *a, const char *id)
{
    outrider__pg_sql_column(q, a, ROLE_ID, "o.");
    outrider__strbuf_appendf(q, " = %s::%s", id, a->map.columns[ROLE_ID]->type);
}

static void append_delete(struct strbuf *q, const struct outbox_table *a)
{
    outrider__strbuf_appendf(q, "DELETE FROM %s o WHERE ", a->outbox);
    outrider__pg_sql_column(q, a, ROLE_ID, "o.");
    outrider__strbuf_appendf(q, " = ANY ($1::text[]::%s[])", a->map.columns[ROLE_ID]->type);
}

/* What polling had not settled, as far as the rows say; where they say nothing, all. */
static void append_snapshot(struct strbuf *q, const struct pg_source *s,
                            const struct outbox_table *a)
{
    struct pg_bounds bounds = outrider__pg_bounds_fixed(s->config, false);
    strbuf_append_str(q, "DECLARE outrider_sweep BINARY NO SCROLL CURSOR FOR SELECT ");
    outrider__pg_sql_event(q, a, "o.", &bounds);
    outrider__strbuf_appendf(q, " FROM %s o WHERE ", a->outbox);
    if (a->map.mark != MARK_NONE) {
        outrider__pg_sql_unsettled(q, a, "o.");
        strbuf_append_str(q, " AND ");
    }
    outrider__pg_sql_id(q, a, "o.");
    outrider__strbuf_appendf(q, " NOT IN (SELECT p.id FROM %s p WHERE p.id IS NOT NULL AND ",
                             a->parked_table);
    strbuf_append_str(q, "p.pipeline = ");
    outrider__pg_sql_literal(q, s->config->name);
    strbuf_append_str(q, " AND p.outbox = ");
    outrider__pg_sql_literal(q, a->outbox);
    strbuf_append_str(q, ")");
    outrider__pg_sql_order(q, a, "o.");
}

static int keep_sql(char **ret_sql, struct strbuf *q, struct outrider_error *err)
{
    if (q->failed) {
        outrider__strbuf_release(q);
        return outrider__fail_nomem(err);
    }
    *ret_sql = q->data;
    return 0;
}

static int refuse_mark(const char *table, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "after_publish: mark: %s has no column that says whether an event is "
                          "published; use delete or none, or name the column with map.status, "
                          "map.published or map.published_at",
                          table);
}

static int prepare_cleanup(struct pg_source *s, struct cdc_table *t, struct outrider_error *err)
{
    struct strbuf q;
    if (t->a.map.mark == MARK_NONE || (!t->a.is_ours && !s->config->cleanup.adopted))
        return 0;
    outrider__strbuf_init(&q, SQL_CAP);
    outrider__pg_sql_cleanup(&q, &t->a);
    t->cleanup =
        (struct pg_statement){.sql = q.data, .what = "cannot clean up", .purpose = PG_CLEANS};
    return keep_sql(&t->cleanup_sql, &q, err);
}

static int prepare_snapshot(struct pg_source *s, struct cdc_table *t, struct outrider_error *err)
{
    struct strbuf q;
    outrider__strbuf_init(&q, SQL_CAP);
    append_snapshot(&q, s, &t->a);
    free(t->snapshot_sql);
    t->snapshot_sql = NULL;
    return keep_sql(&t->snapshot_sql, &q, err);
}

int outrider__cdc_tables_learn(struct pg_source *s, size_t i, const struct column_map *polled,
                               struct outrider_error *err)
{
    struct cdc_table *t = &cdc_of(s)->tables.items[i];
    if (!t->a.map.waits_for_words || polled->waits_for_words)
        return 0;
    memcpy(t->a.map.values, polled->values, sizeof t->a.map.values);
    t->a.map.waits_for_words = false;
    return prepare_snapshot(s, t, err);
}

static int refuse_generated(const struct cdc_table *t, const char *column,
                            struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' is generated from others, and the server does not "
                          "stream such columns; name the column that holds the value, or poll the "
                          "table (--mode poll)",
                          t->a.outbox, column);
}

/* From version 18 on a publication can have them. */
static int check_streamed(const struct pg_source *s, const struct cdc_table *t,
                          struct outrider_error *err)
{
    if (s->cat.version >= 180000)
        return 0;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const struct map_column *c = t->a.map.columns[roles[i].from];
        if (c != NULL && c->is_generated)
            return refuse_generated(t, c->name, err);
    }
    for (size_t i = 0; i < t->a.map.n_headers; i++)
        if (t->a.map.headers[i].column->is_generated)
            return refuse_generated(t, t->a.map.headers[i].column->name, err);
    return 0;
}

static int prepare_table(struct pg_source *s, struct cdc_table *t, struct outrider_error *err)
{
    int after = s->config->source.after_publish;
    struct strbuf q;
    schema_of(t->a.outbox, t->schema);
    if (check_streamed(s, t, err) < 0 || prepare_snapshot(s, t, err) < 0)
        return -1;
    if (after == AFTER_PUBLISH_MARK && t->a.map.mark == MARK_NONE)
        return refuse_mark(t->a.outbox, err);
    if (after == AFTER_PUBLISH_MARK && t->a.map.waits_for_words)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "after_publish: mark: nothing tells yet which word in column '%s' of "
                              "%s means published; say it with map.status_values: {pending: VALUE, "
                              "published: VALUE}",
                              t->a.map.columns[ROLE_STATUS]->name, t->a.outbox);
    if (after != AFTER_PUBLISH_MARK && after != AFTER_PUBLISH_DELETE)
        return 0;
    outrider__strbuf_init(&q, SQL_CAP);
    if (after == AFTER_PUBLISH_MARK)
        outrider__pg_mark_sql(&q, &t->a);
    else
        append_delete(&q, &t->a);
    if (keep_sql(&t->settle_sql, &q, err) < 0)
        return -1;
    t->settle = (struct pg_statement){.sql = t->settle_sql,
                                      .what = after == AFTER_PUBLISH_MARK
                                                  ? "cannot mark events as published"
                                                  : "cannot remove published events"};
    return 0;
}

/* A column of the log's row j.o, as parked.h (4) holds it. */
static void append_stored(struct strbuf *q, const struct pg_catalog *cat, const char *name)
{
    bool is_bytes = outrider__pg_catalog_is_bytes(cat, name);
    struct strbuf value;
    outrider__strbuf_init(&value, 256);
    outrider__strbuf_appendf(&value, "(j.o->>'%s')", name);
    if (is_bytes)
        outrider__strbuf_appendf(q, "'\\x' || encode(%s::bytea, 'hex')", strbuf_cstr(&value));
    else if (strcmp(name, "id") == 0)
        strbuf_append_str(q, strbuf_cstr(&value));
    else
        outrider__pg_stored_sql(q, strbuf_cstr(&value));
    outrider__strbuf_appendf(q, " AS %s, ", name);
    q->failed |= value.failed;
    outrider__strbuf_release(&value);
}

/* By name, through JSON: a column may have been dropped or renamed since the start. */
static void append_whole_log(struct strbuf *q, const struct pg_catalog *cat)
{
    static const char *const names[] = {"id",      "aggregate_type", "aggregate_id", "event_type",
                                        "headers", "topic",          "partition_key"};
    strbuf_append_str(q, "SELECT ");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        append_stored(q, cat, names[i]);
    outrider__pg_bytea_sql(q, cat->payload_type, "o.payload");
    outrider__strbuf_appendf(q,
                             " AS payload FROM %s o CROSS JOIN LATERAL (SELECT to_jsonb(o) AS o "
                             "OFFSET 0) j WHERE u.is_cut = 1 AND o.seq = u.seq",
                             cat->table);
}

/* As parked.h (4) holds it. */
static void append_stored_column(struct strbuf *q, const char *column)
{
    outrider__pg_stored_sql(q, column);
    outrider__strbuf_appendf(q, " AS %s, ", strchr(column, '.') + 1);
}

/* An id is made a value of its own table's type only: others may not take it. */
static void append_whole_row(struct strbuf *q, const struct outbox_table *a)
{
    static const char *const stored[] = {"e.aggregate_type", "e.aggregate_id", "e.event_type",
                                         "e.headers",        "e.topic",        "e.partition_key"};
    struct strbuf id;
    outrider__strbuf_init(&id, 256);
    outrider__strbuf_appendf(&id, "(CASE WHEN u.is_cut = 1 AND u.seq = %u THEN u.id END)", a->id);
    strbuf_append_str(q, "SELECT e.id, ");
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
        append_stored_column(q, stored[i]);
    outrider__pg_bytea_sql(q, a->map.columns[ROLE_PAYLOAD]->type_id, "e.payload");
    strbuf_append_str(q, " AS payload FROM (SELECT ");
    outrider__pg_sql_event(q, a, "o.", NULL);
    outrider__strbuf_appendf(q, " FROM %s o WHERE ", a->outbox);
    append_row_is(q, a, strbuf_cstr(&id));
    strbuf_append_str(q,
                      " OFFSET 0) AS e(seq, id, aggregate_type, aggregate_id, event_type, payload, "
                      "headers, topic, partition_key, partition, occurred_at, created_at, "
                      "expires_at, size, large)");
    q->failed |= id.failed;
    outrider__strbuf_release(&id);
}

/* What was too large to be read is copied inside the server. */
static int prepare_oversize(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    struct strbuf q;
    outrider__strbuf_init(&q, SQL_CAP * (t->n + 1));
    if (!t->is_mapped)
        append_whole_log(&q, &s->cat);
    for (size_t i = 0; i < t->n; i++) {
        strbuf_append_str(&q, i > 0 ? " UNION ALL " : "");
        append_whole_row(&q, &t->items[i].a);
    }
    return keep_sql(&t->oversize_sql, &q, err);
}

static void no_letter(struct strbuf *sql, char letter, const struct pg_source *s)
{
    (void)sql;
    (void)letter;
    (void)s;
}

static int prepare_log(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    t->outboxes[0] = outrider__cdc_own_outbox(s->cat.oid, s->cat.schema, s->cat.relname);
    strbuf_append_str(&t->names, s->cat.table);
    t->can_be_polled = true;
    if (s->config->source.after_publish == AFTER_PUBLISH_MARK)
        return refuse_mark(s->cat.table, err);
    if (s->config->source.after_publish != AFTER_PUBLISH_DELETE)
        return 0;
    t->settle_log_sql = outrider__pg_expand(sql_delete_log, s, no_letter);
    t->settle_log =
        (struct pg_statement){.sql = t->settle_log_sql, .what = "cannot remove published events"};
    return t->settle_log_sql == NULL ? outrider__fail_nomem(err) : 0;
}

/* What after_publish does must be possible, before an event is published. */
static int try_settles(struct pg_source *s, struct outrider_error *err)
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

int outrider__cdc_tables_prepare(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    t->n_outboxes = t->is_mapped ? t->n : 1;
    t->outboxes = calloc(t->n_outboxes, sizeof *t->outboxes);
    if (t->outboxes == NULL)
        return outrider__fail_nomem(err);
    t->can_be_polled = true;
    if (!t->is_mapped && prepare_log(s, err) < 0)
        return -1;
    for (size_t i = 0; i < t->n; i++) {
        if (prepare_table(s, &t->items[i], err) < 0 || prepare_cleanup(s, &t->items[i], err) < 0)
            return -1;
        t->outboxes[i] = outbox_of(&t->items[i]);
        t->can_be_polled &= t->items[i].a.can_be_polled;
        outrider__strbuf_appendf(&t->names, "%s%s", i > 0 ? ", " : "", t->items[i].a.outbox);
    }
    if (t->names.failed)
        return outrider__fail_nomem(err);
    return prepare_oversize(s, err) < 0 ? -1 : try_settles(s, err);
}

void outrider__cdc_tables_release(struct cdc_tables *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->items[i].settle_sql);
        free(t->items[i].snapshot_sql);
        free(t->items[i].cleanup_sql);
    }
    outrider__pg_table_reader_release(&t->adoption);
    free(t->items);
    free(t->outboxes);
    free(t->settle_log_sql);
    free(t->oversize_sql);
    outrider__strbuf_release(&t->names);
    outrider__arena_release(&t->arena);
}

void outrider__cdc_tables_oids(const struct pg_source *s, struct pg_args *a)
{
    const struct cdc_tables *t = &((const struct cdc_source *)s->cdc)->tables;
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < t->n_outboxes; i++)
        outrider__pg_array_int8(a, t->outboxes[i].oid);
    outrider__pg_array_end(a);
}

void outrider__cdc_tables_names(const struct pg_source *s, struct pg_args *a)
{
    const struct cdc_tables *t = &((const struct cdc_source *)s->cdc)->tables;
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < t->n_outboxes; i++)
        outrider__pg_array_text(a, bytes_str(t->is_mapped ? t->items[i].a.outbox : s->cat.table));
    outrider__pg_array_end(a);
}

void outrider__cdc_tables_columns(const struct pg_source *s, struct pg_args *a)
{
    const struct cdc_tables *t = &((const struct cdc_source *)s->cdc)->tables;
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < t->n_outboxes; i++)
        for (int k = 0; k < CDC_ROLES; k++)
            if (t->outboxes[i].columns[k] != NULL)
                outrider__pg_array_int8(a, t->outboxes[i].oid);
    for (size_t i = 0; i < t->n_outboxes; i++)
        for (size_t k = 0; k < t->outboxes[i].n_headers; k++)
            outrider__pg_array_int8(a, t->outboxes[i].oid);
    outrider__pg_array_end(a);
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < t->n_outboxes; i++)
        for (int k = 0; k < CDC_ROLES; k++)
            if (t->outboxes[i].columns[k] != NULL)
                outrider__pg_array_text(a, bytes_str(t->outboxes[i].columns[k]));
    for (size_t i = 0; i < t->n_outboxes; i++)
        for (size_t k = 0; k < t->outboxes[i].n_headers; k++)
            outrider__pg_array_text(a, bytes_str(t->outboxes[i].headers[k].column));
    outrider__pg_array_end(a);
}

/* Whether its row is marked, or removed: a copy in outrider_parked needs it no
 * more once it is settled, and until then it stays. */
static bool is_done_with(const struct pg_source *s, const struct event *e)
{
    return outcome_is_published(e) || (e->outcome == OUTCOME_EXPIRED &&
                                       s->config->source.after_publish == AFTER_PUBLISH_DELETE);
}

static int settle_log(struct pg_source *s, const struct event *events, size_t n, struct pg_args *a,
                      struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    size_t n_done = 0;
    outrider__pg_cursor_args(s, a);
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < n; i++)
        if (is_done_with(s, &events[i]) && events[i].seq > 0) {
            outrider__pg_array_int8(a, events[i].seq);
            n_done++;
        }
    outrider__pg_array_end(a);
    return n_done > 0 ? outrider__pg_request_add(&s->conn, &t->settle_log, a, err) : 0;
}

static int settle_table(struct pg_source *s, struct cdc_table *t, const struct event *events,
                        size_t n, struct pg_args *a, struct outrider_error *err)
{
    size_t n_done = 0;
    outrider__pg_args_clear(a);
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        if (events[i].seq == (int64_t)t->a.id && is_done_with(s, &events[i])) {
            outrider__pg_array_text(a, events[i].id);
            n_done++;
        }
    outrider__pg_array_end(a);
    return n_done > 0 ? outrider__pg_request_add(&s->conn, &t->settle, a, err) : 0;
}

int outrider__cdc_tables_settle(struct pg_source *s, const struct event *events, size_t n,
                                struct pg_args *a, struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    if (t->settle_log_sql != NULL)
        return settle_log(s, events, n, a, err);
    for (size_t i = 0; i < t->n; i++)
        if (t->items[i].settle_sql != NULL && settle_table(s, &t->items[i], events, n, a, err) < 0)
            return -1;
    return 0;
}

static int on_cleaned(void *ctx, PGresult **results, int n, struct outrider_error *err)
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

int outrider__cdc_tables_cleanup(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
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
    if (outrider__pg_request_begin(&s->conn, on_cleaned, op, err) < 0)
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
