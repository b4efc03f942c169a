/* SPDX-License-Identifier: MIT */
#include "core/event_json.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"

struct reader {
    struct arena *arena;
    struct outrider_event *event;
    struct outrider_error *err;
    const char *key; /* of the member at hand, for errors */
};

static int event_json_wrong(struct reader *r, const char *what)
{
    return outrider__fail(r->err, OUTRIDER_INVALID, OUTRIDER_STOP, "'%s' %s", r->key, what);
}

static bool event_json_is_null(struct bytes value)
{
    return bytes_eq(value, BYTES_LIT("null"));
}

/* A string decoded, or a number as it stands; NULL for null. */
static int event_json_read_text(struct reader *r, struct bytes value, const char **ret_text)
{
    struct bytes text;
    if (event_json_is_null(value)) {
        *ret_text = NULL;
        return 0;
    }
    if (value.data[0] != '"' && value.data[0] != '-' &&
        !(value.data[0] >= '0' && value.data[0] <= '9'))
        return event_json_wrong(r, "must be a string");
    if (outrider__json_text(value, r->arena, &text) < 0 ||
        outrider__arena_dup(r->arena, text, &text) < 0)
        return outrider__fail_nomem(r->err);
    if (text.len && memchr(text.data, 0, text.len))
        return event_json_wrong(r, "holds a zero byte");
    *ret_text = text.data;
    return 0;
}

static int event_json_read_aggregate_type(struct reader *r, struct bytes value)
{
    return event_json_read_text(r, value, &r->event->aggregate_type);
}

static int event_json_read_aggregate_id(struct reader *r, struct bytes value)
{
    return event_json_read_text(r, value, &r->event->aggregate_id);
}

static int read_event_type(struct reader *r, struct bytes value)
{
    return event_json_read_text(r, value, &r->event->event_type);
}

static int event_json_read_id(struct reader *r, struct bytes value)
{
    return event_json_read_text(r, value, &r->event->id);
}

static int event_json_read_topic(struct reader *r, struct bytes value)
{
    return event_json_read_text(r, value, &r->event->topic);
}

static int event_json_read_key(struct reader *r, struct bytes value)
{
    return event_json_read_text(r, value, &r->event->partition_key);
}

static int event_json_read_time(struct reader *r, struct bytes value, int64_t *ret_us)
{
    const char *text = NULL;
    if (event_json_read_text(r, value, &text) < 0)
        return -1;
    if (text && outrider__clock_parse(bytes_str(text), ret_us) < 0)
        return event_json_wrong(r, "must be a time such as 2026-01-31T08:00:00Z");
    return 0;
}

static int event_json_read_occurred_at(struct reader *r, struct bytes value)
{
    return event_json_read_time(r, value, &r->event->occurred_at_us);
}

static int event_json_read_expires_at(struct reader *r, struct bytes value)
{
    return event_json_read_time(r, value, &r->event->expires_at_us);
}

static int event_json_read_partition(struct reader *r, struct bytes value)
{
    int64_t n = 0;
    if (event_json_is_null(value))
        return 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9' || n > INT32_MAX)
            return event_json_wrong(r, "must be a whole number that is not negative");
        n = n * 10 + (value.data[i] - '0');
    }
    if (n > INT32_MAX)
        return event_json_wrong(r, "is too large");
    r->event->partition = (int32_t)n;
    return 0;
}

static int event_json_read_headers(struct reader *r, struct bytes value)
{
    struct bytes copy;
    if (event_json_is_null(value))
        return 0;
    if (value.data[0] != '{')
        return event_json_wrong(r, "must be an object of strings");
    if (outrider__arena_dup(r->arena, value, &copy) < 0)
        return outrider__fail_nomem(r->err);
    r->event->headers = copy.data;
    return 0;
}

static int event_json_set_payload(struct reader *r, struct bytes payload)
{
    if (r->event->payload)
        return outrider__fail(r->err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "only one of 'payload', 'payload_text' and 'payload_base64' may be "
                              "given");
    r->event->payload = payload.data;
    r->event->payload_len = payload.len;
    return 0;
}

static int event_json_read_payload(struct reader *r, struct bytes value)
{
    return event_json_set_payload(r, value);
}

/* The inside of a string, decoded; an empty one is not NULL. */
static int event_json_read_string(struct reader *r, struct bytes value, struct bytes *ret_text)
{
    if (value.data[0] != '"')
        return event_json_wrong(r, "must be a string");
    if (outrider__json_text(value, r->arena, ret_text) < 0)
        return outrider__fail_nomem(r->err);
    if (bytes_is_null(*ret_text))
        *ret_text = BYTES_LIT("");
    return 0;
}

static int event_json_read_payload_text(struct reader *r, struct bytes value)
{
    struct bytes text = BYTES_NULL;
    return event_json_read_string(r, value, &text) < 0 ? -1 : event_json_set_payload(r, text);
}

static int event_json_read_payload_base64(struct reader *r, struct bytes value)
{
    struct bytes text = BYTES_NULL, data;
    if (event_json_read_string(r, value, &text) < 0)
        return -1;
    if (outrider__base64_decode(text, r->arena, &data) < 0)
        return event_json_wrong(r, "is not base64");
    return event_json_set_payload(r, data);
}

static const struct {
    const char *key;
    int (*read)(struct reader *r, struct bytes value);
} keys[] = {
    {"aggregate_type", event_json_read_aggregate_type},
    {"aggregate_id", event_json_read_aggregate_id},
    {"event_type", read_event_type},
    {"payload", event_json_read_payload},
    {"payload_text", event_json_read_payload_text},
    {"payload_base64", event_json_read_payload_base64},
    {"headers", event_json_read_headers},
    {"topic", event_json_read_topic},
    {"partition_key", event_json_read_key},
    {"key", event_json_read_key},
    {"partition", event_json_read_partition},
    {"id", event_json_read_id},
    {"occurred_at", event_json_read_occurred_at},
    {"expires_at", event_json_read_expires_at},
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static int event_json_read_member(struct reader *r, struct bytes raw_key, struct bytes value,
                                  unsigned *seen)
{
    struct bytes key;
    if (outrider__json_unescape(raw_key, r->arena, &key) < 0)
        return outrider__fail_nomem(r->err);
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!bytes_eq_str(key, keys[i].key))
            continue;
        r->key = keys[i].key;
        if (*seen & 1u << i)
            return event_json_wrong(r, "stands twice");
        *seen |= 1u << i;
        return keys[i].read(r, value);
    }
    return outrider__fail(r->err, OUTRIDER_INVALID, OUTRIDER_STOP, "unknown key '%.*s'",
                          (int)(key.len < 60 ? key.len : 60), key.data);
}

static int event_json_check_required(struct reader *r)
{
    const struct outrider_event *e = r->event;
    const char *missing = NULL;
    if (e->aggregate_type == NULL)
        missing = "aggregate_type";
    else if (e->aggregate_id == NULL)
        missing = "aggregate_id";
    else if (e->event_type == NULL)
        missing = "event_type";
    else if (e->payload == NULL)
        missing = "payload";
    if (missing == NULL)
        return 0;
    return outrider__fail(r->err, OUTRIDER_INVALID, OUTRIDER_STOP, "'%s' is missing", missing);
}

int outrider__event_from_json(struct bytes text, struct arena *arena,
                              struct outrider_event *ret_event, struct outrider_error *err)
{
    struct outrider_event event = OUTRIDER_EVENT_INIT;
    struct reader r = {.arena = arena, .event = &event, .err = err};
    struct json_members m;
    struct bytes key, value;
    unsigned seen = 0;
    if (outrider__json_members_begin(&m, text) < 0)
        return outrider__fail(err, OUTRIDER_NOT_JSON, OUTRIDER_STOP,
                              outrider__json_is_valid(text) ? "is not a JSON object"
                                                            : "is not valid JSON");
    while (outrider__json_members_next(&m, &key, &value) == 1) {
        if (event_json_read_member(&r, key, value, &seen) < 0)
            return -1;
    }
    if (event_json_check_required(&r) < 0)
        return -1;
    *ret_event = event;
    return 0;
}

static int event_json_base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

int outrider__base64_decode(struct bytes text, struct arena *arena, struct bytes *ret_data)
{
    size_t len = text.len, n = 0;
    if (len % 4)
        return -1;
    for (int i = 0; i < 2 && len > 0 && text.data[len - 1] == '='; i++)
        len--;
    char *out = outrider__arena_alloc(arena, text.len / 4 * 3 + 1);
    if (out == NULL)
        return -1;
    unsigned bits = 0;
    for (size_t i = 0; i < len; i++) {
        int digit = event_json_base64_digit(text.data[i]);
        if (digit < 0)
            return -1;
        bits = (bits << 6 | (unsigned)digit) & 0xffffff;
        if (i % 4)
            out[n++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    out[n] = '\0';
    *ret_data = bytes_of(out, n);
    return 0;
}
