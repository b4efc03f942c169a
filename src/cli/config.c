/* SPDX-License-Identifier: MIT */
/*
 * Reads libyaml's events one after the other and sets options as they come.
 * The structure has a fixed depth, so nothing here recurses. A reader of errors
 * wants the line of what is wrong: keys and values carry theirs along.
 */
#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <yaml.h>

#include "base/words.h"
#include "core/adapter.h"
#include "cli/config_env.h"

#define PIPELINES_MAX 256

struct reader {
    yaml_parser_t yaml;
    yaml_event_t event; /* the current one */
    bool has_event;
    const char *name; /* of the file */
    struct config_file *file;
    struct outrider_error *err;
    struct strbuf *errors; /* all of them, one a line; NULL: the first one ends it */
    size_t depth;          /* maps and lists that are open */
    bool is_hopeless;      /* what follows cannot be read any more */
    /* Where each option, and each section (by its first option), was given; 0: not yet. */
    size_t *lines, *section_lines;
    size_t n_options; /* pipeline's, then the program's */
    size_t n_pipeline_options;
    size_t name_line, pipelines_line, first_key_line, log_line;
    size_t *pipeline_lines;
};

/* Where a scalar stands, and what it says; text is a copy in the arena. */
struct scalar {
    struct bytes text;
    size_t line;
    bool is_plain; /* without quotes: may be null */
};
#define SCALAR_INIT       \
    {                     \
        .text = { "", 0 } \
    }

static size_t config_line_of(const struct reader *r)
{
    return r->event.start_mark.line + 1;
}

static int config_fail_at(struct reader *r, size_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int config_fail_at(struct reader *r, size_t line, const char *fmt, ...)
{
    struct strbuf what;
    va_list ap;
    outrider__strbuf_init(&what, 1024);
    va_start(ap, fmt);
    outrider__strbuf_vappendf(&what, fmt, ap);
    va_end(ap);
    outrider__fail(r->err, OUTRIDER_CONFIG, OUTRIDER_STOP, "%s:%zu: %s", r->name, line,
                   strbuf_cstr(&what));
    outrider__strbuf_release(&what);
    return -1;
}

static int config_fail_with(struct reader *r, size_t line, const struct outrider_error *why)
{
    return config_fail_at(r, line, "%s", why->message);
}

static int config_fail_nomem(struct reader *r)
{
    r->is_hopeless = true;
    (void)outrider__fail_nomem(r->err);
    return -1;
}

static int config_fail_yaml(struct reader *r)
{
    const char *problem = r->yaml.problem != NULL ? r->yaml.problem : "malformed";
    r->is_hopeless = true;
    if (r->yaml.error == YAML_MEMORY_ERROR)
        return config_fail_nomem(r);
    if (r->yaml.error == YAML_READER_ERROR) {
        (void)outrider__fail(r->err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                             "%s: not a text file: %s (byte %zu)", r->name, problem,
                             r->yaml.problem_offset);
        return -1;
    }
    return config_fail_at(r, r->yaml.problem_mark.line + 1, "not YAML: %s", problem);
}

/* Moves on to the next event; what cannot be part of a configuration ends here. */
static int config_next(struct reader *r)
{
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = false;
    if (!yaml_parser_parse(&r->yaml, &r->event))
        return config_fail_yaml(r);
    r->has_event = true;
    const yaml_char_t *tag = NULL;
    switch (r->event.type) {
    case YAML_ALIAS_EVENT:
        return config_fail_at(r, config_line_of(r),
                              "aliases (*name) are not supported: write the value out");
    case YAML_SCALAR_EVENT:
        tag = r->event.data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        tag = r->event.data.sequence_start.tag;
        r->depth++;
        break;
    case YAML_MAPPING_START_EVENT:
        tag = r->event.data.mapping_start.tag;
        r->depth++;
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        break;
    default:
        break;
    }
    if (tag != NULL)
        return config_fail_at(r, config_line_of(r), "tags (%.40s) are not supported",
                              (const char *)tag);
    return 0;
}

/* Where all errors are wanted: notes this one, and steps out of what is open below the depth. */
static int config_go_on(struct reader *r, const struct pipeline_config *broken, size_t depth)
{
    if (r->errors == NULL || r->is_hopeless)
        return -1;
    outrider__strbuf_appendf(r->errors, "%s\n", r->err->message);
    if (broken != NULL)
        r->file->is_broken[broken - r->file->pipelines] = true;
    while (r->depth > depth)
        if (config_next(r) < 0 && r->is_hopeless)
            return -1;
    return 0;
}

/* The current scalar, copied: it must outlive the event. */
static int config_take_scalar(struct reader *r, struct scalar *ret)
{
    struct bytes text = bytes_of(r->event.data.scalar.value, r->event.data.scalar.length);
    *ret = (struct scalar){.line = config_line_of(r),
                           .is_plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE};
    return outrider__arena_dup(&r->file->arena, text, &ret->text) < 0 ? config_fail_nomem(r) : 0;
}

static bool config_is_null(const struct scalar *s)
{
    return s->is_plain &&
           (s->text.len == 0 || bytes_eq_str(s->text, "~") || bytes_eq_str(s->text, "null"));
}

static int config_shown(struct bytes b)
{
    return b.len > 80 ? 80 : (int)b.len;
}

/* The next key of a mapping: 1, or 0 at its end. The next event is its value. */
static int config_next_key(struct reader *r, struct scalar *ret_key)
{
    size_t depth = r->depth;
    do {
        if (config_next(r) < 0)
            return -1;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        if (r->event.type != YAML_SCALAR_EVENT) {
            r->is_hopeless = true;
            return config_fail_at(r, config_line_of(r), "a key must be a plain name");
        }
        if (config_take_scalar(r, ret_key) < 0)
            return -1;
        if (config_next(r) == 0)
            return 1;
    } while (config_go_on(r, NULL, depth) == 0);
    return -1;
}

static size_t config_index_of(const struct option *o)
{
    size_t n;
    const struct option *options = outrider__options(&n);
    return (size_t)(o - options);
}

/* Notes that the option with this index was given; twice is an error. */
static int config_note_once(struct reader *r, size_t index, const char *name, size_t line)
{
    if (r->lines[index] != 0)
        return config_fail_at(r, line, "option '%s' is given twice (first in line %zu)", name,
                              r->lines[index]);
    r->lines[index] = line;
    return 0;
}

static int config_value_text(struct reader *r, const struct option *o, const struct scalar *s,
                             struct bytes *ret_text)
{
    struct outrider_error why;
    *ret_text = s->text;
    if (o->is_template)
        return 0;
    if (outrider__config_env(s->text, &r->file->arena, ret_text, &why) < 0)
        return config_fail_with(r, s->line, &why);
    return 0;
}

static int config_set_scalar(struct reader *r, struct pipeline_config *c, const struct option *o)
{
    struct scalar s = SCALAR_INIT;
    struct bytes text = BYTES_NULL;
    struct outrider_error why;
    if (config_take_scalar(r, &s) < 0)
        return -1;
    if (config_is_null(&s)) {
        if (o->initial == NULL)
            s.text = BYTES_LIT("");
        else
            return config_fail_at(
                r, s.line, "option '%s' has no value: give one, or leave the line out", o->name);
    }
    if (config_value_text(r, o, &s, &text) < 0)
        return -1;
    if (outrider__config_set(c, bytes_str(o->name), text, &why) < 0)
        return config_fail_with(r, s.line, &why);
    return 0;
}

static int config_add_item(struct reader *r, struct pipeline_config *c, const struct option *o,
                           struct bytes map_name)
{
    struct scalar s = SCALAR_INIT;
    struct bytes text = BYTES_NULL;
    struct outrider_error why;
    if (r->event.type != YAML_SCALAR_EVENT)
        return config_fail_at(r, config_line_of(r),
                              "option '%s' takes plain values, not a list or map in it", o->name);
    if (config_take_scalar(r, &s) < 0 || config_value_text(r, o, &s, &text) < 0)
        return -1;
    if (outrider__config_add(c, o, map_name, text, &why) < 0)
        return config_fail_with(r, s.line, &why);
    return 0;
}

static int config_set_list(struct reader *r, struct pipeline_config *c, const struct option *o)
{
    outrider__config_clear(c, o);
    for (;;) {
        if (config_next(r) < 0)
            return -1;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (config_add_item(r, c, o, BYTES_NULL) < 0)
            return -1;
    }
}

static int config_set_map(struct reader *r, struct pipeline_config *c, const struct option *o)
{
    struct scalar key = SCALAR_INIT;
    int more;
    outrider__config_clear(c, o);
    while ((more = config_next_key(r, &key)) > 0)
        if (config_add_item(r, c, o, key.text) < 0)
            return -1;
    return more;
}

/* The option's value is the current event. */
static int config_set_option(struct reader *r, struct pipeline_config *c, const struct option *o)
{
    switch (r->event.type) {
    case YAML_SCALAR_EVENT:
        return config_set_scalar(r, c, o);
    case YAML_SEQUENCE_START_EVENT:
        if (!option_is_list(o))
            return config_fail_at(r, config_line_of(r), "option '%s' takes %s, not a list", o->name,
                                  o->type == OPTION_MAP ? "a map" : "one value");
        return config_set_list(r, c, o);
    case YAML_MAPPING_START_EVENT:
        if (o->type != OPTION_MAP)
            return config_fail_at(r, config_line_of(r), "option '%s' takes %s, not a map", o->name,
                                  option_is_list(o) ? "a list" : "one value");
        return config_set_map(r, c, o);
    default:
        return config_fail_at(r, config_line_of(r), "option '%s' has no value", o->name);
    }
}

static int config_set_by_name(struct reader *r, struct pipeline_config *c, struct bytes name,
                              size_t line)
{
    const struct option *o = outrider__option_find(name);
    struct outrider_error why;
    if (o == NULL) {
        outrider__option_unknown(name, &why);
        return config_fail_with(r, line, &why);
    }
    if (config_note_once(r, config_index_of(o), o->name, line) < 0)
        return -1;
    return config_set_option(r, c, o);
}

static int config_full_name(struct reader *r, struct bytes section, struct bytes key,
                            struct bytes *ret)
{
    char *p = outrider__arena_alloc(&r->file->arena, section.len + key.len + 1);
    if (p == NULL)
        return config_fail_nomem(r);
    memcpy(p, section.data, section.len);
    p[section.len] = '.';
    memcpy(p + section.len + 1, key.data, key.len);
    *ret = bytes_of(p, section.len + 1 + key.len);
    return 0;
}

/* True where the current value is null, as when all of a section is commented out. */
static bool config_at_null(struct reader *r)
{
    if (r->event.type != YAML_SCALAR_EVENT)
        return false;
    struct scalar s = {.text = bytes_of(r->event.data.scalar.value, r->event.data.scalar.length),
                       .is_plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE};
    return config_is_null(&s);
}

static int config_note_section(struct reader *r, const struct scalar *section)
{
    size_t n, i = 0;
    const struct option *options = outrider__options(&n);
    while (i < n - 1 && (strncmp(options[i].name, section->text.data, section->text.len) != 0 ||
                         options[i].name[section->text.len] != '.'))
        i++;
    if (r->section_lines[i] != 0)
        return config_fail_at(r, section->line, "section '%.*s' is given twice (first in line %zu)",
                              config_shown(section->text), section->text.data, r->section_lines[i]);
    r->section_lines[i] = section->line;
    return 0;
}

static int config_read_section(struct reader *r, struct pipeline_config *c,
                               const struct scalar *section)
{
    struct scalar key = SCALAR_INIT;
    struct bytes name = BYTES_NULL;
    int more;
    if (config_at_null(r))
        return 0;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return config_fail_at(r, config_line_of(r),
                              "'%.*s' is a section: its options stand below it, indented",
                              config_shown(section->text), section->text.data);
    if (config_note_section(r, section) < 0)
        return -1;
    size_t depth = r->depth;
    while ((more = config_next_key(r, &key)) > 0)
        if (config_full_name(r, section->text, key.text, &name) < 0 ||
            (config_set_by_name(r, c, name, key.line) < 0 && config_go_on(r, c, depth) < 0))
            return -1;
    return more;
}

static int config_read_name(struct reader *r, struct pipeline_config *c)
{
    struct scalar s = SCALAR_INIT;
    struct bytes text = BYTES_NULL;
    struct outrider_error why;
    if (r->event.type != YAML_SCALAR_EVENT)
        return config_fail_at(r, config_line_of(r), "'name' takes one value");
    if (config_take_scalar(r, &s) < 0)
        return -1;
    if (r->name_line != 0)
        return config_fail_at(r, s.line, "'name' is given twice (first in line %zu)", r->name_line);
    if (outrider__config_env(s.text, &r->file->arena, &text, &why) < 0 ||
        outrider__config_check_name(text, &why) < 0)
        return config_fail_with(r, s.line, &why);
    for (struct pipeline_config *other = r->file->pipelines; other < c; other++)
        if (bytes_eq_str(text, other->name))
            return config_fail_at(r, s.line,
                                  "two pipelines are named '%s' (the other one in line %zu)",
                                  other->name, r->pipeline_lines[other - r->file->pipelines]);
    struct bytes copy = BYTES_NULL;
    if (outrider__arena_dup(&r->file->arena, text, &copy) < 0)
        return config_fail_nomem(r);
    c->name = copy.data;
    r->name_line = s.line;
    return 0;
}

/* A key of a pipeline: its name, a section, or an option. The value is current. */
static int config_read_pipeline_key(struct reader *r, struct pipeline_config *c,
                                    const struct scalar *key)
{
    if (bytes_eq_str(key->text, "name"))
        return config_read_name(r, c);
    bool is_section = outrider__option_is_section(key->text);
    if (is_section && outrider__option_find(key->text) == NULL)
        return config_read_section(r, c, key);
    return config_set_by_name(r, c, key->text, key->line);
}

/* Room for one more, with all defaults. */
static int config_begin_pipeline(struct reader *r, size_t line, struct pipeline_config **ret)
{
    struct config_file *f = r->file;
    struct outrider_error why;
    if (f->n == PIPELINES_MAX)
        return config_fail_at(r, line, "more than %d pipelines", PIPELINES_MAX);
    if (outrider__config_init(&f->pipelines[f->n], &f->arena, "default", &why) < 0)
        return config_fail_with(r, line, &why);
    memset(r->lines, 0, r->n_pipeline_options * sizeof *r->lines);
    memset(r->section_lines, 0, r->n_options * sizeof *r->section_lines);
    r->pipeline_lines[f->n] = line;
    r->name_line = 0;
    *ret = &f->pipelines[f->n++];
    return 0;
}

static int config_read_pipeline(struct reader *r, bool *ret_is_named)
{
    struct pipeline_config *c = NULL;
    struct scalar key = SCALAR_INIT;
    int more;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return config_fail_at(r, config_line_of(r),
                              "a pipeline has options, as in '- name: orders'");
    if (config_begin_pipeline(r, config_line_of(r), &c) < 0)
        return -1;
    size_t depth = r->depth;
    while ((more = config_next_key(r, &key)) > 0)
        if (config_read_pipeline_key(r, c, &key) < 0 && config_go_on(r, c, depth) < 0)
            return -1;
    *ret_is_named = r->name_line != 0;
    return more;
}

static int config_read_pipelines(struct reader *r)
{
    bool is_named = true;
    size_t unnamed_line = 0;
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return config_fail_at(r, config_line_of(r),
                              "'pipelines' is a list: each pipeline begins with '- '");
    size_t depth = r->depth;
    for (;;) {
        if (config_next(r) < 0)
            return -1;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (config_read_pipeline(r, &is_named) < 0 && config_go_on(r, NULL, depth) < 0)
            return -1;
        if (!is_named && unnamed_line == 0)
            unnamed_line = r->pipeline_lines[r->file->n - 1];
    }
    if (unnamed_line != 0 && r->file->n > 1)
        return config_fail_at(r, unnamed_line,
                              "a pipeline without 'name', which each of several needs");
    return 0;
}

static int config_read_log_option(struct reader *r, const struct scalar *key)
{
    size_t n;
    const struct option *options = outrider__program_options(&n);
    struct scalar s = SCALAR_INIT;
    struct bytes name = BYTES_NULL, text = BYTES_NULL;
    struct outrider_error why;
    if (config_full_name(r, BYTES_LIT("log"), key->text, &name) < 0)
        return -1;
    const struct option *o = outrider__program_option_find(name);
    if (o != NULL &&
        config_note_once(r, r->n_pipeline_options + (size_t)(o - options), o->name, key->line) < 0)
        return -1;
    if (r->event.type != YAML_SCALAR_EVENT)
        return config_fail_at(r, config_line_of(r), "option '%.*s' takes one value",
                              config_shown(name), name.data);
    if (config_take_scalar(r, &s) < 0)
        return -1;
    if (outrider__config_env(s.text, &r->file->arena, &text, &why) < 0 ||
        outrider__program_set(&r->file->program, name, text, &why) < 0)
        return config_fail_with(r, key->line, &why);
    return 0;
}

static int config_read_log(struct reader *r)
{
    struct scalar key = SCALAR_INIT;
    int more;
    if (config_at_null(r))
        return 0;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return config_fail_at(r, config_line_of(r),
                              "'log' is a section: write 'log: {level: info}'");
    size_t depth = r->depth;
    while ((more = config_next_key(r, &key)) > 0)
        if (config_read_log_option(r, &key) < 0 && config_go_on(r, NULL, depth) < 0)
            return -1;
    return more;
}

/* The key of the file that was most likely meant, or NULL. */
static const char *config_nearest_top_key(struct bytes key)
{
    static const char *const keys[] = {"pipelines", "log"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (outrider__name_distance(key, bytes_str(keys[i])) == 1)
            return keys[i];
    return NULL;
}

static int config_unknown_top_key(struct reader *r, const struct scalar *key, const char *near)
{
    if (near != NULL)
        return config_fail_at(r, key->line, "unknown option '%.*s' (did you mean '%s'?)",
                              config_shown(key->text), key->text.data, near);
    return config_fail_at(r, key->line,
                          "unknown option '%.*s' (at the top stand 'pipelines' and 'log', or one "
                          "pipeline's own 'source', 'sink' and so on)",
                          config_shown(key->text), key->text.data);
}

/* A key at the top that belongs to a pipeline: there is only this one, then. */
static int config_read_top_key(struct reader *r, const struct scalar *key)
{
    struct pipeline_config *c = NULL;
    bool is_known = outrider__option_is_section(key->text) || bytes_eq_str(key->text, "name") ||
                    outrider__option_find(key->text) != NULL;
    const char *near = is_known ? NULL : config_nearest_top_key(key->text);
    if (near != NULL)
        return config_unknown_top_key(r, key, near);
    if (r->pipelines_line != 0)
        return config_fail_at(r, key->line,
                              "'%.*s' stands beside 'pipelines' (line %zu): move it into one",
                              config_shown(key->text), key->text.data, r->pipelines_line);
    if (r->file->n == 0) {
        if (!is_known && outrider__option_nearest(key->text) == NULL)
            return config_unknown_top_key(r, key, NULL);
        if (config_begin_pipeline(r, key->line, &c) < 0)
            return -1;
        r->first_key_line = key->line;
    }
    return config_read_pipeline_key(r, &r->file->pipelines[0], key);
}

static int config_read_top_pipelines(struct reader *r, size_t line)
{
    if (r->pipelines_line != 0)
        return config_fail_at(r, line, "'pipelines' is given twice (first in line %zu)",
                              r->pipelines_line);
    if (r->file->n > 0)
        return config_fail_at(
            r, line,
            "'pipelines' stands beside options of a pipeline (line %zu): move them "
            "into one",
            r->first_key_line);
    r->pipelines_line = line;
    return config_read_pipelines(r);
}

static int config_read_top_log(struct reader *r, size_t line)
{
    if (r->log_line != 0)
        return config_fail_at(r, line, "'log' is given twice (first in line %zu)", r->log_line);
    r->log_line = line;
    return config_read_log(r);
}

static int config_read_top(struct reader *r)
{
    struct scalar key = SCALAR_INIT;
    size_t depth = r->depth;
    int more;
    while ((more = config_next_key(r, &key)) > 0) {
        const struct pipeline_config *c = NULL;
        int result;
        if (bytes_eq_str(key.text, "pipelines")) {
            result = config_read_top_pipelines(r, key.line);
        } else if (bytes_eq_str(key.text, "log")) {
            result = config_read_top_log(r, key.line);
        } else {
            result = config_read_top_key(r, &key);
            c = r->first_key_line != 0 ? r->file->pipelines : NULL;
        }
        if (result < 0 && config_go_on(r, c, depth) < 0)
            return -1;
    }
    return more;
}

static int config_fail_empty(struct reader *r)
{
    return outrider__fail(r->err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "%s: no pipeline in it; at the least: pipelines: [{source: {url: "
                          "\"%s\"}, sink: {url: \"file:events\"}}]",
                          r->name, outrider__adapter_example(EXAMPLE_SOURCE));
}

static int config_read_document(struct reader *r)
{
    if (config_next(r) < 0) /* start of the stream */
        return -1;
    if (config_next(r) < 0) /* start of the document */
        return -1;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return config_fail_empty(r);
    if (config_next(r) < 0)
        return -1;
    if (config_at_null(r))
        return config_fail_empty(r);
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return config_fail_at(r, config_line_of(r),
                              "a configuration is a map that begins with 'pipelines:'");
    if (config_read_top(r) < 0 || config_next(r) < 0) /* end of the document */
        return -1;
    if (config_next(r) < 0)
        return -1;
    if (r->event.type != YAML_STREAM_END_EVENT)
        return config_fail_at(r, config_line_of(r), "a second document: a configuration is one");
    /* Where the only keys were wrong ones, there is no need to miss a pipeline too. */
    return r->file->n > 0 || (r->errors != NULL && r->errors->len > 0) ? 0 : config_fail_empty(r);
}

static int config_reader_init(struct reader *r)
{
    size_t n_program;
    struct arena *arena = &r->file->arena;
    (void)outrider__options(&r->n_pipeline_options);
    (void)outrider__program_options(&n_program);
    r->n_options = r->n_pipeline_options + n_program;
    r->lines = outrider__arena_alloc(arena, r->n_options * sizeof *r->lines);
    r->section_lines = outrider__arena_alloc(arena, r->n_options * sizeof *r->section_lines);
    r->pipeline_lines = outrider__arena_alloc(arena, PIPELINES_MAX * sizeof *r->pipeline_lines);
    r->file->pipelines = outrider__arena_alloc(arena, PIPELINES_MAX * sizeof *r->file->pipelines);
    r->file->is_broken = outrider__arena_alloc(arena, PIPELINES_MAX * sizeof *r->file->is_broken);
    if (r->lines == NULL || r->section_lines == NULL || r->pipeline_lines == NULL ||
        r->file->pipelines == NULL || r->file->is_broken == NULL)
        return config_fail_nomem(r);
    memset(r->file->is_broken, 0, PIPELINES_MAX * sizeof *r->file->is_broken);
    memset(r->lines, 0, r->n_options * sizeof *r->lines);
    return outrider__program_init(&r->file->program, r->err);
}

/* The caller gets the struct only when all is well; the pipelines' arena moves with it. */
static void config_hand_over(struct config_file *from, struct config_file *to)
{
    *to = *from;
    for (size_t i = 0; i < to->n; i++)
        to->pipelines[i].arena = &to->arena;
}

int outrider__config_parse(struct bytes text, const char *name, struct config_file *ret_file,
                           struct strbuf *ret_errors, struct outrider_error *err)
{
    struct config_file file = {.n = 0};
    struct reader r = {.name = name, .file = &file, .errors = ret_errors, .err = err};
    if (text.len > CONFIG_FILE_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s: larger than 1 MiB: that is no configuration", name);
    if (!yaml_parser_initialize(&r.yaml))
        return outrider__fail_nomem(err);
    outrider__arena_init(&file.arena, 16 * 1024);
    yaml_parser_set_input_string(&r.yaml, (const unsigned char *)(text.len > 0 ? text.data : ""),
                                 text.len);
    int result = config_reader_init(&r);
    if (result == 0)
        result = config_read_document(&r);
    if (r.has_event)
        yaml_event_delete(&r.event);
    yaml_parser_delete(&r.yaml);
    if (result < 0)
        outrider__arena_release(&file.arena);
    else
        config_hand_over(&file, ret_file);
    return result;
}

int outrider__config_empty(const char *pipeline, struct config_file *ret_file,
                           struct outrider_error *err)
{
    struct config_file file = {.n = 1};
    outrider__arena_init(&file.arena, 16 * 1024);
    file.pipelines = outrider__arena_alloc(&file.arena, sizeof *file.pipelines);
    if (file.pipelines == NULL ||
        outrider__config_init(file.pipelines, &file.arena, pipeline, err) < 0 ||
        outrider__program_init(&file.program, err) < 0) {
        bool no_memory = file.pipelines == NULL;
        outrider__arena_release(&file.arena);
        return no_memory ? outrider__fail_nomem(err) : -1;
    }
    config_hand_over(&file, ret_file);
    return 0;
}

void outrider__config_release(struct config_file *f)
{
    if (f == NULL)
        return;
    outrider__arena_release(&f->arena);
    *f = (struct config_file){.n = 0};
}

/* Reads to the end or to one byte more than is allowed, so that pipes work too. */
static int config_read_all(int fd, const char *path, char *text, size_t size, size_t *ret_len,
                           struct outrider_error *err)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(fd, text + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "cannot read %s: %s", path,
                                  strerror(errno));
        if (n == 0)
            break;
        len += (size_t)n;
    }
    *ret_len = len;
    return 0;
}

int outrider__config_read(const char *path, struct bytes *ret_text, struct outrider_error *err)
{
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "cannot open %s: %s", path,
                              strerror(errno));
    char *text = malloc(CONFIG_FILE_MAX + 1);
    int r = text == NULL ? outrider__fail_nomem(err)
                         : config_read_all(fd, path, text, CONFIG_FILE_MAX + 1, &len, err);
    (void)close(fd);
    if (r < 0) {
        free(text);
        return -1;
    }
    *ret_text = bytes_of(text, len);
    return 0;
}

int outrider__config_load(const char *path, struct config_file *ret_file, struct strbuf *ret_errors,
                          struct outrider_error *err)
{
    struct bytes text = BYTES_NULL;
    if (outrider__config_read(path, &text, err) < 0)
        return -1;
    int r = outrider__config_parse(text, path, ret_file, ret_errors, err);
    free((char *)text.data);
    return r;
}
