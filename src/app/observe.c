/* SPDX-License-Identifier: MIT */
#include "app/observe.h"

#include "base/error.h"

#define SAME(note) _Static_assert((int)OUTRIDER_##note == (int)note, "one order of notes")
SAME(NOTE_SOURCE_CONNECTED);
SAME(NOTE_SOURCE_LOST);
SAME(NOTE_STANDBY);
SAME(NOTE_SOURCE_WARNING);
SAME(NOTE_SINK_UP);
SAME(NOTE_SINK_DOWN);
SAME(NOTE_CLEANUP);
SAME(NOTE_STOPPING);
SAME(NOTE_STOPPED);

int outrider__observer_copy(struct outrider_relay_observer *to,
                            const struct outrider_relay_observer *from, struct outrider_error *err)
{
    if (from == NULL || from->size < sizeof *from)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "no observer was given, or its size is not set: begin with "
                              "OUTRIDER_RELAY_OBSERVER_INIT");
    *to = *from;
    return 0;
}

void outrider__observer_note(const struct outrider_relay_observer *o, enum relay_note note,
                             uint64_t count, const struct outrider_error *why)
{
    if (o->note != NULL)
        o->note(o->ctx, (enum outrider_relay_note)note, count, why);
}

static struct outrider_text text_of(struct bytes b)
{
    return (struct outrider_text){b.data, b.len};
}

void outrider__observer_event(const struct outrider_relay_observer *o, const struct event *e)
{
    struct outrider_relay_event told = {.size = sizeof told,
                                        .outcome = outrider__outcome_name(e->outcome),
                                        .id = text_of(e->id),
                                        .aggregate_type = text_of(e->aggregate_type),
                                        .aggregate_id = text_of(e->aggregate_id),
                                        .event_type = text_of(e->event_type),
                                        .topic = text_of(e->delivery.topic),
                                        .attempts = e->attempts,
                                        .reason = e->failure};
    if (o->event != NULL)
        o->event(o->ctx, &told);
}
