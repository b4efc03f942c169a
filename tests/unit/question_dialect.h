/* SPDX-License-Identifier: MIT */
/*
 * An SQL dialect as far from PostgreSQL's as a real one is (MySQL's syntax): "?" for
 * parameters, one JSON document for rows, no RETURNING, no LATERAL. Statements that
 * every database shares are written for it, and searched for what other servers lack.
 */
#ifndef UNIT_QUESTION_DIALECT_H
#define UNIT_QUESTION_DIALECT_H

#include <string.h>

#include "common/dialect.h"

static const char *const question_columns[SQL_TYPES] = {
    [SQL_TEXT] = "LONGTEXT",  [SQL_BYTES] = "LONGBLOB",   [SQL_INT4] = "INT",
    [SQL_INT8] = "BIGINT",    [SQL_TIME] = "DATETIME(6)", [SQL_BOOL] = "TINYINT",
    [SQL_STORED] = "LONGTEXT"};

static void question_param(struct strbuf *q, int n, enum sql_type type, bool is_set)
{
    (void)n, (void)type, (void)is_set;
    strbuf_append_str(q, "?");
}

static void question_item(struct strbuf *q, int n, int i)
{
    (void)n;
    outrider__strbuf_appendf(q, "CAST(JSON_EXTRACT(?, '$[%d]') AS SIGNED)", i - 1);
}

static void question_rows(struct strbuf *q, const struct sql_rows *rows)
{
    outrider__strbuf_appendf(q, "JSON_TABLE(@%d:text[]@, '$[*]' COLUMNS (", rows->params[0]);
    for (size_t i = 0; i < rows->n; i++)
        outrider__strbuf_appendf(q, "%s\"%s\" %s PATH '$[%zu]'", i > 0 ? ", " : "",
                                 rows->fields[i].name, question_columns[rows->fields[i].type], i);
    outrider__strbuf_appendf(q, "%s)) AS %s", rows->is_numbered ? ", n FOR ORDINALITY" : "",
                             rows->alias);
}

static void question_is_in(struct strbuf *q, int n, enum sql_type type, const char *column_type)
{
    (void)column_type;
    outrider__strbuf_appendf(
        q,
        " IN (SELECT j.v FROM JSON_TABLE(@%d:text[]@, '$[*]' COLUMNS (v %s PATH "
        "'$')) AS j)",
        n, question_columns[type]);
}

static void question_add_us(struct strbuf *q, const char *when, const char *us)
{
    outrider__strbuf_appendf(q, "%s + INTERVAL %s MICROSECOND", when, us);
}

static void question_same_lane(struct strbuf *q, const char *lane, const char *other)
{
    outrider__strbuf_appendf(q, "%s = %s", lane, other);
}

static void question_stored_hex(struct strbuf *q, const char *text)
{
    outrider__strbuf_appendf(q, "'\\x' || lower(hex(%s))", text);
}

static const struct sql_dialect question_dialect = {
    .name = "question",
    .types = {[SQL_TEXT] = "CHAR",
              [SQL_BYTES] = "BINARY",
              [SQL_INT4] = "SIGNED",
              [SQL_INT8] = "SIGNED",
              [SQL_TIME] = "DATETIME(6)",
              [SQL_BOOL] = "SIGNED",
              [SQL_STORED] = "CHAR"},
    .now = "NOW(6)",
    .clock = "SYSDATE(6)",
    .epoch = "TIMESTAMP'1970-01-01 00:00:00'",
    .materialized = "",
    .lock = " FOR UPDATE",
    .lock_skips = " FOR UPDATE SKIP LOCKED",
    .upsert = " ON DUPLICATE KEY UPDATE ",
    .new_value = {"VALUES(", ")"},
    .old_value = "",
    .insert_alias = "",
    .delete_from = "DELETE o FROM",
    .delete_join = ", ",
    .joins_before_set = true,
    .param = question_param,
    .item = question_item,
    .rows = question_rows,
    .is_in = question_is_in,
    .add_us = question_add_us,
    .same_lane = question_same_lane,
    .stored_hex = question_stored_hex,
};

/* Whatever only PostgreSQL, or only few servers understand. */
static inline const char *question_foreign_word(const char *sql)
{
    static const char *const words[] = {
        "::",          "$1",           "$2",         "$3",     "unnest",
        "ANY (",       "ILIKE",        "RETURNING",  "FILTER", "LATERAL",
        "SELECT FROM", "MATERIALIZED", "interval '", "USING",  "timestamptz",
        "int8",        "bytea",        "excluded",   "OFFSET", "starts_with",
        "convert_to",  "encode(",      "@"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(sql, words[i]) != NULL)
            return words[i];
    return NULL;
}

#endif
