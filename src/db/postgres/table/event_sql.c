/* SPDX-License-Identifier: MIT */
/* The columns of an event, as SQL over a table with a map. */
#include "postgres/table/table.h"

/* A column as text (bytes: as they are), or what stands for it. */
static void event_text(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                       const char *alias, const char *otherwise, const struct pg_bounds *b)
{
    struct strbuf value;
    outrider__strbuf_init(&value, 512);
    if (table_has(a, role)) {
        outrider__sql_column(&value, a, role, alias);
        strbuf_append_str(&value, table_is_bytes(a, role) ? "::bytea" : "::text");
        outrider__pg_sql_text(sql, strbuf_cstr(&value), table_is_bytes(a, role), b);
    } else if (otherwise != NULL) {
        outrider__sql_literal(sql, otherwise);
        strbuf_append_str(sql, "::text");
    } else {
        strbuf_append_str(sql, "NULL::text");
    }
    strbuf_append_str(sql, ", ");
    sql->failed |= value.failed;
    outrider__strbuf_release(&value);
}

static void event_cast(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                       const char *alias, const char *type)
{
    if (table_has(a, role))
        outrider__sql_column(sql, a, role, alias);
    else
        strbuf_append_str(sql, "NULL");
    outrider__strbuf_appendf(sql, "::%s, ", type);
}

static void event_time(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                       const char *alias)
{
    if (table_has(a, role))
        outrider__pg_sql_time(sql, a, role, alias);
    else
        strbuf_append_str(sql, "NULL::timestamptz");
    strbuf_append_str(sql, ", ");
}

static void event_headers_json(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, table_is_bytes(a, ROLE_HEADERS) ? "convert_from(" : "(");
    outrider__sql_column(sql, a, ROLE_HEADERS, alias);
    strbuf_append_str(sql, table_is_bytes(a, ROLE_HEADERS) ? ", 'UTF8')::json" : ")::json");
}

/* The event's own, or NULL where they are no object. */
static void event_own_headers(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, "CASE WHEN json_typeof(");
    event_headers_json(sql, a, alias);
    strbuf_append_str(sql, ") = 'object' THEN ");
    event_headers_json(sql, a, alias);
    strbuf_append_str(sql, " END");
}

static void event_quoted(struct strbuf *sql, const struct map_column *c, const char *alias)
{
    strbuf_append_str(sql, alias);
    outrider__sql_name(sql, c->name);
}

/* As JSON; a moment in UTC, whatever the session's time zone is. */
static void event_header_value(struct strbuf *sql, const struct map_column *c, const char *alias)
{
    bool is_moment = c->has_zone;
    if (is_moment) {
        strbuf_append_str(sql, "CASE WHEN isfinite(");
        event_quoted(sql, c, alias);
        strbuf_append_str(sql, ") THEN to_json((to_json(");
        event_quoted(sql, c, alias);
        strbuf_append_str(sql, " AT TIME ZONE 'UTC') #>> '{}') || '+00:00') ELSE ");
    }
    strbuf_append_str(sql, "to_json(");
    event_quoted(sql, c, alias);
    strbuf_append_str(sql, is_moment ? ") END" : ")");
}

/* The event's own headers and those that are made from columns, as one object. Not jsonb,
 * which has an order and a spelling of its own: the stream brings the same. */
static void event_joined_headers(struct strbuf *sql, const struct outbox_table *a,
                                 const char *alias)
{
    strbuf_append_str(sql, "(SELECT json_object_agg(h.k, h.v) FROM (");
    if (table_has(a, ROLE_HEADERS)) {
        strbuf_append_str(sql, "SELECT j.key, j.value FROM json_each(");
        event_own_headers(sql, a, alias);
        strbuf_append_str(sql, ") j UNION ALL SELECT v.k, v.v FROM (");
    }
    for (size_t i = 0; i < a->map.n_headers; i++) {
        strbuf_append_str(sql, i > 0 ? ", (" : "VALUES (");
        outrider__sql_literal(sql, a->map.headers[i].name);
        strbuf_append_str(sql, "::text, ");
        event_header_value(sql, a->map.headers[i].column, alias);
        strbuf_append_str(sql, ")");
    }
    if (table_has(a, ROLE_HEADERS)) {
        strbuf_append_str(sql, ") AS v(k, v) WHERE v.k NOT IN (SELECT json_object_keys(");
        event_own_headers(sql, a, alias);
        strbuf_append_str(sql, "))");
    }
    strbuf_append_str(sql, ") AS h(k, v))::text");
}

/* Where the row does not say when it was written: when it is read. */
static void event_created(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, "coalesce(");
    event_time(sql, a, ROLE_CREATED_AT, alias);
    strbuf_append_str(sql, "now()), ");
}

/* SQL over them as t.h; what is put together is put together once. */
static void event_over_joined(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                              const struct pg_bounds *b, const char *above, const char *otherwise)
{
    outrider__strbuf_appendf(
        sql, "(SELECT CASE WHEN octet_length(t.h) > %s THEN %s ELSE %s END FROM (SELECT ",
        b->headers, above, otherwise);
    event_joined_headers(sql, a, alias);
    strbuf_append_str(sql, " AS h OFFSET 0) t)");
}

static void event_headers(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                          const struct pg_bounds *b)
{
    struct strbuf column;
    outrider__strbuf_init(&column, 512);
    if (a->map.n_headers > 0 && b != NULL) {
        event_over_joined(sql, a, alias, b, "'" READ_NOT_SENT "'", "t.h");
    } else if (a->map.n_headers > 0) {
        event_joined_headers(sql, a, alias);
    } else if (table_has(a, ROLE_HEADERS)) {
        outrider__sql_column(&column, a, ROLE_HEADERS, alias);
        outrider__pg_sql_headers(sql, a->map.columns[ROLE_HEADERS]->type_id, strbuf_cstr(&column),
                                 b);
    } else {
        strbuf_append_str(sql, "NULL::text");
    }
    strbuf_append_str(sql, ", ");
    sql->failed |= column.failed;
    outrider__strbuf_release(&column);
}

static void event_large_headers(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                                const struct pg_bounds *b)
{
    struct strbuf column, size;
    outrider__strbuf_init(&column, 512);
    outrider__strbuf_init(&size, 4096);
    if (a->map.n_headers == 0 && table_has(a, ROLE_HEADERS)) {
        outrider__sql_column(&column, a, ROLE_HEADERS, alias);
        outrider__pg_size_sql(&size, a->map.columns[ROLE_HEADERS]->type_id, strbuf_cstr(&column));
        outrider__pg_sql_large_column(sql, "headers", strbuf_cstr(&size), b->headers);
    } else if (a->map.n_headers > 0) {
        strbuf_append_str(sql, " ELSE ");
        event_over_joined(sql, a, alias, b, "'headers ' || octet_length(t.h)", "NULL");
    }
    sql->failed |= column.failed || size.failed;
    outrider__strbuf_release(&column);
    outrider__strbuf_release(&size);
}

/* EV_LARGE: rows are settled by their id, so that is read whatever its size. */
static void event_large(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                        const struct pg_bounds *b)
{
    static const struct {
        enum column_role role;
        const char *name;
    } texts[] = {{ROLE_AGGREGATE_TYPE, "aggregate_type"},
                 {ROLE_AGGREGATE_ID, "aggregate_id"},
                 {ROLE_EVENT_TYPE, "event_type"},
                 {ROLE_TOPIC, "topic"},
                 {ROLE_PARTITION_KEY, "partition_key"}};
    struct strbuf size;
    if (b == NULL) {
        strbuf_append_str(sql, "NULL::text");
        return;
    }
    outrider__strbuf_init(&size, 1024);
    outrider__pg_sql_large_begin(sql, b);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!table_has(a, texts[i].role))
            continue;
        outrider__strbuf_clear(&size);
        strbuf_append_str(&size, "octet_length(");
        outrider__sql_column(&size, a, texts[i].role, alias);
        strbuf_append_str(&size, table_is_bytes(a, texts[i].role) ? "::bytea)" : "::text)");
        outrider__pg_sql_large_column(sql, texts[i].name, strbuf_cstr(&size), b->text);
    }
    event_large_headers(sql, a, alias, b);
    outrider__pg_sql_large_end(sql);
    sql->failed |= size.failed;
    outrider__strbuf_release(&size);
}

static void event_payload(struct strbuf *sql, const struct map_column *payload, const char *column,
                          const char *size, const struct pg_bounds *b)
{
    bool is_own_form = payload->kind == KIND_JSON || payload->kind == KIND_BYTES;
    const char *cast = is_own_form ? "" : "::text";
    if (b == NULL)
        outrider__strbuf_appendf(sql, "%s%s, ", column, cast);
    else
        outrider__strbuf_appendf(sql, "CASE WHEN %s <= %s THEN %s%s END, ", size, b->payload,
                                 column, cast);
}

void outrider__pg_sql_event(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                            const struct pg_bounds *b)
{
    const struct map_column *payload = a->map.columns[ROLE_PAYLOAD];
    struct strbuf column, size;
    outrider__strbuf_init(&column, 512);
    outrider__strbuf_init(&size, 4096);
    outrider__sql_column(&column, a, ROLE_PAYLOAD, alias);
    outrider__pg_size_sql(&size, payload->type_id, strbuf_cstr(&column));
    event_cast(sql, a, ROLE_SEQ, alias, "int8");
    outrider__pg_sql_id(sql, a, alias);
    strbuf_append_str(sql, ", ");
    event_text(sql, a, ROLE_AGGREGATE_TYPE, alias, a->map.aggregate_type, b);
    event_text(sql, a, ROLE_AGGREGATE_ID, alias, NULL, b);
    event_text(sql, a, ROLE_EVENT_TYPE, alias, a->map.event_type, b);
    event_payload(sql, payload, strbuf_cstr(&column), strbuf_cstr(&size), b);
    event_headers(sql, a, alias, b);
    event_text(sql, a, ROLE_TOPIC, alias, NULL, b);
    event_text(sql, a, ROLE_PARTITION_KEY, alias, NULL, b);
    event_cast(sql, a, ROLE_PARTITION, alias, "int4");
    event_time(sql, a, ROLE_OCCURRED_AT, alias);
    event_created(sql, a, alias);
    event_time(sql, a, ROLE_EXPIRES_AT, alias);
    outrider__pg_sql_size(sql, strbuf_cstr(&column), strbuf_cstr(&size), b);
    strbuf_append_str(sql, ", ");
    event_large(sql, a, alias, b);
    sql->failed |= column.failed || size.failed;
    outrider__strbuf_release(&column);
    outrider__strbuf_release(&size);
}
