/* SPDX-License-Identifier: MIT */
/*
 * The values of a status column. Documented sets:
 *     PENDING  PROCESSING  PUBLISHED  FAILED  DEAD_LETTER     in either case
 *     pending  sending     succeeded  failed  aborted
 *     NEW      IN_PROGRESS SENT       ERROR   DEAD
 * and any mixture of the words below that has one word a state.
 */
#include "map.h"

#include <stdio.h>

static const struct {
    const char *name;
    const char *words; /* as outrider__map_normalise() leaves them */
    const char *usual; /* where nothing tells */
} states[STATE_COUNT] = {
    [STATE_PENDING] = {"pending",
                       " pending new ready created queued unpublished unsent waiting enqueued "
                       "open initial init ",
                       "PENDING"},
    [STATE_PROCESSING] = {"processing",
                          " processing sending inprogress inflight publishing claimed locked "
                          "started ",
                          "PROCESSING"},
    [STATE_PUBLISHED] = {"published",
                         " published sent succeeded success processed completed complete done "
                         "delivered dispatched ",
                         "PUBLISHED"},
    [STATE_FAILED] = {"failed", " failed error retry retrying failure ", "FAILED"},
    [STATE_DEAD] = {"dead",
                    " deadletter dead deadlettered aborted abandoned poison poisoned gaveup "
                    "exhausted ",
                    "DEAD_LETTER"},
    [STATE_EXPIRED] = {"expired", " expired timedout ", ""},
};

const char *outrider__state_name(enum map_state s)
{
    return states[s].name;
}

/* Which state a value is a word for, or STATE_COUNT. */
static enum map_state state_of(const char *value)
{
    char word[MAP_VALUE_SIZE + 2];
    word[0] = ' ';
    if (!outrider__map_normalise(bytes_str(value), word + 1, sizeof word - 2))
        return STATE_COUNT;
    size_t n = strlen(word);
    word[n] = ' ';
    word[n + 1] = '\0';
    int s = 0;
    while (s < STATE_COUNT && strstr(states[s].words, word) == NULL)
        s++;
    return (enum map_state)s;
}

static int ambiguous(const struct column_map *m, const struct map_column *status, enum map_state s,
                     const char *a, const char *b, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: the values '%s' and '%s' of column '%s' could both mean %s; "
                          "say which with map.status_values: {%s: %s, ...}",
                          m->table->quoted, a, b, status->name, states[s].name, states[s].name, a);
}

static int learn(struct column_map *m, const struct map_column *status, const char *value,
                 struct outrider_error *err)
{
    enum map_state s = state_of(value);
    if (s == STATE_COUNT || strlen(value) >= MAP_VALUE_SIZE)
        return 0;
    if (m->values[s][0] != '\0' && strcmp(m->values[s], value) != 0)
        return ambiguous(m, status, s, m->values[s], value, err);
    (void)snprintf(m->values[s], sizeof m->values[s], "%s", value);
    return 0;
}

/* Every 'literal' in a piece of SQL: CHECK (status = ANY (ARRAY['a'::text, 'b'::text])). */
static int learn_literals(struct column_map *m, const struct map_column *status, const char *sql,
                          bool *ret_any, struct outrider_error *err)
{
    char value[MAP_VALUE_SIZE];
    for (const char *p = strchr(sql, '\''); p != NULL; p = strchr(p, '\'')) {
        size_t n = 0;
        for (p++; *p != '\0' && (*p != '\'' || p[1] == '\''); p++) {
            p += *p == '\'';
            if (n + 1 < sizeof value)
                value[n++] = *p;
        }
        value[n] = '\0';
        *ret_any = true;
        if (learn(m, status, value, err) < 0)
            return -1;
        if (*p == '\0')
            break;
        p++;
    }
    return 0;
}

static int take_given(struct column_map *m, const struct pipeline_config *config,
                      struct outrider_error *err)
{
    const struct string_map *given = &config->map.status_values;
    for (size_t i = 0; i < given->n; i++) {
        int s = 0;
        while (s < STATE_COUNT && strcmp(states[s].name, given->items[i].name) != 0)
            s++;
        if (s == STATE_COUNT || strlen(given->items[i].value) >= MAP_VALUE_SIZE)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "map.status_values: '%s' is no state with a short value; states "
                                  "are pending, processing, published, failed, dead and expired",
                                  given->items[i].name);
        (void)snprintf(m->values[s], sizeof m->values[s], "%s", given->items[i].value);
    }
    return 0;
}

static void take_usual(struct column_map *m, enum map_state s)
{
    bool is_lower = false;
    for (int i = 0; i < STATE_COUNT; i++)
        is_lower |= m->values[i][0] >= 'a' && m->values[i][0] <= 'z';
    if (m->values[s][0] != '\0')
        return;
    const char *p = states[s].usual;
    char *out = m->values[s];
    for (; *p != '\0'; p++)
        *out++ = is_lower && *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    *out = '\0';
    m->values_are_assumed = true;
}

/* Whether a word is one of the words that go with PENDING and PUBLISHED: then
 * the rest of that set may be assumed. */
static bool is_usual(const struct column_map *m)
{
    for (int s = 0; s <= STATE_PUBLISHED; s++) {
        if (m->values[s][0] != '\0' && strcasecmp(m->values[s], states[s].usual) != 0)
            return false;
    }
    return true;
}

static int check(const struct column_map *m, const struct map_column *status,
                 struct outrider_error *err)
{
    const char *what = m->values[STATE_PENDING][0] == '\0' ? "pending" : "published";
    if (m->values[STATE_PENDING][0] != '\0' && m->values[STATE_PUBLISHED][0] != '\0')
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: no known value of column '%s' means %s; say it with "
                          "map.status_values: {pending: VALUE, published: VALUE, failed: VALUE}",
                          m->table->quoted, status->name, what);
}

int outrider__map_values(const struct map_column *status, const struct pipeline_config *config,
                         bool has_retries, struct column_map *m, struct outrider_error *err)
{
    bool is_bound = false, any = false;
    if (take_given(m, config, err) < 0)
        return -1;
    if (config->map.status_values.n > 0)
        return check(m, status, err);
    if (status->kind == KIND_INTEGER)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "table %s: column '%s' is a number; say what its values mean with "
                              "map.status_values: {pending: 0, published: 1}",
                              m->table->quoted, status->name);
    if (status->check != NULL && learn_literals(m, status, status->check, &is_bound, err) < 0)
        return -1;
    is_bound |= status->kind == KIND_ENUM;
    for (size_t i = 0; i < status->all.n; i++)
        if (learn(m, status, status->all.items[i], err) < 0)
            return -1;
    if (is_bound)
        return check(m, status, err);
    if (status->initial != NULL && learn_literals(m, status, status->initial, &any, err) < 0)
        return -1;
    if (is_usual(m)) {
        take_usual(m, STATE_PENDING);
        take_usual(m, STATE_PUBLISHED);
        take_usual(m, STATE_FAILED);
        /* Without a place for retries the application knows no more states than these. */
        if (has_retries) {
            take_usual(m, STATE_PROCESSING);
            take_usual(m, STATE_DEAD);
        }
    }
    return check(m, status, err);
}
