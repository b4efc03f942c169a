/* SPDX-License-Identifier: MIT */
/*
 * Where a segment ends, after whatever happened to the one who wrote it.
 *
 * A crash can leave, behind the last fdatasync, half a line, or (after a power
 * cut) a hole that reads as zeros. Only what one group could have written is
 * ever cut off; a file that is damaged beyond that was not damaged by a crash
 * of ours, and is refused instead of destroyed.
 */
#ifndef SINK_FILE_TAIL_H
#define SINK_FILE_TAIL_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

struct tail {
    off_t length;  /* of the good part: ends behind a newline, or 0 */
    uint64_t next; /* the offset of the next line */
};

/* Reads only; the caller truncates to ret_tail->length. path is for messages,
 * first is the offset that the segment is named after. */
int outrider__tail_find(int fd, const char *path, uint64_t first, struct tail *ret_tail,
                        struct outrider_error *err);

#endif
