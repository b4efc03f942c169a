/* SPDX-License-Identifier: MIT */
/*
 * Exactly once: the pipeline's row in outrider_intent, for every layout.
 * common/intent_state.h decides what becomes of the row.
 *
 *  (1) The row has an epoch of its own, counted up when a pipeline is taken
 *      over; every change says `epoch = mine`, or fails and all of its
 *      transaction with it. (A condition on the cursor's epoch would not do: it
 *      would be read in a snapshot from before the take-over.)
 *  (2) A layout settles a batch in one request; outrider__pg_intent_add() puts
 *      the row's change into that request, behind its first statement.
 *  (3) A pipeline of several tables has one row, under its first table. A table
 *      stands in one row at a time under a pipeline's name: whoever names the same
 *      tables in another order, or only some of them, is refused. Otherwise the
 *      intent that was left would be found by nobody.
 *  (4) An intent that is found is settled by the layout like any batch, made
 *      anew from the body: batch->source_data is made by its own_read().
 */
#ifndef POSTGRES_INTENT_H
#define POSTGRES_INTENT_H

#include "postgres/wire/conn.h"
#include "core/event.h"
#include "core/intent.h"
#include "core/progress.h"

struct pg_source;
struct pg_op;

enum pg_intent_statement {
    INTENT_LOCK,   /* one start of a pipeline's name at a time */
    INTENT_OTHERS, /* rows under other tables that speak of tables of this pipeline */
    INTENT_TAKE,
    INTENT_PENDING,
    INTENT_LEAVE,
    INTENT_SAVE,
    INTENT_BODY,
    INTENT_EPOCH,
    INTENT_STATEMENTS
};

struct pg_intent {
    struct pg_statement st[INTENT_STATEMENTS];
    struct pg_args args;
    bool is_asked, is_taken;
    int64_t epoch;
    struct batch recalled;
    bool has_recalled;
};

/* Takes the row over, or leaves it where the pipeline runs without exactly_once. A
 * reader settles nothing and does not touch the row. is_taken says when this is done. */
int outrider__pg_intent_take(struct pg_source *s, struct outrider_error *err);
void outrider__pg_intent_release(struct pg_source *s);
/* Starts INTENT and RECALL. */
int outrider__pg_intent_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
/* Adds to the open request what the operation changes in the row; for SETTLE nothing. */
int outrider__pg_intent_add(struct pg_source *s, const struct pg_op *op,
                            struct outrider_error *err);
/* The operation is complete. */
void outrider__pg_intent_done(struct pg_source *s, const struct pg_op *op);

#endif
