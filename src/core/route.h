/* SPDX-License-Identifier: MIT */
/*
 * From an event to a delivery: whether it is wanted, where it goes, and in
 * which form. No I/O. The compiled router keeps copies of all it needs of the
 * configuration and may be replaced between two events (reload): deliveries
 * never point into it. It has scratch space: one thread at a time.
 *
 * Topic, first that applies: the event's own; the table by event type; the
 * regular expression over a field with its replacement; the template.
 * Headers: see core/headers.h. Forms: see core/envelope.h.
 */
#ifndef CORE_ROUTE_H
#define CORE_ROUTE_H

#include "core/config.h"
#include "core/event.h"

struct router;

/* Compiles templates and patterns; errors name the option and the place in it. */
int outrider__router_new(const struct pipeline_config *config, struct router **ret_router,
                         struct outrider_error *err);
void outrider__router_free(struct router *r);

/* Whether select: lets the event through. */
bool outrider__router_selects(const struct router *r, const struct event *e);

/* Fills e->delivery (bytes in the batch's arena), on success only. Headers are
 * built only if asked for. An error here is the event's own and DEAD, except
 * for want of memory, which is RETRY and nobody's fault. */
int outrider__router_route(const struct router *r, struct event *e, bool with_headers,
                           struct outrider_error *err);
/* Turns e->delivery into the dead letter for topic (the template of
 * dead_letter.topic): same key and payload, and headers that say what happened
 * (x-error-code, x-error-message, x-attempts, x-original-topic). An event that
 * could not be routed goes without headers that are malformed; of one too large
 * to be read the payload is empty, and x-payload-size says how large it was. Call it once per
 * event. */
int outrider__router_dead_letter(const struct router *r, struct event *e, const char *topic,
                                 const struct outrider_error *why, bool with_headers,
                                 struct outrider_error *err);

#endif
