/* SPDX-License-Identifier: MIT */
/*
 * Studies all tables of a pipeline (common/table_study.h), one after the other, by
 * the asynchronous requests of a source.
 */
#ifndef POSTGRES_TABLE_READER_H
#define POSTGRES_TABLE_READER_H

#include "postgres/table/table.h"
#include "postgres/shared/source.h"

struct table_reader {
    struct pg_source *s;
    size_t n, at;
    enum study_purpose purpose; /* a relay's, or a command's, which reads only */
    struct outbox_table *(*table)(struct pg_source *s, size_t i); /* where to put the i-th */
    int (*done)(struct pg_source *s, struct outrider_error *err);
    struct arena *arena; /* strings live there */
    struct pg_args args;
    struct table_study study;
    struct pg_statement st_columns, st_words;
    char *words_sql; /* owned */
};

/* s, n, table, done and arena are set; x must live until done() is called, or
 * the connection is closed. */
int outrider__pg_table_reader_begin(struct table_reader *x, struct outrider_error *err);
void outrider__pg_table_reader_release(struct table_reader *x);

#endif
