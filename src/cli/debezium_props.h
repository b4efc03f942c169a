/* SPDX-License-Identifier: MIT */
/*
 * What the files of the translation share: the connector's properties, and the
 * configuration that they become. debezium.c reads them and looks after the
 * database and what cannot be had, debezium_router.c is the outbox event router.
 */
#ifndef CLI_DEBEZIUM_PROPS_H
#define CLI_DEBEZIUM_PROPS_H

#include "core/options.h"

#define DEBEZIUM_PROPS_MAX 2000
#define DEBEZIUM_NAME_MAX 256

struct debezium_prop {
    const char *name, *value;
    bool is_used;
};

struct debezium {
    struct arena *arena;
    struct pipeline_config *config;
    struct strbuf *warnings;
    struct strbuf *errors; /* all of them, one a line; NULL: the first one ends it */
    const char *path;      /* stands for the file in errors */
    struct debezium_prop *props;
    size_t n;
    const char *name;               /* the connector's, or NULL */
    char router[DEBEZIUM_NAME_MAX]; /* "transforms.outbox." */
    bool is_mysql;
};

/* The property's value, or NULL where it is missing or empty; it counts as used. */
const char *outrider__debezium_get(struct debezium *d, const char *name);
/* The same of the router, and of the first of two names that is there. */
const char *outrider__debezium_get_router(struct debezium *d, const char *name, const char *older);
int outrider__debezium_set(struct debezium *d, const char *option, const char *value,
                           struct outrider_error *err);
/* One item of a list (name NULL) or of a map. */
int outrider__debezium_add(struct debezium *d, const char *option, const char *name,
                           const char *value, struct outrider_error *err);
void outrider__debezium_warn(struct debezium *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* After an error: 0 if all are wanted, and the next step comes; -1: this one ends it. */
int outrider__debezium_note(struct debezium *d, const struct outrider_error *err);
/* "true" or "false", else an error. */
int outrider__debezium_bool(const char *name, const char *value, bool *ret,
                            struct outrider_error *err);
/* Without the white space around it; in place. */
char *outrider__debezium_trim(char *text);
/* The next item of a list "a, b", trimmed, at *list; NULL at its end. */
char *outrider__debezium_next(char **list);
/* Copies what may be cut up. */
char *outrider__debezium_copy(struct debezium *d, const char *text);

/* debezium_known.c: whether it is a property of Debezium's or of Kafka Connect's. */
bool outrider__debezium_knows(const struct debezium *d, const char *name);

/* debezium_router.c: columns, topic, placement, converters. */
int outrider__debezium_router(struct debezium *d, struct outrider_error *err);

/* debezium_java.c: Java's regular expressions and their replacements as ours. The
 * pattern must match all of its subject, as Matcher.matches() has it. */
int outrider__java_pattern(const char *java, struct strbuf *ret_pattern,
                           struct outrider_error *err);
int outrider__java_replacement(const char *java, unsigned groups, struct strbuf *ret_replacement,
                               struct outrider_error *err);

#endif
