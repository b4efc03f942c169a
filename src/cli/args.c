/* SPDX-License-Identifier: MIT */
/*
 * Parsing a command line by the table in commands.c.
 *
 * No flag is ever guessed from its beginning: a script written today must not
 * change its meaning when a flag is added.
 */
#include "cli/args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/words.h"

bool outrider__flag_belongs(const struct flag *f, const struct command *c)
{
    return strcmp(f->commands, "*") == 0 ||
           outrider__words_have(f->commands, ' ', bytes_str(c->name));
}

const struct command *outrider__command_find(const char *name)
{
    size_t n;
    const struct command *all = outrider__commands(&n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    }
    return NULL;
}

static const struct flag *args_flag_find(const struct command *c, const char *name, size_t len)
{
    size_t n;
    const struct flag *all = outrider__flags(&n);
    for (size_t i = 0; i < n; i++) {
        const struct flag *f = &all[i];
        if (!outrider__flag_belongs(f, c))
            continue;
        if (strlen(f->name) == len && memcmp(f->name, name, len) == 0)
            return f;
        if (f->alias && strlen(f->alias) == len && memcmp(f->alias, name, len) == 0)
            return f;
    }
    return NULL;
}

static const struct flag *args_flag_by_letter(const struct command *c, char letter)
{
    size_t n;
    const struct flag *all = outrider__flags(&n);
    for (size_t i = 0; i < n; i++) {
        if (all[i].letter == letter && letter && outrider__flag_belongs(&all[i], c))
            return &all[i];
    }
    return NULL;
}

static int args_unknown_flag(const struct command *c, const char *arg, struct outrider_error *err)
{
    size_t n, best = 4;
    const struct flag *all = outrider__flags(&n);
    const char *nearest = NULL;
    char word[WORDS_NAME_MAX + 1];
    const char *name = arg + (arg[1] == '-' ? 2 : 1);
    size_t len = strcspn(name, "=");
    snprintf(word, sizeof(word), "%.*s", (int)(len < WORDS_NAME_MAX ? len : WORDS_NAME_MAX), name);
    for (size_t i = 0; i < n; i++) {
        if (!outrider__flag_belongs(&all[i], c) || all[i].hidden)
            continue;
        size_t d = outrider__name_distance(bytes_str(word), bytes_str(all[i].name));
        if (d < best && d < strlen(all[i].name)) {
            best = d;
            nearest = all[i].name;
        }
    }
    if (nearest)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "unknown flag %s%s for '%s' (did you mean --%s?)",
                              arg[1] == '-' ? "--" : "-", word, c->name, nearest);
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                          "unknown flag %s%s for '%s'; see outrider %s --help",
                          arg[1] == '-' ? "--" : "-", word, c->name, c->name);
}

static int args_parse_number(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || !strchr("-0123456789", text[0]))
        return -1;
    *ret = v;
    return 0;
}

static int args_parse_time(const char *text, int64_t now_us, int64_t *ret_us)
{
    int64_t ago;
    if (outrider__clock_parse(bytes_str(text), ret_us) == 0)
        return 0;
    if (outrider__duration_parse(bytes_str(text), &ago) < 0 || ago > now_us)
        return -1;
    *ret_us = now_us - ago;
    return 0;
}

static int args_bad_value(const struct flag *f, const char *wanted, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "--%s takes %s", f->name, wanted);
}

/* The value itself is not repeated in the message: it may be a secret. */
static int args_check_value(const struct flag *f, const char *value, struct outrider_error *err)
{
    int64_t v;
    char range[96];
    switch (f->kind) {
    case FLAG_NUMBER:
        if (args_parse_number(value, &v) == 0 && v >= f->min && (f->max == 0 || v <= f->max))
            return 0;
        if (f->max)
            snprintf(range, sizeof(range), "a whole number from %" PRId64 " to %" PRId64, f->min,
                     f->max);
        else
            snprintf(range, sizeof(range), "a whole number of at least %" PRId64, f->min);
        return args_bad_value(f, range, err);
    case FLAG_DURATION:
        return outrider__duration_parse(bytes_str(value), &v) == 0
                   ? 0
                   : args_bad_value(f, "a duration such as 250ms, 1h30m or 7d", err);
    case FLAG_TIME:
        return args_parse_time(value, INT64_MAX, &v) == 0
                   ? 0
                   : args_bad_value(
                         f, "a time such as 2026-01-31T08:00:00Z, or a duration such as 1h", err);
    case FLAG_CHOICE:
        return outrider__words_have(f->choices, '|', bytes_str(value))
                   ? 0
                   : outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                                    "--%s takes one of %s, not '%.40s'", f->name, f->choices,
                                    value);
    case FLAG_PAIR:
        return strchr(value, '=') && value[0] != '=' ? 0 : args_bad_value(f, f->value, err);
    case FLAG_URL:
    case FLAG_FILE:
        return value[0] ? 0 : args_bad_value(f, "a value that is not empty", err);
    case FLAG_TEXT:
    case FLAG_SWITCH:
        break;
    }
    return 0;
}

static int args_give(struct args *a, const struct flag *f, const char *value,
                     struct outrider_error *err)
{
    if (!f->repeats && f->kind != FLAG_SWITCH && outrider__args_has(a, f->id)) {
        if (f->alias)
            return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                                  "--%s is given twice (--%s is the same)", f->name, f->alias);
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "--%s is given twice", f->name);
    }
    if (value && args_check_value(f, value, err) < 0)
        return -1;
    a->given[a->n_given++] = (struct arg){f, value};
    return 0;
}

static int args_take_operand(struct args *a, const char *value, struct outrider_error *err)
{
    const struct command *c = a->command;
    /* What may be a URL, and hold a password, is not repeated. */
    if (a->n_operands == c->max_operands && strpbrk(value, ":@"))
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "'%s' does not know what to do with an argument without a flag; see "
                              "outrider %s --help",
                              c->name, c->name);
    if (a->n_operands == c->max_operands)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "'%s' does not know what to do with '%.80s'; see outrider %s --help",
                              c->name, value, c->name);
    if (a->n_operands == 0 && c->words && !outrider__words_have(c->words, '|', bytes_str(value)))
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "'%s' takes one of %s, not '%.40s'", c->name, c->words,
                              strpbrk(value, ":@") ? "..." : value);
    a->operands[a->n_operands++] = value;
    return 0;
}

/* One flag at argv[*i]; steps *i over a value that stands by itself. */
static int args_take_flag(struct args *a, int argc, char *const *argv, int *i,
                          struct outrider_error *err)
{
    const char *arg = argv[*i], *value = NULL;
    const struct flag *f;
    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");
        f = args_flag_find(a->command, arg + 2, len);
        value = arg[2 + len] == '=' ? arg + 3 + len : NULL;
    } else {
        f = args_flag_by_letter(a->command, arg[1]);
        if (f && arg[2])
            value = arg[2] == '=' ? arg + 3 : arg + 2;
    }
    if (!f || (arg[1] != '-' && f->kind == FLAG_SWITCH && arg[2]))
        return args_unknown_flag(a->command, arg, err);
    if (f->kind == FLAG_SWITCH) {
        if (value)
            return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "--%s takes no value",
                                  f->name);
        return args_give(a, f, NULL, err);
    }
    if (!value) {
        /* A value that begins with two dashes must be joined with "=". */
        if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0)
            return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                                  "--%s needs a value: --%s %s", f->name, f->name, f->value);
        value = argv[++*i];
    }
    return args_give(a, f, value, err);
}

int outrider__args_parse(const struct command *c, int argc, char *const *argv,
                         struct args *ret_args, struct outrider_error *err)
{
    struct args a = {.command = c};
    bool only_operands = false;
    size_t room = (size_t)argc + 1;
    a.given = calloc(room, sizeof(*a.given));
    a.operands = calloc(room, sizeof(*a.operands));
    if (!a.given || !a.operands) {
        outrider__args_release(&a);
        return outrider__fail_nomem(err);
    }
    for (int i = 0; i < argc; i++) {
        int r;
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
            continue;
        }
        if (!only_operands && argv[i][0] == '-' && argv[i][1])
            r = args_take_flag(&a, argc, argv, &i, err);
        else
            r = args_take_operand(&a, argv[i], err);
        if (r < 0) {
            outrider__args_release(&a);
            return -1;
        }
    }
    *ret_args = a;
    return 0;
}

void outrider__args_release(struct args *a)
{
    if (!a)
        return;
    free(a->given);
    free(a->operands);
    *a = (struct args){0};
}

const char *outrider__args_at(const struct args *a, enum flag_id id, size_t i)
{
    for (size_t k = 0; k < a->n_given; k++) {
        if (a->given[k].flag->id == id && i-- == 0)
            return a->given[k].value;
    }
    return NULL;
}

bool outrider__args_has(const struct args *a, enum flag_id id)
{
    for (size_t k = 0; k < a->n_given; k++) {
        if (a->given[k].flag->id == id)
            return true;
    }
    return false;
}

const char *outrider__args_text(const struct args *a, enum flag_id id)
{
    return outrider__args_at(a, id, 0);
}

int64_t outrider__args_number(const struct args *a, enum flag_id id, int64_t otherwise)
{
    const char *text = outrider__args_text(a, id);
    int64_t v;
    return text && args_parse_number(text, &v) == 0 ? v : otherwise;
}

int64_t outrider__args_duration(const struct args *a, enum flag_id id, int64_t otherwise)
{
    const char *text = outrider__args_text(a, id);
    int64_t v;
    return text && outrider__duration_parse(bytes_str(text), &v) == 0 ? v : otherwise;
}

int64_t outrider__args_time(const struct args *a, enum flag_id id, int64_t now_us)
{
    const char *text = outrider__args_text(a, id);
    int64_t v;
    return text && args_parse_time(text, now_us, &v) == 0 ? v : 0;
}
