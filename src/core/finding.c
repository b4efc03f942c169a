/* SPDX-License-Identifier: MIT */
#include "core/finding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "core/store.h"

#define LAG_LARGE 1000
#define LAG_OLD_US (5LL * 60 * 1000000)

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

void outrider__find_lag(const struct finder *f, const struct store_status *st, const char *holder)
{
    int64_t age_us =
        st->oldest_pending_us == 0 ? 0 : outrider__clock_now().wall_us - st->oldest_pending_us;
    bool lags = st->pending > LAG_LARGE || age_us > LAG_OLD_US;
    const char *advice =
        !lags ? NULL
        : holder != NULL
            ? "look at the relay's log: its sink may be down or slow"
            : "start it with `outrider relay`; clean-up waits for the slowest pipeline";
    outrider__find(f, lags ? FINDING_WARNING : FINDING_OK, advice,
                   "pipeline '%s' to %s: position %" PRId64 " of %" PRId64 ", %" PRIu64
                   " pending; %s",
                   st->pipeline, st->sink[0] != '\0' ? st->sink : "(no sink yet)", st->position,
                   st->head, st->pending, holder != NULL ? holder : "no relay is active");
}

void outrider__find_failed(const struct finder *f, const struct store_status *st)
{
    if (st->parked + st->queued > 0)
        outrider__find(f, FINDING_NOTE, "`outrider dead list` shows why",
                       "pipeline '%s': %" PRIu64 " parked, %" PRIu64 " queued behind them",
                       st->pipeline, st->parked, st->queued);
    if (st->dead > 0)
        outrider__find(f, FINDING_WARNING,
                       "`outrider dead list`, then `dead retry` or `dead discard`",
                       "pipeline '%s': %" PRIu64 " dead letters", st->pipeline, st->dead);
}

void outrider__find_payload(const struct finder *f, int64_t largest, int64_t max_payload)
{
    if (max_payload > 0 && largest > max_payload)
        outrider__find(f, FINDING_WARNING,
                       "keep the data elsewhere and send a reference, or raise source.max_payload",
                       "a payload of %" PRId64 " bytes is above max_payload (%" PRId64
                       "): it becomes a dead letter",
                       largest, max_payload);
    else
        outrider__find(f, FINDING_OK, NULL,
                       "the largest of the last 1000 payloads has %" PRId64 " bytes", largest);
}

void outrider__find_headers(const struct finder *f, int64_t largest, int64_t max_headers)
{
    if (max_headers > 0 && largest > max_headers)
        outrider__find(f, FINDING_WARNING,
                       "put the data into the payload, or raise source.max_headers",
                       "headers of %" PRId64 " bytes are above max_headers (%" PRId64
                       "): the event becomes a dead letter",
                       largest, max_headers);
}

void outrider__find_retention(const struct finder *f, int64_t retention_us)
{
    if (retention_us <= 0)
        outrider__find(f, FINDING_WARNING,
                       "set cleanup.retention, or run `outrider cleanup` from time to time",
                       "no retention: settled events stay in the outbox for ever");
}
