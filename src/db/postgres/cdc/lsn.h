/* SPDX-License-Identifier: MIT */
/* Positions of the server's write-ahead log, as numbers and as bytes for the tracker. */
#ifndef POSTGRES_CDC_LSN_H
#define POSTGRES_CDC_LSN_H

#include <stdlib.h>

#include "common/stream_track.h"

/* 0 is no position. The bytes are borrowed from the number. */
static inline struct bytes lsn_bytes(const uint64_t *lsn)
{
    return *lsn == 0 ? BYTES_NULL : bytes_of(lsn, sizeof *lsn);
}

static inline uint64_t lsn_of(struct bytes b)
{
    uint64_t lsn = 0;
    if (b.len == sizeof lsn)
        memcpy(&lsn, b.data, sizeof lsn);
    return lsn;
}

/* "16/B374D848"; 0: not understood. */
static inline uint64_t lsn_parse(const char *text)
{
    char *end;
    uint64_t high = strtoull(text, &end, 16);
    return *end == '/' ? high << 32 | strtoull(end + 1, NULL, 16) : 0;
}

#endif
