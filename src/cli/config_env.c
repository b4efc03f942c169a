/* SPDX-License-Identifier: MIT */
#include "cli/config_env.h"

#include <stdlib.h>

#include "base/strbuf.h"

#define VALUE_MAX (1024 * 1024)
#define NAME_SIZE 256

static bool env_is_name(char c, bool first)
{
    return c == '_' || (c >= 'A' && c <= 'Z') || (!first && c >= '0' && c <= '9');
}

/* p is at "${": the length of "${NAME}", 0 where it is none of ours, or -1. */
static ssize_t env_reference(const char *p, const char *end, char ret_name[NAME_SIZE],
                             struct outrider_error *err)
{
    const char *name = p + 2, *q = name;
    while (q < end && env_is_name(*q, q == name))
        q++;
    size_t len = (size_t)(q - name);
    if (len == 0)
        return 0;
    int shown = len > 60 ? 60 : (int)len;
    if (q == end || *q != '}') {
        if (q < end && ((*q >= 'a' && *q <= 'z')))
            return 0;
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "'${%.*s' is not closed: write ${NAME}, or $${ for the characters "
                              "themselves",
                              shown, name);
    }
    if (len >= NAME_SIZE)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "the environment has no variable '%.*s...'", shown, name);
    memcpy(ret_name, name, len);
    ret_name[len] = '\0';
    return (ssize_t)len + 3;
}

static int env_substitute(struct bytes text, struct strbuf *out, struct outrider_error *err)
{
    const char *p = text.data, *end = text.data + text.len;
    char name[NAME_SIZE];
    while (p < end) {
        if (end - p >= 3 && memcmp(p, "$${", 3) == 0) {
            strbuf_append_str(out, "${");
            p += 3;
            continue;
        }
        ssize_t n = end - p >= 2 && memcmp(p, "${", 2) == 0 ? env_reference(p, end, name, err) : 0;
        if (n < 0)
            return -1;
        if (n == 0) {
            strbuf_append_char(out, *p++);
            continue;
        }
        const char *value = getenv(name);
        if (value == NULL)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "the environment has no variable '%.60s': set it, or write "
                                  "$${ for the characters themselves",
                                  name);
        strbuf_append_str(out, value);
        p += n;
    }
    return out->failed ? outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                        "too long with its variables put in")
                       : 0;
}

int outrider__config_env(struct bytes text, struct arena *arena, struct bytes *ret_text,
                         struct outrider_error *err)
{
    struct strbuf out;
    if (text.len == 0 || memmem(text.data, text.len, "${", 2) == NULL) {
        *ret_text = text;
        return 0;
    }
    outrider__strbuf_init(&out, VALUE_MAX);
    int r = env_substitute(text, &out, err);
    if (r == 0 && outrider__arena_dup(arena, strbuf_bytes(&out), ret_text) < 0)
        r = outrider__fail_nomem(err);
    outrider__strbuf_release(&out);
    return r;
}
