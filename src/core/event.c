/* SPDX-License-Identifier: MIT */
#include "core/event.h"

#include <string.h>

#include "base/pages.h"
#include "core/config.h"

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

struct event_bounds outrider__event_bounds(const struct pipeline_config *config)
{
    return (struct event_bounds){.payload = (size_t)config->source.max_payload,
                                 .headers = (size_t)config->source.max_headers,
                                 .text = OUTRIDER_TEXT_MAX,
                                 .id = OUTRIDER_TEXT_MAX};
}

int outrider__event_fits(const struct pipeline_config *config, const struct outrider_event *e,
                         struct outrider_error *err)
{
    struct event_bounds max = outrider__event_bounds(config);
    size_t headers = e->headers != NULL ? strlen(e->headers) : 0;
    if (e->payload_len > max.payload)
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                              "payload of %zu bytes is above max_payload (%zu); keep the data "
                              "elsewhere and send a reference, or raise it here and for the relay "
                              "with --set max_payload=SIZE",
                              e->payload_len, max.payload);
    if (headers > max.headers)
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                              "headers of %zu bytes are above max_headers (%zu); put the data into "
                              "the payload, or raise it here and for the relay with --set "
                              "max_headers=SIZE",
                              headers, max.headers);
    return 0;
}

void outrider__event_too_large(struct event *e, const char *column, size_t len)
{
    if (e->is_oversize)
        return;
    e->is_oversize = true;
    e->large_column = column;
    e->large_len = len;
}

struct bytes outrider__text_cut(struct bytes text)
{
    /* A character has four bytes at most; what is no text has an end all the same. */
    size_t n = 0, i = 0, most = 4 * EVENT_TEXT_CUT;
    for (; i < text.len && i < most; i++) {
        bool begins = ((unsigned char)text.data[i] & 0xC0) != 0x80;
        if (begins && n++ == EVENT_TEXT_CUT)
            break;
    }
    return bytes_of(text.data, i);
}

struct bytes outrider__bytes_cut(struct bytes b)
{
    return bytes_of(b.data, b.len < EVENT_TEXT_CUT ? b.len : EVENT_TEXT_CUT);
}

/* So large that those which an arena keeps hold a batch of events of 1 KiB: then a
 * steady flow does not allocate, up to a capacity of 16,384. */
static size_t event_chunk_size_for(size_t capacity)
{
    const size_t least = 64 * 1024, most = 1024 * 1024, fit = capacity * 1024 / ARENA_KEEP;
    return fit < least ? least : fit > most ? most : fit;
}

int outrider__batch_init(struct batch *b, size_t capacity, size_t max_bytes,
                         struct outrider_error *err)
{
    *b = (struct batch){.capacity = capacity, .max_bytes = max_bytes};
    outrider__arena_init(&b->arena, event_chunk_size_for(capacity));
    b->events = outrider__pages_new(capacity, sizeof *b->events);
    b->n_slots = capacity;
    return b->events != NULL ? 0 : outrider__fail_nomem(err);
}

void outrider__batch_reset(struct batch *b)
{
    outrider__arena_reset(&b->arena);
    b->n = b->n_settle = b->n_done = b->n_in_flight = b->answer_bytes = 0;
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

/* Without the beginning of a character at which outrider__bytes_cut() cut. */
static struct bytes event_whole_characters(struct bytes v)
{
    size_t n = v.len;
    while (n > 0 && v.len - n < 3 && ((unsigned char)v.data[n - 1] & 0xC0) == 0x80)
        n--;
    bool is_whole = n == 0 || outrider__bytes_is_utf8(bytes_of(v.data + n - 1, v.len - n + 1));
    return is_whole ? v : bytes_of(v.data, n - 1);
}

int outrider__event_check_texts(struct event *e, struct outrider_error *err)
{
    const struct {
        const char *name;
        struct bytes *value;
    } texts[] = {{"aggregate_type", &e->aggregate_type},
                 {"event_type", &e->event_type},
                 {"topic", &e->topic}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (e->is_oversize && texts[i].value->len == EVENT_TEXT_CUT)
            *texts[i].value = event_whole_characters(*texts[i].value);
        struct bytes v = *texts[i].value;
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
