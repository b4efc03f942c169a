/* SPDX-License-Identifier: MIT */
/*
 * What the source and the store both know of slots.
 *
 *  (1) outrider_cursor.slot records the slot that a pipeline owns, before the slot
 *      is made. A slot that no cursor records is nobody's: it is neither dropped
 *      nor replaced nor is its reader ended.
 *  (2) The name is outrider_<pipeline>. Slots have one namespace for the whole
 *      server, so a name that could meet another one carries a hash over database,
 *      outbox and pipeline: where the pipeline's name has other characters than
 *      a slot may have, where the outbox lies in another schema than public, where
 *      another cursor owns the plain name, or another database.
 */
#ifndef POSTGRES_CDC_SLOT_H
#define POSTGRES_CDC_SLOT_H

#include "base/strbuf.h"

/*
 * Appends a common table expression m, one row, for the pipeline $1 and the outbox
 * $2: slot is the slot that the cursor records ('' where there is none), name the
 * name that a slot made now would get, publication the publication's: the one that
 * the cursor records, or else outrider's own.
 */
void outrider__cdc_names_sql(struct strbuf *sql, const char *cursor_table);

/* Appends a statement that drops the slot of a pipeline ($1) of an outbox ($2) that polls. */
void outrider__cdc_forget_slot_sql(struct strbuf *sql, const char *cursor_table);

/*
 * Appends a subselect with the columns rel, token and x (xmin), for the publication p
 * of the query around it: a row with rel 0 for a publication that has inserts, and for
 * each of the tables (an expression: int8[]) the rows by which the publication has it.
 */
void outrider__cdc_published_sql(struct strbuf *sql, int version, const char *tables);
/* Appends an expression: whether the recorded tokens (text of text[]; empty: unknown) still
 * hold for every table. The arguments are expressions. */
void outrider__cdc_unchanged_sql(struct strbuf *sql, int version, const char *publication,
                                 const char *tables, const char *published);
/* Appends a query: the tokens of now as text, and the count of distinct rel. */
void outrider__cdc_tokens_sql(struct strbuf *sql, int version, const char *publication,
                              const char *tables);

#endif
