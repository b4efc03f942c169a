/* SPDX-License-Identifier: MIT */
/*
 * An arena: memory that is given out piece by piece and taken back at once.
 * A batch owns one; events, and what is derived from them, borrow from it.
 *
 *  (1) Pieces are aligned for any type and stay where they are until reset.
 *  (2) reset keeps ARENA_KEEP chunks of ordinary size, so that a steady flow
 *      does not allocate, and gives the rest back, so that one large batch
 *      does not hold memory for ever.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/bytes.h"

#define ARENA_KEEP 16

struct arena_chunk;

struct arena {
    struct arena_chunk *head;  /* the chunk in use; older ones follow */
    struct arena_chunk *spare; /* empty ones of ordinary size */
    size_t used;               /* bytes given out since the last reset */
    uint64_t generation;       /* counts resets: what was given out before one is gone */
    size_t chunk_size;
};

void outrider__arena_init(struct arena *a, size_t chunk_size);
/* NULL only when the system has no memory. size 0 gives a valid pointer. */
void *outrider__arena_alloc(struct arena *a, size_t size);
/* A copy; a zero byte follows it, which len does not count. NULL stays NULL. */
int outrider__arena_dup(struct arena *a, struct bytes b, struct bytes *ret_copy);
void outrider__arena_reset(struct arena *a);
void outrider__arena_release(struct arena *a);

#endif
