/* SPDX-License-Identifier: MIT */
/* Words that people type, and how near a word is to one that exists. */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include "base/bytes.h"

/* A name longer than this is cut before it is compared. */
#define WORDS_NAME_MAX 64

/* How many letters must be put in, taken out, changed or swapped with the next to
 * make one of the other, without regard to case, - and _. */
unsigned outrider__name_distance(struct bytes left, struct bytes right);
/* Whether a word stands in a list of words with one-character separators. */
bool outrider__words_have(const char *list, char separator, struct bytes word);

#endif
