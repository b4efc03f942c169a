/* SPDX-License-Identifier: MIT */
/*
 * An outbox table whose rows carry their state: made by `outrider init --layout
 * status`, or adopted, which means that the table existed before Outrider came.
 */
#ifndef COMMON_OUTBOX_TABLE_H
#define COMMON_OUTBOX_TABLE_H

#include "common/column_map.h"
#include "core/event.h"

#define OUTBOX_NAME_MAX 192 /* a quoted, qualified name */
#define OUTBOX_TABLES_MAX 64

struct outbox_table {
    uint32_t id;                  /* the database's own number of the table */
    char outbox[OUTBOX_NAME_MAX]; /* quoted, with its schema; also in outrider_cursor.outbox */
    char cursor_table[OUTBOX_NAME_MAX];
    char parked_table[OUTBOX_NAME_MAX];
    char schema[OUTBOX_NAME_MAX]; /* quoted */
    bool is_owned;                /* by the session's role, or one that it belongs to */
    bool is_ours;                 /* made by `outrider init`; else the table is adopted */
    bool is_partitioned;          /* its settled partitions can be dropped */
    struct map_table table;
    struct column_map map;
    /* What the table itself has no place for, and outrider_parked keeps: */
    bool parks_retries; /* attempts and due time */
    bool parks_dead;    /* that an event is dead */
    /* Rows can be marked, or removed: without that, mode cdc reads the stream alone. */
    bool can_be_polled;
};

static inline bool table_has(const struct outbox_table *t, enum column_role role)
{
    return t->map.columns[role] != NULL;
}

static inline bool table_is_bytes(const struct outbox_table *t, enum column_role role)
{
    return table_has(t, role) && t->map.columns[role]->kind == KIND_BYTES;
}

/* Sets what the table has no column for, or the column is NULL: column_map.h (2). */
void outrider__table_complete(const struct outbox_table *t, struct event *e);

#endif
