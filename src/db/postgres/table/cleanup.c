/* SPDX-License-Identifier: MIT */
/* Removing rows that were settled long ago. */
#include "common/sql.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"

void outrider__pg_sql_cleanup(struct strbuf *sql, const struct outbox_table *a)
{
    struct strbuf neutral;
    outrider__strbuf_init(&neutral, SQL_TEXT_CAP);
    outrider__sql_cleanup(&neutral, &outrider__pg_table_dialect, a);
    outrider__pg_sql_finish(sql, &neutral);
    outrider__strbuf_release(&neutral);
}

struct cleanup_run {
    int64_t older_than_us;
    uint64_t limit, n;
};

static int cleanup_table(struct pg_store *s, const struct outbox_table *a, void *ctx,
                         struct outrider_error *err)
{
    struct cleanup_run *w = ctx;
    struct pg_args args;
    struct strbuf q;
    PGresult *r = NULL;
    if (w->n >= w->limit)
        return 0;
    outrider__strbuf_init(&q, SQL_TEXT_CAP);
    outrider__pg_sql_cleanup(&q, a);
    outrider__pg_args_init(&args);
    outrider__pg_arg_time(&args, w->older_than_us);
    outrider__pg_arg_int8(&args, (int64_t)(w->limit - w->n));
    int rc = outrider__pg_tables_query(s, &q, &args, "cannot clean up", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    w->n += outrider__pg_store_changed(r);
    PQclear(r);
    return 0;
}

int outrider__pg_tables_cleanup(struct pg_store *s, int64_t older_than_us, uint64_t limit,
                                uint64_t *ret_removed, struct outrider_error *err)
{
    struct cleanup_run w = {older_than_us, limit, 0};
    if (outrider__pg_tables_each(s, cleanup_table, &w, err) < 0)
        return -1;
    *ret_removed = w.n;
    return 0;
}
