/* SPDX-License-Identifier: MIT */
#include "base/grown.h"

#include <string.h>

#include "outrider/version.h"

/* A size that was never set is some number: do not read that far. */
#define SIZE_LIMIT 4096

static size_t grown_size_of(const void *from)
{
    size_t size;
    memcpy(&size, from, sizeof size);
    return size;
}

int outrider__grown_check(const struct grown *g, const void *from, struct outrider_error *err)
{
    size_t size = from != NULL ? grown_size_of(from) : 0;
    if (size < g->first || size > SIZE_LIMIT || size % g->align != 0)
        return outrider__fail(err, OUTRIDER_INVALID, g->disposition, "%s", g->unset);
    const char *bytes = from;
    for (size_t i = g->now; i < size; i++)
        if (bytes[i] != 0)
            return outrider__fail(err, OUTRIDER_UNSUPPORTED, g->disposition,
                                  "%s: has a field that liboutrider " OUTRIDER_VERSION
                                  " does not know; upgrade the library to the headers' version",
                                  g->what);
    return 0;
}

void outrider__grown_copy(const struct grown *g, void *to, const void *from)
{
    size_t size = grown_size_of(from);
    memset(to, 0, g->now);
    memcpy(to, from, size < g->now ? size : g->now);
    memcpy(to, &g->now, sizeof g->now);
}
