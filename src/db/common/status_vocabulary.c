/* SPDX-License-Identifier: MIT */
#include "common/status_vocabulary.h"

#include <stdio.h>

bool outrider__vocabulary_has(const struct vocabulary *v, const char *word)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->words[i], word) == 0)
            return true;
    return false;
}

/* char(n) is filled up with spaces that are no part of the word. */
static void vocabulary_add(struct vocabulary *v, const struct map_column *status, const char *word)
{
    char text[MAP_VALUE_SIZE];
    size_t n = strlen(word);
    while (status->is_padded && n > 0 && word[n - 1] == ' ')
        n--;
    if (n == 0 || n >= sizeof text || v->n == VOCABULARY_MAX)
        return;
    (void)snprintf(text, sizeof text, "%.*s", (int)n, word);
    if (!outrider__vocabulary_has(v, text))
        memcpy(v->words[v->n++], text, sizeof text);
}

/* Reads a 'literal' that begins at *p, and moves *p behind it. False: it is too long. */
static bool vocabulary_read_literal(const char **p, char value[static MAP_VALUE_SIZE])
{
    const char *q = *p + 1;
    size_t n = 0;
    bool fits = true;
    for (; *q != '\0' && (*q != '\'' || q[1] == '\''); q++) {
        q += *q == '\'';
        fits = n + 1 < MAP_VALUE_SIZE;
        if (fits)
            value[n++] = *q;
    }
    value[n] = '\0';
    *p = *q == '\0' ? q : q + 1;
    return fits;
}

/* Every 'literal' in a piece of SQL: CHECK (status = ANY (ARRAY['a'::text, 'b'::text])). */
static void vocabulary_add_literals(struct vocabulary *v, const struct map_column *status,
                                    const char *sql)
{
    char value[MAP_VALUE_SIZE];
    for (const char *p = strchr(sql, '\''); p != NULL; p = strchr(p, '\''))
        if (vocabulary_read_literal(&p, value))
            vocabulary_add(v, status, value);
}

/* Outside of literals. */
static bool vocabulary_sql_says(const char *sql, const char *what)
{
    bool is_quoted = false;
    for (const char *p = sql; *p != '\0'; p++) {
        is_quoted ^= *p == '\'';
        if (!is_quoted && strncmp(p, what, strlen(what)) == 0)
            return true;
    }
    return false;
}

/* status = ANY (...), status = 'a' OR ...; but not status <> '', length(status) > 3. */
static bool vocabulary_is_list(const char *check)
{
    return (vocabulary_sql_says(check, "= ") || vocabulary_sql_says(check, " IN (")) &&
           !vocabulary_sql_says(check, "<>") && !vocabulary_sql_says(check, "<=") &&
           !vocabulary_sql_says(check, ">=") && strchr(check, '\'') != NULL;
}

/* upper(status): then the words are not those of the column. */
static bool vocabulary_calls_function(const char *check)
{
    for (const char *p = strchr(check, '('); p != NULL; p = strchr(p + 1, '('))
        if (p > check && ((p[-1] >= 'a' && p[-1] <= 'z') || p[-1] == '"' || p[-1] == '_'))
            return true;
    return false;
}

void outrider__vocabulary_bound(struct vocabulary *v, const struct map_column *status)
{
    if (status->kind == KIND_ENUM) {
        for (size_t i = 0; i < status->all.n; i++)
            vocabulary_add(v, status, status->all.items[i]);
        v->is_bound = v->is_exact = true;
        return;
    }
    if (status->check == NULL || !vocabulary_is_list(status->check))
        return;
    vocabulary_add_literals(v, status, status->check);
    v->is_bound = v->n > 0;
    v->is_exact = v->is_bound && !vocabulary_calls_function(status->check);
}

/* A condition on this column and no other: WHERE status = 'PENDING'. */
static bool vocabulary_is_plain(const char *condition)
{
    return !vocabulary_sql_says(condition, " AND ") && !vocabulary_sql_says(condition, " OR ");
}

void outrider__vocabulary_seen(struct vocabulary *v, const struct map_column *status)
{
    if (v->is_bound)
        return;
    for (size_t i = 0; i < status->conditions.n; i++)
        if (vocabulary_is_plain(status->conditions.items[i]))
            vocabulary_add_literals(v, status, status->conditions.items[i]);
    for (size_t i = 0; i < status->all.n; i++)
        vocabulary_add(v, status, status->all.items[i]);
}

void outrider__vocabulary_default(const struct map_column *status,
                                  char ret_word[static MAP_VALUE_SIZE])
{
    struct vocabulary v = {0};
    ret_word[0] = '\0';
    if (status->initial_value != NULL)
        vocabulary_add(&v, status, status->initial_value);
    if (v.n > 0)
        memcpy(ret_word, v.words[0], MAP_VALUE_SIZE);
}
