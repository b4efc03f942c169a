/* SPDX-License-Identifier: MIT */
/*
 * What `outrider doctor` says of an outbox, whatever the database is. A database gathers
 * the facts; the words, the limits and the advice are here. A fact that could not be
 * gathered is left out: it is no finding.
 */
#ifndef COMMON_FINDINGS_H
#define COMMON_FINDINGS_H

#include "common/outbox_table.h"
#include "core/finding.h"
#include "core/store.h"

/*
 * Layout log.
 */
/* How far a pipeline is, and whether it lags; holder: the active relay (NULL: none). */
void outrider__find_lag(const struct finder *f, const struct store_status *st, const char *holder);
/* Parked events and dead letters of a pipeline. */
void outrider__find_failed(const struct finder *f, const struct store_status *st);
void outrider__find_payload(const struct finder *f, int64_t largest, int64_t max_payload);
/* Says nothing of headers that are within their bound. */
void outrider__find_headers(const struct finder *f, int64_t largest, int64_t max_headers);
void outrider__find_retention(const struct finder *f, int64_t retention_us);
/* Rows whose seq a cursor never reaches. */
void outrider__find_below_first(const struct finder *f, const char *table, int64_t n_rows);

/*
 * Tables whose rows carry their state.
 */
struct table_facts {
    const struct outbox_table *table;
    const struct pipeline_config *config;
    uint64_t n_uncovered;               /* rows in a state that no word covers */
    const char *uncovered;              /* their words: "'NEW' (2), NULL (1)" */
    bool lacks_index;                   /* for rows that are not published */
    const char *index_advice;           /* the statement that makes the index */
    int64_t payload_size, headers_size; /* the largest of the newest rows; 0: not known */
};

/* The map for people. It comes first: whatever follows speaks of its columns. */
void outrider__find_map(const struct finder *f, const struct outbox_table *t);
/* All other findings on the table, in an order that does not change. */
void outrider__find_table(const struct finder *f, const struct table_facts *facts);
/* Pending, failed and dead events of a pipeline over such tables. */
void outrider__find_pipeline(const struct finder *f, const struct store_status *st);

#endif
