/* SPDX-License-Identifier: MIT */
/* Taking a line of the event log apart, and listing a log's topics. */
#include "sink/file/reader.h"

#include "base/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

static bool line_is_digits(struct bytes b)
{
    for (size_t i = 0; i < b.len; i++)
        if (b.data[i] < '0' || b.data[i] > '9')
            return false;
    return b.len > 0;
}

static int line_parse_u64(struct bytes b, uint64_t max, uint64_t *ret_value)
{
    uint64_t v = 0;
    if (!line_is_digits(b))
        return -1;
    for (size_t i = 0; i < b.len; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, b.data[i] - '0', &v))
            return -1;
    if (v > max)
        return -1;
    *ret_value = v;
    return 0;
}

/* A string, decoded; null stays absent; anything else is refused. */
static int line_parse_string(struct bytes value, struct arena *arena, struct bytes *ret_text)
{
    if (bytes_eq_str(value, "null")) {
        *ret_text = BYTES_NULL;
        return 0;
    }
    if (value.len < 2 || value.data[0] != '"')
        return -1;
    return outrider__json_unescape(bytes_of(value.data + 1, value.len - 2), arena, ret_text);
}

static int line_parse_headers(struct bytes value, struct arena *arena, struct file_line *l)
{
    struct json_members m;
    struct bytes name, header;
    if (outrider__json_members_begin(&m, value) < 0)
        return -1;
    l->headers = value;
    while (outrider__json_members_next(&m, &name, &header) > 0) {
        /* {"base64":...}: an id that is not text is none. */
        bool is_id = bytes_eq_str(name, "event-id") && header.data[0] != '{';
        if (is_id && line_parse_string(header, arena, &l->event_id) < 0)
            return -1;
    }
    return 0;
}

static int line_parse_payload(enum file_payload kind, struct bytes value, struct arena *arena,
                              struct file_line *l)
{
    l->payload_is = kind;
    if (kind != FILE_PAYLOAD_JSON)
        return line_parse_string(value, arena, &l->payload);
    l->payload = value;
    return 0;
}

static int line_parse_member(struct bytes name, struct bytes value, struct arena *arena,
                             struct file_line *l)
{
    uint64_t v;
    if (bytes_eq_str(name, "offset"))
        return line_parse_u64(value, UINT64_MAX, &l->offset);
    if (bytes_eq_str(name, "topic"))
        return line_parse_string(value, arena, &l->topic);
    if (bytes_eq_str(name, "key"))
        return line_parse_string(value, arena, &l->key);
    if (bytes_eq_str(name, "timestamp"))
        return line_parse_string(value, arena, &l->timestamp);
    if (bytes_eq_str(name, "headers"))
        return line_parse_headers(value, arena, l);
    if (bytes_eq_str(name, "payload"))
        return line_parse_payload(FILE_PAYLOAD_JSON, value, arena, l);
    if (bytes_eq_str(name, "payload_text"))
        return line_parse_payload(FILE_PAYLOAD_TEXT, value, arena, l);
    if (bytes_eq_str(name, "payload_base64"))
        return line_parse_payload(FILE_PAYLOAD_BASE64, value, arena, l);
    if (bytes_eq_str(name, "partition")) {
        if (line_parse_u64(value, INT32_MAX, &v) < 0)
            return -1;
        l->partition = (int32_t)v;
    }
    return 0;
}

int outrider__file_line_parse(struct bytes line, struct arena *arena, struct file_line *ret_line,
                              struct outrider_error *err)
{
    struct json_members m;
    struct bytes name, value;
    struct file_line l = {.partition = -1, .payload_is = FILE_PAYLOAD_NONE};
    bool has_offset = false;
    if (outrider__json_members_begin(&m, line) < 0)
        return outrider__fail(err, OUTRIDER_NOT_JSON, OUTRIDER_STOP,
                              "the line is not a JSON object");
    while (outrider__json_members_next(&m, &name, &value) > 0) {
        has_offset = has_offset || bytes_eq_str(name, "offset");
        if (line_parse_member(name, value, arena, &l) < 0)
            return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                                  "the line's \"%.*s\" has a value that no relay writes",
                                  (int)(name.len < 40 ? name.len : 40), name.data);
    }
    if (!has_offset)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "the line has no \"offset\"");
    *ret_line = l;
    return 0;
}

static int line_by_bytes(const void *a, const void *b)
{
    const struct bytes *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = n > 0 ? memcmp(x->data, y->data, n) : 0;
    return c != 0 ? c : (x->len > y->len) - (x->len < y->len);
}

/* 0, or an errno. The list grows by copying within the arena. */
static int line_collect(DIR *d, struct arena *arena, struct file_topics *t)
{
    size_t capacity = 0;
    for (;;) {
        char topic[TOPIC_DIR_SIZE];
        size_t len;
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (entry == NULL)
            return errno;
        if ((entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) ||
            outrider__topic_decode(entry->d_name, topic, &len) < 0)
            continue;
        if (t->n == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            struct bytes *names = outrider__arena_alloc(arena, capacity * sizeof *names);
            if (names == NULL)
                return ENOMEM;
            if (t->n > 0)
                memcpy(names, t->names, t->n * sizeof *names);
            t->names = names;
        }
        if (outrider__arena_dup(arena, bytes_of(topic, len), &t->names[t->n]) < 0)
            return ENOMEM;
        t->n++;
    }
}

int outrider__file_topics(const char *dir, struct arena *arena, struct file_topics *ret_topics,
                          struct outrider_error *err)
{
    struct file_topics t = {0};
    DIR *d = opendir(dir);
    int e = d == NULL ? errno : line_collect(d, arena, &t);
    if (d != NULL)
        closedir(d);
    if (e != 0)
        return outrider__fail_errno(err, e, "cannot list the event log '%s'", dir);
    if (t.n > 1)
        qsort(t.names, t.n, sizeof *t.names, line_by_bytes);
    *ret_topics = t;
    return 0;
}
