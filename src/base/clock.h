/* SPDX-License-Identifier: MIT */
/*
 * Time. Durations and deadlines use the monotonic clock; what is stored or
 * shown uses the wall clock. Both are microseconds in int64_t.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define CLOCK_NEVER INT64_MAX

/* Both clocks, read together; the engine gets its time only through this. */
struct instant {
    int64_t mono_us;
    int64_t wall_us;
};

struct instant outrider__clock_now(void);

#define CLOCK_TEXT_SIZE 32
/* RFC 3339 in UTC with as many decimals as are not zero, none, 3 or 6: "2026-01-02T03:04:05.678Z".
 */
void outrider__clock_format(int64_t wall_us, char ret_text[CLOCK_TEXT_SIZE]);
/* RFC 3339, also with a space for the T, without decimals, without a zone (UTC), or a date alone.
 */
int outrider__clock_parse(struct bytes text, int64_t *ret_wall_us);

/* "250ms", "7d", "1h30m", "0"; a number without a unit is refused but for 0. */
int outrider__duration_parse(struct bytes text, int64_t *ret_us);
/* The shortest exact form: "1500ms", "5m", "7d". */
void outrider__duration_format(int64_t us, char ret_text[CLOCK_TEXT_SIZE]);

/* "02:00", from 00:00 to 23:59: microseconds since midnight. */
int outrider__day_time_parse(struct bytes text, int64_t *ret_us);

#endif
