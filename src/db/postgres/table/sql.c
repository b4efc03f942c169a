/* SPDX-License-Identifier: MIT */
/* Pieces of SQL that are made from the map: ids, lanes, and what mode cdc has settled. */
#include "common/sql.h"
#include "postgres/table/table.h"
#include "table.sql.h"

void outrider__pg_sql_id(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    bool is_hex = table_is_bytes(a, ROLE_ID);
    if (is_hex)
        strbuf_append_str(sql, "('\\x' || encode(");
    outrider__sql_column(sql, a, ROLE_ID, alias);
    strbuf_append_str(sql, is_hex ? ", 'hex'))" : "::text");
}

static bool sql_has_byte_keys(const struct outbox_table *a)
{
    return table_is_bytes(a, ROLE_AGGREGATE_ID) || table_is_bytes(a, ROLE_PARTITION_KEY);
}

/* A key column as bytes. */
static void sql_key_bytes(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                          const char *alias)
{
    if (!table_is_bytes(a, role))
        strbuf_append_str(sql, "convert_to(");
    outrider__sql_column(sql, a, role, alias);
    strbuf_append_str(sql, table_is_bytes(a, role) ? "::bytea, " : "::text, 'UTF8'), ");
}

static void sql_key_columns(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    bool bytes = sql_has_byte_keys(a);
    strbuf_append_str(sql, "coalesce(");
    for (int i = 0; i < 2; i++) {
        enum column_role role = i == 0 ? ROLE_PARTITION_KEY : ROLE_AGGREGATE_ID;
        if (!table_has(a, role))
            continue;
        if (bytes) {
            sql_key_bytes(sql, a, role, alias);
        } else {
            outrider__sql_column(sql, a, role, alias);
            strbuf_append_str(sql, "::text, ");
        }
    }
    strbuf_append_str(sql, bytes ? "''::bytea)" : "'')");
}

void outrider__pg_sql_key(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    struct strbuf key;
    outrider__strbuf_init(&key, 2048);
    sql_key_columns(&key, a, alias);
    if (sql_has_byte_keys(a))
        strbuf_append_str(sql, strbuf_cstr(&key));
    else
        outrider__strbuf_appendf(sql,
                                 "CASE WHEN starts_with(%s, '\\x') THEN '\\x' || "
                                 "encode(convert_to(%s, 'UTF8'), 'hex') ELSE %s END",
                                 strbuf_cstr(&key), strbuf_cstr(&key), strbuf_cstr(&key));
    sql->failed |= key.failed;
    outrider__strbuf_release(&key);
}

void outrider__pg_sql_lane(struct strbuf *sql, const struct outbox_table *a, const char *lane)
{
    if (!sql_has_byte_keys(a)) {
        strbuf_append_str(sql, lane);
        return;
    }
    outrider__strbuf_appendf(sql,
                             "CASE WHEN %s ~ '^\\\\x([0-9a-f]{2})*$' THEN decode(substr(%s, 3), "
                             "'hex') ELSE convert_to(%s, 'UTF8') END",
                             lane, lane, lane);
}

void outrider__pg_sql_not_streamed(struct strbuf *sql, const struct outbox_table *a,
                                   const char *pipeline)
{
    if (a->cursor_table[0] == '\0')
        return;
    const struct sql_word words[] = {{"cursor", a->cursor_table}, {"pipeline", pipeline}};
    strbuf_append_char(sql, ' ');
    outrider__sql_append(sql, sql_table_not_streamed, words, sizeof words / sizeof *words);
}
