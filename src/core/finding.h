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

/* What every database with an outbox says alike. */
struct store_status; /* core/store.h */
/* How far it is, and whether it lags; holder: who is active (NULL: nobody). */
void outrider__find_lag(const struct finder *f, const struct store_status *st, const char *holder);
void outrider__find_failed(const struct finder *f, const struct store_status *st);
void outrider__find_payload(const struct finder *f, int64_t largest, int64_t max_payload);
/* Says nothing of headers that are within their bound. */
void outrider__find_headers(const struct finder *f, int64_t largest, int64_t max_headers);
void outrider__find_retention(const struct finder *f, int64_t retention_us);

#endif
