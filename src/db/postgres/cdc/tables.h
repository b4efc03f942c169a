/* SPDX-License-Identifier: MIT */
/*
 * Which tables mode cdc reads, and what their columns stand for: one table of our own
 * layout `log` (own.c), or any number of others by their column maps (mapped.c). Both
 * differ in how rows from before the slot are read and in what is done to rows: struct
 * cdc_rows_ops. Nobody but cdc/ includes this.
 *
 *  (1) An event of a mapped table has no seq. In the field `seq` it carries the table's
 *      oid instead, also as a copy in outrider_parked, so that its row can be found:
 *      cdc_event_table().
 *  (2) What is done to rows (after_publish) is done in the transaction that settles
 *      their events, by id, or by seq where the table is our log.
 */
#ifndef POSTGRES_CDC_TABLES_H
#define POSTGRES_CDC_TABLES_H

#include "postgres/cdc/decode.h"
#include "postgres/table/reader.h"

struct pg_layout;
struct pg_op;
struct pg_args;

#define CDC_SQL_CAP 131072

/* What differs between our own log and mapped tables. */
struct cdc_rows_ops {
    /* The rows from before the slot are read in the slot's snapshot, on the connection that
     * made the slot. Otherwise the snapshot is exported, and the seqs in it are planned. */
    bool reads_in_snapshot;
    bool has_seqs;
    /* The layout that delivers while the slot is made; NULL: none can. */
    const struct pg_layout *(*poller)(const struct pg_source *s);
    /* The tables' columns are known: statements, the decoder's tables. */
    int (*prepare)(struct pg_source *s, struct outrider_error *err);
    /* The i-th table's quoted name. */
    const char *(*name)(const struct pg_source *s, size_t i);
    /* Appends the query for rows that are too large to be read: outrider__pg_parked_init. */
    void (*append_oversize)(struct strbuf *sql, const struct pg_source *s);
    /* Adds to the take-over what moves with it. NULL: nothing. */
    int (*add_take_over)(struct pg_source *s, struct outrider_error *err);
    /* Polling settles this batch. NULL: the cursor says enough. */
    int (*note_polled)(struct pg_source *s, const struct batch *b, struct outrider_error *err);
    /* Nothing of polling is under way: what it settled is final. */
    int (*end_polling)(struct pg_source *s, struct outrider_error *err);
    /* MOVE_SWEEPING: FETCH, and what leads on to the stream. */
    int (*fetch)(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
    int (*tick)(struct pg_source *s, struct outrider_error *err);
    /* Records in the cursor that the pipeline is in mode cdc, with nothing left to sweep. */
    int (*save_cdc)(struct pg_source *s, struct outrider_error *err);
    /* Adds what after_publish asks for, for the events [0..n). */
    int (*settle)(struct pg_source *s, const struct event *events, size_t n, struct pg_args *a,
                  struct outrider_error *err);
    /* SOURCE_CLEANUP */
    int (*cleanup)(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
};

extern const struct cdc_rows_ops outrider__cdc_rows_own, outrider__cdc_rows_mapped;

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
    const struct cdc_rows_ops *rows;
    struct arena arena;
    struct cdc_table *items; /* mapped tables; of our own log s->cat says everything */
    size_t n;
    struct table_reader reader;
    struct cdc_outbox *outboxes; /* for the decoder; as many as tables */
    size_t n_outboxes;
    struct strbuf names;            /* "public.a, public.b": for statements and messages */
    struct pg_statement settle_own; /* after_publish on our own log; sql is NULL: nothing */
    char *oversize_sql;             /* owned: see outrider__pg_parked_init */
};

/* The table of an event of a mapped table: (1). */
static inline int64_t cdc_event_table(const struct event *e)
{
    return e->seq;
}

/* Reads the tables' columns, then calls done(). */
int outrider__cdc_tables_begin(struct pg_source *s,
                               int (*done)(struct pg_source *, struct outrider_error *),
                               struct outrider_error *err);
int outrider__cdc_tables_prepare(struct pg_source *s, struct outrider_error *err);
void outrider__cdc_tables_release(struct cdc_tables *t);
/* Arguments: the tables' oids (int8[]), or their names (text[]). */
void outrider__cdc_tables_oids(const struct pg_source *s, struct pg_args *a);
void outrider__cdc_tables_names(const struct pg_source *s, struct pg_args *a);
/* Arguments: every column that is read, as two arrays: oid of the table, name. */
void outrider__cdc_tables_columns(const struct pg_source *s, struct pg_args *a);

/* Whether after_publish marks or removes the event's row: a copy in outrider_parked needs
 * the row no more once it is settled, and until then the row stays. */
bool outrider__cdc_is_finished(const struct pg_source *s, const struct event *e);
/* after_publish: mark, on a table without a column for it. */
int outrider__cdc_refuse_mark(const char *table, struct outrider_error *err);
/* Gives the text of q to *ret_sql. */
int outrider__cdc_take_sql(char **ret_sql, struct strbuf *q, struct outrider_error *err);

#endif
