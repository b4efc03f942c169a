/* SPDX-License-Identifier: MIT */
/*
 * Exactly once: what becomes of a pipeline's row of intents (core/progress.h). The row
 * is the same in every database: the mark of the intent that was saved last, and the
 * body of the intent while it is open. An adapter reads and writes the row; these
 * functions say when and what.
 *
 *  (1) Taking over with exactly_once: the row is made where there is none, and read.
 *      Without exactly_once a row whose intent is open stops the relay: whether the
 *      events of the intent were published is known only where exactly_once runs. A
 *      row without an open intent is left: the database notes that exactly_once is
 *      over, so that others may publish again.
 *  (2) An INTENT settles the batch before and writes the row in one transaction: the
 *      new mark with its body, or, where no batch follows, the old mark without one.
 *  (3) A RECALL obeys the engine's verdict. An intent that came true is read back,
 *      settled like any batch, and closed; one that never was is closed. Both write
 *      the mark that the sink has. Any other verdict changes nothing: the operation
 *      only proves that this relay is still the active one.
 *  (4) saved and has_intent of struct source change when the operation is complete,
 *      and never before.
 */
#ifndef COMMON_INTENT_STATE_H
#define COMMON_INTENT_STATE_H

#include "common/cursor_rules.h"
#include "core/intent.h"
#include "core/source.h"

/* An intent is at most this large; a larger one fails for want of memory. */
#define INTENT_BODY_MAX ((size_t)1 << 29)

/* What a take-over found. */
struct intent_found {
    bool has_row;
    bool is_open;      /* the row has a body */
    bool is_in_use;    /* exactly_once ran with the row, and nobody has noted that it is over */
    const char *table; /* under which the row stands; NULL: the database has one outbox */
};

enum intent_start {
    INTENT_START_TAKE,  /* the row is ours: intent_taken() with what the row holds */
    INTENT_START_LEAVE, /* note that exactly_once is over */
    INTENT_START_NONE   /* nothing to do */
};

/* (1) Negative: the relay must not start. */
int outrider__intent_start(const struct cursor_place *at, const struct intent_found *found,
                           enum intent_start *ret_start, struct outrider_error *err);
static inline void intent_taken(struct source *s, uint64_t no, uint64_t stamp, bool is_open)
{
    s->saved = (struct commit_mark){.no = no, .stamp = stamp};
    s->has_intent = is_open;
}

/* What an INTENT or a RECALL asks of the database. */
enum intent_work {
    INTENT_WORK_SETTLE, /* settle op->batch and write the row */
    INTENT_WORK_WRITE,  /* write the row, nothing else */
    INTENT_WORK_RECALL, /* read the body, settle the batch that it makes, write the row */
    INTENT_WORK_PROVE   /* read the row's epoch */
};

enum intent_work outrider__intent_work(const struct source_op *op);

/* What the row becomes. */
struct intent_row {
    struct commit_mark mark;
    struct bytes body; /* NULL: no intent is open */
};

/* (2), (3). The body is written into `body`, which must be empty and must live as long
 * as the row is needed; flags and own as outrider__intent_write() says. */
int outrider__intent_row(const struct source *s, const struct source_op *op, unsigned flags,
                         struct bytes own, struct strbuf *body, struct intent_row *ret_row,
                         struct outrider_error *err);
/* (4) The INTENT or RECALL is complete. */
void outrider__intent_done(struct source *s, const struct source_op *op);

#endif
