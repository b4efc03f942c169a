/* SPDX-License-Identifier: MIT */
/*
 * The statements of layout `status`, made from a table's column map, for every
 * database.
 *
 * o is the outbox, b a row of it that may block a key, p a row of
 * outrider_parked, u the rows that the caller sends.
 *
 *  (1) Rows that may be taken are read by one statement, in one snapshot. In ordered
 *      mode that statement leaves out every key of which an earlier row waits: failed
 *      and not due, dead where dead letters block, claimed by somebody else.
 *  (2) A claim is written by the statement that reads the rows, where the dialect has
 *      RETURNING. Elsewhere ST_FETCH locks the rows, and ST_CLAIM claims them in the
 *      same transaction.
 *  (3) Every outcome is written only to a row that is still ours: by owner and
 *      claim number where there are such columns, by state otherwise.
 *  (4) Where the dialect has RETURNING, ST_PUBLISH answers how many rows it
 *      changed and how many of these wait still; ST_CURSOR fails when the epoch is not
 *      ours any more; ST_TAKE answers epoch, sink and mode. Elsewhere the adapter
 *      counts the rows that a statement found, asks ST_LEFT, and asks ST_TAKEN.
 */
#ifndef COMMON_STATUS_SQL_H
#define COMMON_STATUS_SQL_H

#include "common/table_sql.h"

enum status_statement {
    /* Parameters: rows, bounds, and the owner (or, without a claim, the ids in flight). Behind
     * the event's columns: enum status_column. */
    ST_FETCH,
    ST_CLAIM, /* ids, owner; without RETURNING: (2) */
    /* All of these begin with ids, owner, claim numbers. */
    ST_PUBLISH, /* or delete */
    ST_LEFT,    /* rows for which ST_PUBLISH was asked, and that are as before */
    ST_CHANGE,  /* failed, dead, expired, given back; behind: state, attempts, delay, code, message
                 */
    ST_PARK,    /* behind: state, attempts, delay, code, message, origin, lane */
    ST_RENEW,
    ST_RELEASE, /* claimed, but did not fit into the batch */
    ST_UNPARK,  /* ids */
    ST_CURSOR,  /* counts of delivered, expired, skipped, dead; the epoch */
    ST_TAKE,    /* the sink, on_dead, the words of the status column or NULL */
    ST_TAKEN,   /* without RETURNING: (4) */
    ST_RECLAIM,
    ST_CLAIMED, /* by applications that publish by themselves */
    ST_CLEANUP, /* older than, how many */
    /* These two are the adapter's own. */
    ST_WORDS,     /* while the words are not known: what the rows say */
    ST_UNCOVERED, /* rows that no word covers */
    ST_COUNT
};

/* What ST_FETCH returns behind an event's columns, the first of these at index 0. */
enum status_fetch_column { STATUS_FETCH_ATTEMPTS, STATUS_FETCH_CLAIM, STATUS_FETCH_HAS_COPY };

/* One table of a pipeline. */
struct status_sql {
    const struct table_dialect *dialect;
    const struct pipeline_config *config;
    const struct outbox_table *table;
    const char *owner_prefix; /* how owners of this pipeline begin */
    bool claims;              /* a claim is written */
    bool has_owner;           /* and says whose it is */
    bool competes;            /* no lock of the pipeline: many relays */
};

/* *ret_sql: for free(), or NULL: nothing to do. ret_params may be NULL. */
int outrider__status_sql(const struct status_sql *s, enum status_statement which, char **ret_sql,
                         struct sql_params *ret_params, struct outrider_error *err);
/* "cannot mark events as published", for errors. */
const char *outrider__status_purpose(enum status_statement which);

/*
 * Parts of these statements. status_take_sql.c:
 */
void outrider__status_fetch_sql(struct strbuf *q, const struct status_sql *s);
void outrider__status_claim_sql(struct strbuf *q, const struct status_sql *s);
/* A list of assignments: the row is ours. owner: the number of the parameter. */
void outrider__status_set_claim(struct strbuf *q, const struct status_sql *s, int owner);
/* " AND ...": the row's owner is gone, or its lease has ended. The lock of the pipeline is held. */
void outrider__status_and_abandoned(struct strbuf *q, const struct status_sql *s);
/* " AND ...": an application that publishes by itself has the row. */
void outrider__status_and_hybrid(struct strbuf *q, const struct status_sql *s);
/* status_mark_sql.c: */
/* Adds an assignment to a list, if the table has the column. */
void outrider__status_set(struct strbuf *set, const struct status_sql *s, enum column_role role,
                          const char *value);
void outrider__status_set_state(struct strbuf *set, const struct status_sql *s, enum map_state w);
/* Nobody has the row. */
void outrider__status_set_free(struct strbuf *set, const struct status_sql *s);
/* An UPDATE of those of the rows that are still ours. */
void outrider__status_update_ours(struct strbuf *q, const struct status_sql *s,
                                  const struct strbuf *set);
/* The UPDATE alone that marks rows as published; and the whole of ST_PUBLISH. */
void outrider__status_mark_sql(struct strbuf *q, const struct status_sql *s);
void outrider__status_publish_sql(struct strbuf *q, const struct status_sql *s, bool deletes);
void outrider__status_left_sql(struct strbuf *q, const struct status_sql *s);
void outrider__status_change_sql(struct strbuf *q, const struct status_sql *s);
void outrider__status_park_sql(struct strbuf *q, const struct status_sql *s);

#endif
