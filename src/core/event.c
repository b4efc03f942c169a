/* SPDX-License-Identifier: MIT */
#include "core/event.h"

#include <string.h>

#include "base/pages.h"

const char *outrider__outcome_name(enum outcome o)
{
    static const char *const names[OUTCOME_COUNT] = {
        [OUTCOME_PENDING] = "pending", [OUTCOME_DELIVERED] = "delivered",
        [OUTCOME_SKIPPED] = "skipped", [OUTCOME_EXPIRED] = "expired",
        [OUTCOME_PARKED] = "parked",   [OUTCOME_QUEUED] = "queued",
        [OUTCOME_DEAD] = "dead",       [OUTCOME_RELEASED] = "released",
    };
    return (unsigned)o < OUTCOME_COUNT ? names[o] : "unknown";
}

/* So large that those which an arena keeps hold a batch of events of 1 KiB: then a
 * steady flow does not allocate, up to a capacity of 16,384. */
static size_t chunk_size_for(size_t capacity)
{
    const size_t least = 64 * 1024, most = 1024 * 1024, fit = capacity * 1024 / ARENA_KEEP;
    return fit < least ? least : fit > most ? most : fit;
}

int outrider__batch_init(struct batch *b, size_t capacity, size_t max_bytes,
                         struct outrider_error *err)
{
    *b = (struct batch){.capacity = capacity, .max_bytes = max_bytes};
    outrider__arena_init(&b->arena, chunk_size_for(capacity));
    b->events = outrider__pages_new(capacity, sizeof *b->events);
    b->n_slots = capacity;
    return b->events != NULL ? 0 : outrider__fail_nomem(err);
}

void outrider__batch_reset(struct batch *b)
{
    outrider__arena_reset(&b->arena);
    b->n = b->n_settle = b->n_done = b->n_in_flight = 0;
    b->is_parked = false;
    b->position = 0;
    b->source_data = NULL;
}

void outrider__batch_release(struct batch *b)
{
    outrider__arena_release(&b->arena);
    outrider__pages_free(b->events, b->n_slots, sizeof *b->events);
    b->events = NULL;
}

struct event *outrider__batch_slot(struct batch *b)
{
    if (batch_is_full(b))
        return NULL;
    struct event *e = &b->events[b->n];
    *e = (struct event){.partition = -1, .batch = b};
    return e;
}

int outrider__event_check_texts(struct event *e, struct outrider_error *err)
{
    const struct {
        const char *name;
        struct bytes value;
    } texts[] = {
        {"aggregate_type", e->aggregate_type}, {"event_type", e->event_type}, {"topic", e->topic}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct bytes v = texts[i].value;
        if (v.len == 0 || e->is_malformed ||
            (outrider__bytes_is_utf8(v) && memchr(v.data, '\0', v.len) == NULL))
            continue;
        e->failure = outrider__arena_alloc(&e->batch->arena, sizeof *e->failure);
        if (e->failure == NULL)
            return outrider__fail_nomem(err);
        *e->failure = (struct outrider_error){0};
        (void)outrider__fail(e->failure, OUTRIDER_INVALID, OUTRIDER_DEAD, "%s is not UTF-8 text",
                             texts[i].name);
        e->is_malformed = true;
    }
    return 0;
}
