/* SPDX-License-Identifier: MIT */
/* UUIDs as text. */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include <stdint.h>

#include "base/bytes.h"
#include "outrider/event.h"

/* Random bytes ahead, because asking the system for each id costs more than the
 * rest of it. Starts as zeros. It belongs to one process: two that go on with
 * copies of it (fork) would make the same ids. */
struct uuid_pool {
    size_t next, end;
    unsigned char bytes[256];
};

void outrider__uuid_text(const char bytes[16], char ret_text[OUTRIDER_ID_SIZE]);
/* A UUIDv7 (time-ordered) from the wall clock and the system's random bytes. */
int outrider__uuid_from(struct uuid_pool *pool, int64_t wall_us, char ret_text[OUTRIDER_ID_SIZE]);
int outrider__uuid_new(int64_t wall_us, char ret_text[OUTRIDER_ID_SIZE]);
/* Whether the bytes are a UUID in its usual form, in either case. */
bool outrider__uuid_is_valid(struct bytes text);

#endif
