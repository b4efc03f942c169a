/* SPDX-License-Identifier: MIT */
/*
 * The option tables: every option of a pipeline is one row of one table, and
 * every option of the program is one row of another. The command line's
 * --help, the reference page, the sample file, the checks and the hiding of secrets come
 * from them. A new option is a field in core/config.h and a row in core/options.c; an
 * option that only one adapter uses is a field and a row of that adapter (core/adapter.h).
 */
#ifndef CORE_OPTIONS_H
#define CORE_OPTIONS_H

#include "base/strbuf.h"
#include "core/config.h"

enum option_type {
    OPTION_STRING,
    OPTION_SECRET_URL, /* a URL, shown only redacted */
    OPTION_BOOL,
    OPTION_INT,
    OPTION_NUMBER,
    OPTION_SIZE,     /* bytes: 1MiB */
    OPTION_DURATION, /* 250ms, 7d */
    OPTION_ENUM,
    OPTION_STRINGS,   /* list */
    OPTION_DURATIONS, /* list */
    OPTION_MAP        /* name: value */
};

/* A list or map holds at most this many items. */
#define OPTION_ITEMS_MAX 1024
/* A value as text is at most this long. */
#define OPTION_VALUE_MAX 65536

struct option {
    const char *name; /* with its section: "retry.max_attempts" */
    enum option_type type;
    size_t offset;       /* in struct pipeline_config (an adapter's row: in its struct) */
    const char *initial; /* default, as text; NULL: none, and an empty value unsets it */
    const char *example; /* where there is no default that shows the form */
    const char *values;  /* ENUM: "skip|block", in the order of the enum */
    double min, max;     /* numbers, sizes (bytes), durations (seconds); max 0: no limit */
    bool reloadable;     /* SIGHUP takes it over */
    bool is_template;    /* ${...} in it is ours: never taken from the environment */
    /* Never shown, neither by commands nor by ps(1): a MAP's values whose names sound secret;
     * of any other type, the value. */
    bool has_secrets;
    /* Optional: whether a string (or a map's value) makes sense; the error
     * speaks of the value only, the caller puts the option's name before it. */
    int (*check)(struct bytes value, struct outrider_error *err);
    const char *text; /* one sentence for people */
};

static inline bool option_is_list(const struct option *o)
{
    return o->type == OPTION_STRINGS || o->type == OPTION_DURATIONS;
}

/* The pipeline's table: core's rows, and those of every adapter of this source tree. */
const struct option *outrider__options(size_t *ret_n);
/* The rows that core has. */
const struct option *outrider__core_options(size_t *ret_n);
/* Where adapters' structs are in struct pipeline_config: what config_init sets. */
const struct adapter_place *outrider__adapter_places(void);
/* By full name, or by the part behind the section where that is unique. */
const struct option *outrider__option_find(struct bytes name);
/* The same, or, for "a.map.NAME", the map that NAME is an item of. */
const struct option *outrider__option_resolve(struct bytes name, struct bytes *ret_item);
/* The name that was most likely meant, or NULL; also of a section ("retry"). */
const char *outrider__option_nearest(struct bytes name);
/* Whether some option's name begins with "name.". */
bool outrider__option_is_section(struct bytes name);
/* The error for a name that find() does not know: what was meant, or which
 * full names a short one could stand for. */
int outrider__option_unknown(struct bytes name, struct outrider_error *err);

/* All defaults. */
int outrider__config_init(struct pipeline_config *c, struct arena *arena, const char *name,
                          struct outrider_error *err);
/* Parses and checks one value. Lists: "[a, b]" or "a,b"; maps: "{a: b, c: d}";
 * an item with special characters stands in quotes. A list or map replaces
 * what was there; "a.map.NAME" sets one item of the map a.map. */
int outrider__config_set(struct pipeline_config *c, struct bytes name, struct bytes value,
                         struct outrider_error *err);
/* Lists and maps item by item, for a parser that has them already: clear, then
 * add. (They are copied when they grow, so a config copied by value is safe.) */
void outrider__config_clear(struct pipeline_config *c, const struct option *o);
int outrider__config_add(struct pipeline_config *c, const struct option *o, struct bytes map_name,
                         struct bytes value, struct outrider_error *err);
/* What no single option can see: needs a source URL, a sink URL, a route, delays or base, ... */
int outrider__config_check(const struct pipeline_config *c, struct outrider_error *err);
/* The same, told one by one and without the pipeline's name before each; how many. Without
 * URLs: a missing one is no error, for a file that says it in a line that is wrong. */
typedef void config_error_fn(void *ctx, const struct outrider_error *why);
unsigned outrider__config_check_all(const struct pipeline_config *c, bool with_urls,
                                    config_error_fn *tell, void *ctx);
/* The same as config_check without asking for a sink, for commands that only work on the database.
 */
int outrider__config_check_source(const struct pipeline_config *c, struct outrider_error *err);
/* Whether a pipeline may have this name; it becomes part of names in databases. */
int outrider__config_check_name(struct bytes name, struct outrider_error *err);
/* An option's value as text that config_set takes back; secrets redacted. */
int outrider__config_get(const struct pipeline_config *c, const struct option *o,
                         struct strbuf *ret_text);
/* Whether the values differ, secrets included: for a reload that names what it
 * cannot take over. */
bool outrider__config_differs(const struct pipeline_config *a, const struct pipeline_config *b,
                              const struct option *o);
/* Every reloadable option becomes the fresh one's, which must live as long: strings
 * and lists are borrowed. */
void outrider__config_reload(struct pipeline_config *c, const struct pipeline_config *fresh);

/* The program's own small table (log.level, log.format), in the same form. */
const struct option *outrider__program_options(size_t *ret_n);
const struct option *outrider__program_option_find(struct bytes name);
int outrider__program_init(struct program_config *p, struct outrider_error *err);
int outrider__program_set(struct program_config *p, struct bytes name, struct bytes value,
                          struct outrider_error *err);
int outrider__program_get(const struct program_config *p, const struct option *o,
                          struct strbuf *ret_text);

/* Text made from the tables (core/options_render.c): the reference page, a
 * sample file in which every option stands with its default, and --help. */
void outrider__options_markdown(struct strbuf *out);
void outrider__options_sample_yaml(struct strbuf *out);
void outrider__options_help(struct strbuf *out);

#endif
