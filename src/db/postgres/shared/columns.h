/* SPDX-License-Identifier: MIT */
/*
 * SQL for the columns of an event, each within a bound: common/bounded_read.h (2) and (3).
 * EV_SIZE and EV_LARGE are what a large read says of a column that it left out; in a usual
 * read EV_SIZE is 1 wherever there is a payload.
 */
#ifndef POSTGRES_COLUMNS_H
#define POSTGRES_COLUMNS_H

#include "common/bounded_read.h"
#include "core/config.h"
#include "postgres/wire/wire.h"

/* Bounds as SQL: expressions of type int8, and of bool. */
struct pg_bounds {
    char payload[32], headers[32], text[32];
    char is_exact[40];
};

/* From an argument that outrider__pg_arg_bounds() adds. */
struct pg_bounds outrider__pg_bounds_of(int argument);
void outrider__pg_arg_bounds(struct pg_args *a, const struct pipeline_config *config,
                             bool is_large);
/* As numbers, for a statement that does one or the other. */
struct pg_bounds outrider__pg_bounds_fixed(const struct pipeline_config *config, bool is_large);

/* A column of headers as text, or bytes as they are; b NULL: of any size. */
void outrider__pg_sql_headers(struct strbuf *sql, Oid type, const char *column,
                              const struct pg_bounds *b);
/* A text; `value` is SQL of type text, or of bytea. */
void outrider__pg_sql_text(struct strbuf *sql, const char *value, bool is_bytes,
                           const struct pg_bounds *b);
/* EV_SIZE, for a payload of which `size` is the SQL. */
void outrider__pg_sql_size(struct strbuf *sql, const char *column, const char *size,
                           const struct pg_bounds *b);
/* EV_LARGE: begin, one call a column with SQL for its size, end. */
void outrider__pg_sql_large_begin(struct strbuf *sql, const struct pg_bounds *b);
void outrider__pg_sql_large_column(struct strbuf *sql, const char *name, const char *size,
                                   const char *most);
void outrider__pg_sql_large_end(struct strbuf *sql);

/* All columns of an event of the log, which is `o`. anchor: SQL for the seq of a row of
 * which payload and headers are not asked for, or NULL. */
struct pg_catalog;
void outrider__pg_sql_log_event(struct strbuf *sql, const struct pg_catalog *cat,
                                const struct pg_bounds *b, const char *anchor);

/* outrider__read_is_large() of a row. */
bool outrider__pg_row_is_large(const PGresult *r, int row, int first);

#endif
