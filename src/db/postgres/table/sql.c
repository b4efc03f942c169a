/* SPDX-License-Identifier: MIT */
/* Pieces of SQL that are made from the map: names, ids, lanes, and the condition of a state. */
#include "common/sql.h"
#include "postgres/table/table.h"
#include "table.sql.h"

static void sql_append_quoted(struct strbuf *sql, const char *text, char quote)
{
    strbuf_append_char(sql, quote);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == quote)
            strbuf_append_char(sql, quote);
        strbuf_append_char(sql, *p);
    }
    strbuf_append_char(sql, quote);
}

void outrider__pg_sql_ident(struct strbuf *sql, const char *name)
{
    sql_append_quoted(sql, name, '"');
}

/* standard_conforming_strings is on since 9.1; a backslash is a backslash. */
void outrider__pg_sql_literal(struct strbuf *sql, const char *text)
{
    sql_append_quoted(sql, text, '\'');
}

void outrider__pg_sql_column(struct strbuf *sql, const struct outbox_table *a,
                             enum column_role role, const char *alias)
{
    strbuf_append_str(sql, alias);
    outrider__pg_sql_ident(sql, a->map.columns[role]->name);
}

void outrider__pg_sql_id(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    bool is_hex = table_is_bytes(a, ROLE_ID);
    if (is_hex)
        strbuf_append_str(sql, "('\\x' || encode(");
    outrider__pg_sql_column(sql, a, ROLE_ID, alias);
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
    outrider__pg_sql_column(sql, a, role, alias);
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
            outrider__pg_sql_column(sql, a, role, alias);
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

static void sql_words_of(struct strbuf *sql, const struct outbox_table *a,
                         const enum map_state *states, size_t n)
{
    const char *before = "";
    for (size_t i = 0; i < n; i++) {
        if (a->map.values[states[i]][0] == '\0')
            continue;
        strbuf_append_str(sql, before);
        outrider__pg_sql_literal(sql, a->map.values[states[i]]);
        before = ", ";
    }
}

/* No word for pending is known: whatever is not settled is new. */
static void sql_not_settled(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    static const enum map_state settled[] = {STATE_PUBLISHED, STATE_DEAD, STATE_EXPIRED};
    struct strbuf words;
    outrider__strbuf_init(&words, 1024);
    sql_words_of(&words, a, settled, sizeof settled / sizeof *settled);
    if (words.len == 0) {
        strbuf_append_str(sql, "true");
    } else {
        strbuf_append_str(sql, "(");
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        outrider__strbuf_appendf(sql, " IN (%s)) IS NOT TRUE", strbuf_cstr(&words));
    }
    outrider__strbuf_release(&words);
}

void outrider__pg_sql_unsettled(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    static const enum map_state live[] = {STATE_PENDING, STATE_PROCESSING, STATE_FAILED};
    if (a->map.waits_for_words) {
        sql_not_settled(sql, a, alias);
    } else if (a->map.mark == MARK_STATUS) {
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        strbuf_append_str(sql, " IN (");
        sql_words_of(sql, a, live, sizeof live / sizeof *live);
        strbuf_append_str(sql, ")");
    } else if (a->map.mark == MARK_BOOLEAN) {
        strbuf_append_str(sql, "(NOT ");
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED, alias);
        if (!a->map.columns[ROLE_PUBLISHED]->is_not_null) {
            strbuf_append_str(sql, " OR ");
            outrider__pg_sql_column(sql, a, ROLE_PUBLISHED, alias);
            strbuf_append_str(sql, " IS NULL");
        }
        strbuf_append_str(sql, ")");
    } else if (a->map.mark == MARK_TIME) {
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, alias);
        strbuf_append_str(sql, " IS NULL");
    } else {
        strbuf_append_str(sql, "false"); /* the row does not say */
    }
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

void outrider__pg_sql_published(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    bool is_known = a->map.values[STATE_PUBLISHED][0] != '\0'; /* or the word is waited for */
    if (a->map.mark == MARK_STATUS && is_known) {
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        strbuf_append_str(sql, " = ");
        outrider__pg_sql_literal(sql, a->map.values[STATE_PUBLISHED]);
    } else if (a->map.mark == MARK_BOOLEAN) {
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED, alias);
    } else if (a->map.mark == MARK_TIME) {
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, alias);
        strbuf_append_str(sql, " IS NOT NULL");
    } else {
        strbuf_append_str(sql, "false");
    }
}

void outrider__pg_sql_is_state(struct strbuf *sql, const struct outbox_table *a,
                               enum map_state state)
{
    outrider__pg_sql_column(sql, a, ROLE_STATUS, "o.");
    strbuf_append_str(sql, " = ");
    outrider__pg_sql_literal(sql, a->map.values[state]);
}
