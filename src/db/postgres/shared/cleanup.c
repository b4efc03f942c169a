/* SPDX-License-Identifier: MIT */
#include "postgres/table/table.h"
#include "postgres/shared/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "postgres/store/store.h"

void outrider__pg_needs_sql(struct strbuf *sql, const struct pg_catalog *cat, const char *row)
{
    outrider__strbuf_appendf(sql,
                             "CASE WHEN k.mode = 'cdc' THEN k.sweep @> %s.seq OR k.settled_xid IS "
                             "NULL OR k.system_id IS "
                             "DISTINCT FROM %" PRId64
                             " OR ((%s.xmin - k.settled_xid) & 4294967295) < 2147483648 ELSE "
                             "k.position <= %s.seq OR k.gaps @> %s.seq END",
                             row, cat->system_id, row, row, row);
}

/* From the front, in a window, so that rows which are still young are not all
 * looked at each time. */
void outrider__pg_cleanup_sql(struct strbuf *sql, const struct pg_catalog *cat)
{
    outrider__strbuf_appendf(
        sql,
        "DELETE FROM %s o USING (SELECT w.seq, w.created_at FROM (SELECT i.seq, i.created_at, "
        "i.xmin::text::int8 AS xmin FROM %s i WHERE EXISTS (SELECT FROM %s k WHERE k.outbox = $1) "
        "AND i.seq < (SELECT coalesce(min(k.position), 9223372036854775807) FROM %s k WHERE "
        "k.outbox = $1 AND k.mode <> 'cdc') ORDER BY i.seq LIMIT $3 + 1000) w WHERE w.created_at < "
        "$2 AND NOT EXISTS (SELECT FROM %s k WHERE k.outbox = $1 AND ",
        cat->table, cat->table, cat->cursor_table, cat->cursor_table, cat->cursor_table);
    outrider__pg_needs_sql(sql, cat, "w");
    strbuf_append_str(sql, ") LIMIT $3) d WHERE o.seq = d.seq AND o.created_at = d.created_at");
}

void outrider__pg_upkeep_sql(struct strbuf *sql, const struct pg_catalog *cat)
{
    struct strbuf schema;
    outrider__strbuf_init(&schema, PG_NAME_MAX);
    outrider__strbuf_append(&schema, bytes_of(cat->table, strlen(cat->table) - strlen("outbox")));
    outrider__strbuf_appendf(sql, "SELECT %soutbox_partitions($1)", strbuf_cstr(&schema));
    outrider__strbuf_release(&schema);
}

int outrider__pg_cleaner_init(struct pg_cleaner *k, const struct pg_catalog *cat,
                              struct outrider_error *err)
{
    struct strbuf rows;
    outrider__strbuf_init(&rows, 8192);
    outrider__pg_args_init(&k->args);
    outrider__pg_cleanup_sql(&rows, cat);
    k->rows_sql = rows.data;
    k->rows =
        (struct pg_statement){.sql = k->rows_sql, .what = "cannot clean up", .purpose = PG_CLEANS};
    return rows.failed ? outrider__fail_nomem(err) : 0;
}

void outrider__pg_cleaner_release(struct pg_cleaner *k)
{
    free(k->rows_sql);
    outrider__pg_args_release(&k->args);
    *k = (struct pg_cleaner){0};
}

static int on_cleaned(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)err;
    op->op->removed = strtoull(PQcmdTuples(results[n - 1]), NULL, 10);
    op->op->more =
        op->op->removed > 0 && op->op->removed >= (uint64_t)op->source->config->cleanup.batch;
    pg_op_done(op);
    return 0;
}

static int on_upkept(void *ctx, PGresult **results, int n, struct outrider_error *err)
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
    if (s->config->replay || s->config->cleanup.retention_us <= 0 || !s->cat.can_delete) {
        pg_op_done(op);
        return 0;
    }
    if (outrider__pg_upkeep_may_drop(&s->upkeep, &s->cat, s->now))
        return outrider__pg_upkeep_drop(&s->upkeep, &s->conn, &s->cat, cutoff_us, s->now, on_upkept,
                                        op, err);
    outrider__pg_args_clear(&k->args);
    outrider__pg_arg_str(&k->args, s->cat.table);
    outrider__pg_arg_time(&k->args, cutoff_us);
    outrider__pg_arg_int8(&k->args, s->config->cleanup.batch);
    return outrider__pg_request(&s->conn, &k->rows, &k->args, on_cleaned, op, err);
}

static int drop_partitions(struct pg_store *s, int64_t older_than_us, uint64_t *ret_removed,
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
    struct strbuf sql;
    struct pg_args args;
    PGresult *r = NULL;
    uint64_t dropped = 0;
    if (outrider__pg_store_ready(s, err) < 0)
        return -1;
    if (drop_partitions(s, older_than_us, &dropped, err) < 0)
        return -1;
    if (outrider__pg_store_has_states(s)) {
        int rc = outrider__pg_tables_cleanup(s, older_than_us, limit, ret_removed, err);
        *ret_removed += rc == 0 ? dropped : 0;
        return rc;
    }
    outrider__strbuf_init(&sql, 8192);
    outrider__pg_cleanup_sql(&sql, &s->cat);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, s->cat.table);
    outrider__pg_arg_time(&args, older_than_us);
    outrider__pg_arg_int8(&args, limit > 1000000 ? 1000000 : (int64_t)limit);
    int rc = outrider__pg_store_query(s, strbuf_cstr(&sql), &args, "cannot clean up", &r, err);
    if (rc == 0) {
        *ret_removed = dropped + outrider__pg_store_changed(r);
        PQclear(r);
    }
    outrider__pg_args_release(&args);
    outrider__strbuf_release(&sql);
    return rc;
}
