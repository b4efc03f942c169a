/* SPDX-License-Identifier: MIT */
/* UUIDs as text. */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include <stdint.h>

#include "base/bytes.h"
#include "outrider/event.h"

/* A UUIDv7 (time-ordered) from the wall clock and the system's random bytes. */
int outrider__uuid_new(int64_t wall_us, char ret_text[OUTRIDER_ID_SIZE]);
/* Whether the bytes are a UUID in its usual form, in either case. */
bool outrider__uuid_is_valid(struct bytes text);

#endif
