/* SPDX-License-Identifier: MIT */
/*
 * An intent as bytes: what a source needs to settle a batch later, when that
 * batch is not in memory any more. See core/progress.h.
 *
 *  (1) What is read back has as many events as what was written, with the same
 *      outcomes in the same order. Events for which the source has nothing to do
 *      have nothing else. The last event always has its seq and id, and an event
 *      with an answer has its answer.
 *  (2) Others can write to the database: what is read is checked, and refused with
 *      STOP.
 *  (3) There are two forms. OI2 has answers; an intent without any answer is
 *      written as OI1, which a relay of the version before reads too.
 */
#ifndef CORE_INTENT_H
#define CORE_INTENT_H

#include "base/strbuf.h"
#include "core/event.h"

/* Exactly once a batch is a transaction, which costs the same for one event as
 * for many: it may hold so many times source.batch and source.batch_bytes. */
#define EXACT_BATCH 12

enum intent_flags {
    INTENT_EACH = 1,  /* every event is needed, also those that are over and done with */
    INTENT_VALUES = 2 /* what is parked is copied from memory: its content is needed */
};

/* `own` is for the source: where the batch ends, for example. */
int outrider__intent_write(const struct batch *b, unsigned flags, struct bytes own,
                           struct strbuf *out, struct outrider_error *err);
/* *ret_batch is the caller's to release; its events and *ret_own live in it. */
int outrider__intent_read(struct bytes body, struct batch *ret_batch, struct bytes *ret_own,
                          struct outrider_error *err);

#endif
