/* SPDX-License-Identifier: MIT */
/*
 * Replay of rows that carry their state: those that are published, from a point
 * on, in order, read by pages behind the last row of the one before. Nothing is
 * claimed or changed, so it may run beside a relay.
 *
 * Arguments: $1 rows, $2 bounds (columns.h); then the place behind which to
 * read, $3 a seq, or $3 a time and $4 an id; then the time to begin at, or NULL.
 */
#include "postgres/poll_status/status.h"

static bool replay_has(const struct status_table *t, enum column_role role)
{
    return t->a.map.columns[role] != NULL;
}

static enum column_role replay_time_role(const struct status_table *t)
{
    return replay_has(t, ROLE_CREATED_AT) ? ROLE_CREATED_AT : ROLE_OCCURRED_AT;
}

int outrider__pg_status_replay_check(const struct status_source *d, const struct status_table *t,
                                     struct outrider_error *err)
{
    if (d->s->config->replay_from_seq > 0 && !replay_has(t, ROLE_SEQ))
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "table %s has no sequence to begin at: use --since TIME, or name its "
                              "column with map.seq",
                              t->a.outbox);
    if (d->s->config->replay_since_us > 0 && !replay_has(t, replay_time_role(t)))
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "table %s has no time to begin at: use --from-seq N, or name its "
                              "column with map.created_at",
                              t->a.outbox);
    return 0;
}

static void replay_behind(struct strbuf *q, const struct status_table *t)
{
    strbuf_append_str(q, " AND ");
    if (replay_has(t, ROLE_SEQ)) {
        outrider__sql_column(q, &t->a, ROLE_SEQ, "o.");
        strbuf_append_str(q, " > $3::int8");
        return;
    }
    strbuf_append_str(q, "($4::text IS NULL OR (");
    if (replay_has(t, replay_time_role(t))) {
        outrider__pg_sql_time(q, &t->a, replay_time_role(t), "o.");
        strbuf_append_str(q, ", ");
    }
    outrider__sql_column(q, &t->a, ROLE_ID, "o.");
    outrider__strbuf_appendf(q, ") > (%s$4::text::%s))",
                             replay_has(t, replay_time_role(t)) ? "$3::timestamptz, " : "",
                             t->a.map.columns[ROLE_ID]->type);
}

/* By that with which replay_behind() compares: two times of a table can be one timestamptz
 * (nanoseconds; a local time in the hour that comes twice), and nothing may be passed over. */
static void replay_in_order(struct strbuf *q, const struct status_table *t)
{
    if (replay_has(t, ROLE_SEQ) || !replay_has(t, replay_time_role(t))) {
        outrider__pg_sql_page_order(q, &t->a, "o.");
        return;
    }
    strbuf_append_str(q, " ORDER BY ");
    outrider__pg_sql_time(q, &t->a, replay_time_role(t), "o.");
    strbuf_append_str(q, ", ");
    outrider__sql_column(q, &t->a, ROLE_ID, "o.");
}

void outrider__pg_status_replay_sql(struct strbuf *q, const struct status_table *t)
{
    struct pg_bounds bounds = outrider__pg_bounds_of(2);
    strbuf_append_str(q, "SELECT ");
    outrider__pg_sql_event(q, &t->a, "o.", &bounds);
    outrider__strbuf_appendf(q, ", 0::int4, 0::int8, false FROM %s o WHERE ", t->a.outbox);
    outrider__sql_published(q, &t->a, "o.");
    replay_behind(q, t);
    outrider__strbuf_appendf(q, " AND ($%d::timestamptz IS NULL OR ",
                             replay_has(t, ROLE_SEQ) ? 4 : 5);
    if (replay_has(t, replay_time_role(t))) {
        outrider__sql_column(q, &t->a, replay_time_role(t), "o.");
        strbuf_append_str(q, " >= ");
        outrider__pg_sql_stamp(q, &t->a, replay_time_role(t),
                               replay_has(t, ROLE_SEQ) ? "$4::timestamptz" : "$5::timestamptz");
    } else {
        strbuf_append_str(q, "true");
    }
    strbuf_append_str(q, ")");
    replay_in_order(q, t);
    strbuf_append_str(q, " LIMIT $1::int8");
}

void outrider__pg_status_replay_args(struct status_source *d, const struct status_table *t)
{
    const struct pipeline_config *c = d->s->config;
    const struct status_replay *p = &t->replay;
    if (replay_has(t, ROLE_SEQ)) {
        outrider__pg_arg_int8(&d->args, p->is_begun ? p->seq : c->replay_from_seq - 1);
    } else {
        if (replay_has(t, replay_time_role(t)))
            outrider__pg_arg_time(&d->args, p->time_us);
        else
            outrider__pg_arg_null(&d->args, PG_TIMESTAMPTZ);
        if (p->is_begun)
            outrider__pg_arg_text(&d->args, strbuf_bytes(&p->id));
        else
            outrider__pg_arg_null(&d->args, PG_TEXT);
    }
    if (c->replay_since_us > 0)
        outrider__pg_arg_time(&d->args, c->replay_since_us);
    else
        outrider__pg_arg_null(&d->args, PG_TIMESTAMPTZ);
}

int outrider__pg_status_replay_note(struct status_table *t, const struct event *last,
                                    struct outrider_error *err)
{
    struct status_replay *p = &t->replay;
    p->is_begun = true;
    p->seq = last->seq;
    p->time_us = replay_has(t, ROLE_CREATED_AT) ? last->created_at_us : last->occurred_at_us;
    outrider__strbuf_clear(&p->id);
    outrider__strbuf_append(&p->id, last->id);
    return p->id.failed ? outrider__fail_nomem(err) : 0;
}
