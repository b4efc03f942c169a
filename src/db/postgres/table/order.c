/* SPDX-License-Identifier: MIT */
/* The order in which the rows of a table are read. */
#include "postgres/table/table.h"

static enum column_role order_time_role(const struct outbox_table *a)
{
    return table_has(a, ROLE_CREATED_AT) ? ROLE_CREATED_AT : ROLE_OCCURRED_AT;
}

/* " ORDER BY " and the columns that say the order; whether there is nothing to add. */
static bool order_by_columns(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, " ORDER BY ");
    if (table_has(a, ROLE_SEQ)) {
        outrider__sql_column(sql, a, ROLE_SEQ, alias);
        return true;
    }
    if (table_has(a, order_time_role(a))) {
        outrider__sql_column(sql, a, order_time_role(a), alias);
        strbuf_append_str(sql, ", ");
    }
    return false;
}

void outrider__pg_sql_page_order(struct strbuf *sql, const struct outbox_table *a,
                                 const char *alias)
{
    if (!order_by_columns(sql, a, alias))
        outrider__sql_column(sql, a, ROLE_ID, alias);
}

/* Rows that a relay has had and changed: another place in the heap is theirs since then. They
 * were read in order, so each of them comes before all rows of its key that no relay had. */
static void order_changed_first(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    static const enum column_role counts[] = {ROLE_ATTEMPTS, ROLE_CLAIM};
    bool has_failed = a->map.mark == MARK_STATUS && a->map.values[STATE_FAILED][0] != '\0';
    const char *before = "(";
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!table_has(a, counts[i]))
            continue;
        strbuf_append_str(sql, before);
        outrider__sql_column(sql, a, counts[i], alias);
        strbuf_append_str(sql, " > 0");
        before = " OR ";
    }
    if (has_failed) {
        strbuf_append_str(sql, before);
        outrider__sql_column(sql, a, ROLE_STATUS, alias);
        strbuf_append_str(sql, " = ");
        outrider__sql_literal(sql, a->map.values[STATE_FAILED]);
        before = " OR ";
    }
    if (*before == ' ')
        strbuf_append_str(sql, ") IS NOT TRUE, ");
}

/*
 * Where claims are written and not counted, a row that was given back looks like one that nobody
 * had, and stands behind it. There an id that grows with time is the better witness: whether
 * it does is known of versions 6 and 7, and is the only hope of what is no uuid.
 */
static bool order_by_id(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    if (!outrider__map_shows_claims(&a->map) || table_has(a, ROLE_CLAIM))
        return false;
    if (a->map.columns[ROLE_ID]->kind != KIND_UUID) {
        outrider__sql_column(sql, a, ROLE_ID, alias);
        return true;
    }
    strbuf_append_str(sql, "CASE WHEN substr(");
    outrider__sql_column(sql, a, ROLE_ID, alias);
    strbuf_append_str(sql, "::text, 15, 1) IN ('6', '7') THEN ");
    outrider__sql_column(sql, a, ROLE_ID, alias);
    strbuf_append_str(sql, " END, ");
    return false;
}

/* When the row's transaction committed, where the server notes that; asked once a statement. */
#define COMMITTED                                                              \
    "CASE WHEN (SELECT current_setting('track_commit_timestamp')::bool) THEN " \
    "pg_xact_commit_timestamp(%sxmin) END"

/*
 * By the transaction that wrote the row, the statement in it, and the place that the statement
 * found, which goes up as long as vacuum made no room. Transactions come as they committed;
 * where the server does not note that, as they first wrote (their age without a sign: what is
 * frozen for more than 2^31 transactions is still the oldest).
 */
void outrider__pg_sql_order(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    if (order_by_columns(sql, a, alias) || order_by_id(sql, a, alias))
        return;
    order_changed_first(sql, a, alias);
    outrider__strbuf_appendf(sql,
                             COMMITTED
                             " NULLS FIRST, CASE WHEN (" COMMITTED ") IS NULL THEN "
                             "age(%sxmin)::int8 & 4294967295 END DESC, %scmin::text::int8, "
                             "%stableoid, %sctid",
                             alias, alias, alias, alias, alias, alias);
}
