/* SPDX-License-Identifier: MIT */
/*
 * The rules of a pipeline's cursor, which are the same in every database. An adapter
 * reads and writes the row; these functions judge what was read, and give the error
 * that people read.
 *
 *  (1) Sink: a pipeline delivers to one sink. The first relay writes the identity of
 *      its sink into the cursor; a relay with another sink is refused with
 *      SINK_MISMATCH. A relay whose sink has no identity is never refused.
 *  (2) Epoch: taking a pipeline over raises the epoch of its cursor. A relay that
 *      finds another epoch than its own writes nothing any more: FENCED.
 *  (3) Policy: on_dead decides whether a dead letter blocks its lane. A pipeline that
 *      ran under the other policy before has its lanes mended when it is taken over.
 *  (4) Anchor: the cursor holds the id of the row at its position. Where that row is
 *      gone or has another id, or where the sequence stands below the position, the
 *      numbers of the outbox do not mean what they did: HISTORY, until a person has
 *      looked and has run `outrider resync`. A cursor at position 0 has no anchor.
 */
#ifndef COMMON_CURSOR_RULES_H
#define COMMON_CURSOR_RULES_H

#include "core/config.h"
#include "core/event.h"

/* What an error says about where the cursor is. */
struct cursor_place {
    const struct pipeline_config *config;
    const char *outbox; /* the file or the table: "shop.db", "public.outbox" */
    const char *url;    /* for a command line; NULL: the user must give it */
};

/* The identity of the relay's sink, as it is stored: never NULL. */
static inline const char *cursor_sink(const struct pipeline_config *config)
{
    return config->sink_identity != NULL ? config->sink_identity : "";
}

/* (1) `stored` is empty where the pipeline has no sink yet. */
int outrider__cursor_check_sink(const struct cursor_place *at, struct bytes stored,
                                struct outrider_error *err);

/* (2) */
int outrider__cursor_fail_fenced(const struct cursor_place *at, struct outrider_error *err);

/* (3) The word for on_dead, as it is stored. */
static inline const char *cursor_policy(const struct pipeline_config *config)
{
    return config->retry.on_dead == ON_DEAD_BLOCK ? "block" : "skip";
}

static inline bool cursor_is_other_policy(const struct pipeline_config *config, struct bytes stored)
{
    return !bytes_eq_str(stored, cursor_policy(config));
}

/* (4) What is compared, all read in one snapshot. */
struct cursor_anchor {
    int64_t position;
    int64_t sequence;    /* the highest number that was given out */
    struct bytes stored; /* the anchor: the id, as outrider__text_cut() leaves it */
    struct bytes found;  /* the same of the row at the position; NULL: there is no row */
};

enum anchor_verdict {
    ANCHOR_FITS,
    ANCHOR_SEQUENCE_SET_BACK, /* below the position */
    ANCHOR_ROW_GONE,
    ANCHOR_ROW_CHANGED /* the row at the position has another id */
};

enum anchor_verdict outrider__anchor_judge(const struct cursor_anchor *a);
int outrider__cursor_check_anchor(const struct cursor_place *at, const struct cursor_anchor *a,
                                  struct outrider_error *err);
/* For what an adapter finds while it reads; `what` says what was found. */
int outrider__cursor_fail_history(const struct cursor_place *at, const char *what,
                                  struct outrider_error *err);

#endif
