/* SPDX-License-Identifier: MIT */
/*
 * The words of a status column. Documented sets:
 *     PENDING  PROCESSING  PUBLISHED  FAILED  DEAD_LETTER     in any case
 *     pending  sending     succeeded  failed  aborted
 *     NEW      IN_PROGRESS SENT       ERROR   DEAD
 * those of known projects (status_convention.c), and any mixture of the words below
 * that has one word a state.
 *
 * A word that is read must be evident: column_map.h (4). A word that is only written
 * may follow from the set to which the evident ones belong.
 */
#include "common/column_map.h"

#include <stdio.h>
#include <strings.h>

#include "common/status_vocabulary.h"

static const struct {
    const char *name;
    const char *words; /* as outrider__map_normalise() leaves them */
    const char *usual; /* in the set of PENDING */
} states[STATE_COUNT] = {
    [STATE_PENDING] = {"pending",
                       " pending new ready created queued unpublished unsent waiting enqueued "
                       "open initial init scheduled ",
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

static enum map_state words_state_named(struct bytes name)
{
    int s = 0;
    while (s < STATE_COUNT && !bytes_eq(bytes_str(states[s].name), name))
        s++;
    return (enum map_state)s;
}

/* Which state a value is a word for, or STATE_COUNT. */
static enum map_state words_state_of(const char *value)
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

static void words_set(struct column_map *m, enum map_state s, const char *word)
{
    (void)snprintf(m->values[s], sizeof m->values[s], "%s", word);
}

static bool words_has(const struct column_map *m, const char *word)
{
    for (int s = 0; s < STATE_COUNT; s++)
        if (m->values[s][0] != '\0' && strcmp(m->values[s], word) == 0)
            return true;
    return false;
}

static int words_refuse(const struct column_map *m, const struct map_column *status,
                        const char *why, const char *word, struct outrider_error *err)
{
    const char *pending = m->values[STATE_PENDING], *published = m->values[STATE_PUBLISHED];
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s, column '%s': %s%s%s%s; say it with map.status_values: "
                          "{pending: %s, published: %s, failed: VALUE}",
                          m->table->quoted, status->name, why, *word != '\0' ? " '" : "", word,
                          *word != '\0' ? "'" : "", *pending != '\0' ? pending : "VALUE",
                          *published != '\0' ? published : "VALUE");
}

static int words_are_ambiguous(const struct column_map *m, const struct map_column *status,
                               enum map_state s, const char *a, const char *b,
                               struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: the values '%s' and '%s' of column '%s' could both mean %s; "
                          "say which with map.status_values: {%s: %s, ...}",
                          m->table->quoted, a, b, status->name, states[s].name, states[s].name, a);
}

static int words_learn(struct column_map *m, const struct map_column *status, const char *value,
                       struct outrider_error *err)
{
    enum map_state s = words_state_of(value);
    if (s == STATE_COUNT || words_has(m, value))
        return 0;
    if (m->values[s][0] != '\0')
        return words_are_ambiguous(m, status, s, m->values[s], value, err);
    words_set(m, s, value);
    return 0;
}

/* A row begins with the default: that word means pending, whatever it is. */
static int words_learn_default(struct column_map *m, const struct map_column *status,
                               const char *word, struct outrider_error *err)
{
    enum map_state s = words_state_of(word);
    if (*word == '\0')
        return 0;
    if (s != STATE_COUNT && s != STATE_PENDING)
        return words_refuse(
            m, status, "new rows begin with a word that usually means something else:", word, err);
    words_set(m, STATE_PENDING, word);
    return 0;
}

static int words_take_given(struct column_map *m, const struct map_column *status,
                            const struct string_map *given, const struct vocabulary *v,
                            struct outrider_error *err)
{
    for (size_t i = 0; i < given->n; i++) {
        enum map_state s = words_state_named(bytes_str(given->items[i].name));
        if (s == STATE_COUNT || strlen(given->items[i].value) >= MAP_VALUE_SIZE)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "map.status_values: '%s' is no state with a short value; states "
                                  "are pending, processing, published, failed, dead and expired",
                                  given->items[i].name);
        if (v->is_exact && !outrider__vocabulary_has(v, given->items[i].value))
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "map.status_values: {%s: %s}: column '%s' of table %s does not "
                                  "allow '%s', but '%s' and %zu more",
                                  given->items[i].name, given->items[i].value, status->name,
                                  m->table->quoted, given->items[i].value, v->words[0], v->n - 1);
        words_set(m, s, given->items[i].value);
    }
    if (m->values[STATE_PENDING][0] == '\0' || m->values[STATE_PUBLISHED][0] == '\0')
        return words_refuse(m, status, "pending and published need a word each", "", err);
    return 0;
}

/* Remembered words hold unless the catalogue speaks against one of them. */
static bool words_take_remembered(struct column_map *m, const struct vocabulary *bound,
                                  const char *first)
{
    struct column_map found = *m;
    struct json_members members;
    struct bytes key, value, text;
    struct arena arena;
    bool fits = true;
    if (m->table->remembered == NULL ||
        outrider__json_members_begin(&members, bytes_str(m->table->remembered)) < 0)
        return false;
    outrider__arena_init(&arena, 1024);
    while (fits && outrider__json_members_next(&members, &key, &value) == 1) {
        enum map_state s = words_state_named(key);
        fits = s != STATE_COUNT && outrider__json_text(value, &arena, &text) == 0 &&
               text.len < MAP_VALUE_SIZE;
        if (!fits)
            break;
        (void)snprintf(found.values[s], sizeof found.values[s], "%.*s", (int)text.len, text.data);
        fits = !bound->is_bound || outrider__vocabulary_has(bound, found.values[s]);
    }
    outrider__arena_release(&arena);
    fits = fits && found.values[STATE_PENDING][0] != '\0' &&
           found.values[STATE_PUBLISHED][0] != '\0' && (*first == '\0' || words_has(&found, first));
    if (fits)
        *m = found;
    return fits;
}

void outrider__map_words(const struct column_map *m, struct strbuf *out)
{
    const char *before = "{";
    for (int s = 0; s < STATE_COUNT; s++) {
        if (m->values[s][0] == '\0')
            continue;
        outrider__strbuf_appendf(out, "%s\"%s\":", before, states[s].name);
        outrider__strbuf_append_json(out, bytes_str(m->values[s]));
        before = ",";
    }
    strbuf_append_str(out, "}");
}

/* "pending", "Pending" and "PENDING" go with words of their own kind. */
static void words_take_usual(struct column_map *m, const struct map_column *status,
                             enum map_state s)
{
    const char *like = m->values[STATE_PENDING];
    bool is_lower = like[0] >= 'a' && like[0] <= 'z';
    bool is_mixed = !is_lower && like[1] >= 'a' && like[1] <= 'z';
    char word[MAP_VALUE_SIZE];
    size_t n = 0;
    if (m->values[s][0] != '\0')
        return;
    for (const char *p = states[s].usual; *p != '\0'; p++) {
        bool begins = p == states[s].usual || p[-1] == '_';
        if (is_mixed && *p == '_')
            continue;
        bool lowers = is_lower || (is_mixed && !begins);
        word[n++] = lowers && *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    }
    word[n] = '\0';
    if (status->length > 0 && n > (size_t)status->length)
        return; /* the column has no room for it */
    words_set(m, s, word);
    m->values_are_assumed = true;
}

/* Whether the known words are of the set of PENDING: then the rest of that set is
 * what is written. */
static bool words_are_usual(const struct column_map *m)
{
    for (int s = 0; s <= STATE_PUBLISHED; s++) {
        char usual[MAP_VALUE_SIZE], word[MAP_VALUE_SIZE];
        if (m->values[s][0] != '\0' &&
            (!outrider__map_normalise(bytes_str(states[s].usual), usual, sizeof usual) ||
             !outrider__map_normalise(bytes_str(m->values[s]), word, sizeof word) ||
             strcmp(usual, word) != 0))
            return false;
    }
    return true;
}

/* Nothing says which word means pending. As long as no row is there that could be
 * an event to deliver, its word is waited for. */
static int words_wait(struct column_map *m, const struct map_column *status,
                      struct outrider_error *err)
{
    for (size_t i = 0; i < status->all.n; i++) {
        enum map_state s = words_state_of(status->all.items[i]);
        if (s != STATE_PUBLISHED && s != STATE_DEAD && s != STATE_EXPIRED)
            return words_refuse(m, status, "no known value means pending, and there are rows with",
                                status->all.items[i], err);
    }
    m->waits_for_words = true;
    return 0;
}

static int words_complete(struct column_map *m, const struct map_column *status, bool is_bound,
                          bool has_retries, struct outrider_error *err)
{
    bool has_pending = m->values[STATE_PENDING][0] != '\0';
    if (!has_pending)
        return is_bound ? words_refuse(m, status, "no known value means pending", "", err)
                        : words_wait(m, status, err);
    if (!is_bound && words_are_usual(m)) {
        words_take_usual(m, status, STATE_PUBLISHED);
        words_take_usual(m, status, STATE_FAILED);
        /* Without a place for retries the application knows no more states than these. */
        if (has_retries) {
            words_take_usual(m, status, STATE_PROCESSING);
            words_take_usual(m, status, STATE_DEAD);
        }
    }
    if (m->values[STATE_PUBLISHED][0] == '\0')
        return words_refuse(m, status, "nothing tells the word for published; pending is",
                            m->values[STATE_PENDING], err);
    return 0;
}

static int words_of_number(const struct map_column *status, struct column_map *m,
                           struct outrider_error *err)
{
    if (m->is_counted) {
        words_set(m, STATE_PENDING, "0");
        words_set(m, STATE_PUBLISHED, "1");
        return 0;
    }
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' is a number; say what its values mean with "
                          "map.status_values: {pending: 0, published: 1}",
                          m->table->quoted, status->name);
}

int outrider__map_values(const struct map_column *status, const struct pipeline_config *config,
                         bool has_retries, struct column_map *m, struct outrider_error *err)
{
    struct vocabulary v = {0};
    char first[MAP_VALUE_SIZE];
    outrider__vocabulary_bound(&v, status);
    outrider__vocabulary_default(status, first);
    if (config->map.status_values.n > 0)
        return words_take_given(m, status, &config->map.status_values, &v, err);
    if (status->kind == KIND_INTEGER)
        return words_of_number(status, m, err);
    if (words_take_remembered(m, &v, first)) {
        m->values_are_remembered = true;
        return 0;
    }
    outrider__vocabulary_seen(&v, status);
    if (outrider__map_convention(m, &v, first))
        return 0;
    if (words_learn_default(m, status, first, err) < 0)
        return -1;
    for (size_t i = 0; i < v.n; i++)
        if (words_learn(m, status, v.words[i], err) < 0)
            return -1;
    return words_complete(m, status, v.is_bound, has_retries, err);
}
