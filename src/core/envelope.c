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

/* How many bytes a byte of a JSON string takes: itself, \n, or \u0000. */
static size_t width_of(unsigned char c)
{
    if (c >= 0x20)
        return c == '"' || c == '\\' ? 2 : 1;
    return c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t' ? 2 : 6;
}

#define ONES 0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

/* Whether all bytes can stand in a JSON string as they are and are ASCII: names
 * and ids are, nearly always. Eight at a time; a borrow can only say no too often. */
static bool is_plain(struct bytes b)
{
    size_t i = 0;
    for (; i + 8 <= b.len; i += 8) {
        uint64_t w;
        memcpy(&w, b.data + i, 8);
        uint64_t quote = w ^ (ONES * '"'), slash = w ^ (ONES * '\\');
        if (((quote - ONES) | (slash - ONES) | (w - ONES * 0x20) | w) & HIGHS)
            return false;
    }
    for (; i < b.len; i++)
        if ((unsigned char)b.data[i] >= 0x80 || width_of((unsigned char)b.data[i]) != 1)
            return false;
    return true;
}

/* Bytes that are not UTF-8 become U+FFFD, three bytes each. */
static size_t string_room(struct bytes b)
{
    size_t n = 2;
    if (is_plain(b))
        return b.len + 2;
    bool is_utf8 = outrider__bytes_is_utf8(b);
    for (size_t i = 0; i < b.len; i++)
        n += !is_utf8 && (unsigned char)b.data[i] >= 0x80 ? 3 : width_of((unsigned char)b.data[i]);
    return n;
}

static char *put(char *p, struct bytes b)
{
    if (b.len > 0)
        memcpy(p, b.data, b.len);
    return p + b.len;
}

static char *put_escape(char *p, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    *p++ = '\\';
    switch (c) {
    case '\b':
        *p++ = 'b';
        return p;
    case '\f':
        *p++ = 'f';
        return p;
    case '\n':
        *p++ = 'n';
        return p;
    case '\r':
        *p++ = 'r';
        return p;
    case '\t':
        *p++ = 't';
        return p;
    default:
        break;
    }
    if (c >= 0x20) {
        *p++ = (char)c;
        return p;
    }
    p = put(p, BYTES_LIT("u00"));
    *p++ = hex[c >> 4];
    *p++ = hex[c & 15];
    return p;
}

/* room is what string_room said: if that is the plain length, nothing needs a look. */
static char *put_string(char *p, struct bytes b, size_t room)
{
    *p++ = '"';
    if (room == b.len + 2) {
        p = put(p, b);
    } else {
        bool is_utf8 = outrider__bytes_is_utf8(b);
        for (size_t i = 0; i < b.len; i++) {
            unsigned char c = (unsigned char)b.data[i];
            if (!is_utf8 && c >= 0x80)
                p = put(p, BYTES_LIT("\xef\xbf\xbd"));
            else if (width_of(c) > 1)
                p = put_escape(p, c);
            else
                *p++ = (char)c;
        }
    }
    *p++ = '"';
    return p;
}

static char *put_base64(char *p, struct bytes b)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)b.data;
    for (size_t i = 0; i < b.len; i += 3) {
        size_t left = b.len - i;
        unsigned v = (unsigned)in[i] << 16 | (left > 1 ? (unsigned)in[i + 1] << 8 : 0) |
                     (left > 2 ? in[i + 2] : 0);
        *p++ = digits[v >> 18 & 63];
        *p++ = digits[v >> 12 & 63];
        *p++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *p++ = left > 2 ? digits[v & 63] : '=';
    }
    return p;
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

static void add(struct message *m, struct bytes name, struct bytes value)
{
    size_t room = string_room(value);
    m->members[m->n++] = (struct member){name, value, room};
    m->room += name.len + room;
}

static char *put_members(char *p, const struct message *m)
{
    for (size_t i = 0; i < m->n; i++) {
        p = put(p, m->members[i].name);
        p = put_string(p, m->members[i].value, m->members[i].room);
    }
    return p;
}

/* Spares most payloads that are not JSON the try, and the room for it. */
static bool may_be_json(struct bytes b)
{
    size_t i = 0;
    while (i < b.len &&
           (b.data[i] == ' ' || b.data[i] == '\n' || b.data[i] == '\t' || b.data[i] == '\r'))
        i++;
    if (i == b.len || b.data[i] == '\0')
        return false;
    return strchr("{[\"-0123456789tfn", b.data[i]) != NULL;
}

static int build_json(const struct message *m, struct bytes payload, struct arena *arena,
                      struct bytes *ret, struct outrider_error *err)
{
    char *start = outrider__arena_alloc(arena, m->room + m->json_name.len + payload.len + 1);
    if (start == NULL)
        return outrider__fail_nomem(err);
    char *p = put(put_members(start, m), m->json_name);
    ssize_t len = outrider__json_minify(payload, p);
    if (len < 0)
        return 0;
    p += len;
    *p++ = '}';
    *ret = bytes_of(start, (size_t)(p - start));
    return 1;
}

static int build_other(const struct message *m, struct bytes payload, struct arena *arena,
                       struct bytes *ret, struct outrider_error *err)
{
    bool is_null = bytes_is_null(payload), is_text = outrider__bytes_is_utf8(payload);
    struct bytes name = is_null ? m->null_text : is_text ? m->text_name : m->base64_name;
    size_t room = is_null ? 0 : is_text ? string_room(payload) : (payload.len + 2) / 3 * 4 + 2;
    char *start = outrider__arena_alloc(arena, m->room + name.len + room + 1);
    if (start == NULL)
        return outrider__fail_nomem(err);
    char *p = put(put_members(start, m), name);
    if (!is_null && is_text) {
        p = put_string(p, payload, room);
    } else if (!is_null) {
        *p++ = '"';
        p = put_base64(p, payload);
        *p++ = '"';
    }
    *p++ = '}';
    *ret = bytes_of(start, (size_t)(p - start));
    return 0;
}

static int build(const struct message *m, struct bytes payload, struct arena *arena,
                 struct bytes *ret, struct outrider_error *err)
{
    if (may_be_json(payload)) {
        int r = build_json(m, payload, arena, ret, err);
        if (r != 0)
            return r < 0 ? -1 : 0;
    }
    return build_other(m, payload, arena, ret, err);
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
    add(&m, BYTES_LIT("{\"eventId\":"), e->id);
    add(&m, BYTES_LIT(",\"eventType\":"), e->event_type);
    add(&m, BYTES_LIT(",\"aggregateId\":"), aggregate_id);
    add(&m, BYTES_LIT(",\"aggregateType\":"), e->aggregate_type);
    add(&m, BYTES_LIT(",\"occurredAt\":"), bytes_str(time));
    return build(&m, e->payload, arena, ret_payload, err);
}

/* The value of the event's header as it stands in their JSON; NULL data: leave it out. */
static struct bytes raw_header(const struct event *e, const struct object_member *o,
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
static size_t payload_room(struct bytes payload)
{
    size_t text = string_room(payload), base64 = (payload.len + 2) / 3 * 4 + 2;
    return text > base64 ? text : base64;
}

static char *put_payload(char *p, struct bytes payload, bool is_string)
{
    ssize_t len = !is_string && may_be_json(payload) ? outrider__json_minify(payload, p) : -1;
    if (bytes_is_null(payload))
        return put(p, BYTES_LIT("null"));
    if (len >= 0)
        return p + len;
    if (outrider__bytes_is_utf8(payload))
        return put_string(p, payload, string_room(payload));
    *p++ = '"';
    p = put_base64(p, payload);
    *p++ = '"';
    return p;
}

int outrider__object_build(const struct event *e, const struct object_member *members, size_t n,
                           bool payload_is_string, struct arena *arena, struct bytes *ret_payload,
                           struct outrider_error *err)
{
    struct bytes *values = outrider__arena_alloc(arena, n * sizeof *values);
    size_t room = sizeof "{\"payload\":null}" + payload_room(e->payload);
    if (values == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        values[i] = raw_header(e, &members[i], arena);
        room += string_room(members[i].name) + values[i].len + 2;
    }
    char *start = outrider__arena_alloc(arena, room), *p = start;
    if (start == NULL)
        return outrider__fail_nomem(err);
    p = put_payload(put(p, BYTES_LIT("{\"payload\":")), e->payload, payload_is_string);
    for (size_t i = 0; i < n; i++) {
        if (bytes_is_null(values[i]))
            continue;
        *p++ = ',';
        p = put_string(p, members[i].name, string_room(members[i].name));
        *p++ = ':';
        p = put(p, values[i]);
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
    add(&m, BYTES_LIT("{\"specversion\":\"1.0\",\"id\":"), e->id);
    add(&m, BYTES_LIT(",\"source\":"), source);
    add(&m, BYTES_LIT(",\"type\":"), e->event_type);
    add(&m, BYTES_LIT(",\"subject\":"), subject);
    add(&m, BYTES_LIT(",\"time\":"), bytes_str(time));
    return build(&m, e->payload, arena, ret_payload, err);
}
