/* SPDX-License-Identifier: MIT */
#include "postgres/wire/dialect.h"

#define PG_DIALECT_TYPES                                                                      \
    {                                                                                         \
        [SQL_TEXT] = "text", [SQL_BYTES] = "bytea", [SQL_INT4] = "int4", [SQL_INT8] = "int8", \
        [SQL_TIME] = "timestamptz", [SQL_BOOL] = "bool", [SQL_STORED] = "text"                \
    }
static const char *const pg_types[SQL_TYPES] = PG_DIALECT_TYPES;

static void pg_dialect_param(struct strbuf *q, int n, enum sql_type type, bool is_set)
{
    outrider__strbuf_appendf(q, "$%d::%s%s", n, pg_types[type], is_set ? "[]" : "");
}

static void pg_dialect_item(struct strbuf *q, int n, int i)
{
    outrider__strbuf_appendf(q, "($%d::int8[])[%d]", n, i);
}

/* A set of texts in the form of a user's column: "($1::text[]::uuid[])". */
static void pg_dialect_set(struct strbuf *q, int n, enum sql_type type, const char *column_type)
{
    if (column_type != NULL)
        outrider__strbuf_appendf(q, "($%d::%s[]::%s[])", n, pg_types[type], column_type);
    else
        outrider__strbuf_appendf(q, "$%d::%s[]", n, pg_types[type]);
}

static void pg_dialect_rows(struct strbuf *q, const struct sql_rows *rows)
{
    strbuf_append_str(q, "unnest(");
    for (size_t i = 0; i < rows->n; i++) {
        strbuf_append_str(q, i > 0 ? ", " : "");
        pg_dialect_set(q, rows->params[i], rows->fields[i].type, rows->fields[i].column_type);
    }
    outrider__strbuf_appendf(q, ")%s AS %s(", rows->is_numbered ? " WITH ORDINALITY" : "",
                             rows->alias);
    for (size_t i = 0; i < rows->n; i++)
        outrider__strbuf_appendf(q, "%s\"%s\"", i > 0 ? ", " : "", rows->fields[i].name);
    strbuf_append_str(q, rows->is_numbered ? ", n)" : ")");
}

static void pg_dialect_is_in(struct strbuf *q, int n, enum sql_type type, const char *column_type)
{
    strbuf_append_str(q, " = ANY (");
    pg_dialect_set(q, n, type, column_type);
    strbuf_append_str(q, ")");
}

static void pg_dialect_add_us(struct strbuf *q, const char *when, const char *us)
{
    outrider__strbuf_appendf(q, "%s + %s * interval '1 microsecond'", when, us);
}

/* A lane may be longer than an index takes: the indexes hold its hash. */
static void pg_dialect_same_lane(struct strbuf *q, const char *lane, const char *other)
{
    outrider__strbuf_appendf(q, "hashtextextended(%s, 0) = hashtextextended(%s, 0) AND %s = %s",
                             lane, other, lane, other);
}

static void pg_dialect_stored_hex(struct strbuf *q, const char *text)
{
    outrider__strbuf_appendf(q, "'\\x' || encode(convert_to(%s, 'UTF8'), 'hex')", text);
}

const struct sql_dialect outrider__pg_dialect = {
    .name = "postgres",
    .types = PG_DIALECT_TYPES,
    .now = "now()",
    .clock = "clock_timestamp()",
    .epoch = "timestamptz 'epoch'",
    .materialized = "MATERIALIZED ",
    .lock = " FOR NO KEY UPDATE OF o",
    .lock_skips = " FOR NO KEY UPDATE OF o SKIP LOCKED",
    .upsert = " ON CONFLICT (pipeline, outbox) DO UPDATE SET ",
    .new_value = {"excluded.", ""},
    .old_value = "c.",
    .insert_alias = " AS c",
    .delete_from = "DELETE FROM",
    .delete_join = " USING ",
    .has_returning = true,
    .has_lateral = true,
    .param = pg_dialect_param,
    .item = pg_dialect_item,
    .rows = pg_dialect_rows,
    .is_in = pg_dialect_is_in,
    .add_us = pg_dialect_add_us,
    .same_lane = pg_dialect_same_lane,
    .stored_hex = pg_dialect_stored_hex,
};

Oid outrider__pg_type_of(enum sql_type type)
{
    static const Oid types[SQL_TYPES] = {
        [SQL_TEXT] = PG_TEXT,  [SQL_BYTES] = PG_BYTEA,      [SQL_INT4] = PG_INT4,
        [SQL_INT8] = PG_INT8,  [SQL_TIME] = PG_TIMESTAMPTZ, [SQL_BOOL] = PG_BOOL,
        [SQL_STORED] = PG_TEXT};
    return types[type];
}

void outrider__pg_array_value(struct pg_args *a, const struct sql_value *v)
{
    if (v->is_null) {
        outrider__pg_array_null(a);
        return;
    }
    switch (v->type) {
    case SQL_INT4:
        outrider__pg_array_int4(a, (int32_t)v->number);
        break;
    case SQL_INT8:
        outrider__pg_array_int8(a, v->number);
        break;
    case SQL_TIME:
        outrider__pg_array_time(a, v->number);
        break;
    case SQL_STORED:
        outrider__pg_array_stored(a, v->bytes);
        break;
    default:
        outrider__pg_array_text(a, v->bytes);
    }
}
