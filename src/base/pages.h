/* SPDX-License-Identifier: MIT */
/*
 * Large arrays of which mostly a part is used: zeroed memory that costs nothing
 * until somebody touches it. calloc() promises zeroes, not that: glibc clears
 * what its heap had at hand, 128 KiB of each such array.
 */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

/* n elements of this size, zeroed; NULL: there is no memory. */
void *outrider__pages_new(size_t n, size_t size);
/* Gives back what outrider__pages_new() returned for the same n and size. NULL is allowed. */
void outrider__pages_free(void *pages, size_t n, size_t size);

#endif
