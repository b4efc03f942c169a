/* SPDX-License-Identifier: MIT */
/* What becomes of the rows of a batch: status_sql.h (3). */
#include "common/status_sql.h"

#include "common/sql.h"
#include "status.sql.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

static bool mark_counts_claims(const struct status_sql *s)
{
    return s->claims && table_has(s->table, ROLE_CLAIM);
}

static const char *mark_id_type(const struct status_sql *s)
{
    return s->table->map.columns[ROLE_ID]->type;
}

/* Whether the row is still ours; u has the claim numbers where claims are counted. */
static void mark_and_ours(struct strbuf *q, const struct status_sql *s)
{
    const struct outbox_table *t = s->table;
    if (!s->claims) {
        strbuf_append_str(q, " AND ");
        outrider__sql_unsettled(q, t, "o.");
        return;
    }
    if (table_has_state(t, STATE_PROCESSING)) {
        strbuf_append_str(q, " AND ");
        outrider__sql_is_state(q, t, STATE_PROCESSING, "o.");
    }
    if (s->has_owner) {
        strbuf_append_str(q, " AND ");
        outrider__sql_column(q, t, ROLE_LOCKED_BY, "o.");
        strbuf_append_str(q, " = ");
        s->dialect->of_text(q, t, ROLE_LOCKED_BY, "@2:text@");
    }
    if (table_has(t, ROLE_CLAIM)) {
        strbuf_append_str(q, " AND ");
        outrider__sql_column(q, t, ROLE_CLAIM, "o.");
        strbuf_append_str(q, " = u.claim");
    }
}

/* ids are parameter 1, the owner is 2, and claim numbers are 3. A dialect that sends rows as
 * one document takes ids and claim numbers as parameter 1. */
static void mark_claim_rows(struct strbuf *q, const struct status_sql *s)
{
    const struct sql_field fields[] = {{"id", SQL_TEXT, mark_id_type(s)},
                                       {"claim", SQL_INT8, NULL}};
    const int params[] = {1, 3};
    struct sql_rows rows = {.alias = "u", .params = params, .fields = fields, .n = 2};
    s->dialect->sql->rows(q, &rows);
}

/* " WHERE o.id ... AND ours". Without claim numbers a set is enough. */
static void mark_where_ours(struct strbuf *q, const struct status_sql *s)
{
    strbuf_append_str(q, " WHERE ");
    outrider__sql_column(q, s->table, ROLE_ID, "o.");
    if (mark_counts_claims(s))
        strbuf_append_str(q, " = u.id");
    else
        s->dialect->sql->is_in(q, 1, SQL_TEXT, mark_id_type(s));
    mark_and_ours(q, s);
}

void outrider__status_set(struct strbuf *set, const struct status_sql *s, enum column_role role,
                          const char *value)
{
    if (!table_has(s->table, role))
        return;
    if (set->len > 0)
        strbuf_append_str(set, ", ");
    outrider__sql_column(set, s->table, role, s->dialect->sql->joins_before_set ? "o." : "");
    outrider__strbuf_appendf(set, " = %s", value);
}

static void mark_set_nothing(struct strbuf *set, const struct status_sql *s, enum column_role role)
{
    struct strbuf value;
    if (!table_has(s->table, role))
        return;
    outrider__strbuf_init(&value, 1024);
    outrider__sql_nothing(&value, s->dialect, s->table, role);
    outrider__status_set(set, s, role, strbuf_cstr(&value));
    set->failed |= value.failed;
    outrider__strbuf_release(&value);
}

static void mark_set_time(struct strbuf *set, const struct status_sql *s, enum column_role role,
                          const char *when)
{
    struct strbuf value;
    if (!table_has(s->table, role))
        return;
    outrider__strbuf_init(&value, 1024);
    s->dialect->stamp(&value, s->table, role, when);
    outrider__status_set(set, s, role, strbuf_cstr(&value));
    set->failed |= value.failed;
    outrider__strbuf_release(&value);
}

void outrider__status_set_state(struct strbuf *set, const struct status_sql *s, enum map_state w)
{
    struct strbuf value;
    outrider__strbuf_init(&value, 1024);
    outrider__sql_literal(&value, s->table->map.values[w]);
    outrider__status_set(set, s, ROLE_STATUS, strbuf_cstr(&value));
    set->failed |= value.failed;
    outrider__strbuf_release(&value);
}

void outrider__status_set_free(struct strbuf *set, const struct status_sql *s)
{
    mark_set_nothing(set, s, ROLE_LOCKED_BY);
    mark_set_nothing(set, s, ROLE_LOCKED_AT);
    mark_set_nothing(set, s, ROLE_LOCKED_UNTIL);
    mark_set_time(set, s, ROLE_UPDATED_AT, s->dialect->sql->now);
}

/* "UPDATE t o ... SET ... FROM ..." by the relation; "": by none. */
static void mark_update(struct strbuf *q, const struct status_sql *s, const struct strbuf *set,
                        const char *relation)
{
    struct sql_join join;
    outrider__sql_join_init(&join, s->dialect->sql, relation);
    outrider__strbuf_appendf(q, "UPDATE %s o%s SET %s%s", s->table->outbox,
                             *relation != '\0' ? strbuf_cstr(&join.before_set) : "",
                             strbuf_cstr(set),
                             *relation != '\0' ? strbuf_cstr(&join.after_set) : "");
    q->failed |= set->failed || join.before_set.failed || join.after_set.failed;
    outrider__sql_join_release(&join);
}

void outrider__status_update_ours(struct strbuf *q, const struct status_sql *s,
                                  const struct strbuf *set)
{
    struct strbuf rows;
    outrider__strbuf_init(&rows, SQL_TEXT_CAP);
    if (mark_counts_claims(s))
        mark_claim_rows(&rows, s);
    mark_update(q, s, set, strbuf_cstr(&rows));
    mark_where_ours(q, s);
    q->failed |= rows.failed;
    outrider__strbuf_release(&rows);
}

static void mark_delete(struct strbuf *q, const struct status_sql *s)
{
    outrider__strbuf_appendf(q, "%s %s o", s->dialect->sql->delete_from, s->table->outbox);
    if (mark_counts_claims(s)) {
        strbuf_append_str(q, s->dialect->sql->delete_join);
        mark_claim_rows(q, s);
    }
    mark_where_ours(q, s);
}

void outrider__status_mark_sql(struct strbuf *q, const struct status_sql *s)
{
    const struct outbox_table *t = s->table;
    struct strbuf set;
    outrider__strbuf_init(&set, SQL_TEXT_CAP);
    if (t->map.mark == MARK_STATUS)
        outrider__status_set_state(&set, s, STATE_PUBLISHED);
    if (table_has(t, ROLE_PUBLISHED))
        outrider__status_set(&set, s, ROLE_PUBLISHED,
                             t->map.columns[ROLE_PUBLISHED]->kind == KIND_INTEGER ? "1" : "true");
    mark_set_time(&set, s, ROLE_PUBLISHED_AT, s->dialect->sql->now);
    mark_set_nothing(&set, s, ROLE_NEXT_ATTEMPT_AT);
    mark_set_nothing(&set, s, ROLE_LAST_ERROR);
    mark_set_nothing(&set, s, ROLE_LAST_ERROR_CODE);
    outrider__status_set_free(&set, s);
    outrider__status_update_ours(q, s, &set);
    outrider__strbuf_release(&set);
}

/* Where the dialect has RETURNING, the answer says how many rows changed, and how many of these
 * wait still: a trigger has the last word. */
void outrider__status_publish_sql(struct strbuf *q, const struct status_sql *s, bool deletes)
{
    bool counts = s->dialect->sql->has_returning;
    strbuf_append_str(q, counts ? "WITH w AS (" : "");
    if (deletes)
        mark_delete(q, s);
    else
        outrider__status_mark_sql(q, s);
    if (!counts)
        return;
    strbuf_append_str(q, " RETURNING ");
    if (deletes)
        strbuf_append_str(q, "false");
    else
        outrider__sql_unsettled(q, s->table, "o.");
    strbuf_append_str(q, " AS waits) SELECT count(*), count(CASE WHEN w.waits THEN 1 END) FROM w");
}

void outrider__status_left_sql(struct strbuf *q, const struct status_sql *s)
{
    outrider__strbuf_appendf(q, "SELECT count(*) FROM %s o", s->table->outbox);
    if (mark_counts_claims(s)) {
        strbuf_append_str(q, ", ");
        mark_claim_rows(q, s);
    }
    mark_where_ours(q, s);
}

/* A text cut to what the column holds; where it is NULL the old one stays. */
static void mark_set_text(struct strbuf *set, const struct status_sql *s, enum column_role role,
                          const char *value)
{
    const struct map_column *c = s->table->map.columns[role];
    struct strbuf sql;
    if (c == NULL)
        return;
    outrider__strbuf_init(&sql, 1024);
    if (c->length > 0)
        outrider__strbuf_appendf(&sql, "coalesce(left(%s, %d), ", value, c->length);
    else
        outrider__strbuf_appendf(&sql, "coalesce(%s, ", value);
    outrider__sql_column(&sql, s->table, role, "o.");
    strbuf_append_str(&sql, ")");
    outrider__status_set(set, s, role, strbuf_cstr(&sql));
    set->failed |= sql.failed;
    outrider__strbuf_release(&sql);
}

/* When the next try is due: so long from now. NULL where there is no delay, or now if the column
 * must not be NULL. */
static void mark_set_next(struct strbuf *set, const struct status_sql *s)
{
    const struct map_column *c = s->table->map.columns[ROLE_NEXT_ATTEMPT_AT];
    struct strbuf when;
    if (c == NULL)
        return;
    outrider__strbuf_init(&when, 1024);
    s->dialect->sql->add_us(&when, s->dialect->sql->now,
                            c->is_not_null ? "coalesce(u.delay, 0)" : "u.delay");
    mark_set_time(set, s, ROLE_NEXT_ATTEMPT_AT, strbuf_cstr(&when));
    set->failed |= when.failed;
    outrider__strbuf_release(&when);
}

static void mark_set_change(struct strbuf *set, const struct status_sql *s)
{
    if (s->table->map.mark == MARK_STATUS) {
        struct strbuf state;
        outrider__strbuf_init(&state, 1024);
        s->dialect->of_text(&state, s->table, ROLE_STATUS, "u.state");
        outrider__status_set(set, s, ROLE_STATUS, strbuf_cstr(&state));
        set->failed |= state.failed;
        outrider__strbuf_release(&state);
    }
    outrider__status_set(set, s, ROLE_ATTEMPTS, "u.attempts");
    mark_set_next(set, s);
    mark_set_text(set, s, ROLE_LAST_ERROR_CODE, "u.code");
    mark_set_text(set, s, ROLE_LAST_ERROR,
                  table_has(s->table, ROLE_LAST_ERROR_CODE) ? "u.message"
                                                            : "(u.code || ': ' || u.message)");
    outrider__status_set_free(set, s);
}

/* The rows of ST_CHANGE, and with origin and lane those of ST_PARK. */
static void mark_outcome_rows(struct strbuf *q, const struct status_sql *s, bool is_park)
{
    const struct sql_field fields[] = {
        {"id", SQL_TEXT, mark_id_type(s)}, {"claim", SQL_INT8, NULL},  {"state", SQL_TEXT, NULL},
        {"attempts", SQL_INT4, NULL},      {"delay", SQL_INT8, NULL},  {"code", SQL_TEXT, NULL},
        {"message", SQL_TEXT, NULL},       {"origin", SQL_TEXT, NULL}, {"lane", SQL_STORED, NULL}};
    static const int params[] = {1, 3, 4, 5, 6, 7, 8, 9, 10};
    struct sql_rows rows = {.alias = "u",
                            .params = params,
                            .fields = fields,
                            .n = is_park ? 9 : 7,
                            .is_numbered = is_park};
    s->dialect->sql->rows(q, &rows);
}

void outrider__status_change_sql(struct strbuf *q, const struct status_sql *s)
{
    struct strbuf set, rows;
    outrider__strbuf_init(&set, SQL_TEXT_CAP);
    outrider__strbuf_init(&rows, SQL_TEXT_CAP);
    mark_set_change(&set, s);
    if (set.len > 0) {
        mark_outcome_rows(&rows, s, false);
        mark_update(q, s, &set, strbuf_cstr(&rows));
        strbuf_append_str(q, " WHERE ");
        outrider__sql_column(q, s->table, ROLE_ID, "o.");
        strbuf_append_str(q, " = u.id");
        mark_and_ours(q, s);
    }
    q->failed |= set.failed || rows.failed;
    outrider__strbuf_release(&set);
    outrider__strbuf_release(&rows);
}

enum copy_piece {
    COPY_ROWS,
    COPY_NEXT,
    COPY_EVENT,
    COPY_ID,
    COPY_OURS,
    COPY_PIPELINE,
    COPY_NAME,
    COPY_PAYLOAD,
    COPY_STORED,
    COPY_PIECES = COPY_STORED + 6
};

static void mark_park_pieces(struct strbuf pieces[COPY_PIECES], const struct status_sql *s)
{
    static const char *const stored[] = {"e.aggregate_type", "e.aggregate_id", "e.event_type",
                                         "e.headers",        "e.topic",        "e.partition_key"};
    const struct table_dialect *d = s->dialect;
    for (int i = 0; i < COPY_PIECES; i++)
        outrider__strbuf_init(&pieces[i], SQL_TEXT_CAP);
    mark_outcome_rows(&pieces[COPY_ROWS], s, true);
    d->sql->add_us(&pieces[COPY_NEXT], d->sql->now, "u.delay");
    d->event(&pieces[COPY_EVENT], s->table, "o.", 0);
    outrider__sql_column(&pieces[COPY_ID], s->table, ROLE_ID, "o.");
    mark_and_ours(&pieces[COPY_OURS], s);
    outrider__sql_literal(&pieces[COPY_PIPELINE], s->config->name);
    outrider__sql_literal(&pieces[COPY_NAME], s->table->outbox);
    d->payload(&pieces[COPY_PAYLOAD], s->table, "e.payload");
    for (size_t i = 0; i < COUNT_OF(stored); i++)
        d->stored(&pieces[COPY_STORED + i], stored[i]);
}

void outrider__status_park_sql(struct strbuf *q, const struct status_sql *s)
{
    struct strbuf pieces[COPY_PIECES];
    mark_park_pieces(pieces, s);
    const struct sql_word words[] = {
        {"parked", s->table->parked_table},
        {"outbox", s->table->outbox},
        {"materialized", s->dialect->sql->materialized},
        {"rows", strbuf_cstr(&pieces[COPY_ROWS])},
        {"next", strbuf_cstr(&pieces[COPY_NEXT])},
        {"event", strbuf_cstr(&pieces[COPY_EVENT])},
        {"id", strbuf_cstr(&pieces[COPY_ID])},
        {"ours", strbuf_cstr(&pieces[COPY_OURS])},
        {"pipeline", strbuf_cstr(&pieces[COPY_PIPELINE])},
        {"name", strbuf_cstr(&pieces[COPY_NAME])},
        {"payload", strbuf_cstr(&pieces[COPY_PAYLOAD])},
        {"stored_aggregate_type", strbuf_cstr(&pieces[COPY_STORED])},
        {"stored_aggregate_id", strbuf_cstr(&pieces[COPY_STORED + 1])},
        {"stored_event_type", strbuf_cstr(&pieces[COPY_STORED + 2])},
        {"stored_headers", strbuf_cstr(&pieces[COPY_STORED + 3])},
        {"stored_topic", strbuf_cstr(&pieces[COPY_STORED + 4])},
        {"stored_partition_key", strbuf_cstr(&pieces[COPY_STORED + 5])},
    };
    outrider__sql_append(q, sql_status_park, words, COUNT_OF(words));
    for (int i = 0; i < COPY_PIECES; i++) {
        q->failed |= pieces[i].failed;
        outrider__strbuf_release(&pieces[i]);
    }
}
