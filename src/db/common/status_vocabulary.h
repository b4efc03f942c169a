/* SPDX-License-Identifier: MIT */
/*
 * What a table itself says of the words of its status column: status_vocabulary.c
 * collects the words, status_convention.c knows the sets of some projects. Only
 * status_words.c and these two include this header.
 */
#ifndef COMMON_STATUS_VOCABULARY_H
#define COMMON_STATUS_VOCABULARY_H

#include "base/json.h"
#include "common/column_map.h"

#define VOCABULARY_MAX 64

struct vocabulary {
    char words[VOCABULARY_MAX][MAP_VALUE_SIZE];
    size_t n;
    bool is_bound; /* by an enum type or a CHECK: the column takes few other words, if any */
    bool is_exact; /* and certainly no others */
};

bool outrider__vocabulary_has(const struct vocabulary *v, const char *word);
/* Adds the labels of an enum type, and the list of words in a CHECK. */
void outrider__vocabulary_bound(struct vocabulary *v, const struct map_column *status);
/* Adds the words in conditions of partial indexes and those of the rows, unless bound. */
void outrider__vocabulary_seen(struct vocabulary *v, const struct map_column *status);
/* The column's default, if that is one word; else "". */
void outrider__vocabulary_default(const struct map_column *status,
                                  char ret_word[static MAP_VALUE_SIZE]);

/* status_convention.c: sets m->values if the table is one of a known project: by its
 * columns, or by words that only that project uses together. */
bool outrider__map_convention(struct column_map *m, const struct vocabulary *v, const char *first);

#endif
