/* SPDX-License-Identifier: MIT */
/*
 * Formatting runs once per event, so room for the worst case is reserved once
 * and then filled through a bare pointer. A JSON string needs at most six
 * bytes for one.
 */
#include "sink/file/line.h"

#include "base/json.h"
#include "base/json_write.h"

#include <stdio.h>

#define LITERAL_SLACK 256 /* more than all the fixed text and numbers of a line */

static inline char *line_put(char *p, const char *data, size_t n)
{
    memcpy(p, data, n);
    return p + n;
}

#define PUT_LIT(p, s) line_put((p), "" s, sizeof(s) - 1)

static char *line_put_u64(char *p, uint64_t v)
{
    char digits[20];
    char *q = digits + sizeof digits;
    do {
        *--q = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    return line_put(p, q, (size_t)(digits + sizeof digits - q));
}

/* A JSON string with its quotes; false where the bytes are not UTF-8. */
static bool line_put_string(char **p, struct bytes b)
{
    bool is_plain = outrider__json_is_plain(b);
    if (!is_plain && !outrider__bytes_is_utf8(b))
        return false;
    char *q = *p;
    *q++ = '"';
    if (is_plain)
        q = b.len > 0 ? line_put(q, b.data, b.len) : q;
    else
        q = outrider__json_put_escaped(q, b);
    *q++ = '"';
    *p = q;
    return true;
}

static char *line_put_base64(char *p, struct bytes b)
{
    *p++ = '"';
    p = outrider__base64_put(p, b);
    *p++ = '"';
    return p;
}

static char *line_put_key(char *p, struct bytes key)
{
    if (bytes_is_null(key))
        return PUT_LIT(p, ",\"key\":null");
    char *q = PUT_LIT(p, ",\"key\":");
    if (line_put_string(&q, key))
        return q;
    return line_put_base64(PUT_LIT(p, ",\"key_base64\":"), key);
}

static char *line_put_header_name(char *p, struct bytes name)
{
    if (line_put_string(&p, name))
        return p;
    return outrider__json_put_string(p, name, outrider__json_string_len(name));
}

static char *line_put_headers(char *p, const struct delivery *d)
{
    p = PUT_LIT(p, ",\"headers\":{");
    for (size_t i = 0; i < d->n_headers; i++) {
        if (i > 0)
            *p++ = ',';
        p = line_put_header_name(p, d->headers[i].name);
        *p++ = ':';
        if (!line_put_string(&p, d->headers[i].value)) {
            p = line_put_base64(PUT_LIT(p, "{\"base64\":"), d->headers[i].value);
            *p++ = '}';
        }
    }
    *p++ = '}';
    return p;
}

/* Room that everything but the payload can take at most. */
static size_t line_head_bound(const struct delivery *d, struct bytes topic_member)
{
    size_t n = LITERAL_SLACK + topic_member.len + 6 * d->key.len;
    for (size_t i = 0; i < d->n_headers; i++)
        n += 6 * (d->headers[i].name.len + d->headers[i].value.len) + 24;
    return n;
}

static char *line_put_head(char *p, uint64_t offset, struct bytes topic_member,
                           const struct delivery *d)
{
    p = PUT_LIT(p, "{\"offset\":");
    p = line_put_u64(p, offset);
    p = line_put(p, topic_member.data, topic_member.len);
    p = line_put_key(p, d->key);
    if (d->partition >= 0) {
        p = PUT_LIT(p, ",\"partition\":");
        p = line_put_u64(p, (uint64_t)d->partition);
    }
    p = PUT_LIT(p, ",\"timestamp\":\"");
    outrider__clock_format(d->timestamp_us, p);
    p += strlen(p);
    *p++ = '"';
    return line_put_headers(p, d);
}

/*
 * Whether a JSON value still is one inside a line, which is one level deeper
 * than the value alone. It stands at p, with room for a byte on either side.
 * Depth takes brackets, so hardly any value has to be looked at twice.
 */
static bool line_fits(char *p, size_t n)
{
    size_t open = 0;
    for (size_t i = 0; i < n; i++)
        open += p[i] == '[' || p[i] == '{';
    if (open < JSON_DEPTH)
        return true;
    char before = p[-1];
    p[-1] = '[';
    p[n] = ']';
    bool ok = outrider__json_is_valid(bytes_of(p - 1, n + 2));
    p[-1] = before;
    return ok;
}

static int line_put_payload(struct strbuf *out, struct bytes payload)
{
    char *p = outrider__strbuf_reserve(out, payload.len + LITERAL_SLACK);
    if (p == NULL)
        return -1;
    char *start = p;
    if (bytes_is_null(payload)) {
        p = PUT_LIT(p, ",\"payload\":null");
        out->len += (size_t)(p - start);
        return 0;
    }
    p = PUT_LIT(p, ",\"payload\":");
    ssize_t n = outrider__json_minify(payload, p);
    if (n >= 0 && (n < 2 * JSON_DEPTH || line_fits(p, (size_t)n))) {
        out->len += (size_t)(p - start) + (size_t)n;
        return 0;
    }
    bool text = outrider__bytes_is_utf8(payload);
    size_t need = text ? outrider__json_string_len(payload) : base64_len(payload.len);
    start = p = outrider__strbuf_reserve(out, need + LITERAL_SLACK);
    if (p == NULL)
        return -1;
    if (text) {
        p = outrider__json_put_string(PUT_LIT(p, ",\"payload_text\":"), payload, need);
    } else {
        p = line_put_base64(PUT_LIT(p, ",\"payload_base64\":"), payload);
    }
    out->len += (size_t)(p - start);
    return 0;
}

static int line_too_large(struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                          "the event makes a line of more than %zu bytes; lower max_payload",
                          FILE_LINE_MAX);
}

static int line_append(struct strbuf *out, uint64_t offset, struct bytes topic_member,
                       const struct delivery *d, struct outrider_error *err)
{
    size_t start = out->len, bound = line_head_bound(d, topic_member);
    if (d->payload.len > FILE_LINE_MAX || bound > 8 * FILE_LINE_MAX)
        return line_too_large(err);
    char *p = outrider__strbuf_reserve(out, bound);
    if (p == NULL)
        return outrider__fail_nomem(err);
    out->len += (size_t)(line_put_head(p, offset, topic_member, d) - p);
    if (line_put_payload(out, d->payload) < 0)
        return outrider__fail_nomem(err);
    p = outrider__strbuf_reserve(out, 2);
    if (p == NULL)
        return outrider__fail_nomem(err);
    out->len += (size_t)(PUT_LIT(p, "}\n") - p);
    out->data[out->len] = '\0';
    return out->len - start <= FILE_LINE_MAX ? 0 : line_too_large(err);
}

int outrider__line_append(struct strbuf *out, uint64_t offset, struct bytes topic_member,
                          const struct delivery *d, struct outrider_error *err)
{
    size_t before = out->len;
    if (line_append(out, offset, topic_member, d, err) == 0)
        return 0;
    out->len = before;
    out->failed = false;
    return -1;
}

int outrider__line_topic(struct strbuf *out, struct bytes topic)
{
    bool text = outrider__bytes_is_utf8(topic);
    strbuf_append_str(out, text ? ",\"topic\":" : ",\"topic_base64\":\"");
    if (text) {
        outrider__strbuf_append_json(out, topic);
    } else {
        outrider__strbuf_append_base64(out, topic);
        strbuf_append_char(out, '"');
    }
    return out->failed ? -1 : 0;
}

static bool file_line_is_safe(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

int outrider__topic_encode(struct bytes topic, char ret_name[TOPIC_DIR_SIZE],
                           struct outrider_error *err)
{
    static const char hex[] = "0123456789ABCDEF";
    char name[TOPIC_DIR_SIZE];
    size_t n = 0;
    if (topic.len == 0)
        return outrider__fail(err, OUTRIDER_TOPIC, OUTRIDER_DEAD,
                              "the topic is empty, which no directory can be named after; "
                              "give the event a topic or change route.topic");
    for (size_t i = 0; i < topic.len; i++) {
        unsigned char c = (unsigned char)topic.data[i];
        bool safe = file_line_is_safe(c) && !(c == '.' && i == 0);
        if (n + (safe ? 1 : 3) >= TOPIC_DIR_SIZE)
            return outrider__fail(err, OUTRIDER_TOPIC, OUTRIDER_DEAD,
                                  "the topic '%.40s...' makes a directory's name of more than %d "
                                  "bytes; use a shorter one",
                                  name, TOPIC_DIR_SIZE - 1);
        if (safe) {
            name[n++] = (char)c;
        } else {
            name[n++] = '%';
            name[n++] = hex[c >> 4];
            name[n++] = hex[c & 15];
        }
        name[n] = '\0';
    }
    memcpy(ret_name, name, n + 1);
    return 0;
}

static int file_line_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int outrider__topic_decode(const char *name, char ret_topic[TOPIC_DIR_SIZE], size_t *ret_len)
{
    char topic[TOPIC_DIR_SIZE], again[TOPIC_DIR_SIZE];
    size_t n = 0;
    for (const char *p = name; *p != '\0'; p++) {
        if (n + 1 >= sizeof topic)
            return -1;
        if (*p != '%') {
            topic[n++] = *p;
            continue;
        }
        int high = file_line_hex_value(p[1]), low = high < 0 ? -1 : file_line_hex_value(p[2]);
        if (low < 0)
            return -1;
        topic[n++] = (char)(high << 4 | low);
        p += 2;
    }
    if (outrider__topic_encode(bytes_of(topic, n), again, NULL) < 0 || strcmp(again, name) != 0)
        return -1;
    memcpy(ret_topic, topic, n);
    *ret_len = n;
    return 0;
}
