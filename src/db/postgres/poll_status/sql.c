/* SPDX-License-Identifier: MIT */
/*
 * The statements of layout `status`, made from a table's column map.
 *
 * o is the outbox, b a row of it that may block a key, p a row of
 * outrider_parked, u the input. Times are the server's own: relays on several
 * machines compare them.
 *
 * Arguments of ST_FETCH: $1 rows, $2 bounds (columns.h), $3 the owner (or, without a
 * claim, the ids in flight), $4 the delays of retries in microseconds.
 * Of ST_PUBLISH, ST_CHANGE, ST_PARK, ST_RENEW, ST_RELEASE: $1 ids, $2 the
 * owner, $3 claim numbers; then what the outcome says.
 */
#include "postgres/poll_status/status.h"

#include <inttypes.h>
#include <stdlib.h>

#define SQL_CAP 131072

static bool has(const struct status_table *t, enum column_role role)
{
    return t->a.map.columns[role] != NULL;
}

static bool has_value(const struct status_table *t, enum map_state s)
{
    return t->a.map.mark == MARK_STATUS && t->a.map.values[s][0] != '\0';
}

static void col(struct strbuf *q, const struct status_table *t, enum column_role role,
                const char *alias)
{
    outrider__pg_sql_column(q, &t->a, role, alias);
}

static void is_state(struct strbuf *q, const struct status_table *t, enum map_state s,
                     const char *alias)
{
    col(q, t, ROLE_STATUS, alias);
    strbuf_append_str(q, " = ");
    outrider__pg_sql_literal(q, t->a.map.values[s]);
}

static void pipeline_of(struct strbuf *q, const struct status_source *d,
                        const struct status_table *t, const char *alias)
{
    outrider__strbuf_appendf(q, "%spipeline = ", alias);
    outrider__pg_sql_literal(q, d->s->config->name);
    outrider__strbuf_appendf(q, " AND %soutbox = ", alias);
    outrider__pg_sql_literal(q, t->a.outbox);
}

/* A time and so many microseconds, in the form of that role's column. */
static void moment(struct strbuf *q, const struct status_table *t, enum column_role role,
                   const char *from, int64_t offset_us)
{
    struct strbuf when;
    outrider__strbuf_init(&when, 1024);
    outrider__strbuf_appendf(&when, "%s + %" PRId64 " * interval '1 microsecond'", from, offset_us);
    outrider__pg_sql_stamp(q, &t->a, role, strbuf_cstr(&when));
    q->failed |= when.failed;
    outrider__strbuf_release(&when);
}

/* Whether a failed row's next try is due. */
static void due(struct strbuf *q, const struct status_table *t, const char *alias)
{
    if (has(t, ROLE_NEXT_ATTEMPT_AT)) {
        strbuf_append_str(q, "(");
        col(q, t, ROLE_NEXT_ATTEMPT_AT, alias);
        strbuf_append_str(q, " IS NULL OR ");
        col(q, t, ROLE_NEXT_ATTEMPT_AT, alias);
        strbuf_append_str(q, " <= ");
        outrider__pg_sql_stamp(q, &t->a, ROLE_NEXT_ATTEMPT_AT, "now()");
        strbuf_append_str(q, ")");
        return;
    }
    strbuf_append_str(q, "(");
    outrider__pg_sql_time(q, &t->a, ROLE_UPDATED_AT, alias);
    strbuf_append_str(q, " + ($4::int8[])[greatest(1, least(coalesce(");
    col(q, t, ROLE_ATTEMPTS, alias);
    strbuf_append_str(q, "::int4, 0), cardinality($4::int8[])))] * interval '1 microsecond' <= "
                         "now()) IS NOT FALSE");
}

/* Whether somebody's claim still holds. */
static void is_leased(struct strbuf *q, const struct status_source *d, const struct status_table *t,
                      const char *alias)
{
    strbuf_append_str(q, "(");
    col(q, t, ROLE_LOCKED_BY, alias);
    strbuf_append_str(q, " IS NOT NULL AND ");
    if (has(t, ROLE_LOCKED_UNTIL)) {
        col(q, t, ROLE_LOCKED_UNTIL, alias);
        strbuf_append_str(q, " > ");
        outrider__pg_sql_stamp(q, &t->a, ROLE_LOCKED_UNTIL, "clock_timestamp()");
    } else {
        col(q, t, ROLE_LOCKED_AT, alias);
        strbuf_append_str(q, " > ");
        moment(q, t, ROLE_LOCKED_AT, "clock_timestamp()", -d->s->config->source.lease_us);
    }
    strbuf_append_str(q, ")");
}

static void and_free(struct strbuf *q, const struct status_source *d, const struct status_table *t)
{
    if (!t->has_owner)
        return;
    strbuf_append_str(q, " AND ");
    is_leased(q, d, t, "o.");
    strbuf_append_str(q, " IS NOT TRUE");
}

static void and_old_enough(struct strbuf *q, const struct status_source *d,
                           const struct status_table *t)
{
    enum column_role at = has(t, ROLE_CREATED_AT) ? ROLE_CREATED_AT : ROLE_OCCURRED_AT;
    if (d->s->config->source.min_age_us <= 0 || !has(t, at))
        return;
    strbuf_append_str(q, " AND ");
    col(q, t, at, "o.");
    strbuf_append_str(q, " <= ");
    moment(q, t, at, "now()", -d->s->config->source.min_age_us);
}

static void takable_states(struct strbuf *q, const struct status_source *d,
                           const struct status_table *t)
{
    strbuf_append_str(q, " AND ((");
    is_state(q, t, STATE_PENDING, "o.");
    if (has(t, ROLE_NEXT_ATTEMPT_AT)) {
        strbuf_append_str(q, " AND ");
        due(q, t, "o.");
    }
    and_old_enough(q, d, t);
    strbuf_append_str(q, ")");
    if (has_value(t, STATE_FAILED)) {
        strbuf_append_str(q, " OR (");
        is_state(q, t, STATE_FAILED, "o.");
        if (!t->a.parks_retries) {
            strbuf_append_str(q, " AND ");
            due(q, t, "o.");
        }
        strbuf_append_str(q, ")");
    }
    if (has_value(t, STATE_PROCESSING) && t->has_owner) {
        strbuf_append_str(q, " OR ");
        is_state(q, t, STATE_PROCESSING, "o.");
    }
    strbuf_append_str(q, ")");
}

/* " UNION ALL SELECT key FROM outbox b WHERE ", each with a condition of its own
 * that an index on the state can serve. */
static void blocking_rows(struct strbuf *q, const struct status_table *t, size_t begin)
{
    strbuf_append_str(q, q->len > begin ? " UNION ALL SELECT " : "SELECT ");
    outrider__pg_sql_key(q, &t->a, "b.");
    outrider__strbuf_appendf(q, " FROM %s b WHERE ", t->a.outbox);
}

/* Rows that somebody else has claimed. */
static void blocking_claims(struct strbuf *q, const struct status_source *d,
                            const struct status_table *t, size_t begin)
{
    blocking_rows(q, t, begin);
    if (has_value(t, STATE_PROCESSING))
        is_state(q, t, STATE_PROCESSING, "b.");
    else
        outrider__pg_sql_unsettled(q, &t->a, "b.");
    strbuf_append_str(q, " AND ");
    is_leased(q, d, t, "b.");
    strbuf_append_str(q, " AND NOT starts_with(");
    col(q, t, ROLE_LOCKED_BY, "b.");
    strbuf_append_str(q, "::text, ");
    outrider__pg_sql_literal(q, d->owner_prefix);
    strbuf_append_str(q, ")");
}

/* Keys of which an earlier row waits: nothing behind it may be taken. */
static void blocked_keys(struct strbuf *q, const struct status_source *d,
                         const struct status_table *t)
{
    bool blocks = d->s->config->retry.on_dead == ON_DEAD_BLOCK;
    size_t begin = q->len;
    if (!t->a.parks_retries) {
        blocking_rows(q, t, begin);
        is_state(q, t, STATE_FAILED, "b.");
        strbuf_append_str(q, " AND NOT ");
        due(q, t, "b.");
    }
    if (blocks && has_value(t, STATE_DEAD)) {
        blocking_rows(q, t, begin);
        is_state(q, t, STATE_DEAD, "b.");
    }
    if (t->has_owner)
        blocking_claims(q, d, t, begin);
    if (t->a.parks_dead) {
        strbuf_append_str(q, q->len > begin ? " UNION ALL SELECT " : "SELECT ");
        outrider__pg_sql_lane(q, &t->a, "p.lane");
        outrider__strbuf_appendf(q, " FROM %s p WHERE ", t->a.parked_table);
        pipeline_of(q, d, t, "p.");
        outrider__strbuf_appendf(q, " AND (p.state <> 'dead' AND p.next_attempt_at > now()%s)",
                                 blocks ? " OR p.state = 'dead'" : "");
    }
}

static void and_not_blocked(struct strbuf *q, const struct status_source *d,
                            const struct status_table *t)
{
    if (!d->s->config->ordered)
        return;
    strbuf_append_str(q, " AND ");
    outrider__pg_sql_key(q, &t->a, "o.");
    strbuf_append_str(q, " NOT IN (");
    blocked_keys(q, d, t);
    strbuf_append_str(q, ")");
}

static void takable(struct strbuf *q, const struct status_source *d, const struct status_table *t)
{
    outrider__pg_sql_unsettled(q, &t->a, "o.");
    if (t->a.map.mark == MARK_STATUS)
        takable_states(q, d, t);
    else
        and_old_enough(q, d, t);
    and_free(q, d, t);
    if (t->a.parks_dead) {
        strbuf_append_str(q, " AND ");
        outrider__pg_sql_id(q, &t->a, "o.");
        outrider__strbuf_appendf(q, " NOT IN (SELECT p.id FROM %s p WHERE ", t->a.parked_table);
        pipeline_of(q, d, t, "p.");
        strbuf_append_str(q, " AND p.id IS NOT NULL AND (p.state = 'dead' OR p.next_attempt_at > "
                             "now()))");
    }
    and_not_blocked(q, d, t);
}

static void id_array(struct strbuf *q, const struct status_table *t, int argument)
{
    outrider__strbuf_appendf(q, "($%d::text[]::%s[])", argument, t->a.map.columns[ROLE_ID]->type);
}

/* Columns that say: taken by $3. */
static void set_claim(struct strbuf *q, const struct status_source *d, const struct status_table *t,
                      int owner)
{
    const char *comma = "";
    if (has_value(t, STATE_PROCESSING)) {
        outrider__pg_sql_ident(q, t->a.map.columns[ROLE_STATUS]->name);
        strbuf_append_str(q, " = ");
        outrider__pg_sql_literal(q, t->a.map.values[STATE_PROCESSING]);
        comma = ", ";
    }
    if (t->has_owner) {
        strbuf_append_str(q, comma);
        outrider__pg_sql_ident(q, t->a.map.columns[ROLE_LOCKED_BY]->name);
        outrider__strbuf_appendf(q, " = $%d::%s", owner, t->a.map.columns[ROLE_LOCKED_BY]->type);
        comma = ", ";
    }
    if (has(t, ROLE_LOCKED_AT)) {
        strbuf_append_str(q, comma);
        outrider__pg_sql_ident(q, t->a.map.columns[ROLE_LOCKED_AT]->name);
        strbuf_append_str(q, " = ");
        outrider__pg_sql_stamp(q, &t->a, ROLE_LOCKED_AT, "clock_timestamp()");
        comma = ", ";
    }
    if (has(t, ROLE_LOCKED_UNTIL)) {
        strbuf_append_str(q, comma);
        outrider__pg_sql_ident(q, t->a.map.columns[ROLE_LOCKED_UNTIL]->name);
        strbuf_append_str(q, " = ");
        moment(q, t, ROLE_LOCKED_UNTIL, "clock_timestamp()", d->s->config->source.lease_us);
        comma = ", ";
    }
    if (has(t, ROLE_UPDATED_AT)) {
        strbuf_append_str(q, comma);
        outrider__pg_sql_ident(q, t->a.map.columns[ROLE_UPDATED_AT]->name);
        strbuf_append_str(q, " = ");
        outrider__pg_sql_stamp(q, &t->a, ROLE_UPDATED_AT, "now()");
    }
}

static void select_events(struct strbuf *q, const struct status_source *d,
                          const struct status_table *t)
{
    struct pg_bounds bounds = outrider__pg_bounds_of(2);
    strbuf_append_str(q, "SELECT ");
    outrider__pg_sql_event(q, &t->a, "o.", &bounds);
    strbuf_append_str(q, ", ");
    if (t->a.parks_retries) {
        outrider__strbuf_appendf(q, "(SELECT p.attempts FROM %s p WHERE ", t->a.parked_table);
        pipeline_of(q, d, t, "p.");
        strbuf_append_str(q, " AND p.id = ");
        outrider__pg_sql_id(q, &t->a, "o.");
        strbuf_append_str(q, " ORDER BY p.arrival DESC LIMIT 1)");
    } else {
        col(q, t, ROLE_ATTEMPTS, "o.");
        strbuf_append_str(q, "::int4");
    }
    strbuf_append_str(q, ", ");
    if (has(t, ROLE_CLAIM))
        col(q, t, ROLE_CLAIM, "o.");
    else
        strbuf_append_str(q, "0");
    strbuf_append_str(q, "::int8, ");
    if (t->a.parks_dead) {
        outrider__strbuf_appendf(q, "EXISTS (SELECT FROM %s p WHERE ", t->a.parked_table);
        pipeline_of(q, d, t, "p.");
        strbuf_append_str(q, " AND p.id = ");
        outrider__pg_sql_id(q, &t->a, "o.");
        strbuf_append_str(q, ")");
    } else {
        strbuf_append_str(q, "false");
    }
    strbuf_append_str(q, " FROM ");
}

/* Those of the map alone: the relay needs no rights on others. */
static void columns_read(struct strbuf *q, const struct status_source *d,
                         const struct status_table *t)
{
    struct map_needs needs;
    const char *comma = "";
    outrider__map_needs(&t->a.map, d->s->config, &needs);
    for (size_t i = 0; i < t->a.table.n; i++) {
        if (!needs.reads[i])
            continue;
        outrider__strbuf_appendf(q, "%so.", comma);
        outrider__pg_sql_ident(q, t->a.table.columns[i].name);
        comma = ", ";
    }
}

static void fetch_sql(struct strbuf *q, const struct status_source *d, const struct status_table *t)
{
    if (!t->claims) {
        select_events(q, d, t);
        outrider__strbuf_appendf(q, "%s o WHERE ", t->a.outbox);
        takable(q, d, t);
        strbuf_append_str(q, " AND (");
        col(q, t, ROLE_ID, "o.");
        strbuf_append_str(q, " = ANY ");
        id_array(q, t, 3);
        /* In this form the server looks them up in a hash table. */
        strbuf_append_str(q, ") IS NOT TRUE");
        outrider__pg_sql_order(q, &t->a, "o.");
        strbuf_append_str(q, " LIMIT $1::int8");
        return;
    }
    strbuf_append_str(q, "WITH c AS MATERIALIZED (SELECT ");
    col(q, t, ROLE_ID, "o.");
    outrider__strbuf_appendf(q, " AS k FROM %s o WHERE ", t->a.outbox);
    takable(q, d, t);
    outrider__pg_sql_order(q, &t->a, "o.");
    outrider__strbuf_appendf(q,
                             " LIMIT $1::int8 FOR NO KEY UPDATE OF o%s), n AS MATERIALIZED (SELECT "
                             "c.k, row_number() OVER () AS outrider_n FROM c), w AS (UPDATE %s o "
                             "SET ",
                             d->competes ? " SKIP LOCKED" : "", t->a.outbox);
    set_claim(q, d, t, 3);
    if (has(t, ROLE_CLAIM)) {
        strbuf_append_str(q, ", ");
        outrider__pg_sql_ident(q, t->a.map.columns[ROLE_CLAIM]->name);
        strbuf_append_str(q, " = coalesce(");
        col(q, t, ROLE_CLAIM, "o.");
        strbuf_append_str(q, ", 0) + 1");
    }
    strbuf_append_str(q, " FROM n WHERE ");
    col(q, t, ROLE_ID, "o.");
    /* The claim gives every row another place: n remembers their order. */
    strbuf_append_str(q, " = n.k RETURNING ");
    columns_read(q, d, t);
    strbuf_append_str(q, ", n.outrider_n) ");
    select_events(q, d, t);
    strbuf_append_str(q, "w o ORDER BY o.outrider_n");
}

/* Whether the row is still ours; u is the input where claims are counted. */
static void and_ours(struct strbuf *q, const struct status_table *t)
{
    if (!t->claims) {
        strbuf_append_str(q, " AND ");
        outrider__pg_sql_unsettled(q, &t->a, "o.");
        return;
    }
    if (has_value(t, STATE_PROCESSING)) {
        strbuf_append_str(q, " AND ");
        is_state(q, t, STATE_PROCESSING, "o.");
    }
    if (t->has_owner) {
        strbuf_append_str(q, " AND ");
        col(q, t, ROLE_LOCKED_BY, "o.");
        outrider__strbuf_appendf(q, " = $2::%s", t->a.map.columns[ROLE_LOCKED_BY]->type);
    }
    if (has(t, ROLE_CLAIM)) {
        strbuf_append_str(q, " AND ");
        col(q, t, ROLE_CLAIM, "o.");
        strbuf_append_str(q, " = u.claim");
    }
}

/* " FROM|USING unnest(...) u WHERE o.id = u.id AND ours"; without claim numbers
 * an array is enough. */
static void where_ours(struct strbuf *q, const struct status_table *t, const char *from)
{
    if (t->claims && has(t, ROLE_CLAIM)) {
        outrider__strbuf_appendf(q, " %s unnest(", from);
        id_array(q, t, 1);
        strbuf_append_str(q, ", $3::int8[]) AS u(id, claim) WHERE ");
        col(q, t, ROLE_ID, "o.");
        strbuf_append_str(q, " = u.id");
    } else {
        strbuf_append_str(q, " WHERE ");
        col(q, t, ROLE_ID, "o.");
        strbuf_append_str(q, " = ANY ");
        id_array(q, t, 1);
    }
    and_ours(q, t);
}

static void set(struct strbuf *q, const struct status_table *t, enum column_role role,
                const char *value)
{
    if (!has(t, role))
        return;
    if (q->len > 0 && q->data[q->len - 1] != ' ')
        strbuf_append_str(q, ", ");
    outrider__pg_sql_ident(q, t->a.map.columns[role]->name);
    outrider__strbuf_appendf(q, " = %s", value);
}

static void set_nothing(struct strbuf *q, const struct status_table *t, enum column_role role)
{
    struct strbuf value;
    if (!has(t, role))
        return;
    outrider__strbuf_init(&value, 1024);
    outrider__pg_sql_nothing(&value, &t->a, role);
    set(q, t, role, strbuf_cstr(&value));
    outrider__strbuf_release(&value);
}

static void set_time(struct strbuf *q, const struct status_table *t, enum column_role role,
                     const char *when)
{
    struct strbuf value;
    if (!has(t, role))
        return;
    outrider__strbuf_init(&value, 1024);
    outrider__pg_sql_stamp(&value, &t->a, role, when);
    set(q, t, role, strbuf_cstr(&value));
    outrider__strbuf_release(&value);
}

static void set_free(struct strbuf *q, const struct status_table *t)
{
    set_nothing(q, t, ROLE_LOCKED_BY);
    set_nothing(q, t, ROLE_LOCKED_AT);
    set_nothing(q, t, ROLE_LOCKED_UNTIL);
    set_time(q, t, ROLE_UPDATED_AT, "now()");
}

static void publish_sql(struct strbuf *q, const struct status_table *t, bool deletes)
{
    if (deletes) {
        outrider__strbuf_appendf(q, "DELETE FROM %s o", t->a.outbox);
        where_ours(q, t, "USING");
        return;
    }
    outrider__strbuf_appendf(q, "UPDATE %s o SET ", t->a.outbox);
    if (t->a.map.mark == MARK_STATUS) {
        struct strbuf value;
        outrider__strbuf_init(&value, 1024);
        outrider__pg_sql_literal(&value, t->a.map.values[STATE_PUBLISHED]);
        set(q, t, ROLE_STATUS, strbuf_cstr(&value));
        outrider__strbuf_release(&value);
    }
    if (has(t, ROLE_PUBLISHED))
        set(q, t, ROLE_PUBLISHED,
            t->a.map.columns[ROLE_PUBLISHED]->kind == KIND_INTEGER ? "1" : "true");
    set_time(q, t, ROLE_PUBLISHED_AT, "now()");
    set_nothing(q, t, ROLE_NEXT_ATTEMPT_AT);
    set_nothing(q, t, ROLE_LAST_ERROR);
    set_nothing(q, t, ROLE_LAST_ERROR_CODE);
    set_free(q, t);
    where_ours(q, t, "FROM");
}

/* Answers how many rows it changed, and how many of these wait still: a trigger has the
 * last word. */
static void counted_publish_sql(struct strbuf *q, const struct status_table *t, bool deletes)
{
    strbuf_append_str(q, "WITH w AS (");
    publish_sql(q, t, deletes);
    strbuf_append_str(q, " RETURNING ");
    if (deletes)
        strbuf_append_str(q, "false");
    else
        outrider__pg_sql_unsettled(q, &t->a, "o.");
    strbuf_append_str(q, " AS waits) SELECT count(*), count(*) FILTER (WHERE w.waits) FROM w");
}

void outrider__pg_mark_sql(struct strbuf *q, const struct outbox_table *a)
{
    struct status_table t = {.a = *a};
    publish_sql(q, &t, false);
}

/* u.text cut to what the column holds; where it is NULL the old one stays. */
static void set_text(struct strbuf *q, const struct status_table *t, enum column_role role,
                     const char *value)
{
    const struct map_column *c = t->a.map.columns[role];
    struct strbuf sql;
    if (c == NULL)
        return;
    outrider__strbuf_init(&sql, 1024);
    if (c->length > 0)
        outrider__strbuf_appendf(&sql, "coalesce(left(%s, %d), ", value, c->length);
    else
        outrider__strbuf_appendf(&sql, "coalesce(%s, ", value);
    col(&sql, t, role, "o.");
    strbuf_append_str(&sql, ")");
    set(q, t, role, strbuf_cstr(&sql));
    outrider__strbuf_release(&sql);
}

static void change_sql(struct strbuf *q, const struct status_table *t)
{
    size_t begin;
    outrider__strbuf_appendf(q, "UPDATE %s o SET ", t->a.outbox);
    begin = q->len;
    if (t->a.map.mark == MARK_STATUS) {
        struct strbuf value;
        outrider__strbuf_init(&value, 1024);
        outrider__strbuf_appendf(&value, "u.state::%s", t->a.map.columns[ROLE_STATUS]->type);
        set(q, t, ROLE_STATUS, strbuf_cstr(&value));
        outrider__strbuf_release(&value);
    }
    set(q, t, ROLE_ATTEMPTS, "u.attempts");
    set_time(q, t, ROLE_NEXT_ATTEMPT_AT,
             has(t, ROLE_NEXT_ATTEMPT_AT) && t->a.map.columns[ROLE_NEXT_ATTEMPT_AT]->is_not_null
                 ? "now() + coalesce(u.delay, 0) * interval '1 microsecond'"
                 : "now() + u.delay * interval '1 microsecond'");
    set_text(q, t, ROLE_LAST_ERROR_CODE, "u.code");
    set_text(q, t, ROLE_LAST_ERROR,
             has(t, ROLE_LAST_ERROR_CODE) ? "u.message" : "(u.code || ': ' || u.message)");
    set_free(q, t);
    if (q->len == begin) {
        outrider__strbuf_clear(q);
        return;
    }
    strbuf_append_str(q, " FROM unnest(");
    id_array(q, t, 1);
    strbuf_append_str(q, ", $3::int8[], $4::text[], $5::int4[], $6::int8[], $7::text[], "
                         "$8::text[]) AS u(id, claim, state, attempts, delay, code, message) "
                         "WHERE ");
    col(q, t, ROLE_ID, "o.");
    strbuf_append_str(q, " = u.id");
    and_ours(q, t);
}

void outrider__pg_failed_sql(struct strbuf *q, const struct outbox_table *a)
{
    struct status_table t = {.a = *a};
    change_sql(q, &t);
}

static void stored(struct strbuf *q, const char *column)
{
    outrider__pg_stored_sql(q, column);
    strbuf_append_str(q, ", ");
}

/* A copy of the row in outrider_parked, for what the row itself cannot say. */
static void park_sql(struct strbuf *q, const struct status_source *d, const struct status_table *t)
{
    outrider__strbuf_appendf(
        q,
        "INSERT INTO %s (pipeline, outbox, seq, id, aggregate_type, aggregate_id, event_type, "
        "payload, headers, topic, partition_key, partition, occurred_at, created_at, expires_at, "
        "lane, state, attempts, next_attempt_at, error_code, error_origin, error_message) SELECT ",
        t->a.parked_table);
    outrider__pg_sql_literal(q, d->s->config->name);
    strbuf_append_str(q, ", ");
    outrider__pg_sql_literal(q, t->a.outbox);
    strbuf_append_str(q, ", coalesce(e.seq, 0), e.id, ");
    stored(q, "e.aggregate_type");
    stored(q, "e.aggregate_id");
    stored(q, "e.event_type");
    outrider__pg_bytea_sql(q, t->a.map.columns[ROLE_PAYLOAD]->type_id, "e.payload");
    strbuf_append_str(q, ", ");
    stored(q, "e.headers");
    stored(q, "e.topic");
    stored(q, "e.partition_key");
    strbuf_append_str(q, "e.partition, e.occurred_at, "
                         "e.created_at, e.expires_at, u.lane, u.state, u.attempts, now() + "
                         "u.delay * interval '1 microsecond', u.code, u.origin, u.message FROM "
                         "unnest(");
    id_array(q, t, 1);
    strbuf_append_str(q, ", $3::int8[], $4::text[], $5::int4[], $6::int8[], $7::text[], "
                         "$8::text[], $9::text[], $10::text[]) WITH ORDINALITY AS u(id, claim, "
                         "state, attempts, delay, code, message, origin, lane, n) CROSS JOIN "
                         "LATERAL (SELECT ");
    outrider__pg_sql_event(q, &t->a, "o.", NULL);
    outrider__strbuf_appendf(q, " FROM %s o WHERE ", t->a.outbox);
    col(q, t, ROLE_ID, "o.");
    strbuf_append_str(q, " = u.id");
    and_ours(q, t);
    /* What is put together from columns is put together once. */
    strbuf_append_str(q,
                      " OFFSET 0) AS e(seq, id, aggregate_type, aggregate_id, event_type, payload, "
                      "headers, topic, partition_key, partition, occurred_at, created_at, "
                      "expires_at, size, large) ORDER BY u.n");
}

static void unpark_sql(struct strbuf *q, const struct status_source *d,
                       const struct status_table *t)
{
    outrider__strbuf_appendf(q, "DELETE FROM %s p WHERE ", t->a.parked_table);
    pipeline_of(q, d, t, "p.");
    strbuf_append_str(q, " AND p.id = ANY ($1::text[])");
}

/* Fails, with a division by zero, when the pipeline is not ours any more. */
static void cursor_sql(struct strbuf *q, const struct status_source *d,
                       const struct status_table *t)
{
    outrider__strbuf_appendf(
        q,
        "WITH w AS (UPDATE %s c SET settled_at = now(), delivered_total = delivered_total + "
        "$1::int8, expired_total = expired_total + $2::int8, skipped_total = skipped_total + "
        "$3::int8, dead_total = dead_total + $4::int8 WHERE ",
        t->a.cursor_table);
    pipeline_of(q, d, t, "c.");
    outrider__strbuf_appendf(q, "%s RETURNING 1) SELECT 1 / count(*) FROM w",
                             d->competes ? " AND $5::int8 IS NOT NULL" : " AND epoch = $5::int8");
}

/* $1: the sink, $2: on_dead, $3: the words of the status column, or NULL. A row that
 * belongs to another sink answers with it. */
static void take_sql(struct strbuf *q, const struct status_source *d, const struct status_table *t)
{
    outrider__strbuf_appendf(
        q, "INSERT INTO %s AS c (pipeline, outbox, sink, on_dead, words, epoch) VALUES (",
        t->a.cursor_table);
    outrider__pg_sql_literal(q, d->s->config->name);
    strbuf_append_str(q, ", ");
    outrider__pg_sql_literal(q, t->a.outbox);
    outrider__strbuf_appendf(
        q,
        ", $1::text, $2::text, $3::text, 1) ON CONFLICT (pipeline, outbox) DO UPDATE SET epoch = "
        "c.epoch + "
        "CASE WHEN c.sink IN ('', excluded.sink) THEN %d ELSE 0 END, sink = CASE WHEN c.sink = '' "
        "THEN excluded.sink ELSE c.sink END, on_dead = excluded.on_dead, words = "
        "coalesce(excluded.words, "
        "c.words) RETURNING c.epoch, c.sink, c.mode",
        d->competes ? 0 : 1);
}

/* Rows of a relay that is gone: the lock of the pipeline says so. */
static void reclaim_sql(struct strbuf *q, const struct status_source *d,
                        const struct status_table *t)
{
    outrider__strbuf_appendf(q, "UPDATE %s o SET ", t->a.outbox);
    size_t begin = q->len;
    if (has_value(t, STATE_PROCESSING)) {
        struct strbuf value;
        outrider__strbuf_init(&value, 1024);
        outrider__pg_sql_literal(&value, t->a.map.values[STATE_PENDING]);
        set(q, t, ROLE_STATUS, strbuf_cstr(&value));
        outrider__strbuf_release(&value);
    }
    set_free(q, t);
    if (q->len == begin || (!has_value(t, STATE_PROCESSING) && !t->has_owner)) {
        outrider__strbuf_clear(q);
        return;
    }
    strbuf_append_str(q, " WHERE ");
    if (has_value(t, STATE_PROCESSING))
        is_state(q, t, STATE_PROCESSING, "o.");
    else
        outrider__pg_sql_unsettled(q, &t->a, "o.");
    if (t->has_owner) {
        strbuf_append_str(q, " AND (starts_with(");
        col(q, t, ROLE_LOCKED_BY, "o.");
        strbuf_append_str(q, "::text, ");
        outrider__pg_sql_literal(q, d->owner_prefix);
        strbuf_append_str(q, ") OR (");
        col(q, t, ROLE_LOCKED_BY, "o.");
        strbuf_append_str(q, " IS NOT NULL AND ");
        is_leased(q, d, t, "o.");
        strbuf_append_str(q, " IS NOT TRUE))");
    }
}

/* Exactly once: what an application has claimed (app/hybrid.h), it may have sent. */
static void claimed_sql(struct strbuf *q, const struct status_source *d,
                        const struct status_table *t)
{
    if (!t->has_owner || !d->s->config->exactly_once)
        return;
    outrider__strbuf_appendf(q, "SELECT count(*) FROM %s o WHERE ", t->a.outbox);
    outrider__pg_sql_unsettled(q, &t->a, "o.");
    strbuf_append_str(q, " AND starts_with(");
    col(q, t, ROLE_LOCKED_BY, "o.");
    strbuf_append_str(q, "::text, 'hybrid:')");
}

static void renew_sql(struct strbuf *q, const struct status_source *d, const struct status_table *t)
{
    if (!t->has_owner)
        return;
    outrider__strbuf_appendf(q, "UPDATE %s o SET ", t->a.outbox);
    set_claim(q, d, t, 2);
    where_ours(q, t, "FROM");
}

static void release_sql(struct strbuf *q, const struct status_table *t)
{
    if (!t->claims)
        return;
    outrider__strbuf_appendf(q, "UPDATE %s o SET ", t->a.outbox);
    if (has_value(t, STATE_PROCESSING)) {
        outrider__pg_sql_ident(q, t->a.map.columns[ROLE_STATUS]->name);
        strbuf_append_str(q, " = ");
        outrider__pg_sql_literal(q, t->a.map.values[STATE_PENDING]);
    }
    set_free(q, t);
    where_ours(q, t, "FROM");
}

static const char *const purposes[ST_COUNT] = {
    [ST_FETCH] = "cannot read the outbox",
    [ST_PUBLISH] = "cannot mark events as published",
    [ST_LEFT] = "cannot look for events that are not marked",
    [ST_CHANGE] = "cannot mark events as failed",
    [ST_PARK] = "cannot park events",
    [ST_UNPARK] = "cannot remove parked events",
    [ST_CURSOR] = "cannot settle",
    [ST_TAKE] = "cannot take the pipeline over",
    [ST_RECLAIM] = "cannot take back what another relay had",
    [ST_CLAIMED] = "cannot look for events that applications publish",
    [ST_RENEW] = "cannot renew the lease",
    [ST_RELEASE] = "cannot give rows back",
    [ST_CLEANUP] = "cannot clean up",
    [ST_WORDS] = "cannot look at the states",
    [ST_UNCOVERED] = "cannot look at the states",
};

static void build(struct strbuf *q, const struct status_source *d, const struct status_table *t,
                  int which)
{
    switch (which) {
    case ST_FETCH:
        if (d->s->config->replay)
            outrider__pg_status_replay_sql(q, t);
        else
            fetch_sql(q, d, t);
        break;
    case ST_PUBLISH:
        counted_publish_sql(q, t, d->s->config->source.after_publish == AFTER_PUBLISH_DELETE);
        break;
    case ST_LEFT:
        outrider__strbuf_appendf(q, "SELECT count(*) FROM %s o", t->a.outbox);
        where_ours(q, t, ",");
        break;
    case ST_CHANGE:
        change_sql(q, t);
        break;
    case ST_PARK:
        park_sql(q, d, t);
        break;
    case ST_UNPARK:
        unpark_sql(q, d, t);
        break;
    case ST_CURSOR:
        cursor_sql(q, d, t);
        break;
    case ST_TAKE:
        take_sql(q, d, t);
        break;
    case ST_RECLAIM:
        reclaim_sql(q, d, t);
        break;
    case ST_CLAIMED:
        claimed_sql(q, d, t);
        break;
    case ST_RENEW:
        renew_sql(q, d, t);
        break;
    case ST_RELEASE:
        release_sql(q, t);
        break;
    case ST_WORDS:
        if (t->a.map.waits_for_words)
            outrider__pg_table_words_sql(&t->a, d->s->config, q);
        break;
    case ST_UNCOVERED:
        /* The CHECK of our own table admits no other word. */
        if (t->a.map.mark == MARK_STATUS && !t->a.is_ours && !t->a.map.waits_for_words &&
            !d->s->config->replay)
            outrider__pg_sql_uncovered(q, &t->a, NULL);
        break;
    default:
        outrider__pg_sql_cleanup(q, &t->a);
    }
}

int outrider__pg_status_statements(struct status_source *d, struct status_table *t,
                                   struct outrider_error *err)
{
    for (int i = 0; i < ST_COUNT; i++) {
        struct strbuf q;
        outrider__strbuf_init(&q, SQL_CAP);
        build(&q, d, t, i);
        if (q.failed) {
            outrider__strbuf_release(&q);
            return outrider__fail_nomem(err);
        }
        if (q.len == 0)
            outrider__strbuf_release(&q);
        free(t->sql[i]);
        t->sql[i] = q.len > 0 ? q.data : NULL;
        t->st[i] = (struct pg_statement){.sql = t->sql[i],
                                         .what = purposes[i],
                                         .purpose = i == ST_CURSOR    ? PG_SETTLES
                                                    : i == ST_CLEANUP ? PG_CLEANS
                                                                      : PG_READS};
    }
    return 0;
}
