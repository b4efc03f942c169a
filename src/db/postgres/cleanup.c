/* SPDX-License-Identifier: MIT */
#include "adopt.h"
#include "cleanup.h"

#include <string.h>

#include "store.h"

/* From the front, in a window, so that rows which are still young are not all
 * looked at each time. */
void outrider__pg_cleanup_sql(struct strbuf *sql, const struct pg_catalog *cat)
{
    outrider__strbuf_appendf(
        sql,
        "DELETE FROM %s o USING (SELECT w.seq, w.created_at FROM (SELECT i.seq, i.created_at FROM "
        "%s i WHERE i.seq < (SELECT min(k.position) FROM %s k WHERE k.outbox = $1) ORDER BY i.seq "
        "LIMIT $3 + 1000) w WHERE w.created_at < $2 AND NOT EXISTS (SELECT FROM %s k WHERE "
        "k.outbox = $1 AND (k.position = w.seq OR k.gaps @> w.seq)) LIMIT $3) d WHERE o.seq = "
        "d.seq AND o.created_at = d.created_at",
        cat->table, cat->table, cat->cursor_table, cat->cursor_table);
}

void outrider__pg_upkeep_sql(struct strbuf *sql, const struct pg_catalog *cat)
{
    struct strbuf schema;
    outrider__strbuf_init(&schema, PG_NAME_MAX);
    outrider__strbuf_append(&schema, bytes_of(cat->table, strlen(cat->table) - strlen("outbox")));
    outrider__strbuf_appendf(sql, "SELECT %soutbox_partitions($1)", strbuf_cstr(&schema));
    outrider__strbuf_release(&schema);
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
    if (outrider__pg_store_adopts(s)) {
        int rc = outrider__pg_adopted_cleanup(s, older_than_us, limit, ret_removed, err);
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
