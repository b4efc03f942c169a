/* SPDX-License-Identifier: MIT */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>

#include "core/regex_route.h"

/* Enough for any sane pattern, and over in a few milliseconds. PCRE2 counts its
 * limit anew at each place where a match could begin: it is shared out among them. */
#define MATCH_STEPS 4000000u
#define MATCH_STEPS_MIN 1000u
#define SUBJECT_MAX 4096u
#define DEPTH_LIMIT 10000u
#define HEAP_LIMIT_KIB 1024u
#define PATTERN_MAX 4096u
#define PARENS_MAX 64u

struct regex_route {
    struct arena arena;
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    struct template_segment field;
    struct template replacement;
    char field_name[64];
};

static int regex_compile(struct bytes pattern, pcre2_code **ret_code, struct outrider_error *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    int number = 0;
    PCRE2_SIZE place = 0;
    if (context == NULL)
        return outrider__fail_nomem(err);
    pcre2_set_max_pattern_length(context, PATTERN_MAX);
    pcre2_set_parens_nest_limit(context, PARENS_MAX);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)(pattern.len > 0 ? pattern.data : ""), pattern.len,
                                     PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C,
                                     &number, &place, context);
    pcre2_compile_context_free(context);
    if (code == NULL) {
        PCRE2_UCHAR text[160] = "unknown error";
        pcre2_get_error_message(number, text, sizeof text);
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "not a regular expression: %s at character %zu", (const char *)text,
                              (size_t)place + 1);
    }
    *ret_code = code;
    return 0;
}

int outrider__regex_check(struct bytes pattern, struct outrider_error *err)
{
    pcre2_code *code = NULL;
    if (regex_compile(pattern, &code, err) < 0)
        return -1;
    pcre2_code_free(code);
    return 0;
}

int outrider__regex_groups(struct bytes pattern, unsigned *ret_n, struct outrider_error *err)
{
    pcre2_code *code = NULL;
    uint32_t n = 0;
    if (regex_compile(pattern, &code, err) < 0)
        return -1;
    pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &n);
    pcre2_code_free(code);
    *ret_n = n;
    return 0;
}

static int regex_group_number(const void *ctx, struct bytes name)
{
    const pcre2_code *code = ctx;
    char text[64];
    uint32_t groups = 0;
    if (name.len == 0 || name.len >= sizeof text)
        return -1;
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    if (strspn(text, "0123456789") != name.len)
        return pcre2_substring_number_from_name(code, (PCRE2_SPTR)text);
    unsigned long n = strtoul(text, NULL, 10);
    pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &groups);
    return n <= groups ? (int)n : -1;
}

static int regex_fail_option(const char *option, const struct outrider_error *why,
                             struct outrider_error *err)
{
    return outrider__fail(err, why->code, why->disposition, "option '%s': %s", option,
                          why->message);
}

static int route_init(struct regex_route *r, const char *field, const char *pattern,
                      const char *replacement, struct outrider_error *err)
{
    struct outrider_error why;
    struct template_rules of_event = {0};
    if (outrider__template_variable(bytes_str(field), &of_event, &r->arena, &r->field, &why) < 0)
        return regex_fail_option("route.regex_field", &why, err);
    (void)strncat(r->field_name, field, sizeof r->field_name - 1);
    if (regex_compile(bytes_str(pattern), &r->code, &why) < 0)
        return regex_fail_option("route.regex", &why, err);
    struct template_rules with_groups = {.group = regex_group_number, .ctx = r->code};
    if (outrider__template_compile(bytes_str(replacement), &with_groups, &r->arena, &r->replacement,
                                   &why) < 0)
        return regex_fail_option("route.replacement", &why, err);
    /* Without JIT the interpreter does the same, slower. */
    (void)pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    r->match = pcre2_match_data_create_from_pattern(r->code, NULL);
    r->limits = pcre2_match_context_create(NULL);
    if (r->match == NULL || r->limits == NULL)
        return outrider__fail_nomem(err);
    pcre2_set_depth_limit(r->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(r->limits, HEAP_LIMIT_KIB);
    return 0;
}

int outrider__regex_route_new(const char *field, const char *pattern, const char *replacement,
                              struct regex_route **ret_route, struct outrider_error *err)
{
    struct regex_route *r = calloc(1, sizeof *r);
    if (r == NULL)
        return outrider__fail_nomem(err);
    outrider__arena_init(&r->arena, 1024);
    if (route_init(r, field, pattern, replacement, err) < 0) {
        outrider__regex_route_free(r);
        return -1;
    }
    *ret_route = r;
    return 0;
}

void outrider__regex_route_free(struct regex_route *r)
{
    if (r == NULL)
        return;
    pcre2_match_context_free(r->limits);
    pcre2_match_data_free(r->match);
    pcre2_code_free(r->code);
    outrider__arena_release(&r->arena);
    free(r);
}

static size_t regex_groups_of(struct regex_route *r, int n, struct bytes subject,
                              struct bytes groups[TEMPLATE_GROUPS_MAX])
{
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(r->match);
    size_t count = (size_t)n < TEMPLATE_GROUPS_MAX ? (size_t)n : TEMPLATE_GROUPS_MAX;
    for (size_t i = 0; i < count; i++) {
        PCRE2_SIZE from = ends[2 * i], to = ends[2 * i + 1];
        /* \K can put a match's start behind its end. */
        bool is_set = from != PCRE2_UNSET && from <= to && to <= subject.len;
        groups[i] = is_set ? bytes_of(subject.data + from, to - from) : BYTES_NULL;
    }
    return count;
}

static int regex_match(struct regex_route *r, struct bytes subject)
{
    uint32_t limit = MATCH_STEPS / ((uint32_t)subject.len + 1);
    pcre2_set_match_limit(r->limits, limit > MATCH_STEPS_MIN ? limit : MATCH_STEPS_MIN);
    return pcre2_match(r->code, (PCRE2_SPTR)(subject.len > 0 ? subject.data : ""), subject.len, 0,
                       0, r->match, r->limits);
}

int outrider__regex_route_apply(struct regex_route *r, const struct event *e, struct arena *arena,
                                struct bytes *ret_topic, struct outrider_error *err)
{
    struct template_input in = {.event = e};
    struct bytes subject, groups[TEMPLATE_GROUPS_MAX];
    struct outrider_error why;
    if (outrider__template_value(&r->field, &in, arena, &subject, &why) < 0) {
        if (why.code == OUTRIDER_ROUTE) /* no such header: nothing to be found in it */
            return 0;
        return outrider__fail(err, why.code, why.disposition, "%s", why.message);
    }
    if (subject.len > SUBJECT_MAX)
        return outrider__fail(err, OUTRIDER_ROUTE, OUTRIDER_DEAD,
                              "the event's %s is longer than the %u bytes that route.regex "
                              "looks at",
                              r->field_name, SUBJECT_MAX);
    int n = regex_match(r, subject);
    if (n == PCRE2_ERROR_NOMATCH)
        return 0;
    if (n < 0) {
        PCRE2_UCHAR text[160] = "unknown error";
        pcre2_get_error_message(n, text, sizeof text);
        return outrider__fail(err, OUTRIDER_ROUTE, OUTRIDER_DEAD,
                              "route.regex gave up on the event's %s: %s", r->field_name,
                              (const char *)text);
    }
    in.groups = groups;
    in.n_groups = regex_groups_of(r, n, subject, groups);
    return outrider__template_render(&r->replacement, &in, arena, ret_topic, err) < 0 ? -1 : 1;
}
