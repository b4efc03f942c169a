/* SPDX-License-Identifier: MIT */
/*
 * Pieces of SQL over the columns of an outbox table whose rows carry their state, for
 * every database. Text is neutral (dialect.h (1)). alias: of the table, with its dot, or "".
 */
#ifndef COMMON_TABLE_SQL_H
#define COMMON_TABLE_SQL_H

#include "common/dialect.h"
#include "common/outbox_table.h"

/* How one server reads and writes the values of users' columns. */
struct table_dialect {
    const struct sql_dialect *sql;
    /* The id as text: bytes as "\x" and hex digits. */
    void (*id)(struct strbuf *q, const struct outbox_table *t, const char *alias);
    /* The name of the row's lane: a text as in outrider_parked (parked.h (4)), or bytes
     * where a key column holds bytes. */
    void (*key)(struct strbuf *q, const struct outbox_table *t, const char *alias);
    /* The same of a lane in outrider_parked. */
    void (*lane)(struct strbuf *q, const struct outbox_table *t, const char *lane);
    /* The columns of an event, its payload's size and its first large column. bounds: the
     * parameter that holds the bounds; 0: whole, whatever their sizes. */
    void (*event)(struct strbuf *q, const struct outbox_table *t, const char *alias, int bounds);
    /* " ORDER BY ...", oldest first. */
    void (*order)(struct strbuf *q, const struct outbox_table *t, const char *alias);
    /* A value in the form of that role's column (which may hold a time as a number) as a time,
     * and a time in the form of the column. */
    void (*time_of)(struct strbuf *q, const struct outbox_table *t, enum column_role role,
                    const char *value);
    void (*stamp)(struct strbuf *q, const struct outbox_table *t, enum column_role role,
                  const char *when);
    /* A text in the form of that role's column. */
    void (*of_text)(struct strbuf *q, const struct outbox_table *t, enum column_role role,
                    const char *text);
    /* A value of event() as outrider_parked holds texts, and the payload as it holds bytes. */
    void (*stored)(struct strbuf *q, const char *value);
    void (*payload)(struct strbuf *q, const struct outbox_table *t, const char *value);
};

/* Whether the status column has a word for that state. */
static inline bool table_has_state(const struct outbox_table *t, enum map_state s)
{
    return t->map.mark == MARK_STATUS && t->map.values[s][0] != '\0';
}

void outrider__sql_column(struct strbuf *q, const struct outbox_table *t, enum column_role role,
                          const char *alias);
/* column = 'word' */
void outrider__sql_is_state(struct strbuf *q, const struct outbox_table *t, enum map_state s,
                            const char *alias);
/* The condition that a row is not settled, or is published, as far as the row itself says. */
void outrider__sql_unsettled(struct strbuf *q, const struct outbox_table *t, const char *alias);
void outrider__sql_published(struct strbuf *q, const struct outbox_table *t, const char *alias);
/* The role's column as a time. */
void outrider__sql_time(struct strbuf *q, const struct table_dialect *d,
                        const struct outbox_table *t, enum column_role role, const char *alias);
/* NULL, or what says the same in a column that must not be NULL. Only for UPDATE ... SET. */
void outrider__sql_nothing(struct strbuf *q, const struct table_dialect *d,
                           const struct outbox_table *t, enum column_role role);
/* "DELETE ..." of rows that were published, or expired, long ago. Parameters: older than (a
 * time), how many. */
void outrider__sql_cleanup(struct strbuf *q, const struct table_dialect *d,
                           const struct outbox_table *t);

#endif
