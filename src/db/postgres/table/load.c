/* SPDX-License-Identifier: MIT */
/* Studies of tables for the commands (common/table_study.h): one query after the other. */
#include "common/sql.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"

bool outrider__pg_store_has_states(const struct pg_store *s)
{
    return s->cat.oid != 0 && outrider__pg_table_has_states(&s->cat, s->config);
}

size_t outrider__pg_tables_count(const struct pg_store *s)
{
    return s->config->source.tables.n > 0 ? s->config->source.tables.n : 1;
}

static int load_columns(struct pg_store *s, size_t i, struct table_study *y, struct arena *arena,
                        struct outrider_error *err)
{
    const char *name = outrider__study_name(s->config, i);
    struct pg_args args;
    PGresult *r = NULL;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, name);
    int rc = outrider__pg_store_query(s, outrider__pg_table_sql, &args, "cannot read the catalogue",
                                      &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    rc = outrider__pg_table_describe(y->table, &s->cat, r, name, arena, err);
    PQclear(r);
    return rc < 0 ? -1 : outrider__study_columns(y, err);
}

static int load_words(struct pg_store *s, struct table_study *y, struct arena *arena,
                      struct outrider_error *err)
{
    struct study_words words;
    struct strbuf sql;
    PGresult *r = NULL;
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__pg_table_words_sql(y->table, s->config, &sql);
    if (outrider__pg_tables_query(s, &sql, NULL, "cannot look at the states", &r, err) < 0)
        return -1;
    int rc = outrider__pg_table_words(r, arena, &words, err);
    PQclear(r);
    return rc < 0 ? -1 : outrider__study_words(y, &words, err);
}

int outrider__pg_tables_load(struct pg_store *s, size_t i, enum study_purpose purpose,
                             struct arena *arena, struct outbox_table *ret_table,
                             struct outrider_error *err)
{
    struct table_study y;
    int rc = 0;
    outrider__study_begin(&y, s->config, purpose, ret_table);
    while (rc == 0 && y.need != STUDY_IS_DONE)
        rc = y.need == STUDY_NEEDS_COLUMNS ? load_columns(s, i, &y, arena, err)
                                           : load_words(s, &y, arena, err);
    return rc;
}

int outrider__pg_tables_each(struct pg_store *s, pg_table_fn *fn, void *ctx,
                             struct outrider_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < outrider__pg_tables_count(s); i++) {
        struct arena arena;
        struct outbox_table a = {0};
        outrider__arena_init(&arena, 16384);
        rc = outrider__pg_tables_load(s, i, STUDY_FOR_COMMAND, &arena, &a, err);
        if (rc == 0)
            rc = fn(s, &a, ctx, err);
        outrider__arena_release(&arena);
    }
    return rc;
}

int outrider__pg_tables_query(struct pg_store *s, struct strbuf *sql, const struct pg_args *args,
                              const char *what, PGresult **ret_result, struct outrider_error *err)
{
    int rc = sql->failed
                 ? outrider__fail_nomem(err)
                 : outrider__pg_store_query(s, strbuf_cstr(sql), args, what, ret_result, err);
    outrider__strbuf_release(sql);
    return rc;
}
