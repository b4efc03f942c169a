/* SPDX-License-Identifier: MIT */
/* The names of segments: twenty digits, the offset of the first line, ".jsonl". */
#ifndef SINK_FILE_SEGMENT_H
#define SINK_FILE_SEGMENT_H

#include "base/error.h"

#include <stdint.h>

#define SEGMENT_NAME_SIZE 32

void outrider__segment_name(uint64_t first, char ret_name[SEGMENT_NAME_SIZE]);
/* Whether the name is a segment's, and of which first offset. */
bool outrider__segment_parse(const char *name, uint64_t *ret_first);

struct segments {
    uint64_t *firsts; /* ascending; free() it */
    size_t n;
};

/* All segments of a topic's directory. */
int outrider__segments_list(const char *dir, struct segments *ret_segments,
                            struct outrider_error *err);

#endif
