/* SPDX-License-Identifier: MIT */
#include "core/template.h"

#include "base/json.h"

/* ASCII only, whatever locale the host program has set. */
static bool template_is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool template_is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool template_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char template_to_lower(char c)
{
    return template_is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

static char template_to_upper(char c)
{
    return template_is_lower(c) ? (char)(c - 'a' + 'A') : c;
}

static const struct {
    const char *name; /* in lower case, without underscores */
    enum template_kind kind;
} variables[] = {
    {"aggregatetype", TEMPLATE_AGGREGATE_TYPE},
    {"aggregateid", TEMPLATE_AGGREGATE_ID},
    {"eventtype", TEMPLATE_EVENT_TYPE},
    {"partitionkey", TEMPLATE_PARTITION_KEY},
    {"topic", TEMPLATE_TOPIC},
    /* Debezium's outbox router calls the field that it routes by so. */
    {"routedbyvalue", TEMPLATE_AGGREGATE_TYPE},
};

static const struct {
    const char *name;
    enum template_letters letters;
} modifiers[] = {
    {"lower", LETTERS_LOWER},
    {"upper", LETTERS_UPPER},
    {"kebab", LETTERS_KEBAB},
    {"snake", LETTERS_SNAKE},
};

/* aggregateType, aggregate_type and AggregateType are one name. */
static bool template_same_name(struct bytes text, const char *name)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '_')
            continue;
        if (template_to_lower(text.data[i]) != *name)
            return false;
        name++;
    }
    return *name == '\0';
}

static int template_unknown_variable(struct bytes name, const struct template_rules *rules,
                                     struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "unknown variable '%.*s' (known: aggregate_type, event_type, "
                          "aggregate_id, partition_key, header:NAME%s%s)",
                          name.len > 60 ? 60 : (int)name.len, name.len ? name.data : "",
                          rules->with_topic ? ", topic" : "",
                          rules->group != NULL ? ", and the pattern's groups" : "");
}

static int template_find_kind(struct bytes name, const struct template_rules *rules,
                              struct template_segment *s)
{
    if (rules->group != NULL) {
        s->group = rules->group(rules->ctx, name);
        if (s->group >= 0 && s->group < TEMPLATE_GROUPS_MAX) {
            s->kind = TEMPLATE_GROUP;
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (template_same_name(name, variables[i].name)) {
            s->kind = variables[i].kind;
            return s->kind == TEMPLATE_TOPIC && !rules->with_topic ? -1 : 0;
        }
    }
    return -1;
}

/* Cuts `b` at the first c; what follows it is the rest, NULL data where there is no c. */
static struct bytes template_cut(struct bytes *b, char c)
{
    const char *at = b->len > 0 ? memchr(b->data, c, b->len) : NULL;
    if (at == NULL)
        return BYTES_NULL;
    struct bytes rest = bytes_of(at + 1, b->len - (size_t)(at - b->data) - 1);
    b->len = (size_t)(at - b->data);
    return rest;
}

int outrider__template_variable(struct bytes text, const struct template_rules *rules,
                                struct arena *arena, struct template_segment *ret_segment,
                                struct outrider_error *err)
{
    struct template_segment s = {0};
    struct bytes name = text;
    struct bytes modifier = template_cut(&name, ':');
    if (template_same_name(name, "header") && modifier.len > 0) {
        struct bytes header = modifier;
        modifier = template_cut(&header, ':');
        if (header.len == 0)
            return template_unknown_variable(text, rules, err);
        s.kind = TEMPLATE_HEADER;
        if (outrider__arena_dup(arena, header, &s.text) < 0)
            return outrider__fail_nomem(err);
    } else if (name.len == 0 || template_find_kind(name, rules, &s) < 0) {
        return template_unknown_variable(text, rules, err);
    }
    if (!bytes_is_null(modifier)) {
        size_t i = 0, n = sizeof modifiers / sizeof *modifiers;
        while (i < n && !bytes_eq_str(modifier, modifiers[i].name))
            i++;
        if (i == n)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "unknown form '%.*s' (known: lower, upper, kebab, snake)",
                                  modifier.len > 60 ? 60 : (int)modifier.len, modifier.data);
        s.letters = modifiers[i].letters;
    }
    *ret_segment = s;
    return 0;
}

struct compiler {
    const char *start, *p, *end;
    const struct template_rules *rules;
    struct arena *arena;
    struct template_segment segments[TEMPLATE_SEGMENTS_MAX];
    size_t n;
};

static int template_push(struct compiler *c, const struct template_segment *s,
                         struct outrider_error *err)
{
    if (c->n == TEMPLATE_SEGMENTS_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "more than %d parts",
                              TEMPLATE_SEGMENTS_MAX);
    c->segments[c->n++] = *s;
    return 0;
}

static int template_push_literal(struct compiler *c, struct bytes text, struct outrider_error *err)
{
    struct template_segment s = {.kind = TEMPLATE_LITERAL};
    if (text.len == 0)
        return 0;
    if (outrider__arena_dup(c->arena, text, &s.text) < 0)
        return outrider__fail_nomem(err);
    return template_push(c, &s, err);
}

static int template_push_variable(struct compiler *c, struct bytes name, size_t place,
                                  struct outrider_error *err)
{
    struct template_segment s;
    struct outrider_error why;
    if (outrider__template_variable(name, c->rules, c->arena, &s, &why) < 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "at character %zu: %s", place,
                              why.message);
    return template_push(c, &s, err);
}

/* Behind a dollar: $$, ${name}, and $1 where there are groups. */
static int template_compile_dollar(struct compiler *c, struct outrider_error *err)
{
    size_t place = (size_t)(c->p - c->start) + 1;
    const char *p = c->p + 1;
    if (p < c->end && *p == '$') {
        c->p = p + 1;
        return template_push_literal(c, BYTES_LIT("$"), err);
    }
    if (p < c->end && *p == '{') {
        const char *close = memchr(p, '}', (size_t)(c->end - p));
        if (close == NULL)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "the '${' at character %zu is not closed with '}'", place);
        c->p = close + 1;
        return template_push_variable(c, bytes_of(p + 1, (size_t)(close - p) - 1), place, err);
    }
    if (c->rules->group != NULL && p < c->end && template_is_digit(*p)) {
        const char *digits = p;
        while (p < c->end && template_is_digit(*p))
            p++;
        c->p = p;
        return template_push_variable(c, bytes_of(digits, (size_t)(p - digits)), place, err);
    }
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "a '$' at character %zu begins no variable (write ${name}, or $$ for a "
                          "dollar)",
                          place);
}

int outrider__template_compile(struct bytes text, const struct template_rules *rules,
                               struct arena *arena, struct template *ret_template,
                               struct outrider_error *err)
{
    struct compiler c = {.start = text.data,
                         .p = text.data,
                         .end = text.data + text.len,
                         .rules = rules,
                         .arena = arena};
    while (c.p < c.end) {
        const char *dollar = memchr(c.p, '$', (size_t)(c.end - c.p));
        const char *stop = dollar != NULL ? dollar : c.end;
        if (template_push_literal(&c, bytes_of(c.p, (size_t)(stop - c.p)), err) < 0)
            return -1;
        c.p = stop;
        if (dollar != NULL && template_compile_dollar(&c, err) < 0)
            return -1;
    }
    size_t size = c.n * sizeof *c.segments;
    struct template_segment *segments = outrider__arena_alloc(arena, size);
    if (segments == NULL)
        return outrider__fail_nomem(err);
    if (size > 0)
        memcpy(segments, c.segments, size);
    *ret_template = (struct template){segments, c.n};
    return 0;
}

static int template_header_value(struct bytes name, const struct event *e, struct arena *arena,
                                 struct bytes *ret_value, struct outrider_error *err)
{
    struct json_members m;
    struct bytes key, raw, text, value = BYTES_NULL;
    bool is_there = false;
    if (!bytes_is_null(e->headers) && outrider__json_members_begin(&m, e->headers) < 0) {
        (void)outrider__fail(err, OUTRIDER_NOT_JSON, OUTRIDER_DEAD,
                             "the event's headers are not a JSON object");
        return -1;
    }
    while (!bytes_is_null(e->headers) && !is_there &&
           outrider__json_members_next(&m, &key, &raw) > 0) {
        if (outrider__json_unescape(key, arena, &text) < 0 ||
            outrider__json_text(raw, arena, &value) < 0) {
            (void)outrider__fail_nomem(err);
            return -1;
        }
        is_there = bytes_eq(text, name);
    }
    if (!is_there) {
        (void)outrider__fail(err, OUTRIDER_ROUTE, OUTRIDER_DEAD,
                             "the topic needs the header '%.*s', which the event does not have",
                             name.len > 100 ? 100 : (int)name.len, name.data);
        return -1;
    }
    *ret_value = value;
    return 0;
}

int outrider__template_value(const struct template_segment *s, const struct template_input *in,
                             struct arena *arena, struct bytes *ret_value,
                             struct outrider_error *err)
{
    switch (s->kind) {
    case TEMPLATE_LITERAL:
        *ret_value = s->text;
        return 0;
    case TEMPLATE_AGGREGATE_TYPE:
        *ret_value = in->event->aggregate_type;
        return 0;
    case TEMPLATE_AGGREGATE_ID:
        *ret_value = in->event->aggregate_id;
        return 0;
    case TEMPLATE_EVENT_TYPE:
        *ret_value = in->event->event_type;
        return 0;
    case TEMPLATE_PARTITION_KEY:
        *ret_value = event_key(in->event);
        return 0;
    case TEMPLATE_HEADER:
        return template_header_value(s->text, in->event, arena, ret_value, err);
    case TEMPLATE_TOPIC:
        *ret_value = in->topic;
        return 0;
    case TEMPLATE_GROUP:
        *ret_value = (size_t)s->group < in->n_groups ? in->groups[s->group] : BYTES_NULL;
        return 0;
    }
    (void)outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_DEAD, "template part %d", (int)s->kind);
    return -1;
}

/* OrderCreated, order created and HTTPRequest become words; at most doubles the length. */
static char *template_put_words(char *out, struct bytes b, char separator)
{
    for (size_t i = 0; i < b.len; i++) {
        char c = b.data[i];
        char before = i > 0 ? b.data[i - 1] : '\0';
        char after = i + 1 < b.len ? b.data[i + 1] : '\0';
        if (c == '-' || c == '_' || c == ' ') {
            *out++ = separator;
            continue;
        }
        if (template_is_upper(c) && (template_is_lower(before) || template_is_digit(before) ||
                                     (template_is_upper(before) && template_is_lower(after))))
            *out++ = separator;
        *out++ = template_to_lower(c);
    }
    return out;
}

static char *template_put_value(char *out, enum template_letters letters, struct bytes b)
{
    switch (letters) {
    case LETTERS_AS_IS:
        if (b.len > 0)
            memcpy(out, b.data, b.len);
        return out + b.len;
    case LETTERS_LOWER:
        for (size_t i = 0; i < b.len; i++)
            *out++ = template_to_lower(b.data[i]);
        return out;
    case LETTERS_UPPER:
        for (size_t i = 0; i < b.len; i++)
            *out++ = template_to_upper(b.data[i]);
        return out;
    case LETTERS_KEBAB:
        return template_put_words(out, b, '-');
    case LETTERS_SNAKE:
        return template_put_words(out, b, '_');
    }
    return out;
}

int outrider__template_render(const struct template *t, const struct template_input *in,
                              struct arena *arena, struct bytes *ret_text,
                              struct outrider_error *err)
{
    struct bytes values[TEMPLATE_SEGMENTS_MAX];
    size_t room = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (outrider__template_value(&t->segments[i], in, arena, &values[i], err) < 0)
            return -1;
        room += t->segments[i].letters >= LETTERS_KEBAB ? 2 * values[i].len : values[i].len;
    }
    char *start = outrider__arena_alloc(arena, room), *p = start;
    if (start == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < t->n; i++)
        p = template_put_value(p, t->segments[i].letters, values[i]);
    *ret_text = bytes_of(start, (size_t)(p - start));
    return 0;
}

static int template_check_with(struct bytes text, const struct template_rules *rules, bool as_field,
                               struct outrider_error *err)
{
    struct arena arena;
    struct template t;
    struct template_segment s;
    outrider__arena_init(&arena, 1024);
    int r = as_field ? outrider__template_variable(text, rules, &arena, &s, err)
                     : outrider__template_compile(text, rules, &arena, &t, err);
    outrider__arena_release(&arena);
    return r;
}

int outrider__template_check(struct bytes text, struct outrider_error *err)
{
    return template_check_with(text, &(struct template_rules){0}, false, err);
}

int outrider__template_check_dead_letter(struct bytes text, struct outrider_error *err)
{
    return template_check_with(text, &(struct template_rules){.with_topic = true}, false, err);
}

int outrider__template_check_field(struct bytes text, struct outrider_error *err)
{
    return template_check_with(text, &(struct template_rules){0}, true, err);
}
