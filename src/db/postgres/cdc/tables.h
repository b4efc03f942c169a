/* SPDX-License-Identifier: MIT */
/*
 * Which tables mode cdc reads, and what their columns stand for: one of our own
 * layout `log`, or any number of others, by their column maps. Nobody but cdc*.c
 * includes this.
 *
 *  (1) An event of a mapped table has the table's oid for its seq, also as a
 *      copy in outrider_parked: it tells whose row it is.
 *  (2) What is done to rows (after_publish) is done in the transaction that
 *      settles their events, by id, or by seq where the table is a log.
 */
#ifndef POSTGRES_CDC_TABLES_H
#define POSTGRES_CDC_TABLES_H

#include "postgres/table/reader.h"
#include "postgres/cdc/decode.h"

struct cdc_table {
    struct outbox_table a;
    char schema[64];    /* without quotes */
    char *settle_sql;   /* owned; NULL: nothing is done to its rows */
    char *snapshot_sql; /* owned: the rows that the first sweep reads */
    struct pg_statement settle;
    char *cleanup_sql; /* owned; NULL: nothing is cleaned up */
    struct pg_statement cleanup;
};

struct cdc_tables {
    bool is_mapped; /* otherwise there is one, s->cat, and `items` is empty */
    struct arena arena;
    struct cdc_table *items;
    size_t n;
    struct table_reader adoption;
    struct cdc_outbox *outboxes; /* for the decoder; as many as tables */
    size_t n_outboxes;
    struct strbuf names;  /* "public.a, public.b": for statements and messages */
    bool can_be_polled;   /* every table has a mark, and the relay may write it */
    char *settle_log_sql; /* owned: after_publish on our own log */
    struct pg_statement settle_log;
    char *oversize_sql; /* owned: see outrider__pg_parked_init */
};

/* What was settled by polling just before the stream took over, and may come
 * again in it: ids of the last second or two. */
struct cdc_late_id {
    int64_t oid;
    struct bytes id;
};

struct cdc_late {
    struct cdc_late_list {
        struct arena arena;
        struct cdc_late_id *items;
        size_t n, capacity;
    } lists[2]; /* the one that is written, and the one before it */
    int64_t since_us;
    bool is_frozen; /* sorted: nothing is added any more, and nothing forgotten */
};

bool outrider__cdc_is_mapped(const struct pg_catalog *cat, const struct pipeline_config *config);
/* Reads the tables' columns, then calls done(). */
int outrider__cdc_tables_begin(struct pg_source *s,
                               int (*done)(struct pg_source *, struct outrider_error *),
                               struct outrider_error *err);
/* Everything is known: statements, the decoder's tables. */
int outrider__cdc_tables_prepare(struct pg_source *s, struct outrider_error *err);
/* Polling has found out the words of the i-th table's status column: the first sweep
 * must not take what polling has marked by them. */
int outrider__cdc_tables_learn(struct pg_source *s, size_t i, const struct column_map *polled,
                               struct outrider_error *err);
void outrider__cdc_tables_release(struct cdc_tables *t);
/* Arguments: the tables' oids (int8[]), or their names (text[]). */
void outrider__cdc_tables_oids(const struct pg_source *s, struct pg_args *a);
void outrider__cdc_tables_names(const struct pg_source *s, struct pg_args *a);
/* Arguments: every column that is read, as two arrays: oid of the table, name. */
void outrider__cdc_tables_columns(const struct pg_source *s, struct pg_args *a);
/* Adds what after_publish asks for, for the events [0..n). */
int outrider__cdc_tables_settle(struct pg_source *s, const struct event *events, size_t n,
                                struct pg_args *a, struct outrider_error *err);

/* SOURCE_CLEANUP: of what is marked as published. */
int outrider__cdc_tables_cleanup(struct pg_source *s, struct pg_op *op, struct outrider_error *err);

int outrider__cdc_late_note(struct cdc_late *l, int64_t oid, struct bytes id, int64_t now_us);
void outrider__cdc_late_freeze(struct cdc_late *l);
/* Whether it was settled by polling. */
bool outrider__cdc_late_has(const struct cdc_late *l, int64_t oid, struct bytes id);
void outrider__cdc_late_release(struct cdc_late *l);

#endif
