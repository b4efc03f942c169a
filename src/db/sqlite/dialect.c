/* SPDX-License-Identifier: MIT */
/*
 * SQLite's SQL dialect, as far as shared statements need it here: dead letters. A
 * set is a JSON array, times are numbers that the program sends, and a table of parked
 * rows belongs to one outbox.
 */
#include "dialect.h"

static void sqlite_dialect_param(struct strbuf *q, int n, enum sql_type type, bool is_set)
{
    (void)type, (void)is_set;
    outrider__strbuf_appendf(q, "?%d", n);
}

static void sqlite_dialect_is_in(struct strbuf *q, int n, enum sql_type type,
                                 const char *column_type)
{
    (void)type, (void)column_type;
    outrider__strbuf_appendf(q, " IN (SELECT value FROM json_each(@%d:text[]@))", n);
}

const struct sql_dialect outrider__sqlite_dialect = {
    .name = "sqlite",
    .epoch = "0",
    .materialized = "",
    .param = sqlite_dialect_param,
    .is_in = sqlite_dialect_is_in,
};
