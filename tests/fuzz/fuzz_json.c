/* SPDX-License-Identifier: MIT */
/* Any bytes as JSON: what must hold of the checker, the minifier, the walk. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* Minifying agrees with checking, shortens, and is done after one time. */
static void check_minify(struct bytes text, bool valid)
{
    char *once = malloc(text.len + 1), *twice = malloc(text.len + 1);
    must(once != NULL && twice != NULL);
    ssize_t n = outrider__json_minify(text, once);
    must((n >= 0) == valid && n <= (ssize_t)text.len);
    if (n >= 0) {
        must(outrider__json_is_valid(bytes_of(once, (size_t)n)));
        ssize_t again = outrider__json_minify(bytes_of(once, (size_t)n), twice);
        must(again == n && memcmp(once, twice, (size_t)n) == 0);
    }
    free(once);
    free(twice);
}

/* Every member lies within the text, its value is JSON, its key decodes. */
static void check_members(struct bytes text, bool valid, struct arena *arena)
{
    struct json_members m;
    if (outrider__json_members_begin(&m, text) < 0)
        return;
    must(valid);
    struct bytes key, value, decoded;
    const char *last = text.data;
    while (outrider__json_members_next(&m, &key, &value) > 0) {
        must(key.data > last && value.data > key.data + key.len);
        last = value.data + value.len;
        must(last < text.data + text.len);
        must(outrider__json_is_valid(value));
        must(outrider__json_unescape(key, arena, &decoded) == 0);
        must(outrider__bytes_is_utf8(decoded) && decoded.len <= key.len);
        must(outrider__json_text(value, arena, &decoded) == 0);
    }
    /* Nothing but the closing brace may be left. */
    while (m.p < m.end && *m.p != '}')
        must(*m.p == ' ' || *m.p == '\t' || *m.p == '\n' || *m.p == '\r'), m.p++;
    must(m.p < m.end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_of(data, size), decoded;
    struct arena arena;
    outrider__arena_init(&arena, 1024);
    bool valid = outrider__json_is_valid(text);
    check_minify(text, valid);
    check_members(text, valid, &arena);
    /* Not only what the walk hands on: any bytes as the inside of a string. */
    if (outrider__json_unescape(text, &arena, &decoded) == 0)
        must(decoded.len <= text.len);
    (void)outrider__json_text(text, &arena, &decoded);
    outrider__arena_release(&arena);
    return 0;
}
