/* SPDX-License-Identifier: MIT */
#include "postgres/table/reader.h"

#include <stdlib.h>

static const char *table_name(const struct pipeline_config *config, size_t i)
{
    return config->source.tables.n > 0 ? config->source.tables.items[i] : "outbox";
}

int outrider__pg_table_reader_count(const struct pipeline_config *config,
                                    struct outrider_error *err)
{
    size_t n = config->source.tables.n > 0 ? config->source.tables.n : 1;
    if (n > OUTBOX_TABLES_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "source.tables: more than %d tables in one pipeline",
                              OUTBOX_TABLES_MAX);
    return (int)n;
}

static int next(struct table_reader *x, struct outrider_error *err);

static int read_one(struct table_reader *x, struct outrider_error *err)
{
    struct outbox_table *a = x->table(x->s, x->at);
    if (outrider__pg_table_infer(a, x->s->config, &x->s->cat, err) < 0)
        return -1;
    if (outrider__pg_table_check(a, x->s->config, err) < 0)
        return -1;
    if (a->map.respelled[0] != '\0')
        outrider__pg_source_warn(x->s, "table %s: columns are taken in another spelling: %s",
                                 a->outbox, a->map.respelled);
    return ++x->at < x->n ? next(x, err) : x->done(x->s, err);
}

static int on_values(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct table_reader *x = ctx;
    (void)n;
    if (outrider__pg_table_values(x->table(x->s, x->at), x->s->config, results[0], x->arena, err) <
        0)
        return -1;
    return read_one(x, err);
}

static int on_columns(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct table_reader *x = ctx;
    struct outbox_table *a = x->table(x->s, x->at);
    struct strbuf sql;
    (void)n;
    if (outrider__pg_table_read(a, results[0], table_name(x->s->config, x->at), x->arena, err) < 0)
        return -1;
    /* Before the words: these are read from the rows. */
    if (outrider__map_columns(&a->table, x->s->config, &a->map, err) < 0 ||
        outrider__pg_table_check(a, x->s->config, err) < 0)
        return -1;
    outrider__strbuf_init(&sql, 4096);
    outrider__pg_table_values_sql(a, x->s->config, &x->s->cat, &sql);
    if (sql.len == 0) {
        outrider__strbuf_release(&sql);
        return read_one(x, err);
    }
    free(x->values_sql);
    x->values_sql = sql.data;
    x->st_values = (struct pg_statement){.sql = sql.data, .what = "cannot look at the states"};
    return outrider__pg_request(&x->s->conn, &x->st_values, NULL, on_values, x, err);
}

static int next(struct table_reader *x, struct outrider_error *err)
{
    outrider__pg_args_clear(&x->args);
    outrider__pg_arg_str(&x->args, table_name(x->s->config, x->at));
    return outrider__pg_request(&x->s->conn, &x->st_columns, &x->args, on_columns, x, err);
}

int outrider__pg_table_reader_begin(struct table_reader *x, struct outrider_error *err)
{
    outrider__pg_args_init(&x->args);
    x->at = 0;
    x->st_columns =
        (struct pg_statement){.sql = outrider__pg_table_sql, .what = "cannot read the catalogue"};
    return next(x, err);
}

void outrider__pg_table_reader_release(struct table_reader *x)
{
    if (x->s == NULL)
        return;
    free(x->values_sql);
    outrider__pg_args_release(&x->args);
    *x = (struct table_reader){0};
}
