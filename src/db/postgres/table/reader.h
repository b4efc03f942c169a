/* SPDX-License-Identifier: MIT */
/*
 * Reading all tables of a pipeline from the catalogue, one after the other, as
 * a source does it: request by request.
 */
#ifndef POSTGRES_TABLE_READER_H
#define POSTGRES_TABLE_READER_H

#include "postgres/table/table.h"
#include "postgres/shared/source.h"

struct table_reader {
    struct pg_source *s;
    size_t n, at;
    struct outbox_table *(*table)(struct pg_source *s, size_t i); /* where to put the i-th */
    int (*done)(struct pg_source *s, struct outrider_error *err);
    struct arena *arena; /* strings live there */
    struct pg_args args;
    struct pg_statement st_columns, st_values;
    char *values_sql;
};

/* How many tables the configuration names; negative: too many. */
int outrider__pg_table_reader_count(const struct pipeline_config *config,
                                    struct outrider_error *err);
/* s, n, table, done and arena are set; x must live until done() is called, or
 * the connection is closed. */
int outrider__pg_table_reader_begin(struct table_reader *x, struct outrider_error *err);
void outrider__pg_table_reader_release(struct table_reader *x);

#endif
