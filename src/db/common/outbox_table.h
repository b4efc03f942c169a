/* SPDX-License-Identifier: MIT */
/*
 * An outbox table whose rows carry their state: made by `outrider init --layout
 * status`, or adopted, which means that the table existed before Outrider came.
 */
#ifndef COMMON_OUTBOX_TABLE_H
#define COMMON_OUTBOX_TABLE_H

#include "common/column_map.h"

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

#endif
