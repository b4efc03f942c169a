/* SPDX-License-Identifier: MIT */
#include "core/option_value.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/url.h"

static const struct {
    const char *name;
    int64_t bytes;
} size_units[] = {
    {"GiB", 1LL << 30}, {"MiB", 1LL << 20}, {"KiB", 1LL << 10},
    {"GB", 1000000000}, {"MB", 1000000},    {"KB", 1000},
    {"kB", 1000},       {"B", 1},           {"", 1},
};
#define N_SIZE_UNITS (sizeof size_units / sizeof *size_units)

/* The digits at the front; how many there were, or -1 on overflow. */
static int value_leading_int(struct bytes text, int64_t *ret)
{
    int64_t v = 0;
    size_t i = 0;
    for (; i < text.len && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text.data[i] - '0', &v))
            return -1;
    *ret = v;
    return (int)i;
}

int outrider__size_parse(struct bytes text, int64_t *ret_bytes)
{
    int64_t v;
    int n = value_leading_int(text, &v);
    if (n <= 0)
        return -1;
    struct bytes unit = bytes_of(text.data + n, text.len - (size_t)n);
    if (unit.len > 0 && unit.data[0] == ' ')
        unit = bytes_of(unit.data + 1, unit.len - 1);
    for (size_t i = 0; i < N_SIZE_UNITS; i++)
        if (bytes_eq_str(unit, size_units[i].name))
            return __builtin_mul_overflow(v, size_units[i].bytes, ret_bytes) ? -1 : 0;
    return -1;
}

void outrider__size_format(int64_t bytes, char ret_text[CLOCK_TEXT_SIZE])
{
    size_t i = 0;
    while (i < 3 && (bytes == 0 || bytes % size_units[i].bytes != 0))
        i++;
    if (i == 3)
        (void)snprintf(ret_text, CLOCK_TEXT_SIZE, "%" PRId64 "B", bytes);
    else
        (void)snprintf(ret_text, CLOCK_TEXT_SIZE, "%" PRId64 "%s", bytes / size_units[i].bytes,
                       size_units[i].name);
}

static int value_int_parse(struct bytes text, int64_t *ret)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    struct bytes digits = negative ? bytes_of(text.data + 1, text.len - 1) : text;
    int64_t v;
    int n = value_leading_int(digits, &v);
    if (n <= 0 || (size_t)n != digits.len)
        return -1;
    *ret = negative ? -v : v;
    return 0;
}

/* By hand, because strtod and printf follow the locale of the host program. */
static int value_number_parse(struct bytes text, double *ret)
{
    int64_t whole, part = 0;
    double scale = 1;
    int n = value_leading_int(text, &whole);
    if (n <= 0)
        return -1;
    struct bytes rest = bytes_of(text.data + n, text.len - (size_t)n);
    if (rest.len > 0) {
        if (rest.data[0] != '.' || rest.len < 2 || rest.len > 7)
            return -1;
        rest = bytes_of(rest.data + 1, rest.len - 1);
        int m = value_leading_int(rest, &part);
        if (m <= 0 || (size_t)m != rest.len)
            return -1;
        for (; m > 0; m--)
            scale *= 10;
    }
    *ret = (double)whole + (double)part / scale;
    return 0;
}

static void value_number_append(struct strbuf *out, double v)
{
    int64_t millionths = (int64_t)(v * 1e6 + 0.5);
    outrider__strbuf_appendf(out, "%" PRId64, millionths / 1000000);
    int64_t part = millionths % 1000000;
    if (part == 0)
        return;
    int width = 6;
    for (; part % 10 == 0; width--)
        part /= 10;
    outrider__strbuf_appendf(out, ".%0*" PRId64, width, part);
}

static int value_bool_parse(struct bytes text, bool *ret)
{
    static const char *const names[] = {"false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (bytes_eq_str(text, names[i])) {
            *ret = i % 2 == 1;
            return 0;
        }
    }
    return -1;
}

/* Which of "a|b|c" the text is; or, without text, the name of number *ret. */
static int value_enum_parse(const char *values, struct bytes text, int *ret)
{
    int i = 0;
    for (const char *p = values;; i++) {
        size_t n = strcspn(p, "|");
        if (bytes_eq(bytes_of(p, n), text)) {
            *ret = i;
            return 0;
        }
        if (p[n] == '\0')
            return -1;
        p += n + 1;
    }
}

static struct bytes value_enum_name(const char *values, int number)
{
    const char *p = values;
    for (; number > 0 && strchr(p, '|') != NULL; number--)
        p = strchr(p, '|') + 1;
    return bytes_of(p, strcspn(p, "|"));
}

static void value_number_text(const struct option *o, double v, struct strbuf *out)
{
    char text[CLOCK_TEXT_SIZE];
    switch (o->type) {
    case OPTION_SIZE:
        outrider__size_format((int64_t)v, text);
        strbuf_append_str(out, text);
        break;
    case OPTION_DURATION:
    case OPTION_DURATIONS:
        outrider__duration_format((int64_t)(v * 1e6 + 0.5), text);
        strbuf_append_str(out, text);
        break;
    default:
        value_number_append(out, v);
        break;
    }
}

void outrider__value_describe(const struct option *o, struct strbuf *out)
{
    static const char *const words[] = {
        [OPTION_STRING] = "a text",
        [OPTION_SECRET_URL] = "a URL",
        [OPTION_BOOL] = "true or false",
        [OPTION_INT] = "a whole number",
        [OPTION_NUMBER] = "a number",
        [OPTION_SIZE] = "a size",
        [OPTION_DURATION] = "a duration",
        [OPTION_ENUM] = "one of ",
        [OPTION_STRINGS] = "a list of texts",
        [OPTION_DURATIONS] = "a list of durations",
        [OPTION_MAP] = "a map of name: value",
    };
    strbuf_append_str(out, words[o->type]);
    if (o->type == OPTION_ENUM)
        for (const char *p = o->values; *p != '\0'; p++) {
            if (*p == '|')
                strbuf_append_str(out, ", ");
            else
                strbuf_append_char(out, *p);
        }
    if (o->max > 0) {
        strbuf_append_str(out, " from ");
        value_number_text(o, o->min, out);
        strbuf_append_str(out, " to ");
        value_number_text(o, o->max, out);
    } else if (o->min > 0) {
        strbuf_append_str(out, " of at least ");
        value_number_text(o, o->min, out);
    }
}

const char *outrider__value_example(const struct option *o)
{
    if (o->example != NULL)
        return o->example;
    return o->initial != NULL ? o->initial : "";
}

/* The value is shown shortened, and not at all where it may hold a secret. */
static int bad_value(const struct option *o, struct bytes text, struct outrider_error *err)
{
    struct strbuf what;
    outrider__strbuf_init(&what, 256);
    outrider__value_describe(o, &what);
    int shown = text.len > 60 ? 60 : (int)text.len;
    int r;
    if (o->type == OPTION_SECRET_URL)
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "option '%s' is not %s (SCHEME:...), for example '%s'", o->name,
                           strbuf_cstr(&what), outrider__value_example(o));
    else if (o->has_secrets)
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "option '%s' is not %s, for example '%s'", o->name, strbuf_cstr(&what),
                           outrider__value_example(o));
    else
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "option '%s': '%.*s%s' is not %s, for example '%s'", o->name, shown,
                           text.len > 0 ? text.data : "", text.len > 60 ? "..." : "",
                           strbuf_cstr(&what), outrider__value_example(o));
    outrider__strbuf_release(&what);
    return r;
}

static bool value_in_range(const struct option *o, double v)
{
    return v >= o->min && (o->max <= 0 || v <= o->max);
}

static int fail_in_option(const struct option *o, const struct outrider_error *why,
                          struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "option '%s': %s", o->name,
                          why->message);
}

/* A text that can go into names, headers and messages. */
static int value_string_set(const struct option *o, struct arena *arena, struct bytes text,
                            const char **ret, struct outrider_error *err)
{
    struct outrider_error why;
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "option '%s' contains a control character (0x%02x)", o->name,
                                  (unsigned char)text.data[i]);
    if (!outrider__bytes_is_utf8(text))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "option '%s' is not UTF-8",
                              o->name);
    if (o->initial == NULL && text.len == 0 && o->type != OPTION_MAP) {
        *ret = NULL;
        return 0;
    }
    if (o->type == OPTION_SECRET_URL) {
        char scheme[32];
        if (outrider__url_scheme(text, scheme, sizeof scheme, NULL) < 0)
            return bad_value(o, text, err);
    }
    if (o->check != NULL && o->check(text, &why) < 0)
        return fail_in_option(o, &why, err);
    struct bytes copy;
    if (outrider__arena_dup(arena, text.len > 0 ? text : BYTES_LIT(""), &copy) < 0)
        return outrider__fail_nomem(err);
    *ret = copy.data;
    return 0;
}

static int value_duration_set(const struct option *o, struct bytes text, int64_t *ret,
                              struct outrider_error *err)
{
    int64_t us;
    if (outrider__duration_parse(text, &us) < 0 || !value_in_range(o, (double)us / 1e6))
        return bad_value(o, text, err);
    *ret = us;
    return 0;
}

static int value_scalar_set(const struct option *o, void *at, struct arena *arena,
                            struct bytes text, struct outrider_error *err)
{
    int64_t i;
    double d;
    switch (o->type) {
    case OPTION_STRING:
    case OPTION_SECRET_URL:
        return value_string_set(o, arena, text, at, err);
    case OPTION_BOOL:
        return value_bool_parse(text, at) < 0 ? bad_value(o, text, err) : 0;
    case OPTION_ENUM:
        return value_enum_parse(o->values, text, at) < 0 ? bad_value(o, text, err) : 0;
    case OPTION_DURATION:
        return value_duration_set(o, text, at, err);
    case OPTION_INT:
        if (value_int_parse(text, &i) < 0 || !value_in_range(o, (double)i))
            return bad_value(o, text, err);
        *(int64_t *)at = i;
        return 0;
    case OPTION_SIZE:
        if (outrider__size_parse(text, &i) < 0 || !value_in_range(o, (double)i))
            return bad_value(o, text, err);
        *(int64_t *)at = i;
        return 0;
    case OPTION_NUMBER:
        if (value_number_parse(text, &d) < 0 || !value_in_range(o, d))
            return bad_value(o, text, err);
        *(double *)at = d;
        return 0;
    default:
        return bad_value(o, text, err);
    }
}

/* Copies n items of a size each into fresh room for one more: an older copy of
 * the struct keeps its own. */
static void *value_with_room(struct arena *arena, const void *items, size_t n, size_t size)
{
    char *p = outrider__arena_alloc(arena, (n + 1) * size);
    if (p != NULL && n > 0)
        memcpy(p, items, n * size);
    return p;
}

static int value_add_string(const struct option *o, struct string_list *list, struct arena *arena,
                            struct bytes text, struct outrider_error *err)
{
    const char *value = NULL;
    if (text.len == 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "option '%s' holds an empty item", o->name);
    if (value_string_set(o, arena, text, &value, err) < 0)
        return -1;
    const char **items = value_with_room(arena, list->items, list->n, sizeof *items);
    if (items == NULL)
        return outrider__fail_nomem(err);
    items[list->n] = value;
    *list = (struct string_list){items, list->n + 1};
    return 0;
}

static int value_add_duration(const struct option *o, struct duration_list *list,
                              struct arena *arena, struct bytes text, struct outrider_error *err)
{
    int64_t us = 0;
    if (value_duration_set(o, text, &us, err) < 0)
        return -1;
    int64_t *items = value_with_room(arena, list->items, list->n, sizeof *items);
    if (items == NULL)
        return outrider__fail_nomem(err);
    items[list->n] = us;
    *list = (struct duration_list){items, list->n + 1};
    return 0;
}

static int value_add_pair(const struct option *o, struct string_map *map, struct arena *arena,
                          struct bytes name, struct bytes text, struct outrider_error *err)
{
    struct string_pair pair = {"", ""};
    struct option unchecked = *o;
    unchecked.check = NULL;
    if (name.len == 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "option '%s' holds an empty name", o->name);
    if (value_string_set(&unchecked, arena, name, &pair.name, err) < 0 ||
        value_string_set(o, arena, text, &pair.value, err) < 0)
        return -1;
    for (size_t i = 0; i < map->n; i++)
        if (strcmp(map->items[i].name, pair.name) == 0)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "option '%s' holds '%.100s' twice", o->name, pair.name);
    struct string_pair *items = value_with_room(arena, map->items, map->n, sizeof *items);
    if (items == NULL)
        return outrider__fail_nomem(err);
    items[map->n] = pair;
    *map = (struct string_map){items, map->n + 1};
    return 0;
}

static size_t value_count_of(const struct option *o, const void *at)
{
    switch (o->type) {
    case OPTION_STRINGS:
        return ((const struct string_list *)at)->n;
    case OPTION_DURATIONS:
        return ((const struct duration_list *)at)->n;
    default:
        return ((const struct string_map *)at)->n;
    }
}

static int value_add_at(const struct option *o, void *at, struct arena *arena,
                        struct bytes map_name, struct bytes text, struct outrider_error *err)
{
    if (value_count_of(o, at) >= OPTION_ITEMS_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "option '%s' holds more than %d items", o->name, OPTION_ITEMS_MAX);
    if (text.len > OPTION_VALUE_MAX || map_name.len > OPTION_VALUE_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "option '%s' is longer than %d bytes", o->name, OPTION_VALUE_MAX);
    switch (o->type) {
    case OPTION_STRINGS:
        return value_add_string(o, at, arena, text, err);
    case OPTION_DURATIONS:
        return value_add_duration(o, at, arena, text, err);
    default:
        return value_add_pair(o, at, arena, map_name, text, err);
    }
}

int outrider__value_add(const struct option *o, void *base, struct arena *arena,
                        struct bytes map_name, struct bytes text, struct outrider_error *err)
{
    if (!option_is_list(o) && o->type != OPTION_MAP)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "option '%s' takes one value, not a list", o->name);
    return value_add_at(o, (char *)base + o->offset, arena, map_name, text, err);
}

int outrider__value_put(const struct option *o, void *base, struct arena *arena,
                        struct bytes map_name, struct bytes text, struct outrider_error *err)
{
    struct string_map *map = (struct string_map *)((char *)base + o->offset), fresh = {0};
    for (size_t i = 0; i < map->n; i++) {
        struct string_pair *p = &map->items[i];
        if (!bytes_eq_str(map_name, p->name) &&
            value_add_at(o, &fresh, arena, bytes_str(p->name), bytes_str(p->value), err) < 0)
            return -1;
    }
    if (value_add_at(o, &fresh, arena, map_name, text.data != NULL ? text : BYTES_LIT(""), err) < 0)
        return -1;
    *map = fresh;
    return 0;
}

static int value_items_set(const struct option *o, void *at, struct arena *arena, struct bytes text,
                           struct outrider_error *err)
{
    union {
        struct string_list strings;
        struct duration_list durations;
        struct string_map map;
    } fresh = {0};
    bool is_map = o->type == OPTION_MAP;
    struct flow f;
    struct bytes name = BYTES_NULL, item;
    int r = outrider__flow_begin(&f, text, is_map ? '{' : '[', is_map ? '}' : ']');
    if (r < 0)
        return bad_value(o, text, err);
    while ((r = outrider__flow_next(&f, arena, is_map ? &name : NULL, &item)) > 0)
        if (value_add_at(o, &fresh, arena, name, item, err) < 0)
            return -1;
    if (r < 0)
        return bad_value(o, text, err);
    memcpy(at, &fresh,
           is_map                      ? sizeof fresh.map
           : o->type == OPTION_STRINGS ? sizeof fresh.strings
                                       : sizeof fresh.durations);
    return 0;
}

int outrider__value_set(const struct option *o, void *base, struct arena *arena, struct bytes text,
                        struct outrider_error *err)
{
    void *at = (char *)base + o->offset;
    if (text.len > OPTION_VALUE_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "option '%s' is longer than %d bytes", o->name, OPTION_VALUE_MAX);
    if (text.data == NULL)
        text = BYTES_LIT("");
    if (option_is_list(o) || o->type == OPTION_MAP)
        return value_items_set(o, at, arena, text, err);
    return value_scalar_set(o, at, arena, text, err);
}

void outrider__value_clear(const struct option *o, void *base)
{
    void *at = (char *)base + o->offset;
    if (o->type == OPTION_STRINGS)
        *(struct string_list *)at = (struct string_list){0};
    else if (o->type == OPTION_DURATIONS)
        *(struct duration_list *)at = (struct duration_list){0};
    else if (o->type == OPTION_MAP)
        *(struct string_map *)at = (struct string_map){0};
}

static void value_items_append(const struct option *o, const void *at, bool redacted,
                               struct strbuf *out)
{
    const struct string_list *strings = at;
    const struct duration_list *durations = at;
    const struct string_map *map = at;
    strbuf_append_char(out, o->type == OPTION_MAP ? '{' : '[');
    for (size_t i = 0; i < value_count_of(o, at); i++) {
        char text[CLOCK_TEXT_SIZE];
        if (i > 0)
            strbuf_append_str(out, ", ");
        if (o->type == OPTION_STRINGS) {
            outrider__flow_append(out, strings->items[i]);
        } else if (o->type == OPTION_DURATIONS) {
            outrider__duration_format(durations->items[i], text);
            strbuf_append_str(out, text);
        } else {
            outrider__flow_append(out, map->items[i].name);
            strbuf_append_str(out, ": ");
            bool hide = redacted && o->has_secrets &&
                        outrider__name_is_secret(bytes_str(map->items[i].name));
            outrider__flow_append(out, hide ? "***" : map->items[i].value);
        }
    }
    strbuf_append_char(out, o->type == OPTION_MAP ? '}' : ']');
}

static void value_append(const struct option *o, const void *base, bool redacted,
                         struct strbuf *out)
{
    const void *at = (const char *)base + o->offset;
    char text[CLOCK_TEXT_SIZE];
    switch (o->type) {
    case OPTION_STRING:
    case OPTION_SECRET_URL:
        strbuf_append_str(out, *(const char *const *)at);
        break;
    case OPTION_BOOL:
        strbuf_append_str(out, *(const bool *)at ? "true" : "false");
        break;
    case OPTION_INT:
        outrider__strbuf_appendf(out, "%" PRId64, *(const int64_t *)at);
        break;
    case OPTION_NUMBER:
        value_number_append(out, *(const double *)at);
        break;
    case OPTION_SIZE:
        outrider__size_format(*(const int64_t *)at, text);
        strbuf_append_str(out, text);
        break;
    case OPTION_DURATION:
        outrider__duration_format(*(const int64_t *)at, text);
        strbuf_append_str(out, text);
        break;
    case OPTION_ENUM:
        outrider__strbuf_append(out, value_enum_name(o->values, *(const int *)at));
        break;
    default:
        value_items_append(o, at, redacted, out);
        break;
    }
}

int outrider__value_get(const struct option *o, const void *base, struct strbuf *ret_text)
{
    if (o->type == OPTION_SECRET_URL) {
        const char *url = *(const char *const *)((const char *)base + o->offset);
        struct arena arena;
        struct bytes shown = BYTES_NULL;
        outrider__arena_init(&arena, 1024);
        int r = url == NULL ? 0 : outrider__url_redact(bytes_str(url), &arena, &shown);
        if (r == 0)
            outrider__strbuf_append(ret_text, shown);
        outrider__arena_release(&arena);
        return r < 0 || ret_text->failed ? -1 : 0;
    }
    if (o->has_secrets && o->type == OPTION_STRING) {
        const char *text = *(const char *const *)((const char *)base + o->offset);
        strbuf_append_str(ret_text, text != NULL && *text != '\0' ? "***" : "");
        return ret_text->failed ? -1 : 0;
    }
    value_append(o, base, true, ret_text);
    return ret_text->failed ? -1 : 0;
}

static size_t value_size(const struct option *o)
{
    switch (o->type) {
    case OPTION_STRING:
    case OPTION_SECRET_URL:
        return sizeof(char *);
    case OPTION_BOOL:
        return sizeof(bool);
    case OPTION_INT:
    case OPTION_SIZE:
    case OPTION_DURATION:
        return sizeof(int64_t);
    case OPTION_NUMBER:
        return sizeof(double);
    case OPTION_ENUM:
        return sizeof(int);
    case OPTION_STRINGS:
        return sizeof(struct string_list);
    case OPTION_DURATIONS:
        return sizeof(struct duration_list);
    case OPTION_MAP:
        return sizeof(struct string_map);
    }
    return 0;
}

void outrider__value_borrow(const struct option *o, void *base, const void *from)
{
    memcpy((char *)base + o->offset, (const char *)from + o->offset, value_size(o));
}

bool outrider__value_differs(const struct option *o, const void *base_a, const void *base_b)
{
    struct strbuf a, b;
    outrider__strbuf_init(&a, SIZE_MAX / 4);
    outrider__strbuf_init(&b, SIZE_MAX / 4);
    value_append(o, base_a, false, &a);
    value_append(o, base_b, false, &b);
    bool differs = a.failed || b.failed || !bytes_eq(strbuf_bytes(&a), strbuf_bytes(&b));
    outrider__strbuf_release(&a);
    outrider__strbuf_release(&b);
    return differs;
}
