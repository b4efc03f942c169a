/* SPDX-License-Identifier: MIT */
/* The SQL of a replay of rows that carry their state: the published ones, in order. */
#include "postgres/replay/replay.h"

static bool rows_has(const struct replay_table *t, enum column_role role)
{
    return t->a.map.columns[role] != NULL;
}

static enum column_role rows_time_role(const struct replay_table *t)
{
    return rows_has(t, ROLE_CREATED_AT) ? ROLE_CREATED_AT : ROLE_OCCURRED_AT;
}

int outrider__pg_replay_check(const struct replay_table *t, const struct pipeline_config *config,
                              struct outrider_error *err)
{
    if (config->replay_from_seq > 0 && !rows_has(t, ROLE_SEQ))
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "table %s has no sequence to begin at: use --since TIME, or name its "
                              "column with map.seq",
                              t->a.outbox);
    if (config->replay_since_us > 0 && !rows_has(t, rows_time_role(t)))
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "table %s has no time to begin at: use --from-seq N, or name its "
                              "column with map.created_at",
                              t->a.outbox);
    return 0;
}

static void rows_behind(struct strbuf *q, const struct replay_table *t)
{
    strbuf_append_str(q, " AND ");
    if (rows_has(t, ROLE_SEQ)) {
        outrider__sql_column(q, &t->a, ROLE_SEQ, "o.");
        strbuf_append_str(q, " > $3::int8");
        return;
    }
    strbuf_append_str(q, "($4::text IS NULL OR (");
    if (rows_has(t, rows_time_role(t))) {
        outrider__pg_sql_time(q, &t->a, rows_time_role(t), "o.");
        strbuf_append_str(q, ", ");
    }
    outrider__sql_column(q, &t->a, ROLE_ID, "o.");
    outrider__strbuf_appendf(q, ") > (%s$4::text::%s))",
                             rows_has(t, rows_time_role(t)) ? "$3::timestamptz, " : "",
                             t->a.map.columns[ROLE_ID]->type);
}

/* By what rows_behind() compares: two times of a table can be one timestamptz
 * (nanoseconds; a local time in the hour that comes twice), and nothing may be passed over. */
static void rows_in_order(struct strbuf *q, const struct replay_table *t)
{
    if (rows_has(t, ROLE_SEQ) || !rows_has(t, rows_time_role(t))) {
        outrider__pg_sql_page_order(q, &t->a, "o.");
        return;
    }
    strbuf_append_str(q, " ORDER BY ");
    outrider__pg_sql_time(q, &t->a, rows_time_role(t), "o.");
    strbuf_append_str(q, ", ");
    outrider__sql_column(q, &t->a, ROLE_ID, "o.");
}

void outrider__pg_replay_sql(struct strbuf *q, const struct replay_table *t)
{
    struct pg_bounds bounds = outrider__pg_bounds_of(2);
    strbuf_append_str(q, "SELECT ");
    outrider__pg_sql_event(q, &t->a, "o.", &bounds);
    outrider__strbuf_appendf(q, " FROM %s o WHERE ", t->a.outbox);
    outrider__sql_published(q, &t->a, "o.");
    rows_behind(q, t);
    outrider__strbuf_appendf(q, " AND ($%d::timestamptz IS NULL OR ",
                             rows_has(t, ROLE_SEQ) ? 4 : 5);
    if (rows_has(t, rows_time_role(t))) {
        outrider__sql_column(q, &t->a, rows_time_role(t), "o.");
        strbuf_append_str(q, " >= ");
        outrider__pg_sql_stamp(q, &t->a, rows_time_role(t),
                               rows_has(t, ROLE_SEQ) ? "$4::timestamptz" : "$5::timestamptz");
    } else {
        strbuf_append_str(q, "true");
    }
    strbuf_append_str(q, ")");
    rows_in_order(q, t);
    strbuf_append_str(q, " LIMIT $1::int8");
}

void outrider__pg_replay_args(struct pg_args *args, const struct replay_table *t,
                              const struct pipeline_config *config)
{
    if (rows_has(t, ROLE_SEQ)) {
        outrider__pg_arg_int8(args, t->is_begun ? t->seq : config->replay_from_seq - 1);
    } else {
        if (rows_has(t, rows_time_role(t)))
            outrider__pg_arg_time(args, t->time_us);
        else
            outrider__pg_arg_null(args, PG_TIMESTAMPTZ);
        if (t->is_begun)
            outrider__pg_arg_text(args, strbuf_bytes(&t->id));
        else
            outrider__pg_arg_null(args, PG_TEXT);
    }
    if (config->replay_since_us > 0)
        outrider__pg_arg_time(args, config->replay_since_us);
    else
        outrider__pg_arg_null(args, PG_TIMESTAMPTZ);
}
