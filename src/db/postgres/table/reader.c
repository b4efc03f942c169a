/* SPDX-License-Identifier: MIT */
#include "postgres/table/reader.h"

#include <stdlib.h>

#include "common/sql.h"

static int reader_next_table(struct table_reader *x, struct outrider_error *err);
static int reader_ask(struct table_reader *x, struct outrider_error *err);

static int reader_table_is_read(struct table_reader *x, struct outrider_error *err)
{
    const struct outbox_table *a = x->study.table;
    if (a->map.respelled[0] != '\0')
        outrider__pg_source_warn(x->s, "table %s: columns are taken in another spelling: %s",
                                 a->outbox, a->map.respelled);
    return ++x->at < x->n ? reader_next_table(x, err) : x->done(x->s, err);
}

static int reader_on_columns(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct table_reader *x = ctx;
    (void)n;
    if (outrider__pg_table_describe(x->study.table, &x->s->cat, results[0],
                                    outrider__study_name(x->s->config, x->at), x->arena, err) < 0 ||
        outrider__study_columns(&x->study, err) < 0)
        return -1;
    return reader_ask(x, err);
}

static int reader_on_words(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct table_reader *x = ctx;
    struct study_words words;
    (void)n;
    if (outrider__pg_table_words(results[0], x->arena, &words, err) < 0 ||
        outrider__study_words(&x->study, &words, err) < 0)
        return -1;
    return reader_ask(x, err);
}

static int reader_ask_words(struct table_reader *x, struct outrider_error *err)
{
    struct strbuf sql;
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__pg_table_words_sql(x->study.table, x->s->config, &sql);
    free(x->words_sql);
    x->words_sql = sql.data;
    if (sql.failed)
        return outrider__fail_nomem(err);
    x->st_words = (struct pg_statement){.sql = sql.data, .what = "cannot look at the states"};
    return outrider__pg_request(&x->s->conn, &x->st_words, NULL, reader_on_words, x, err);
}

/* Sends what the study needs next. */
static int reader_ask(struct table_reader *x, struct outrider_error *err)
{
    switch (x->study.need) {
    case STUDY_NEEDS_COLUMNS:
        outrider__pg_args_clear(&x->args);
        outrider__pg_arg_str(&x->args, outrider__study_name(x->s->config, x->at));
        return outrider__pg_request(&x->s->conn, &x->st_columns, &x->args, reader_on_columns, x,
                                    err);
    case STUDY_NEEDS_WORDS:
        return reader_ask_words(x, err);
    default:
        return reader_table_is_read(x, err);
    }
}

static int reader_next_table(struct table_reader *x, struct outrider_error *err)
{
    outrider__study_begin(&x->study, x->s->config, x->purpose, x->table(x->s, x->at));
    return reader_ask(x, err);
}

int outrider__pg_table_reader_begin(struct table_reader *x, struct outrider_error *err)
{
    outrider__pg_args_init(&x->args);
    x->at = 0;
    x->st_columns =
        (struct pg_statement){.sql = outrider__pg_table_sql, .what = "cannot read the catalogue"};
    return reader_next_table(x, err);
}

void outrider__pg_table_reader_release(struct table_reader *x)
{
    if (x->s == NULL)
        return;
    free(x->words_sql);
    outrider__pg_args_release(&x->args);
    *x = (struct table_reader){0};
}
