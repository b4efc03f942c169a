/* SPDX-License-Identifier: MIT */
/*
 * Topic templates: text with variables, compiled once, rendered per event.
 *
 *     ${aggregate_type} ${event_type} ${aggregate_id} ${partition_key}
 *     ${header:NAME}       a header of the event; missing: the event's error
 *     ${name:lower}        also upper, kebab (order-created), snake (order_created)
 *     $$                   a dollar
 *
 * Names are also taken as ${aggregateType}. partition_key falls back to the
 * aggregate id, as the message key does. A dead letter's topic also knows
 * ${topic}, a regular expression's replacement $1, ${1} and ${group}.
 */
#ifndef CORE_TEMPLATE_H
#define CORE_TEMPLATE_H

#include "core/event.h"

#define TEMPLATE_SEGMENTS_MAX 32
#define TEMPLATE_GROUPS_MAX 100

enum template_kind {
    TEMPLATE_LITERAL,
    TEMPLATE_AGGREGATE_TYPE,
    TEMPLATE_AGGREGATE_ID,
    TEMPLATE_EVENT_TYPE,
    TEMPLATE_PARTITION_KEY,
    TEMPLATE_HEADER,
    TEMPLATE_TOPIC,
    TEMPLATE_GROUP
};

enum template_letters { LETTERS_AS_IS, LETTERS_LOWER, LETTERS_UPPER, LETTERS_KEBAB, LETTERS_SNAKE };

struct template_segment {
    enum template_kind kind;
    enum template_letters letters;
    struct bytes text; /* LITERAL; HEADER: its name */
    int group;         /* GROUP */
};

struct template
{
    struct template_segment *segments;
    size_t n;
};

/* What is allowed beside the variables of an event. */
struct template_rules {
    bool with_topic;
    /* The number of a group by its name or number, or negative; NULL: no groups. */
    int (*group)(const void *ctx, struct bytes name);
    const void *ctx;
};

/* What a template is rendered from. */
struct template_input {
    const struct event *event;
    struct bytes topic;
    const struct bytes *groups;
    size_t n_groups;
};

/* Segments are copies in the arena. The error speaks of the text only, with the
 * place in it. */
int outrider__template_compile(struct bytes text, const struct template_rules *rules,
                               struct arena *arena, struct template *ret_template,
                               struct outrider_error *err);
/* The result is a copy in the arena, which allocates nothing else. */
int outrider__template_render(const struct template *t, const struct template_input *in,
                              struct arena *arena, struct bytes *ret_text,
                              struct outrider_error *err);
/* One variable by name ("event_type", "header:tenant"), for what needs a field
 * and not a text. */
int outrider__template_variable(struct bytes name, const struct template_rules *rules,
                                struct arena *arena, struct template_segment *ret_segment,
                                struct outrider_error *err);
/* Its value, without `letters` applied. */
int outrider__template_value(const struct template_segment *s, const struct template_input *in,
                             struct arena *arena, struct bytes *ret_value,
                             struct outrider_error *err);

/* Checks for the option table. */
int outrider__template_check(struct bytes text, struct outrider_error *err);
int outrider__template_check_dead_letter(struct bytes text, struct outrider_error *err);
int outrider__template_check_field(struct bytes text, struct outrider_error *err);

#endif
