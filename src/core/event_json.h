/* SPDX-License-Identifier: MIT */
/*
 * An event as one JSON object with the outbox columns as keys: a line of
 * `outrider put --jsonl`, and what a logical message holds.
 *
 *  (1) A JSON payload is taken as its exact bytes, without outer white space.
 *  (2) A key that is not known is an error: a misspelt one must not be lost.
 *  (3) Bytes are foreign; errors name the key, never its value.
 */
#ifndef CORE_EVENT_JSON_H
#define CORE_EVENT_JSON_H

#include "base/arena.h"
#include "base/error.h"
#include "outrider/event.h"

/* The event borrows from the text and from the arena. */
int outrider__event_from_json(struct bytes text, struct arena *arena,
                              struct outrider_event *ret_event, struct outrider_error *err);
/* Standard base64 with padding. */
int outrider__base64_decode(struct bytes text, struct arena *arena, struct bytes *ret_data);

#endif
