/* SPDX-License-Identifier: MIT */
/*
 * Messages are written straight into the arena: the room is counted first (a
 * string without special characters needs its own length and two quotes), then
 * filled. The payload is minified to where it belongs, in the same pass that
 * finds out whether it is JSON.
 */
#include "core/envelope.h"

#include "base/hex.h"
#include "base/json.h"
#include "base/json_write.h"

static char *envelope_put(char *p, struct bytes b)
{
    if (b.len > 0)
        memcpy(p, b.data, b.len);
    return p + b.len;
}

/* One member in front of the payload: `,"name":` as it stands, and a string. */
struct member {
    struct bytes name;
    struct bytes value;
    size_t room; /* of the value with its quotes */
};

#define MEMBERS_MAX 8

struct message {
    struct member members[MEMBERS_MAX];
    size_t n;
    size_t room; /* of all members */
    /* How the payload is introduced: as JSON, as a string, as base64. */
    struct bytes json_name, text_name, base64_name;
    struct bytes null_text; /* where there is no payload */
};

static void envelope_add(struct message *m, struct bytes name, struct bytes value)
{
    size_t room = outrider__json_string_len(value);
    m->members[m->n++] = (struct member){name, value, room};
    m->room += name.len + room;
}

static char *envelope_put_members(char *p, const struct message *m)
{
    for (size_t i = 0; i < m->n; i++) {
        p = envelope_put(p, m->members[i].name);
        p = outrider__json_put_string(p, m->members[i].value, m->members[i].room);
    }
    return p;
}

/* Spares most payloads that are not JSON the try, and the room for it. */
static bool envelope_may_be_json(struct bytes b)
{
    size_t i = 0;
    while (i < b.len &&
           (b.data[i] == ' ' || b.data[i] == '\n' || b.data[i] == '\t' || b.data[i] == '\r'))
        i++;
    if (i == b.len || b.data[i] == '\0')
        return false;
    return strchr("{[\"-0123456789tfn", b.data[i]) != NULL;
}

static int envelope_build_json(const struct message *m, struct bytes payload, struct arena *arena,
                               struct bytes *ret, struct outrider_error *err)
{
    char *start = outrider__arena_alloc(arena, m->room + m->json_name.len + payload.len + 1);
    if (start == NULL)
        return outrider__fail_nomem(err);
    char *p = envelope_put(envelope_put_members(start, m), m->json_name);
    ssize_t len = outrider__json_minify(payload, p);
    if (len < 0)
        return 0;
    p += len;
    *p++ = '}';
    *ret = bytes_of(start, (size_t)(p - start));
    return 1;
}

static int envelope_build_other(const struct message *m, struct bytes payload, struct arena *arena,
                                struct bytes *ret, struct outrider_error *err)
{
    bool is_null = bytes_is_null(payload), is_text = outrider__bytes_is_utf8(payload);
    struct bytes name = is_null ? m->null_text : is_text ? m->text_name : m->base64_name;
    size_t room = is_null   ? 0
                  : is_text ? outrider__json_string_len(payload)
                            : base64_len(payload.len) + 2;
    char *start = outrider__arena_alloc(arena, m->room + name.len + room + 1);
    if (start == NULL)
        return outrider__fail_nomem(err);
    char *p = envelope_put(envelope_put_members(start, m), name);
    if (!is_null && is_text) {
        p = outrider__json_put_string(p, payload, room);
    } else if (!is_null) {
        *p++ = '"';
        p = outrider__base64_put(p, payload);
        *p++ = '"';
    }
    *p++ = '}';
    *ret = bytes_of(start, (size_t)(p - start));
    return 0;
}

static int envelope_build(const struct message *m, struct bytes payload, struct arena *arena,
                          struct bytes *ret, struct outrider_error *err)
{
    if (envelope_may_be_json(payload)) {
        int r = envelope_build_json(m, payload, arena, ret, err);
        if (r != 0)
            return r < 0 ? -1 : 0;
    }
    return envelope_build_other(m, payload, arena, ret, err);
}

int outrider__envelope_build(const struct event *e, struct arena *arena, struct bytes *ret_payload,
                             struct outrider_error *err)
{
    char time[CLOCK_TEXT_SIZE];
    struct message m;
    m.n = m.room = 0;
    m.json_name = m.text_name = BYTES_LIT(",\"version\":\"1.0.0\",\"payload\":");
    m.base64_name = BYTES_LIT(",\"version\":\"1.0.0\",\"payloadBase64\":");
    m.null_text = BYTES_LIT(",\"version\":\"1.0.0\",\"payload\":null");
    struct bytes aggregate_id;
    outrider__clock_format(event_time_us(e), time);
    if (outrider__hex_show(e->aggregate_id, arena, &aggregate_id) < 0)
        return outrider__fail_nomem(err);
    envelope_add(&m, BYTES_LIT("{\"eventId\":"), e->id);
    envelope_add(&m, BYTES_LIT(",\"eventType\":"), e->event_type);
    envelope_add(&m, BYTES_LIT(",\"aggregateId\":"), aggregate_id);
    envelope_add(&m, BYTES_LIT(",\"aggregateType\":"), e->aggregate_type);
    envelope_add(&m, BYTES_LIT(",\"occurredAt\":"), bytes_str(time));
    return envelope_build(&m, e->payload, arena, ret_payload, err);
}

/* The value of the event's header as it stands in their JSON; NULL data: leave it out. */
static struct bytes envelope_raw_header(const struct event *e, const struct object_member *o,
                                        struct arena *arena)
{
    struct json_members m;
    struct bytes key, raw, text;
    struct bytes otherwise = o->is_column ? BYTES_NULL : BYTES_LIT("null");
    if (e->headers.len == 0 || outrider__json_members_begin(&m, e->headers) < 0)
        return otherwise;
    while (outrider__json_members_next(&m, &key, &raw) > 0)
        if (outrider__json_unescape(key, arena, &text) == 0 && bytes_eq(text, o->header))
            return raw;
    return otherwise;
}

/* Room for put_payload. */
static size_t envelope_payload_room(struct bytes payload)
{
    size_t text = outrider__json_string_len(payload), base64 = base64_len(payload.len) + 2;
    return text > base64 ? text : base64;
}

static char *envelope_put_payload(char *p, struct bytes payload, bool is_string)
{
    ssize_t len =
        !is_string && envelope_may_be_json(payload) ? outrider__json_minify(payload, p) : -1;
    if (bytes_is_null(payload))
        return envelope_put(p, BYTES_LIT("null"));
    if (len >= 0)
        return p + len;
    if (outrider__bytes_is_utf8(payload))
        return outrider__json_put_string(p, payload, outrider__json_string_len(payload));
    *p++ = '"';
    p = outrider__base64_put(p, payload);
    *p++ = '"';
    return p;
}

int outrider__object_build(const struct event *e, const struct object_member *members, size_t n,
                           bool payload_is_string, struct arena *arena, struct bytes *ret_payload,
                           struct outrider_error *err)
{
    struct bytes *values = outrider__arena_alloc(arena, n * sizeof *values);
    size_t room = sizeof "{\"payload\":null}" + envelope_payload_room(e->payload);
    if (values == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        values[i] = envelope_raw_header(e, &members[i], arena);
        room += outrider__json_string_len(members[i].name) + values[i].len + 2;
    }
    char *start = outrider__arena_alloc(arena, room), *p = start;
    if (start == NULL)
        return outrider__fail_nomem(err);
    p = envelope_put_payload(envelope_put(p, BYTES_LIT("{\"payload\":")), e->payload,
                             payload_is_string);
    for (size_t i = 0; i < n; i++) {
        if (bytes_is_null(values[i]))
            continue;
        *p++ = ',';
        p = outrider__json_put_string(p, members[i].name,
                                      outrider__json_string_len(members[i].name));
        *p++ = ':';
        p = envelope_put(p, values[i]);
    }
    *p++ = '}';
    *ret_payload = bytes_of(start, (size_t)(p - start));
    return 0;
}

int outrider__cloudevent_build(const struct event *e, struct bytes source, struct arena *arena,
                               struct bytes *ret_payload, struct outrider_error *err)
{
    char time[CLOCK_TEXT_SIZE];
    struct message m;
    m.n = m.room = 0;
    m.json_name = BYTES_LIT(",\"datacontenttype\":\"application/json\",\"data\":");
    m.text_name = BYTES_LIT(",\"datacontenttype\":\"text/plain; charset=utf-8\",\"data\":");
    m.base64_name = BYTES_LIT(",\"datacontenttype\":\"application/octet-stream\",\"data_base64\":");
    m.null_text = BYTES_LIT("");
    struct bytes subject;
    outrider__clock_format(event_time_us(e), time);
    if (outrider__hex_show(e->aggregate_id, arena, &subject) < 0)
        return outrider__fail_nomem(err);
    envelope_add(&m, BYTES_LIT("{\"specversion\":\"1.0\",\"id\":"), e->id);
    envelope_add(&m, BYTES_LIT(",\"source\":"), source);
    envelope_add(&m, BYTES_LIT(",\"type\":"), e->event_type);
    envelope_add(&m, BYTES_LIT(",\"subject\":"), subject);
    envelope_add(&m, BYTES_LIT(",\"time\":"), bytes_str(time));
    return envelope_build(&m, e->payload, arena, ret_payload, err);
}
