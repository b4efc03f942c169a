/* SPDX-License-Identifier: MIT */
/* What every database asks of an event that an application hands in. */
#ifndef BASE_EVENT_CHECK_H
#define BASE_EVENT_CHECK_H

#include "base/grown.h"
#include "outrider/event.h"

extern const struct grown outrider__event_grown;

/* An event of this library's size. The application's own may be smaller or larger. */
static inline struct outrider_event event_grown(const struct outrider_event *from)
{
    struct outrider_event e;
    outrider__grown_copy(&outrider__event_grown, &e, from);
    return e;
}

/* Whether an outbox can take it: its fields are there, are UTF-8 where they are
 * text of at most OUTRIDER_TEXT_MAX bytes, and payload and headers have at most
 * max_payload bytes each. */
int outrider__event_check(const struct outrider_event *e, size_t max_payload,
                          struct outrider_error *err);
/* "event: FIELD WHAT", with the disposition dead: the same bytes never work. */
int outrider__event_fail_field(struct outrider_error *err, const char *field, const char *what);
/* A consumer's name and an event's id, as the inbox takes them. */
int outrider__inbox_check_names(const char *consumer, const char *event_id,
                                struct outrider_error *err);

#endif
