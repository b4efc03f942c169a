/* SPDX-License-Identifier: MIT */
#include "base/words.h"

#include <string.h>

/* Lower case without - and _, so that maxAttempts is near max_attempts. */
static size_t words_normalise(struct bytes name, char out[WORDS_NAME_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < name.len && n < WORDS_NAME_MAX; i++) {
        char c = name.data[i];
        if (c != '-' && c != '_')
            out[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return n;
}

unsigned outrider__name_distance(struct bytes left, struct bytes right)
{
    char a[WORDS_NAME_MAX], b[WORDS_NAME_MAX];
    size_t n = words_normalise(left, a), m = words_normalise(right, b);
    unsigned rows[3][WORDS_NAME_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

bool outrider__words_have(const char *list, char separator, struct bytes word)
{
    while (list != NULL && *list != '\0') {
        const char *end = strchrnul(list, separator);
        if (bytes_eq(bytes_of(list, (size_t)(end - list)), word))
            return true;
        list = *end != '\0' ? end + 1 : NULL;
    }
    return false;
}
