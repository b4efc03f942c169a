/* SPDX-License-Identifier: MIT */
/* Which rows may be taken, and the claim on them: status_sql.h (1), (2). */
#include "common/status_sql.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/sql.h"
#include "core/retry.h"
#include "status.sql.h"

/* Delays that a statement needs to know: later tries repeat the last one. */
#define TAKE_DELAYS_MAX 64
#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

static void take_pipeline_of(struct strbuf *q, const struct status_sql *s, const char *alias)
{
    outrider__strbuf_appendf(q, "%spipeline = ", alias);
    outrider__sql_literal(q, s->config->name);
    outrider__strbuf_appendf(q, " AND %soutbox = ", alias);
    outrider__sql_literal(q, s->table->outbox);
}

/* A time and so many microseconds, in the form of that role's column. */
static void take_moment(struct strbuf *q, const struct status_sql *s, enum column_role role,
                        const char *from, int64_t offset_us)
{
    struct strbuf when;
    char us[32];
    (void)snprintf(us, sizeof us, "%" PRId64, offset_us);
    outrider__strbuf_init(&when, 1024);
    s->dialect->sql->add_us(&when, from, us);
    s->dialect->stamp(q, s->table, role, strbuf_cstr(&when));
    q->failed |= when.failed;
    outrider__strbuf_release(&when);
}

/* The delay before the next try of a row, by its attempts. */
static void take_delay(struct strbuf *q, const struct status_sql *s, const char *alias)
{
    int64_t n = s->config->retry.max_attempts < TAKE_DELAYS_MAX ? s->config->retry.max_attempts
                                                                : TAKE_DELAYS_MAX;
    n = n > 1 ? n : 1;
    strbuf_append_str(q, n > 1 ? "CASE" : "");
    for (int64_t i = 1; i < n; i++) {
        strbuf_append_str(q, " WHEN coalesce(");
        outrider__sql_column(q, s->table, ROLE_ATTEMPTS, alias);
        outrider__strbuf_appendf(q, ", 0) <= %" PRId64 " THEN %" PRId64, i,
                                 outrider__retry_delay_us(s->config, (uint32_t)i, 0));
    }
    outrider__strbuf_appendf(q, n > 1 ? " ELSE %" PRId64 " END" : "%" PRId64,
                             outrider__retry_delay_us(s->config, (uint32_t)n, 0));
}

/* Whether a failed row's next try is due. */
static void take_is_due(struct strbuf *q, const struct status_sql *s, const char *alias)
{
    const struct outbox_table *t = s->table;
    if (table_has(t, ROLE_NEXT_ATTEMPT_AT)) {
        strbuf_append_str(q, "(");
        outrider__sql_column(q, t, ROLE_NEXT_ATTEMPT_AT, alias);
        strbuf_append_str(q, " IS NULL OR ");
        outrider__sql_column(q, t, ROLE_NEXT_ATTEMPT_AT, alias);
        strbuf_append_str(q, " <= ");
        s->dialect->stamp(q, t, ROLE_NEXT_ATTEMPT_AT, s->dialect->sql->now);
        strbuf_append_str(q, ")");
        return;
    }
    struct strbuf updated, delay;
    outrider__strbuf_init(&updated, 4096);
    outrider__strbuf_init(&delay, 65536);
    outrider__sql_time(&updated, s->dialect, t, ROLE_UPDATED_AT, alias);
    take_delay(&delay, s, alias);
    strbuf_append_str(q, "(");
    s->dialect->sql->add_us(q, strbuf_cstr(&updated), strbuf_cstr(&delay));
    outrider__strbuf_appendf(q, " <= %s) IS NOT FALSE", s->dialect->sql->now);
    q->failed |= updated.failed || delay.failed;
    outrider__strbuf_release(&updated);
    outrider__strbuf_release(&delay);
}

/* Whether somebody's claim still holds. */
static void take_is_leased(struct strbuf *q, const struct status_sql *s, const char *alias)
{
    const char *clock = s->dialect->sql->clock;
    strbuf_append_str(q, "(");
    outrider__sql_column(q, s->table, ROLE_LOCKED_BY, alias);
    strbuf_append_str(q, " IS NOT NULL AND ");
    if (table_has(s->table, ROLE_LOCKED_UNTIL)) {
        outrider__sql_column(q, s->table, ROLE_LOCKED_UNTIL, alias);
        strbuf_append_str(q, " > ");
        s->dialect->stamp(q, s->table, ROLE_LOCKED_UNTIL, clock);
    } else {
        outrider__sql_column(q, s->table, ROLE_LOCKED_AT, alias);
        strbuf_append_str(q, " > ");
        take_moment(q, s, ROLE_LOCKED_AT, clock, -s->config->source.lease_us);
    }
    strbuf_append_str(q, ")");
}

static void take_and_old_enough(struct strbuf *q, const struct status_sql *s)
{
    enum column_role at = table_has(s->table, ROLE_CREATED_AT) ? ROLE_CREATED_AT : ROLE_OCCURRED_AT;
    if (s->config->source.min_age_us <= 0 || !table_has(s->table, at))
        return;
    strbuf_append_str(q, " AND ");
    outrider__sql_column(q, s->table, at, "o.");
    strbuf_append_str(q, " <= ");
    take_moment(q, s, at, s->dialect->sql->now, -s->config->source.min_age_us);
}

static void take_states(struct strbuf *q, const struct status_sql *s)
{
    const struct outbox_table *t = s->table;
    strbuf_append_str(q, " AND ((");
    outrider__sql_is_state(q, t, STATE_PENDING, "o.");
    if (table_has(t, ROLE_NEXT_ATTEMPT_AT)) {
        strbuf_append_str(q, " AND ");
        take_is_due(q, s, "o.");
    }
    take_and_old_enough(q, s);
    strbuf_append_str(q, ")");
    if (table_has_state(t, STATE_FAILED)) {
        strbuf_append_str(q, " OR (");
        outrider__sql_is_state(q, t, STATE_FAILED, "o.");
        if (!t->parks_retries) {
            strbuf_append_str(q, " AND ");
            take_is_due(q, s, "o.");
        }
        strbuf_append_str(q, ")");
    }
    if (table_has_state(t, STATE_PROCESSING) && s->has_owner) {
        strbuf_append_str(q, " OR ");
        outrider__sql_is_state(q, t, STATE_PROCESSING, "o.");
    }
    strbuf_append_str(q, ")");
}

/* " UNION ALL SELECT key FROM outbox b WHERE ", each with a condition of its own
 * that an index on the state can serve. */
static void take_blocking_rows(struct strbuf *q, const struct status_sql *s, size_t begin)
{
    strbuf_append_str(q, q->len > begin ? " UNION ALL SELECT " : "SELECT ");
    s->dialect->key(q, s->table, "b.");
    outrider__strbuf_appendf(q, " FROM %s b WHERE ", s->table->outbox);
}

static void take_owner_begins(struct strbuf *q, const struct status_sql *s, const char *alias,
                              const char *prefix)
{
    struct strbuf owner;
    outrider__strbuf_init(&owner, 1024);
    strbuf_append_str(&owner, "CAST(");
    outrider__sql_column(&owner, s->table, ROLE_LOCKED_BY, alias);
    outrider__strbuf_appendf(&owner, " AS %s)", s->dialect->sql->types[SQL_TEXT]);
    outrider__sql_begins(q, strbuf_cstr(&owner), prefix);
    q->failed |= owner.failed;
    outrider__strbuf_release(&owner);
}

/* Rows that somebody else has claimed. */
static void take_blocking_claims(struct strbuf *q, const struct status_sql *s, size_t begin)
{
    take_blocking_rows(q, s, begin);
    if (table_has_state(s->table, STATE_PROCESSING))
        outrider__sql_is_state(q, s->table, STATE_PROCESSING, "b.");
    else
        outrider__sql_unsettled(q, s->table, "b.");
    strbuf_append_str(q, " AND ");
    take_is_leased(q, s, "b.");
    strbuf_append_str(q, " AND NOT ");
    take_owner_begins(q, s, "b.", s->owner_prefix);
}

/* Keys of which an earlier row waits: nothing behind that row may be taken. */
static void take_blocked_keys(struct strbuf *q, const struct status_sql *s)
{
    const struct outbox_table *t = s->table;
    bool blocks = s->config->retry.on_dead == ON_DEAD_BLOCK;
    size_t begin = q->len;
    if (!t->parks_retries) {
        take_blocking_rows(q, s, begin);
        outrider__sql_is_state(q, t, STATE_FAILED, "b.");
        strbuf_append_str(q, " AND NOT ");
        take_is_due(q, s, "b.");
    }
    if (blocks && table_has_state(t, STATE_DEAD)) {
        take_blocking_rows(q, s, begin);
        outrider__sql_is_state(q, t, STATE_DEAD, "b.");
    }
    if (s->has_owner)
        take_blocking_claims(q, s, begin);
    if (t->parks_dead) {
        strbuf_append_str(q, q->len > begin ? " UNION ALL SELECT " : "SELECT ");
        s->dialect->lane(q, t, "p.lane");
        outrider__strbuf_appendf(q, " FROM %s p WHERE ", t->parked_table);
        take_pipeline_of(q, s, "p.");
        outrider__strbuf_appendf(q, " AND (p.state <> 'dead' AND p.next_attempt_at > %s%s)",
                                 s->dialect->sql->now, blocks ? " OR p.state = 'dead'" : "");
    }
}

static void take_and_not_blocked(struct strbuf *q, const struct status_sql *s)
{
    if (!s->config->ordered)
        return;
    strbuf_append_str(q, " AND ");
    s->dialect->key(q, s->table, "o.");
    strbuf_append_str(q, " NOT IN (");
    take_blocked_keys(q, s);
    strbuf_append_str(q, ")");
}

static void take_takable(struct strbuf *q, const struct status_sql *s)
{
    const struct outbox_table *t = s->table;
    outrider__sql_unsettled(q, t, "o.");
    if (t->map.mark == MARK_STATUS)
        take_states(q, s);
    else
        take_and_old_enough(q, s);
    if (s->has_owner) {
        strbuf_append_str(q, " AND ");
        take_is_leased(q, s, "o.");
        strbuf_append_str(q, " IS NOT TRUE");
    }
    if (t->parks_dead) {
        strbuf_append_str(q, " AND ");
        s->dialect->id(q, t, "o.");
        outrider__strbuf_appendf(q, " NOT IN (SELECT p.id FROM %s p WHERE ", t->parked_table);
        take_pipeline_of(q, s, "p.");
        outrider__strbuf_appendf(
            q, " AND p.id IS NOT NULL AND (p.state = 'dead' OR p.next_attempt_at > %s))",
            s->dialect->sql->now);
    }
    take_and_not_blocked(q, s);
}

/* The name of a column that is set: dialect.h, joins_before_set. */
static void take_set_name(struct strbuf *q, const struct status_sql *s, enum column_role role)
{
    if (q->len > 0)
        strbuf_append_str(q, ", ");
    outrider__sql_column(q, s->table, role, s->dialect->sql->joins_before_set ? "o." : "");
    strbuf_append_str(q, " = ");
}

void outrider__status_set_claim(struct strbuf *q, const struct status_sql *s, int owner)
{
    const struct outbox_table *t = s->table;
    const struct sql_dialect *d = s->dialect->sql;
    if (table_has_state(t, STATE_PROCESSING)) {
        take_set_name(q, s, ROLE_STATUS);
        outrider__sql_literal(q, t->map.values[STATE_PROCESSING]);
    }
    if (s->has_owner) {
        char parameter[24];
        (void)snprintf(parameter, sizeof parameter, "@%d:text@", owner);
        take_set_name(q, s, ROLE_LOCKED_BY);
        s->dialect->of_text(q, t, ROLE_LOCKED_BY, parameter);
    }
    if (table_has(t, ROLE_LOCKED_AT)) {
        take_set_name(q, s, ROLE_LOCKED_AT);
        s->dialect->stamp(q, t, ROLE_LOCKED_AT, d->clock);
    }
    if (table_has(t, ROLE_LOCKED_UNTIL)) {
        take_set_name(q, s, ROLE_LOCKED_UNTIL);
        take_moment(q, s, ROLE_LOCKED_UNTIL, d->clock, s->config->source.lease_us);
    }
    if (table_has(t, ROLE_UPDATED_AT)) {
        take_set_name(q, s, ROLE_UPDATED_AT);
        s->dialect->stamp(q, t, ROLE_UPDATED_AT, d->now);
    }
}

static void take_set_claim_and_number(struct strbuf *q, const struct status_sql *s, int owner)
{
    outrider__status_set_claim(q, s, owner);
    if (!table_has(s->table, ROLE_CLAIM))
        return;
    take_set_name(q, s, ROLE_CLAIM);
    strbuf_append_str(q, "coalesce(");
    outrider__sql_column(q, s->table, ROLE_CLAIM, "o.");
    strbuf_append_str(q, ", 0) + 1");
}

static void take_attempts(struct strbuf *q, const struct status_sql *s)
{
    const char *type = s->dialect->sql->types[SQL_INT4];
    if (!s->table->parks_retries) {
        strbuf_append_str(q, "CAST(");
        outrider__sql_column(q, s->table, ROLE_ATTEMPTS, "o.");
        outrider__strbuf_appendf(q, " AS %s)", type);
        return;
    }
    outrider__strbuf_appendf(q, "(SELECT p.attempts FROM %s p WHERE ", s->table->parked_table);
    take_pipeline_of(q, s, "p.");
    strbuf_append_str(q, " AND p.id = ");
    s->dialect->id(q, s->table, "o.");
    strbuf_append_str(q, " ORDER BY p.arrival DESC LIMIT 1)");
}

/* The number of the claim that the row has when it is given out. */
static void take_claim_number(struct strbuf *q, const struct status_sql *s)
{
    bool is_later = s->claims && !s->dialect->sql->has_returning;
    strbuf_append_str(q, "CAST(");
    if (!table_has(s->table, ROLE_CLAIM)) {
        strbuf_append_str(q, "0");
    } else {
        strbuf_append_str(q, is_later ? "coalesce(" : "");
        outrider__sql_column(q, s->table, ROLE_CLAIM, "o.");
        strbuf_append_str(q, is_later ? ", 0) + 1" : "");
    }
    outrider__strbuf_appendf(q, " AS %s)", s->dialect->sql->types[SQL_INT8]);
}

static void take_has_copy(struct strbuf *q, const struct status_sql *s)
{
    if (!s->table->parks_dead) {
        strbuf_append_str(q, "false");
        return;
    }
    outrider__strbuf_appendf(q, "EXISTS (SELECT 1 FROM %s p WHERE ", s->table->parked_table);
    take_pipeline_of(q, s, "p.");
    strbuf_append_str(q, " AND p.id = ");
    s->dialect->id(q, s->table, "o.");
    strbuf_append_str(q, ")");
}

/* Those of the map alone: the relay needs no rights on others. */
static void take_columns_read(struct strbuf *q, const struct status_sql *s)
{
    struct map_needs needs;
    outrider__map_needs(&s->table->map, s->config, &needs);
    for (size_t i = 0; i < s->table->table.n; i++) {
        if (!needs.reads[i])
            continue;
        strbuf_append_str(q, q->len > 0 ? ", o." : "o.");
        outrider__sql_name(q, s->table->table.columns[i].name);
    }
}

/* Without a claim. In this form PostgreSQL looks the ids up in a hash table. */
static void take_and_not_in_flight(struct strbuf *q, const struct status_sql *s)
{
    strbuf_append_str(q, " AND (");
    outrider__sql_column(q, s->table, ROLE_ID, "o.");
    s->dialect->sql->is_in(q, 3, SQL_TEXT, s->table->map.columns[ROLE_ID]->type);
    strbuf_append_str(q, ") IS NOT TRUE");
}

enum take_piece {
    TAKE_EVENT,
    TAKE_ATTEMPTS,
    TAKE_CLAIM,
    TAKE_HAS_COPY,
    TAKE_TAKABLE,
    TAKE_NOT_IN_FLIGHT,
    TAKE_ORDER,
    TAKE_ID,
    TAKE_SET,
    TAKE_COLUMNS,
    TAKE_PIECES
};

static void take_pieces(struct strbuf pieces[TAKE_PIECES], const struct status_sql *s)
{
    for (int i = 0; i < TAKE_PIECES; i++)
        outrider__strbuf_init(&pieces[i], SQL_TEXT_CAP);
    s->dialect->event(&pieces[TAKE_EVENT], s->table, "o.", 2);
    take_attempts(&pieces[TAKE_ATTEMPTS], s);
    take_claim_number(&pieces[TAKE_CLAIM], s);
    take_has_copy(&pieces[TAKE_HAS_COPY], s);
    take_takable(&pieces[TAKE_TAKABLE], s);
    if (!s->claims)
        take_and_not_in_flight(&pieces[TAKE_NOT_IN_FLIGHT], s);
    s->dialect->order(&pieces[TAKE_ORDER], s->table, "o.");
    outrider__sql_column(&pieces[TAKE_ID], s->table, ROLE_ID, "o.");
    take_set_claim_and_number(&pieces[TAKE_SET], s, 3);
    take_columns_read(&pieces[TAKE_COLUMNS], s);
}

void outrider__status_fetch_sql(struct strbuf *q, const struct status_sql *s)
{
    const struct sql_dialect *d = s->dialect->sql;
    struct strbuf pieces[TAKE_PIECES];
    take_pieces(pieces, s);
    const struct sql_word words[] = {
        {"outbox", s->table->outbox},
        {"materialized", d->materialized},
        {"lock", !s->claims    ? ""
                 : s->competes ? d->lock_skips
                               : d->lock},
        {"event", strbuf_cstr(&pieces[TAKE_EVENT])},
        {"attempts", strbuf_cstr(&pieces[TAKE_ATTEMPTS])},
        {"claim", strbuf_cstr(&pieces[TAKE_CLAIM])},
        {"has_copy", strbuf_cstr(&pieces[TAKE_HAS_COPY])},
        {"takable", strbuf_cstr(&pieces[TAKE_TAKABLE])},
        {"not_in_flight", strbuf_cstr(&pieces[TAKE_NOT_IN_FLIGHT])},
        {"order", strbuf_cstr(&pieces[TAKE_ORDER])},
        {"id", strbuf_cstr(&pieces[TAKE_ID])},
        {"set", strbuf_cstr(&pieces[TAKE_SET])},
        {"columns", strbuf_cstr(&pieces[TAKE_COLUMNS])},
    };
    outrider__sql_append(q,
                         s->claims && d->has_returning ? sql_status_fetch_claim : sql_status_fetch,
                         words, COUNT_OF(words));
    for (int i = 0; i < TAKE_PIECES; i++) {
        q->failed |= pieces[i].failed;
        outrider__strbuf_release(&pieces[i]);
    }
}

void outrider__status_claim_sql(struct strbuf *q, const struct status_sql *s)
{
    struct strbuf set;
    if (!s->claims || s->dialect->sql->has_returning)
        return;
    outrider__strbuf_init(&set, SQL_TEXT_CAP);
    take_set_claim_and_number(&set, s, 2);
    outrider__strbuf_appendf(q, "UPDATE %s o SET %s WHERE ", s->table->outbox, strbuf_cstr(&set));
    outrider__sql_column(q, s->table, ROLE_ID, "o.");
    s->dialect->sql->is_in(q, 1, SQL_TEXT, s->table->map.columns[ROLE_ID]->type);
    q->failed |= set.failed;
    outrider__strbuf_release(&set);
}

/* Rows of a relay that is gone: the lock of the pipeline says so. */
void outrider__status_and_abandoned(struct strbuf *q, const struct status_sql *s)
{
    strbuf_append_str(q, " AND (");
    take_owner_begins(q, s, "o.", s->owner_prefix);
    strbuf_append_str(q, " OR (");
    outrider__sql_column(q, s->table, ROLE_LOCKED_BY, "o.");
    strbuf_append_str(q, " IS NOT NULL AND ");
    take_is_leased(q, s, "o.");
    strbuf_append_str(q, " IS NOT TRUE))");
}

void outrider__status_and_hybrid(struct strbuf *q, const struct status_sql *s)
{
    strbuf_append_str(q, " AND ");
    take_owner_begins(q, s, "o.", "hybrid:");
}
