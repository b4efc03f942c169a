/* SPDX-License-Identifier: MIT */
/*
 * Text from the option tables. docs/reference/options.md and
 * outrider.sample.yaml are what these functions say; a test fails when the
 * files and the tables drift apart.
 */
#include "core/option_value.h"

#include <stdio.h>

static const struct {
    const char *section, *text;
} sections[] = {
    {"source", "The database that holds the outbox."},
    {"map", "Columns of an outbox table that existed before Outrider. Usual names are found by "
            "themselves, and `outrider doctor` prints what was found; `-` says that there is no "
            "such column."},
    {"sink", "The receiver."},
    {"route", "Which topic an event goes to. First that applies: the event's own topic, "
              "`route.by_type`, `route.regex`, `route.topic`."},
    {"form", "What a message looks like."},
    {"headers", "Names of the headers that every message gets beside the event's own."},
    {"select", "Which events are delivered."},
    {"retry", "What happens to an event that failed. An outage of the receiver is no event's "
              "failure and spends no attempts."},
    {"dead_letter", "What happens to an event that used up its attempts, or can never work."},
    {"cleanup", "How long settled events stay."},
    {"", "The pipeline as a whole."},
    {"log", "The program's log; stands beside `pipelines:`, not in one."},
};
#define N_SECTIONS (sizeof sections / sizeof *sections)

/* The heading an option stands under: most have their section's, a few share one. */
static struct bytes render_heading_of(const struct option *o)
{
    const char *dot = strchr(o->name, '.');
    if (strcmp(o->name, "form") == 0 || strncmp(o->name, "cloudevents.", 12) == 0)
        return BYTES_LIT("form");
    return dot != NULL ? bytes_of(o->name, (size_t)(dot - o->name)) : BYTES_LIT("");
}

static const char *render_section_text(struct bytes heading)
{
    for (size_t i = 0; i < N_SECTIONS; i++)
        if (bytes_eq_str(heading, sections[i].section))
            return sections[i].text;
    return "";
}

static const char *render_reload_text(const struct option *o)
{
    return o->reloadable ? "yes" : "restart";
}

/* A table's cell: a bar would end it. */
static void render_append_cell(struct strbuf *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '|')
            strbuf_append_char(out, '\\');
        strbuf_append_char(out, *p);
    }
}

static void render_append_row(struct strbuf *out, const struct option *o)
{
    outrider__strbuf_appendf(out, "| `%s` | ", o->name);
    outrider__value_describe(o, out);
    if (o->initial != NULL && o->initial[0] != '\0')
        outrider__strbuf_appendf(out, " | `%s` | %s | ", o->initial, render_reload_text(o));
    else
        outrider__strbuf_appendf(out, " | none | %s | ", render_reload_text(o));
    render_append_cell(out, o->text);
    if (o->example != NULL) {
        strbuf_append_str(out, " Example: `");
        render_append_cell(out, o->example);
        strbuf_append_char(out, '`');
    }
    strbuf_append_str(out, " |\n");
}

static void render_append_tables(struct strbuf *out, const struct option *options, size_t n)
{
    struct bytes heading = BYTES_NULL;
    for (size_t i = 0; i < n; i++) {
        struct bytes next = render_heading_of(&options[i]);
        if (i == 0 || !bytes_eq(heading, next)) {
            heading = next;
            outrider__strbuf_appendf(out, "\n## %.*s\n\n%s\n\n", next.len ? (int)next.len : 8,
                                     next.len ? next.data : "Pipeline", render_section_text(next));
            strbuf_append_str(out, "| option | takes | default | reload | meaning |\n"
                                   "|---|---|---|---|---|\n");
        }
        render_append_row(out, &options[i]);
    }
}

void outrider__options_markdown(struct strbuf *out)
{
    size_t n, n_program;
    const struct option *options = outrider__options(&n);
    const struct option *program = outrider__program_options(&n_program);
    strbuf_append_str(
        out, "# Options\n\n"
             "<!-- Made from the option table (src/core/options.c): do not edit by hand. -->\n\n"
             "Every option of a pipeline can stand in the configuration file\n"
             "(`outrider.sample.yaml` shows all of them) and on the command line as\n"
             "`--set NAME=VALUE`. The part before the dot may be left out where the rest is\n"
             "unique: `--set poll_interval=50ms`.\n\n"
             "- Durations: `250ms`, `30s`, `5m`, `1h30m`, `7d`. Sizes: `4KiB`, `1MiB`, `2GB`; a\n"
             "  number alone is bytes.\n"
             "- Lists: `[a, b]` or `a,b`. Maps: `{name: value}`. An item with special characters\n"
             "  stands in quotes.\n"
             "- `${NAME}` in the file, in capitals, is taken from the environment, except in\n"
             "  options of `route` and `dead_letter`, where `${...}` is a variable of the event.\n"
             "- Reload: `yes` options are taken over on SIGHUP, the others need a restart.\n");
    render_append_tables(out, options, n);
    render_append_tables(out, program, n_program);
}

/* Text as a YAML comment, wrapped. */
static void render_append_comment(struct strbuf *out, const char *indent, const char *text)
{
    const size_t width = 88;
    size_t column = 0;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > width) {
            strbuf_append_char(out, '\n');
            column = 0;
        }
        if (column == 0) {
            outrider__strbuf_appendf(out, "%s#", indent);
            column = strlen(indent) + 1;
        }
        outrider__strbuf_appendf(out, " %.*s", (int)word, text);
        column += 1 + word;
        text += word;
        text += strspn(text, " ");
    }
    strbuf_append_char(out, '\n');
}

static bool render_needs_quotes(const struct option *o, const char *value)
{
    if (o->type != OPTION_STRING && o->type != OPTION_SECRET_URL)
        return false;
    return value[0] == '\0' || strpbrk(value, "{}[]\"'#&*!|>%@`,\\^?") != NULL;
}

static void render_append_yaml_value(struct strbuf *out, const struct option *o, const char *value)
{
    /* Single quotes: in double ones YAML would take a backslash for its own. */
    outrider__strbuf_appendf(out, render_needs_quotes(o, value) ? "'%s'" : "%s", value);
}

/* One option, commented out with its default unless it has to be given. */
static void render_append_sample(struct strbuf *out, const struct option *o, const char *indent)
{
    const char *dot = strchr(o->name, '.');
    const char *key = dot != NULL ? dot + 1 : o->name;
    bool is_given = o->type == OPTION_SECRET_URL;
    bool has_default = o->initial != NULL;
    render_append_comment(out, indent, o->text);
    outrider__strbuf_appendf(out, "%s%s%s: ", indent, is_given ? "" : "#", key);
    render_append_yaml_value(out, o, has_default ? o->initial : outrider__value_example(o));
    if (!has_default && !is_given)
        strbuf_append_str(out, "   # an example: the default is none");
    else if (has_default && o->example != NULL)
        outrider__strbuf_appendf(out, "   # for example: %s", o->example);
    strbuf_append_char(out, '\n');
}

static void render_append_samples(struct strbuf *out, const struct option *options, size_t n,
                                  const char *indent)
{
    struct bytes section = BYTES_NULL;
    for (size_t i = 0; i < n; i++) {
        const char *dot = strchr(options[i].name, '.');
        struct bytes next = dot != NULL ? bytes_of(options[i].name, (size_t)(dot - options[i].name))
                                        : BYTES_LIT("");
        if (i == 0 || !bytes_eq(section, next)) {
            section = next;
            strbuf_append_char(out, '\n');
            if (next.len > 0)
                outrider__strbuf_appendf(out, "%s%.*s:\n", indent, (int)next.len, next.data);
        }
        char deeper[16];
        (void)snprintf(deeper, sizeof deeper, "%s%s", indent, next.len > 0 ? "  " : "");
        render_append_sample(out, &options[i], deeper);
    }
}

void outrider__options_sample_yaml(struct strbuf *out)
{
    size_t n, n_program;
    const struct option *options = outrider__options(&n);
    const struct option *program = outrider__program_options(&n_program);
    strbuf_append_str(
        out,
        "# Every option of Outrider with its default: made from the option table.\n"
        "# Run with: outrider relay -c outrider.yaml; validate with: outrider check -c "
        "outrider.yaml\n"
        "# ${NAME}, in capitals, is taken from the environment: no secret needs to stand here.\n"
        "\npipelines:\n  - name: default\n");
    render_append_samples(out, options, n, "    ");
    strbuf_append_str(out, "\n# The program's own options, beside the pipelines.");
    render_append_samples(out, program, n_program, "");
}

static const char *render_value_word(const struct option *o)
{
    switch (o->type) {
    case OPTION_SECRET_URL:
        return "URL";
    case OPTION_BOOL:
        return "true|false";
    case OPTION_INT:
    case OPTION_NUMBER:
        return "N";
    case OPTION_SIZE:
        return "SIZE";
    case OPTION_DURATION:
        return "TIME";
    case OPTION_ENUM:
        return o->values;
    case OPTION_STRINGS:
        return "[A, B]";
    case OPTION_DURATIONS:
        return "[TIME, ...]";
    case OPTION_MAP:
        return "{A: B}";
    case OPTION_STRING:
        break;
    }
    return "TEXT";
}

static void render_append_help(struct strbuf *out, const struct option *options, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct option *o = &options[i];
        outrider__strbuf_appendf(out, "  %s=%s", o->name, render_value_word(o));
        if (o->initial != NULL && o->initial[0] != '\0')
            outrider__strbuf_appendf(out, "  (%s)", o->initial);
        strbuf_append_char(out, '\n');
        outrider__strbuf_appendf(out, "      %s\n", o->text);
    }
}

void outrider__options_help(struct strbuf *out)
{
    size_t n, n_program;
    const struct option *options = outrider__options(&n);
    const struct option *program = outrider__program_options(&n_program);
    strbuf_append_str(out, "Options for --set NAME=VALUE and the configuration file (defaults in "
                           "parentheses):\n");
    render_append_help(out, options, n);
    render_append_help(out, program, n_program);
}
