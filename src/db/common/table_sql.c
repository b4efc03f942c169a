/* SPDX-License-Identifier: MIT */
#include "common/table_sql.h"

#include <string.h>

void outrider__sql_column(struct strbuf *q, const struct outbox_table *t, enum column_role role,
                          const char *alias)
{
    strbuf_append_str(q, alias);
    outrider__sql_name(q, t->map.columns[role]->name);
}

void outrider__sql_is_state(struct strbuf *q, const struct outbox_table *t, enum map_state s,
                            const char *alias)
{
    outrider__sql_column(q, t, ROLE_STATUS, alias);
    strbuf_append_str(q, " = ");
    outrider__sql_literal(q, t->map.values[s]);
}

static void table_words(struct strbuf *q, const struct outbox_table *t,
                        const enum map_state *states, size_t n)
{
    const char *before = "";
    for (size_t i = 0; i < n; i++) {
        if (t->map.values[states[i]][0] == '\0')
            continue;
        strbuf_append_str(q, before);
        outrider__sql_literal(q, t->map.values[states[i]]);
        before = ", ";
    }
}

/* No word for pending is known: whatever is not settled is new. */
static void table_not_settled(struct strbuf *q, const struct outbox_table *t, const char *alias)
{
    static const enum map_state settled[] = {STATE_PUBLISHED, STATE_DEAD, STATE_EXPIRED};
    struct strbuf words;
    outrider__strbuf_init(&words, 1024);
    table_words(&words, t, settled, sizeof settled / sizeof *settled);
    if (words.len == 0) {
        strbuf_append_str(q, "true");
    } else {
        strbuf_append_str(q, "(");
        outrider__sql_column(q, t, ROLE_STATUS, alias);
        outrider__strbuf_appendf(q, " IN (%s)) IS NOT TRUE", strbuf_cstr(&words));
    }
    q->failed |= words.failed;
    outrider__strbuf_release(&words);
}

void outrider__sql_unsettled(struct strbuf *q, const struct outbox_table *t, const char *alias)
{
    static const enum map_state live[] = {STATE_PENDING, STATE_PROCESSING, STATE_FAILED};
    if (t->map.waits_for_words) {
        table_not_settled(q, t, alias);
    } else if (t->map.mark == MARK_STATUS) {
        outrider__sql_column(q, t, ROLE_STATUS, alias);
        strbuf_append_str(q, " IN (");
        table_words(q, t, live, sizeof live / sizeof *live);
        strbuf_append_str(q, ")");
    } else if (t->map.mark == MARK_BOOLEAN) {
        strbuf_append_str(q, "(NOT ");
        outrider__sql_column(q, t, ROLE_PUBLISHED, alias);
        if (!t->map.columns[ROLE_PUBLISHED]->is_not_null) {
            strbuf_append_str(q, " OR ");
            outrider__sql_column(q, t, ROLE_PUBLISHED, alias);
            strbuf_append_str(q, " IS NULL");
        }
        strbuf_append_str(q, ")");
    } else if (t->map.mark == MARK_TIME) {
        outrider__sql_column(q, t, ROLE_PUBLISHED_AT, alias);
        strbuf_append_str(q, " IS NULL");
    } else {
        strbuf_append_str(q, "false"); /* the row does not say */
    }
}

void outrider__sql_published(struct strbuf *q, const struct outbox_table *t, const char *alias)
{
    /* Without a word for published the map waits for one. */
    if (table_has_state(t, STATE_PUBLISHED)) {
        outrider__sql_is_state(q, t, STATE_PUBLISHED, alias);
    } else if (t->map.mark == MARK_BOOLEAN) {
        outrider__sql_column(q, t, ROLE_PUBLISHED, alias);
    } else if (t->map.mark == MARK_TIME) {
        outrider__sql_column(q, t, ROLE_PUBLISHED_AT, alias);
        strbuf_append_str(q, " IS NOT NULL");
    } else {
        strbuf_append_str(q, "false");
    }
}

void outrider__sql_time(struct strbuf *q, const struct table_dialect *d,
                        const struct outbox_table *t, enum column_role role, const char *alias)
{
    struct strbuf column;
    outrider__strbuf_init(&column, 1024);
    outrider__sql_column(&column, t, role, alias);
    d->time_of(q, t, role, strbuf_cstr(&column));
    q->failed |= column.failed;
    outrider__strbuf_release(&column);
}

void outrider__sql_nothing(struct strbuf *q, const struct table_dialect *d,
                           const struct outbox_table *t, enum column_role role)
{
    const struct map_column *c = t->map.columns[role];
    if (!c->is_not_null)
        strbuf_append_str(q, "NULL");
    else if (role == ROLE_LOCKED_AT) /* a lease that ended long ago */
        d->stamp(q, t, role, d->sql->epoch);
    else if (outrider__map_is_time(role))
        d->stamp(q, t, role, d->sql->now);
    else
        strbuf_append_str(q, c->initial != NULL ? "DEFAULT" : "''");
}

/* When a row was settled, best known. Without any time nothing is ever old enough. */
static void table_settled_before(struct strbuf *q, const struct table_dialect *d,
                                 const struct outbox_table *t, const char *alias)
{
    static const enum column_role times[] = {ROLE_PUBLISHED_AT, ROLE_UPDATED_AT, ROLE_CREATED_AT,
                                             ROLE_OCCURRED_AT};
    const char *before = "coalesce(";
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (!table_has(t, times[i]))
            continue;
        strbuf_append_str(q, before);
        outrider__sql_time(q, d, t, times[i], alias);
        before = ", ";
    }
    strbuf_append_str(q, *before == ',' ? ") < @1:time@" : "@1:time@ IS NULL");
}

/* Settled for good: dead letters wait for a person. */
static void table_is_over(struct strbuf *q, const struct outbox_table *t, const char *alias)
{
    const char *expired = t->map.values[STATE_EXPIRED];
    bool tells =
        table_has_state(t, STATE_EXPIRED) && strcmp(expired, t->map.values[STATE_DEAD]) != 0;
    strbuf_append_str(q, "(");
    outrider__sql_published(q, t, alias);
    if (tells) {
        strbuf_append_str(q, " OR ");
        outrider__sql_is_state(q, t, STATE_EXPIRED, alias);
    }
    strbuf_append_str(q, ")");
}

/* The inner SELECT stands in one more, so that a dialect may delete from the table it reads. */
void outrider__sql_cleanup(struct strbuf *q, const struct table_dialect *d,
                           const struct outbox_table *t)
{
    outrider__strbuf_appendf(q, "%s %s o WHERE ", d->sql->delete_from, t->outbox);
    outrider__sql_column(q, t, ROLE_ID, "o.");
    strbuf_append_str(q, " IN (SELECT d.k FROM (SELECT ");
    outrider__sql_column(q, t, ROLE_ID, "i.");
    outrider__strbuf_appendf(q, " AS k FROM %s i WHERE ", t->outbox);
    table_is_over(q, t, "i.");
    strbuf_append_str(q, " AND ");
    if (table_has(t, ROLE_PUBLISHED_AT)) {
        /* By itself, so that an index on the column serves. */
        strbuf_append_str(q, "(");
        outrider__sql_column(q, t, ROLE_PUBLISHED_AT, "i.");
        strbuf_append_str(q, " < ");
        d->stamp(q, t, ROLE_PUBLISHED_AT, "@1:time@");
        strbuf_append_str(q, " OR ");
        outrider__sql_column(q, t, ROLE_PUBLISHED_AT, "i.");
        strbuf_append_str(q, " IS NULL) AND ");
    }
    table_settled_before(q, d, t, "i.");
    strbuf_append_str(q, " LIMIT @2:int8@) d)");
}
