/* SPDX-License-Identifier: MIT */
/*
 * java.util.regex as PCRE2, as far as topics need it. Groups, names, classes and
 * quantifiers are written alike in both; what is not, and would be understood
 * otherwise without a word, is refused.
 */
#include <stdio.h>

#include "cli/debezium_props.h"

/* Class intersection: [a-z&&[^b]]. PCRE2 would take it for two ampersands. */
static bool java_has_intersection(const char *p)
{
    int depth = 0;
    for (; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        else if (*p == '[')
            depth++;
        else if (*p == ']' && depth > 0)
            depth--;
        else if (depth > 0 && p[0] == '&' && p[1] == '&')
            return true;
    }
    return false;
}

int outrider__java_pattern(const char *java, struct strbuf *ret_pattern, struct outrider_error *err)
{
    if (java_has_intersection(java))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "an intersection of character classes (&&) is Java's own: write the "
                              "class without it");
    outrider__strbuf_appendf(ret_pattern, "\\A(?:%s)\\z", java);
    return ret_pattern->failed ? outrider__fail_nomem(err) : 0;
}

static bool java_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void java_append_literal(struct strbuf *out, char c)
{
    if (c == '$')
        strbuf_append_char(out, '$');
    strbuf_append_char(out, c);
}

/* p is behind the '$'. As many digits as make a group that there is: $12 is group
 * 1 and a 2 where there are fewer than twelve. */
static const char *java_append_number(const char *p, unsigned groups, struct strbuf *out)
{
    unsigned group = (unsigned)(*p++ - '0');
    if (group > groups)
        return NULL;
    while (java_is_digit(*p) && group * 10 + (unsigned)(*p - '0') <= groups)
        group = group * 10 + (unsigned)(*p++ - '0');
    outrider__strbuf_appendf(out, "${%u}", group);
    return p;
}

static const char *java_append_reference(const char *p, unsigned groups, struct strbuf *out,
                                         struct outrider_error *err)
{
    const char *end = NULL;
    if (java_is_digit(*p)) {
        end = java_append_number(p, groups, out);
        if (end == NULL)
            (void)outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                 "'$%c' stands for a group that the pattern does not have", *p);
        return end;
    }
    if (*p == '{')
        end = strchr(p, '}');
    if (end == NULL || end == p + 1) {
        (void)outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                             "a '$' begins no group (write $1 or ${name}, or \\$ for a dollar)");
        return NULL;
    }
    outrider__strbuf_appendf(out, "$%.*s", (int)(end - p) + 1, p);
    return end + 1;
}

int outrider__java_replacement(const char *java, unsigned groups, struct strbuf *ret_replacement,
                               struct outrider_error *err)
{
    for (const char *p = java; *p != '\0';) {
        if (*p == '\\') {
            if (p[1] == '\0')
                return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                      "a '\\' at its end stands for nothing");
            java_append_literal(ret_replacement, p[1]);
            p += 2;
        } else if (*p == '$') {
            p = java_append_reference(p + 1, groups, ret_replacement, err);
            if (p == NULL)
                return -1;
        } else {
            strbuf_append_char(ret_replacement, *p++);
        }
    }
    return ret_replacement->failed ? outrider__fail_nomem(err) : 0;
}
