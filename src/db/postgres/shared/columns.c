/* SPDX-License-Identifier: MIT */
#include "postgres/shared/columns.h"

#include <inttypes.h>
#include <stdio.h>

#include "postgres/wire/catalog.h"

struct pg_bounds outrider__pg_bounds_of(int argument)
{
    struct pg_bounds b;
    (void)snprintf(b.payload, sizeof b.payload, "($%d::int8[])[1]", argument);
    (void)snprintf(b.headers, sizeof b.headers, "($%d::int8[])[2]", argument);
    (void)snprintf(b.text, sizeof b.text, "($%d::int8[])[3]", argument);
    (void)snprintf(b.is_exact, sizeof b.is_exact, "($%d::int8[])[4] = 1", argument);
    return b;
}

void outrider__pg_arg_bounds(struct pg_args *a, const struct pipeline_config *config, bool is_large)
{
    struct event_bounds m = outrider__read_bounds(config, is_large);
    outrider__pg_array_begin(a, PG_INT8);
    outrider__pg_array_int8(a, (int64_t)m.payload);
    outrider__pg_array_int8(a, (int64_t)m.headers);
    outrider__pg_array_int8(a, (int64_t)m.text);
    outrider__pg_array_int8(a, is_large);
    outrider__pg_array_end(a);
}

struct pg_bounds outrider__pg_bounds_fixed(const struct pipeline_config *config, bool is_large)
{
    struct event_bounds m = outrider__read_bounds(config, is_large);
    struct pg_bounds b;
    (void)snprintf(b.payload, sizeof b.payload, "%zu", m.payload);
    (void)snprintf(b.headers, sizeof b.headers, "%zu", m.headers);
    (void)snprintf(b.text, sizeof b.text, "%zu", m.text);
    (void)snprintf(b.is_exact, sizeof b.is_exact, "%s", is_large ? "true" : "false");
    return b;
}

void outrider__pg_sql_headers(struct strbuf *sql, Oid type, const char *column,
                              const struct pg_bounds *b)
{
    const char *cast = type == PG_BYTEA ? "bytea" : "text";
    if (b == NULL) {
        outrider__strbuf_appendf(sql, "%s::%s", column, cast);
        return;
    }
    strbuf_append_str(sql, "CASE WHEN ");
    outrider__pg_size_sql(sql, type, column);
    outrider__strbuf_appendf(sql, " > %s THEN '" READ_NOT_SENT "' ELSE %s::%s END", b->headers,
                             column, cast);
}

void outrider__pg_sql_text(struct strbuf *sql, const char *value, bool is_bytes,
                           const struct pg_bounds *b)
{
    if (b == NULL)
        strbuf_append_str(sql, value);
    else
        outrider__strbuf_appendf(
            sql, "CASE WHEN octet_length(%s) > %s THEN %s%s, %s%d) ELSE %s END", value, b->text,
            is_bytes ? "substr(" : "left(", value, is_bytes ? "1, " : "", EVENT_TEXT_CUT, value);
}

void outrider__pg_sql_size(struct strbuf *sql, const char *column, const char *size,
                           const struct pg_bounds *b)
{
    if (b == NULL)
        strbuf_append_str(sql, "NULL::int8");
    else
        outrider__strbuf_appendf(sql,
                                 "CASE WHEN %s THEN CASE WHEN %s > %s THEN %s END WHEN %s IS NOT "
                                 "NULL THEN 1 END::int8",
                                 b->is_exact, size, b->payload, size, column);
}

void outrider__pg_sql_large_begin(struct strbuf *sql, const struct pg_bounds *b)
{
    outrider__strbuf_appendf(sql, "CASE WHEN NOT %s THEN NULL", b->is_exact);
}

void outrider__pg_sql_large_column(struct strbuf *sql, const char *name, const char *size,
                                   const char *most)
{
    outrider__strbuf_appendf(sql, " WHEN %s > %s THEN '%s ' || %s", size, most, name, size);
}

void outrider__pg_sql_large_end(struct strbuf *sql)
{
    strbuf_append_str(sql, " END::text");
}

static bool columns_is_short(Oid type)
{
    return type == PG_UUID || type == PG_INT2 || type == PG_INT4 || type == PG_INT8;
}

/* A column of the log as it is read: bytes as they are, all else as text. */
static void columns_append_value(struct strbuf *sql, const struct pg_catalog *cat, const char *name)
{
    bool is_bytes = outrider__pg_catalog_is_bytes(cat, name);
    if (is_bytes && strcmp(name, "id") == 0)
        strbuf_append_str(sql, "('\\x' || encode(o.id, 'hex'))");
    else
        outrider__strbuf_appendf(sql, "o.%s::%s", name, is_bytes ? "bytea" : "text");
}

static Oid columns_headers_type(const struct pg_catalog *cat)
{
    return outrider__pg_catalog_is_bytes(cat, "headers") ? PG_BYTEA : cat->headers_type;
}

static void columns_append_large(struct strbuf *sql, const struct pg_catalog *cat,
                                 const struct pg_bounds *b)
{
    static const char *const texts[] = {"id",         "aggregate_type", "aggregate_id",
                                        "event_type", "topic",          "partition_key"};
    struct strbuf size;
    outrider__strbuf_init(&size, 1024);
    outrider__pg_sql_large_begin(sql, b);
    outrider__pg_size_sql(&size, columns_headers_type(cat), "o.headers");
    outrider__pg_sql_large_column(sql, "headers", strbuf_cstr(&size), b->headers);
    for (size_t i = columns_is_short(cat->id_type); i < sizeof texts / sizeof *texts; i++) {
        outrider__strbuf_clear(&size);
        strbuf_append_str(&size, "octet_length(");
        columns_append_value(&size, cat, texts[i]);
        strbuf_append_str(&size, ")");
        outrider__pg_sql_large_column(sql, texts[i], strbuf_cstr(&size), b->text);
    }
    outrider__pg_sql_large_end(sql);
    sql->failed |= size.failed;
    outrider__strbuf_release(&size);
}

static void columns_append_text(struct strbuf *sql, const struct pg_catalog *cat, const char *name,
                                const struct pg_bounds *b)
{
    struct strbuf value;
    outrider__strbuf_init(&value, 256);
    columns_append_value(&value, cat, name);
    bool is_id = strcmp(name, "id") == 0;
    outrider__pg_sql_text(sql, strbuf_cstr(&value),
                          !is_id && outrider__pg_catalog_is_bytes(cat, name), b);
    strbuf_append_str(sql, ", ");
    sql->failed |= value.failed;
    outrider__strbuf_release(&value);
}

void outrider__pg_sql_log_event(struct strbuf *sql, const struct pg_catalog *cat,
                                const struct pg_bounds *b, const char *anchor)
{
    struct strbuf size;
    outrider__strbuf_init(&size, 1024);
    outrider__pg_size_sql(&size, cat->payload_type, "o.payload");
    strbuf_append_str(sql, "o.seq, ");
    if (columns_is_short(cat->id_type))
        strbuf_append_str(sql, "o.id, ");
    else
        columns_append_text(sql, cat, "id", b);
    columns_append_text(sql, cat, "aggregate_type", b);
    columns_append_text(sql, cat, "aggregate_id", b);
    columns_append_text(sql, cat, "event_type", b);
    strbuf_append_str(sql, "CASE WHEN ");
    if (anchor != NULL)
        outrider__strbuf_appendf(sql, "o.seq <> %s AND ", anchor);
    outrider__strbuf_appendf(sql, "%s <= %s THEN o.payload END, ", strbuf_cstr(&size), b->payload);
    if (anchor != NULL)
        outrider__strbuf_appendf(sql, "CASE WHEN o.seq <> %s THEN ", anchor);
    outrider__pg_sql_headers(sql, columns_headers_type(cat), "o.headers", b);
    strbuf_append_str(sql, anchor != NULL ? " END, " : ", ");
    columns_append_text(sql, cat, "topic", b);
    columns_append_text(sql, cat, "partition_key", b);
    strbuf_append_str(sql, "o.partition, o.occurred_at, o.created_at, o.expires_at, ");
    outrider__pg_sql_size(sql, "o.payload", strbuf_cstr(&size), b);
    strbuf_append_str(sql, ", ");
    columns_append_large(sql, cat, b);
    sql->failed |= size.failed;
    outrider__strbuf_release(&size);
}

bool outrider__pg_row_is_large(const PGresult *r, int row, int first)
{
    static const int texts[] = {EV_ID,         EV_AGGREGATE_TYPE, EV_AGGREGATE_ID,
                                EV_EVENT_TYPE, EV_TOPIC,          EV_PARTITION_KEY};
    size_t payload = (size_t)PQgetlength(r, row, first + EV_PAYLOAD);
    struct read_sizes sizes = {
        .payload = payload > 0 ? payload - 1 : 0, /* jsonb has a byte before its text */
        .headers = (size_t)PQgetlength(r, row, first + EV_HEADERS),
        .has_payload_left_out =
            PQgetisnull(r, row, first + EV_PAYLOAD) && !PQgetisnull(r, row, first + EV_SIZE),
    };
    sizes.has_headers_left_out =
        sizes.headers == 1 && *PQgetvalue(r, row, first + EV_HEADERS) == READ_NOT_SENT[0];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t len = (size_t)PQgetlength(r, row, first + texts[i]);
        sizes.text = len > sizes.text ? len : sizes.text;
    }
    return outrider__read_is_large(&sizes);
}
