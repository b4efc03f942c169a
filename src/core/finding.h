/* SPDX-License-Identifier: MIT */
/* What `outrider doctor` finds: told by stores and sinks, shown by the command. */
#ifndef CORE_FINDING_H
#define CORE_FINDING_H

#include <stdint.h>

enum finding_level { FINDING_OK, FINDING_NOTE, FINDING_WARNING, FINDING_PROBLEM };

/* One thing that doctor found: what, and what to do about it (or NULL). */
typedef void finding_fn(void *ctx, enum finding_level level, const char *what, const char *advice);

/* Whom to tell. */
struct finder {
    finding_fn *found;
    void *ctx;
};

void outrider__find(const struct finder *f, enum finding_level level, const char *advice,
                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
