/* SPDX-License-Identifier: MIT */
/* Removing rows that were settled long ago. */
#include "common/sql.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"

void outrider__pg_sql_settled_at(struct strbuf *sql, const struct outbox_table *a,
                                 const char *alias)
{
    static const enum column_role times[] = {ROLE_PUBLISHED_AT, ROLE_UPDATED_AT, ROLE_CREATED_AT,
                                             ROLE_OCCURRED_AT};
    strbuf_append_str(sql, "coalesce(");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (!table_has(a, times[i]))
            continue;
        outrider__pg_sql_time(sql, a, times[i], alias);
        strbuf_append_str(sql, ", ");
    }
    /* Without any time nothing is ever old enough. */
    strbuf_append_str(sql, "'infinity'::timestamptz)");
}

/* Settled for good: dead letters wait for a person. */
static void cleanup_is_over(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    const char *expired = a->map.values[STATE_EXPIRED];
    bool tells = a->map.mark == MARK_STATUS && expired[0] != '\0' &&
                 strcmp(expired, a->map.values[STATE_DEAD]) != 0;
    strbuf_append_str(sql, "(");
    outrider__pg_sql_published(sql, a, alias);
    if (tells) {
        strbuf_append_str(sql, " OR ");
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        strbuf_append_str(sql, " = ");
        outrider__pg_sql_literal(sql, expired);
    }
    strbuf_append_str(sql, ")");
}

void outrider__pg_sql_cleanup(struct strbuf *sql, const struct outbox_table *a)
{
    outrider__strbuf_appendf(sql, "DELETE FROM %s o WHERE ", a->outbox);
    outrider__pg_sql_column(sql, a, ROLE_ID, "o.");
    strbuf_append_str(sql, " IN (SELECT ");
    outrider__pg_sql_column(sql, a, ROLE_ID, "i.");
    outrider__strbuf_appendf(sql, " FROM %s i WHERE ", a->outbox);
    cleanup_is_over(sql, a, "i.");
    strbuf_append_str(sql, " AND ");
    if (table_has(a, ROLE_PUBLISHED_AT)) {
        /* By itself, so that an index on it serves. */
        strbuf_append_str(sql, "(");
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, "i.");
        strbuf_append_str(sql, " < ");
        outrider__pg_sql_stamp(sql, a, ROLE_PUBLISHED_AT, "$1::timestamptz");
        strbuf_append_str(sql, " OR ");
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, "i.");
        strbuf_append_str(sql, " IS NULL) AND ");
    }
    outrider__pg_sql_settled_at(sql, a, "i.");
    strbuf_append_str(sql, " < $1::timestamptz LIMIT $2::int8)");
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
