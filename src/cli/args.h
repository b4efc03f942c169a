/* SPDX-License-Identifier: MIT */
/*
 * The command line's own table: every command and every flag is one row
 * (commands.c). Parsing, --help, the man page, the reference page and the
 * shell completion all come from it.
 *
 *  (1) A flag is --name VALUE, --name=VALUE, or its letter; "--" ends flags.
 *  (2) A value is checked for its type when it is parsed, so that a command
 *      only ever sees values that the accessors below can convert.
 *  (3) Strings are borrowed from argv, or from wherever the caller keeps them.
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "base/bytes.h"
#include "base/error.h"

struct args;

enum flag_kind {
    FLAG_SWITCH,
    FLAG_TEXT,
    FLAG_URL,
    FLAG_FILE,
    FLAG_NUMBER,
    FLAG_DURATION,
    FLAG_TIME, /* RFC 3339, or a duration from now */
    FLAG_CHOICE,
    FLAG_PAIR /* NAME=VALUE */
};

enum flag_id {
    F_HELP,
    F_DB,
    F_TO,
    F_NAME,
    F_TABLE,
    F_MODE,
    F_CONFIG,
    F_DEBEZIUM,
    F_SET,
    F_ONCE,
    F_LOG_LEVEL,
    F_LOG_FORMAT,
    F_LAYOUT,
    F_PAYLOAD,
    F_PARTITION,
    F_INBOX,
    F_DRY_RUN,
    F_AGGREGATE_TYPE,
    F_AGGREGATE_ID,
    F_TYPE,
    F_TOPIC,
    F_KEY,
    F_HEADER,
    F_ID,
    F_OCCURRED_AT,
    F_EXPIRES_AT,
    F_JSONL,
    F_BATCH,
    F_SINCE,
    F_FROM_SEQ,
    F_ALL,
    F_PARKED,
    F_FOLLOW,
    F_LINES,
    F_RETENTION,
    F_PRINT,
    F_JSON,
    F_FROM_SLOT,
    F_OFFSET,
    F_PROGRESS,
    F_FORGET_INTENT,
    F_RENDER
};

struct flag {
    enum flag_id id;
    const char *name;
    const char *alias; /* another name for the same, or NULL */
    char letter;       /* 0: none */
    enum flag_kind kind;
    const char *value;    /* what --help calls the value */
    const char *choices;  /* CHOICE: "log|status" */
    int64_t min, max;     /* NUMBER */
    bool repeats;         /* may be given more than once */
    bool hidden;          /* for maintainers: not in --help */
    const char *commands; /* names, separated by spaces; "*": all */
    const char *text;
};

struct command {
    const char *name;
    const char *operands; /* as --help writes them, or NULL */
    const char *words;    /* what the first operand may be: "list|show", or NULL for anything */
    size_t max_operands;
    const char *usage; /* one or more lines, without "outrider NAME" */
    const char *summary;
    const char *text;
    const char *examples;
    int (*run)(const struct args *a);
};

struct arg {
    const struct flag *flag;
    const char *value;
};

struct args {
    const struct command *command;
    struct arg *given;
    size_t n_given;
    const char **operands;
    size_t n_operands;
};

/* The tables. */
const struct command *outrider__commands(size_t *ret_n);
const struct flag *outrider__flags(size_t *ret_n);
const struct command *outrider__command_find(const char *name);
/* Whether a command takes a flag. */
bool outrider__flag_belongs(const struct flag *f, const struct command *c);

/* Parses what stands behind the command's name. Errors are INVALID: usage. */
int outrider__args_parse(const struct command *c, int argc, char *const *argv,
                         struct args *ret_args, struct outrider_error *err);
void outrider__args_release(struct args *a);

bool outrider__args_has(const struct args *a, enum flag_id id);
/* The value, or NULL where the flag was not given. */
const char *outrider__args_text(const struct args *a, enum flag_id id);
/* The i-th value of a flag that repeats, or NULL behind the last. */
const char *outrider__args_at(const struct args *a, enum flag_id id, size_t i);
int64_t outrider__args_number(const struct args *a, enum flag_id id, int64_t otherwise);
int64_t outrider__args_duration(const struct args *a, enum flag_id id, int64_t otherwise);
/* Wall clock; a duration counts back from now_us. 0 where not given. */
int64_t outrider__args_time(const struct args *a, enum flag_id id, int64_t now_us);

/* Rendering. */
void outrider__help_overview(void);
void outrider__help_command(const struct command *c);
/* "man", "completion", "commands", "options", "sample": the committed pages. */
int outrider__help_render(const char *what, struct outrider_error *err);

#endif
