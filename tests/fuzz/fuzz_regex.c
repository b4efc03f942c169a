/* SPDX-License-Identifier: MIT */
/* Lines: a field, a pattern, a replacement, and the rest as the field's value. */
#include <stdint.h>
#include <stdlib.h>

#include "core/regex_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* A line as a C string in the arena; a zero byte ends it. */
static const char *line(struct bytes *rest, struct arena *arena)
{
    const char *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    struct bytes copy;
    must(outrider__arena_dup(arena, bytes_of(len > 0 ? rest->data : "", len), &copy) == 0);
    size_t used = end ? len + 1 : len;
    *rest = bytes_of(rest->data + used, rest->len - used);
    return copy.data;
}

static void apply(struct regex_route *route, struct bytes value, struct arena *arena)
{
    struct event e = {.aggregate_type = value,
                      .aggregate_id = value,
                      .event_type = value,
                      .headers = value,
                      .partition = -1};
    struct outrider_error err = {0};
    struct bytes topic = BYTES_NULL;
    int found = outrider__regex_route_apply(route, &e, arena, &topic, &err);
    must(found == (found > 0 ? 1 : found < 0 ? -1 : 0));
    must(found != 1 || topic.data != NULL);
    must(found != -1 || (err.disposition == OUTRIDER_DEAD && err.message[0] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct bytes rest = bytes_of(data, size);
    struct regex_route *route;
    struct outrider_error err = {0};
    outrider__arena_init(&arena, 4096);
    const char *field = line(&rest, &arena);
    const char *pattern = line(&rest, &arena);
    const char *replacement = line(&rest, &arena);
    if (outrider__regex_route_new(field, pattern, replacement, &route, &err) == 0) {
        must(outrider__regex_check(bytes_str(pattern), NULL) == 0);
        apply(route, rest, &arena);
        outrider__regex_route_free(route);
    } else {
        must(err.code == OUTRIDER_CONFIG && err.message[0] != '\0');
    }
    outrider__arena_release(&arena);
    return 0;
}
