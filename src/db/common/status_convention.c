/* SPDX-License-Identifier: MIT */
/*
 * The status words of projects whose tables are known. A word can mean one thing
 * here and another there: PUBLISHED is an event that Spring Modulith has still to
 * deliver. So the words of a project count as a set, and only in its own table.
 */
#include <stdio.h>

#include "common/status_vocabulary.h"

static const struct convention {
    const char *table;   /* its name, or NULL: the columns are enough */
    const char *columns; /* all of these are there, as outrider__map_normalise() leaves them */
    const char *words;   /* all of these are among its words, where the columns are others */
    const char *values[STATE_COUNT];
} conventions[] = {
    /* Spring Modulith 2. RESUBMITTED is with the application. */
    {NULL,
     "serializedevent completiondate",
     "PUBLISHED COMPLETED",
     {[STATE_PENDING] = "PUBLISHED",
      [STATE_PROCESSING] = "PROCESSING",
      [STATE_PUBLISHED] = "COMPLETED",
      [STATE_FAILED] = "FAILED"}},
    /* Namastack Outbox: a row stays NEW until its last try has failed. */
    {NULL,
     "recordkey recordtype completedat",
     NULL,
     {[STATE_PENDING] = "NEW", [STATE_PUBLISHED] = "COMPLETED", [STATE_DEAD] = "FAILED"}},
    {"outbox_record",
     "aggregateid completedat nextretryat",
     NULL,
     {[STATE_PENDING] = "NEW", [STATE_PUBLISHED] = "COMPLETED", [STATE_DEAD] = "FAILED"}},
    /* CAP for .NET */
    {NULL,
     "statusname retries added expiresat",
     NULL,
     {[STATE_PENDING] = "Scheduled", [STATE_PUBLISHED] = "Succeeded", [STATE_FAILED] = "Failed"}},
    /* Outboxer for Ruby */
    {NULL,
     "messageabletype messageableid",
     NULL,
     {[STATE_PENDING] = "queued",
      [STATE_PROCESSING] = "publishing",
      [STATE_PUBLISHED] = "published",
      [STATE_FAILED] = "failed"}},
};

static bool convention_has_column(const struct map_table *t, const char *name)
{
    char has[80];
    for (size_t i = 0; i < t->n; i++)
        if (outrider__map_normalise(bytes_str(t->columns[i].name), has, sizeof has) &&
            strcmp(has, name) == 0)
            return true;
    return false;
}

/* The next word of a list that spaces divide; false at its end. */
static bool convention_next_word(const char **list, char word[static MAP_VALUE_SIZE])
{
    while (**list == ' ')
        (*list)++;
    size_t n = strcspn(*list, " ");
    if (n == 0)
        return false;
    (void)snprintf(word, MAP_VALUE_SIZE, "%.*s", (int)n, *list);
    *list += n;
    return true;
}

static bool convention_is_its_table(const struct convention *c, const struct map_table *t)
{
    char word[MAP_VALUE_SIZE];
    if (c->table != NULL && strcmp(c->table, t->name) != 0)
        return false;
    for (const char *p = c->columns; convention_next_word(&p, word);)
        if (!convention_has_column(t, word))
            return false;
    return true;
}

static bool convention_is_value(const struct convention *c, const char *word)
{
    for (int s = 0; s < STATE_COUNT; s++)
        if (c->values[s] != NULL && strcmp(c->values[s], word) == 0)
            return true;
    return false;
}

/* In a table with other columns: its telling words are there, and no others but
 * RESUBMITTED, so that no word of another set is among them. */
static bool convention_are_its_words(const struct convention *c, const struct vocabulary *v)
{
    char word[MAP_VALUE_SIZE];
    if (c->words == NULL)
        return false;
    for (const char *p = c->words; convention_next_word(&p, word);)
        if (!outrider__vocabulary_has(v, word))
            return false;
    for (size_t i = 0; i < v->n; i++)
        if (!convention_is_value(c, v->words[i]) && strcmp(v->words[i], "RESUBMITTED") != 0)
            return false;
    return true;
}

static bool convention_is_allowed(const struct vocabulary *v, const char *word)
{
    return !v->is_bound || outrider__vocabulary_has(v, word);
}

/* first: the default, or "". */
static bool convention_fits(const struct convention *c, const struct column_map *m,
                            const struct vocabulary *v, const char *first)
{
    return (convention_is_its_table(c, m->table) || convention_are_its_words(c, v)) &&
           convention_is_allowed(v, c->values[STATE_PENDING]) &&
           convention_is_allowed(v, c->values[STATE_PUBLISHED]) &&
           (*first == '\0' || convention_is_value(c, first));
}

bool outrider__map_convention(struct column_map *m, const struct vocabulary *v, const char *first)
{
    for (size_t i = 0; i < sizeof conventions / sizeof *conventions; i++) {
        const struct convention *c = &conventions[i];
        if (!convention_fits(c, m, v, first))
            continue;
        for (int s = 0; s < STATE_COUNT; s++)
            if (c->values[s] != NULL && convention_is_allowed(v, c->values[s]))
                (void)snprintf(m->values[s], sizeof m->values[s], "%s", c->values[s]);
        return true;
    }
    return false;
}
