/* SPDX-License-Identifier: MIT */
/* What an application is told (struct outrider_relay_observer), by a relay or a publisher. */
#ifndef APP_OBSERVE_H
#define APP_OBSERVE_H

#include "core/relay.h"
#include "outrider/relay.h"

int outrider__observer_copy(struct outrider_relay_observer *to,
                            const struct outrider_relay_observer *from, struct outrider_error *err);
void outrider__observer_note(const struct outrider_relay_observer *o, enum relay_note note,
                             uint64_t count, const struct outrider_error *why);
void outrider__observer_event(const struct outrider_relay_observer *o, const struct event *e);

#endif
