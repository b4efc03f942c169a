/* SPDX-License-Identifier: MIT */
/* Outbox tables as a store loads them: one statement after the other. */
#include <stdio.h>

#include "postgres/table/table.h"
#include "postgres/store/store.h"

bool outrider__pg_store_has_states(const struct pg_store *s)
{
    return s->cat.oid != 0 && outrider__pg_table_has_states(&s->cat, s->config);
}

size_t outrider__pg_tables_count(const struct pg_store *s)
{
    return s->config->source.tables.n > 0 ? s->config->source.tables.n : 1;
}

static int table_load_words(struct pg_store *s, struct arena *arena, struct outbox_table *a,
                            struct outrider_error *err)
{
    struct strbuf sql;
    PGresult *r = NULL;
    outrider__strbuf_init(&sql, 4096);
    outrider__pg_table_values_sql(a, s->config, &s->cat, &sql);
    int rc = 0;
    if (sql.len > 0) {
        rc = outrider__pg_store_query(s, strbuf_cstr(&sql), NULL, "cannot look at the states", &r,
                                      err);
        if (rc == 0) {
            rc = outrider__pg_table_values(a, s->config, r, arena, err);
            PQclear(r);
        }
    }
    outrider__strbuf_release(&sql);
    return rc;
}

int outrider__pg_tables_columns(struct pg_store *s, size_t i, struct arena *arena,
                                struct outbox_table *ret_table, struct outrider_error *err)
{
    const char *name =
        s->config->source.tables.n > 0 ? s->config->source.tables.items[i] : "outbox";
    struct pg_args args;
    PGresult *r = NULL;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, name);
    int rc = outrider__pg_store_query(s, outrider__pg_table_sql, &args, "cannot read the catalogue",
                                      &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    rc = outrider__pg_table_read(ret_table, r, name, arena, err);
    PQclear(r);
    if (rc < 0)
        return -1;
    return outrider__map_columns(&ret_table->table, s->config, &ret_table->map, err);
}

/* The commands read; whether more is allowed, the server says. */
static int table_may_read(const struct pg_store *s, const struct outbox_table *a,
                          struct outrider_error *err)
{
    struct map_needs needs;
    outrider__map_needs(&a->map, s->config, &needs);
    memset(needs.writes, 0, sizeof needs.writes);
    needs.deletes = false;
    return outrider__map_check_needs(&a->map, &needs, err);
}

int outrider__pg_tables_load(struct pg_store *s, size_t i, struct arena *arena,
                             struct outbox_table *ret_table, struct outrider_error *err)
{
    if (outrider__pg_tables_columns(s, i, arena, ret_table, err) < 0 ||
        table_may_read(s, ret_table, err) < 0 || table_load_words(s, arena, ret_table, err) < 0)
        return -1;
    return outrider__pg_table_infer(ret_table, s->config, &s->cat, err);
}

int outrider__pg_tables_each(struct pg_store *s, pg_table_fn *fn, void *ctx,
                             struct outrider_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < outrider__pg_tables_count(s); i++) {
        struct arena arena;
        struct outbox_table a = {0};
        outrider__arena_init(&arena, 16384);
        rc = outrider__pg_tables_load(s, i, &arena, &a, err);
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
