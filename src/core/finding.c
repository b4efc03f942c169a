/* SPDX-License-Identifier: MIT */
#include "core/finding.h"

#include <stdarg.h>
#include <stdio.h>

void outrider__find(const struct finder *f, enum finding_level level, const char *advice,
                    const char *fmt, ...)
{
    char what[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    f->found(f->ctx, level, what, advice);
}
