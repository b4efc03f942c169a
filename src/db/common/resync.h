/* SPDX-License-Identifier: MIT */
/*
 * After the history of an outbox was rewritten: where a pipeline's cursor goes, and
 * what people are told. An adapter reads the facts in one transaction with what it
 * writes.
 *
 *  (1) A cursor whose anchor fits (cursor_rules.h (4)) stays.
 *  (2) A position that is kept or moved never passes an event that may not have been
 *      delivered. Where the facts leave a doubt, the position becomes 0 and all that
 *      the table holds is delivered again: a receiver recognises a duplicate by its
 *      id, and nobody can recognise an event that was lost.
 *  (3) What was removed from the table is not known here, and the report says so.
 */
#ifndef COMMON_RESYNC_H
#define COMMON_RESYNC_H

#include "base/strbuf.h"
#include "common/cursor_rules.h"

struct resync_facts {
    struct cursor_anchor anchor;
    bool has_moved; /* the row of the anchor is at another number now: moved_to */
    int64_t moved_to;
    /* The rows below the moved one are those that were below it before: no rows were
     * awaited there, and nobody wrote rows at low numbers. */
    bool is_order_kept;
    bool has_newer;       /* rows below the position are newer than the last settle */
    int64_t last_settled; /* the highest number of a row that was settled, 0: none */
    int64_t held;         /* rows in the table */
};

struct resync_verdict {
    int64_t old_position, new_position;
    bool is_intact;  /* (1) */
    const char *why; /* where it is not */
    int64_t held;
};

struct resync_verdict outrider__resync_judge(const struct resync_facts *f);
void outrider__resync_report(const struct resync_verdict *v, const char *pipeline,
                             struct strbuf *ret_report);

#endif
