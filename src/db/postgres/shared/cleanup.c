/* SPDX-License-Identifier: MIT */
#include "postgres/table/table.h"
#include "postgres/shared/cleanup.h"

#include <stdlib.h>
#include <string.h>

#include "postgres/store/store.h"
#include "shared.sql.h"

static const struct pg_block cleanup_rows = {sql_cleanup_rows, "cannot clean up", PG_CLEANS};

void outrider__pg_cleanup_words(struct pg_words *words)
{
    outrider__pg_words_add_block(words, "needed", sql_cleanup_needed);
}

void outrider__pg_upkeep_sql(struct strbuf *sql, const struct pg_catalog *cat)
{
    int schema_length = (int)(strlen(cat->table) - strlen("outbox")); /* with its dot */
    outrider__strbuf_appendf(sql, "SELECT %.*soutbox_partitions($1)", schema_length, cat->table);
}

int outrider__pg_cleaner_init(struct pg_cleaner *k, const struct pg_catalog *cat,
                              struct outrider_error *err)
{
    struct pg_words words;
    outrider__pg_args_init(&k->args);
    outrider__pg_words_init(&words, cat);
    outrider__pg_cleanup_words(&words);
    int rc = outrider__pg_statements_make(&k->rows, &cleanup_rows, 1, &words, err);
    outrider__pg_words_release(&words);
    return rc;
}

void outrider__pg_cleaner_release(struct pg_cleaner *k)
{
    outrider__pg_statements_release(&k->rows, 1);
    outrider__pg_args_release(&k->args);
    *k = (struct pg_cleaner){0};
}

static int cleanup_on_cleaned(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)n;
    (void)err;
    op->op->removed = strtoull(PQcmdTuples(results[0]), NULL, 10);
    op->op->more =
        op->op->removed > 0 && op->op->removed >= (uint64_t)op->source->config->cleanup.batch;
    pg_op_done(op);
    return 0;
}

static int cleanup_on_upkept(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)n;
    (void)err;
    op->op->removed = (uint64_t)outrider__pg_get_int(results[0], 0, 0, 0);
    op->op->more = true; /* the rows come next */
    pg_op_done(op);
    return 0;
}

int outrider__pg_cleanup_start(struct pg_source *s, struct pg_cleaner *k, struct pg_op *op,
                               struct outrider_error *err)
{
    int64_t cutoff_us = op->op->now_wall_us - s->config->cleanup.retention_us;
    op->op->removed = 0;
    op->op->more = false;
    if (s->config->cleanup.retention_us <= 0 || !s->cat.can_delete) {
        pg_op_done(op);
        return 0;
    }
    if (outrider__pg_upkeep_may_drop(&s->upkeep, &s->cat, s->now))
        return outrider__pg_upkeep_drop(&s->upkeep, &s->conn, &s->cat, cutoff_us, s->now,
                                        cleanup_on_upkept, op, err);
    outrider__pg_args_clear(&k->args);
    outrider__pg_arg_str(&k->args, s->cat.table);
    outrider__pg_arg_time(&k->args, cutoff_us);
    outrider__pg_arg_int8(&k->args, s->config->cleanup.batch);
    return outrider__pg_request(&s->conn, &k->rows, &k->args, cleanup_on_cleaned, op, err);
}

static int cleanup_drop_partitions(struct pg_store *s, int64_t older_than_us, uint64_t *ret_removed,
                                   struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args args;
    PGresult *r = NULL;
    *ret_removed = 0;
    if (!s->cat.has_upkeep)
        return 0;
    outrider__strbuf_init(&sql, 1024);
    outrider__pg_upkeep_sql(&sql, &s->cat);
    outrider__pg_args_init(&args);
    outrider__pg_arg_time(&args, older_than_us);
    int rc = outrider__pg_store_query(s, strbuf_cstr(&sql), &args, "cannot keep the partitions up",
                                      &r, err);
    if (rc == 0) {
        *ret_removed = (uint64_t)outrider__pg_get_int(r, 0, 0, 0);
        PQclear(r);
    }
    outrider__pg_args_release(&args);
    outrider__strbuf_release(&sql);
    return rc;
}

int outrider__pg_store_cleanup(struct store *base, int64_t older_than_us, uint64_t limit,
                               uint64_t *ret_removed, struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct pg_words words;
    struct pg_args args;
    PGresult *r = NULL;
    uint64_t dropped = 0;
    if (outrider__pg_store_ready(s, err) < 0)
        return -1;
    if (cleanup_drop_partitions(s, older_than_us, &dropped, err) < 0)
        return -1;
    if (outrider__pg_store_has_states(s)) {
        int rc = outrider__pg_tables_cleanup(s, older_than_us, limit, ret_removed, err);
        *ret_removed += rc == 0 ? dropped : 0;
        return rc;
    }
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_cleanup_words(&words);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, s->cat.table);
    outrider__pg_arg_time(&args, older_than_us);
    outrider__pg_arg_int8(&args, limit > 1000000 ? 1000000 : (int64_t)limit);
    int rc = outrider__pg_store_run(s, &cleanup_rows, &words, &args, &r, err);
    if (rc == 0) {
        *ret_removed = dropped + outrider__pg_store_changed(r);
        PQclear(r);
    }
    outrider__pg_args_release(&args);
    outrider__pg_words_release(&words);
    return rc;
}
