/* SPDX-License-Identifier: MIT */
#include "app/observe.h"

#include "base/grown.h"

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
    static const struct grown grown = {
        .what = "the observer",
        .unset = "no observer was given, or its size is not set: begin with "
                 "OUTRIDER_RELAY_OBSERVER_INIT",
        .first = GROWN_FIRST(struct outrider_relay_observer, wants_delivered),
        .now = sizeof(struct outrider_relay_observer),
        .align = _Alignof(struct outrider_relay_observer),
        .disposition = OUTRIDER_STOP,
    };
    if (outrider__grown_check(&grown, from, err) < 0)
        return -1;
    outrider__grown_copy(&grown, to, from);
    return 0;
}

void outrider__observer_note(const struct outrider_relay_observer *o, enum relay_note note,
                             uint64_t count, const struct outrider_error *why)
{
    if (o->note != NULL)
        o->note(o->ctx, (enum outrider_relay_note)note, count, why);
}

static struct outrider_text observe_text_of(struct bytes b)
{
    return (struct outrider_text){b.data, b.len};
}

void outrider__observer_event(const struct outrider_relay_observer *o, const struct event *e)
{
    struct outrider_relay_event told = {.size = sizeof told,
                                        .outcome = outrider__outcome_name(e->outcome),
                                        .id = observe_text_of(e->id),
                                        .aggregate_type = observe_text_of(e->aggregate_type),
                                        .aggregate_id = observe_text_of(e->aggregate_id),
                                        .event_type = observe_text_of(e->event_type),
                                        .topic = observe_text_of(e->delivery.topic),
                                        .attempts = e->attempts,
                                        .reason = e->failure};
    if (o->event != NULL)
        o->event(o->ctx, &told);
}
