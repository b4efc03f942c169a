/* SPDX-License-Identifier: MIT */
/*
 * The option table: every option of a pipeline is one row. The command line's
 * --help, the reference page, the sample file and the checks come from it.
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

struct option {
    const char *name; /* with its section: "retry.max_attempts" */
    enum option_type type;
    size_t offset;         /* in struct pipeline_config */
    const char *initial;   /* default, as text; NULL: none */
    const char *values;    /* ENUM: "skip|block", in the order of the enum */
    double min, max;       /* numbers, sizes (bytes), durations (seconds); max 0: no limit */
    bool reloadable;       /* SIGHUP takes it over */
    const char *text;      /* one sentence for people */
};

const struct option *outrider__options(size_t *ret_n);
/* By full name, or by the part behind the section where that is unique. */
const struct option *outrider__option_find(struct bytes name);
/* The name that was most likely meant, or NULL. */
const char *outrider__option_nearest(struct bytes name);

/* All defaults. */
int outrider__config_init(struct pipeline_config *c, struct arena *arena, const char *name,
                          struct outrider_error *err);
/* Parses and checks one value. Lists: "[a, b]" or "a,b"; maps: "{a: b, c: d}". */
int outrider__config_set(struct pipeline_config *c, struct bytes name, struct bytes value,
                         struct outrider_error *err);
/* Lists and maps item by item, for a parser that has them already. */
int outrider__config_add(struct pipeline_config *c, const struct option *o, struct bytes map_name,
                         struct bytes value, struct outrider_error *err);
/* What no single option can see: needs a source URL, a sink URL, a route, delays or base, ... */
int outrider__config_check(const struct pipeline_config *c, struct outrider_error *err);
/* An option's value as text that config_set takes back; secrets redacted. */
int outrider__config_get(const struct pipeline_config *c, const struct option *o,
                         struct strbuf *ret_text);

#endif
