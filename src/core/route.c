/* SPDX-License-Identifier: MIT */
#include "core/route.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/envelope.h"
#include "core/headers.h"
#include "core/regex_route.h"
#include "core/template.h"

/* Names with a number each, found by hash: at most half full. */
struct name_table {
    struct name_slot {
        struct bytes name; /* NULL data: free */
        size_t number;
    } * slots;
    size_t mask; /* 0: empty table */
};

/* Topics made lately, for events of the same two types in the same batch. */
struct topic_made {
    const struct arena *arena;
    uint64_t generation;
    struct bytes aggregate_type, event_type, topic;
};

#define TOPICS_MADE 16

struct router {
    struct arena arena;
    struct topic_made *made; /* TOPICS_MADE of them; NULL: the template asks for more than types */
    struct name_table aggregate_types, event_types; /* select */
    struct name_table by_type;
    struct template *by_type_topics;
    struct regex_route *regex; /* or NULL */
    struct template topic;
    struct template dead_letter;
    struct bytes dead_letter_text; /* what dead_letter was compiled from; NULL data: nothing */
    enum form form;
    struct bytes source_uri;
    bool payload_is_string; /* FORM_OBJECT, as the next */
    bool empty_is_tombstone;
    struct header_plan headers;
};

static int route_table_init(struct name_table *t, size_t n, struct arena *arena)
{
    size_t size = 4;
    if (n == 0)
        return 0;
    while (size < 2 * n)
        size *= 2;
    t->slots = outrider__arena_alloc(arena, size * sizeof *t->slots);
    if (t->slots == NULL)
        return -1;
    memset(t->slots, 0, size * sizeof *t->slots);
    t->mask = size - 1;
    return 0;
}

static struct name_slot *route_table_slot(const struct name_table *t, struct bytes name)
{
    size_t i = outrider__bytes_hash(name) & t->mask;
    while (!bytes_is_null(t->slots[i].name) && !bytes_eq(t->slots[i].name, name))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

static int route_table_put(struct name_table *t, const char *name, size_t number,
                           struct arena *arena)
{
    struct name_slot *slot = route_table_slot(t, bytes_str(name));
    slot->number = number;
    return outrider__arena_dup(arena, bytes_str(name), &slot->name);
}

static const struct name_slot *route_table_find(const struct name_table *t, struct bytes name)
{
    if (t->mask == 0)
        return NULL;
    const struct name_slot *slot = route_table_slot(t, name);
    return bytes_is_null(slot->name) ? NULL : slot;
}

static int route_table_of_list(struct name_table *t, const struct string_list *list,
                               struct arena *arena)
{
    if (route_table_init(t, list->n, arena) < 0)
        return -1;
    for (size_t i = 0; i < list->n; i++)
        if (route_table_put(t, list->items[i], i, arena) < 0)
            return -1;
    return 0;
}

static int route_compile_template(struct router *r, const char *option, const char *text,
                                  bool with_topic, struct template *ret, struct outrider_error *err)
{
    struct template_rules rules = {.with_topic = with_topic};
    struct outrider_error why;
    if (outrider__template_compile(bytes_str(text), &rules, &r->arena, ret, &why) < 0)
        return outrider__fail(err, why.code, why.disposition, "option '%s': %s", option,
                              why.message);
    return 0;
}

static int route_init_by_type(struct router *r, const struct string_map *map,
                              struct outrider_error *err)
{
    r->by_type_topics = outrider__arena_alloc(&r->arena, map->n * sizeof *r->by_type_topics);
    if (r->by_type_topics == NULL || route_table_init(&r->by_type, map->n, &r->arena) < 0)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < map->n; i++) {
        const struct string_pair *pair = &map->items[i];
        if (pair->value[0] == '\0')
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "option 'route.by_type': '%.100s' has no topic", pair->name);
        if (route_compile_template(r, "route.by_type", pair->value, false, &r->by_type_topics[i],
                                   err) < 0)
            return -1;
        if (route_table_put(&r->by_type, pair->name, i, &r->arena) < 0)
            return outrider__fail_nomem(err);
    }
    return 0;
}

static int route_init_dead_letter(struct router *r, const char *topic, struct outrider_error *err)
{
    if (topic == NULL)
        return 0;
    if (outrider__arena_dup(&r->arena, bytes_str(topic), &r->dead_letter_text) < 0)
        return outrider__fail_nomem(err);
    return route_compile_template(r, "dead_letter.topic", topic, true, &r->dead_letter, err);
}

static bool route_needs_only_types(const struct template *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->segments[i].kind != TEMPLATE_LITERAL &&
            t->segments[i].kind != TEMPLATE_AGGREGATE_TYPE &&
            t->segments[i].kind != TEMPLATE_EVENT_TYPE)
            return false;
    return true;
}

static int route_init_made(struct router *r, struct outrider_error *err)
{
    size_t size = TOPICS_MADE * sizeof *r->made;
    if (!route_needs_only_types(&r->topic))
        return 0;
    r->made = outrider__arena_alloc(&r->arena, size);
    if (r->made == NULL)
        return outrider__fail_nomem(err);
    memset(r->made, 0, size);
    return 0;
}

static int route_router_init(struct router *r, const struct pipeline_config *c,
                             struct outrider_error *err)
{
    const char *uri = c->source_uri != NULL ? c->source_uri : "";
    const char *topic = c->route.topic != NULL ? c->route.topic : "";
    r->form = (enum form)c->form;
    r->payload_is_string = c->object.payload == OBJECT_PAYLOAD_STRING;
    r->empty_is_tombstone = c->sink.empty_is_tombstone;
    if (route_table_of_list(&r->aggregate_types, &c->select.aggregate_types, &r->arena) < 0 ||
        route_table_of_list(&r->event_types, &c->select.event_types, &r->arena) < 0 ||
        outrider__arena_dup(&r->arena, bytes_str(uri), &r->source_uri) < 0)
        return outrider__fail_nomem(err);
    if (route_init_by_type(r, &c->route.by_type, err) < 0 ||
        route_compile_template(r, "route.topic", topic, false, &r->topic, err) < 0 ||
        route_init_made(r, err) < 0 || route_init_dead_letter(r, c->dead_letter.topic, err) < 0)
        return -1;
    if (c->route.regex != NULL &&
        outrider__regex_route_new(c->route.regex_field, c->route.regex,
                                  c->route.replacement != NULL ? c->route.replacement : "",
                                  &r->regex, err) < 0)
        return -1;
    return outrider__headers_plan(c, &r->arena, &r->headers, err);
}

int outrider__router_new(const struct pipeline_config *config, struct router **ret_router,
                         struct outrider_error *err)
{
    struct router *r = calloc(1, sizeof *r);
    if (r == NULL)
        return outrider__fail_nomem(err);
    outrider__arena_init(&r->arena, 4096);
    if (route_router_init(r, config, err) < 0) {
        outrider__router_free(r);
        return -1;
    }
    *ret_router = r;
    return 0;
}

void outrider__router_free(struct router *r)
{
    if (r == NULL)
        return;
    outrider__regex_route_free(r->regex);
    outrider__arena_release(&r->arena);
    free(r);
}

bool outrider__router_selects(const struct router *r, const struct event *e)
{
    if (r->aggregate_types.mask != 0 &&
        route_table_find(&r->aggregate_types, e->aggregate_type) == NULL)
        return false;
    return r->event_types.mask == 0 || route_table_find(&r->event_types, e->event_type) != NULL;
}

static int route_topic_by_template(const struct router *r, const struct event *e,
                                   struct arena *arena, struct bytes *ret_topic,
                                   struct outrider_error *err)
{
    struct template_input in = {.event = e};
    if (r->made == NULL || e->event_type.len == 0)
        return outrider__template_render(&r->topic, &in, arena, ret_topic, err);
    uint64_t slot = outrider__bytes_hash(e->event_type) + e->aggregate_type.len;
    struct topic_made *m = &r->made[slot % TOPICS_MADE];
    if (m->arena == arena && m->generation == arena->generation &&
        bytes_eq(m->event_type, e->event_type) && bytes_eq(m->aggregate_type, e->aggregate_type)) {
        *ret_topic = m->topic;
        return 0;
    }
    if (outrider__template_render(&r->topic, &in, arena, ret_topic, err) < 0)
        return -1;
    *m =
        (struct topic_made){arena, arena->generation, e->aggregate_type, e->event_type, *ret_topic};
    return 0;
}

static int route_find_topic(const struct router *r, const struct event *e, struct arena *arena,
                            struct bytes *ret_topic, struct outrider_error *err)
{
    struct template_input in = {.event = e};
    if (e->topic.len > 0) {
        *ret_topic = e->topic;
        return 0;
    }
    const struct name_slot *slot = route_table_find(&r->by_type, e->event_type);
    if (slot != NULL)
        return outrider__template_render(&r->by_type_topics[slot->number], &in, arena, ret_topic,
                                         err);
    if (r->regex != NULL) {
        int found = outrider__regex_route_apply(r->regex, e, arena, ret_topic, err);
        if (found != 0)
            return found < 0 ? -1 : 0;
    }
    return route_topic_by_template(r, e, arena, ret_topic, err);
}

/* As Debezium has it: what is nothing but white space and control characters. */
static bool route_is_blank(struct bytes text)
{
    size_t i = 0;
    while (i < text.len && (unsigned char)text.data[i] <= ' ')
        i++;
    return i == text.len;
}

static int route_build_payload(const struct router *r, const struct event *e, struct arena *arena,
                               struct bytes *ret_payload, struct outrider_error *err)
{
    bool is_tombstone = r->empty_is_tombstone && route_is_blank(e->payload);
    switch (r->form) {
    case FORM_ENVELOPE:
        return outrider__envelope_build(e, arena, ret_payload, err);
    case FORM_CLOUDEVENTS:
        return outrider__cloudevent_build(e, r->source_uri, arena, ret_payload, err);
    case FORM_OBJECT:
        if (is_tombstone)
            break;
        return outrider__object_build(e, r->headers.members, r->headers.n_members,
                                      r->payload_is_string, arena, ret_payload, err);
    case FORM_RAW:
    case FORM_CLOUDEVENTS_BINARY:
        break;
    }
    *ret_payload = is_tombstone ? BYTES_NULL : e->payload;
    return 0;
}

static void route_set_addressing(const struct event *e, struct delivery *d)
{
    d->key = event_key(e);
    d->partition = e->partition;
    d->timestamp_us = event_time_us(e);
}

int outrider__router_route(const struct router *r, struct event *e, bool with_headers,
                           struct outrider_error *err)
{
    struct arena *arena = &e->batch->arena;
    struct delivery d = {.sink_data = NULL};
    struct header *headers = NULL;
    if (route_find_topic(r, e, arena, &d.topic, err) < 0)
        return -1;
    if (d.topic.len == 0)
        return outrider__fail(err, OUTRIDER_ROUTE, OUTRIDER_DEAD,
                              "no topic for the event: give it one, or route its type with "
                              "route.by_type or route.topic");
    if (route_build_payload(r, e, arena, &d.payload, err) < 0)
        return -1;
    if (with_headers &&
        outrider__headers_build(&r->headers, e, 0, false, arena, &headers, &d.n_headers, err) < 0)
        return -1;
    d.headers = headers;
    route_set_addressing(e, &d);
    e->delivery = d;
    return 0;
}

static int route_dead_letter_topic(const struct router *r, const struct event *e, const char *topic,
                                   struct bytes original, struct bytes *ret_topic,
                                   struct outrider_error *err)
{
    struct arena *arena = &e->batch->arena;
    struct template_input in = {.event = e, .topic = original};
    if (!bytes_is_null(r->dead_letter_text) && bytes_eq_str(r->dead_letter_text, topic)) {
        if (outrider__template_render(&r->dead_letter, &in, arena, ret_topic, err) < 0)
            return -1;
    } else if (outrider__arena_dup(arena, bytes_str(topic), ret_topic) < 0) {
        return outrider__fail_nomem(err);
    }
    if (ret_topic->len == 0)
        return outrider__fail(err, OUTRIDER_ROUTE, OUTRIDER_DEAD, "no topic for the dead letter");
    return 0;
}

static int route_put_number(struct header *h, struct bytes name, uint64_t number,
                            struct arena *arena)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    h->name = name;
    return outrider__arena_dup(arena, bytes_str(text), &h->value);
}

#define DEAD_LETTER_HEADERS 5

static int route_put_reasons(const struct event *e, struct bytes original,
                             const struct outrider_error *why, struct header *out, size_t *n)
{
    struct arena *arena = &e->batch->arena;
    struct header *h = out + *n;
    h->name = BYTES_LIT("x-error-code");
    h->value = bytes_str(outrider_code_name(why->code));
    h++;
    h->name = BYTES_LIT("x-error-message");
    if (outrider__arena_dup(arena, bytes_str(why->message), &h->value) < 0)
        return -1;
    h++;
    if (route_put_number(h++, BYTES_LIT("x-attempts"), e->attempts, arena) < 0)
        return -1;
    if (original.len > 0)
        *h++ = (struct header){BYTES_LIT("x-original-topic"), original};
    if (e->is_oversize && bytes_is_null(e->payload) &&
        route_put_number(h++, BYTES_LIT("x-payload-size"), (uint64_t)e->payload_len, arena) < 0)
        return -1;
    *n = (size_t)(h - out);
    return 0;
}

int outrider__router_dead_letter(const struct router *r, struct event *e, const char *topic,
                                 const struct outrider_error *why, bool with_headers,
                                 struct outrider_error *err)
{
    struct arena *arena = &e->batch->arena;
    bool is_routed = !bytes_is_null(e->delivery.topic);
    struct bytes original = is_routed ? e->delivery.topic : e->topic;
    struct delivery d = {.payload = e->delivery.payload};
    struct header *headers = NULL;
    if (route_dead_letter_topic(r, e, topic, original, &d.topic, err) < 0)
        return -1;
    if (!is_routed && route_build_payload(r, e, arena, &d.payload, err) < 0)
        return -1;
    /* A tombstone would delete the key in a compacted topic. */
    if (e->is_oversize && bytes_is_null(d.payload))
        d.payload = BYTES_LIT("");
    if (with_headers) {
        if (outrider__headers_build(&r->headers, e, DEAD_LETTER_HEADERS, true, arena, &headers,
                                    &d.n_headers, err) < 0)
            return -1;
        if (route_put_reasons(e, original, why, headers, &d.n_headers) < 0)
            return outrider__fail_nomem(err);
    }
    d.headers = headers;
    route_set_addressing(e, &d);
    /* The partition was chosen for another topic, which may have more of them. */
    d.partition = -1;
    e->delivery = d;
    return 0;
}
