/* SPDX-License-Identifier: MIT */
/* The statements of layout `status` on PostgreSQL: common/status_sql.h, and those that are ours. */
#include <stdlib.h>

#include "postgres/poll_status/status.h"

#define STATUS_SQL_CAP 131072

/* For rows that nobody claims: mode cdc, and the command doctor. */
static void status_unclaimed_sql(struct strbuf *q, const struct outbox_table *a,
                                 void (*write)(struct strbuf *, const struct status_sql *))
{
    const struct status_sql s = {
        .dialect = &outrider__pg_table_dialect, .table = a, .owner_prefix = ""};
    struct strbuf neutral;
    outrider__strbuf_init(&neutral, STATUS_SQL_CAP);
    write(&neutral, &s);
    outrider__pg_sql_finish(q, &neutral);
    outrider__strbuf_release(&neutral);
}

void outrider__pg_mark_sql(struct strbuf *q, const struct outbox_table *a)
{
    status_unclaimed_sql(q, a, outrider__status_mark_sql);
}

void outrider__pg_failed_sql(struct strbuf *q, const struct outbox_table *a)
{
    status_unclaimed_sql(q, a, outrider__status_change_sql);
}

/* Statements that are PostgreSQL's own; whether this is one. */
static bool status_own_sql(struct strbuf *q, const struct status_source *d,
                           const struct status_table *t, enum status_statement which)
{
    switch (which) {
    case ST_WORDS:
        if (t->a.map.waits_for_words)
            outrider__pg_table_words_sql(&t->a, d->s->config, q);
        return true;
    case ST_UNCOVERED:
        /* The CHECK of our own table admits no other word. */
        if (t->a.map.mark == MARK_STATUS && !t->a.is_ours && !t->a.map.waits_for_words)
            outrider__pg_sql_uncovered(q, &t->a, NULL);
        return true;
    default:
        return false;
    }
}

static int status_statement_sql(struct status_source *d, struct status_table *t,
                                enum status_statement which, char **ret_sql,
                                struct outrider_error *err)
{
    const struct status_sql s = {.dialect = &outrider__pg_table_dialect,
                                 .config = d->s->config,
                                 .table = &t->a,
                                 .owner_prefix = d->owner_prefix,
                                 .claims = t->claims,
                                 .has_owner = t->has_owner,
                                 .competes = d->competes};
    struct strbuf q;
    outrider__strbuf_init(&q, STATUS_SQL_CAP);
    if (!status_own_sql(&q, d, t, which))
        return outrider__status_sql(&s, which, ret_sql, NULL, err);
    if (q.failed) {
        outrider__strbuf_release(&q);
        return outrider__fail_nomem(err);
    }
    if (q.len == 0)
        outrider__strbuf_release(&q);
    *ret_sql = q.data;
    return 0;
}

int outrider__pg_status_statements(struct status_source *d, struct status_table *t,
                                   struct outrider_error *err)
{
    for (int i = 0; i < ST_COUNT; i++) {
        char *sql = NULL;
        if (status_statement_sql(d, t, (enum status_statement)i, &sql, err) < 0)
            return -1;
        free(t->sql[i]);
        t->sql[i] = sql;
        t->st[i] = (struct pg_statement){.sql = sql,
                                         .what = outrider__status_purpose((enum status_statement)i),
                                         .purpose = i == ST_CURSOR    ? PG_SETTLES
                                                    : i == ST_CLEANUP ? PG_CLEANS
                                                                      : PG_READS};
    }
    return 0;
}
