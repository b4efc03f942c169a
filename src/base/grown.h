/* SPDX-License-Identifier: MIT */
/*
 * Public structs that grow.
 *
 *  (1) A public struct begins with its size. A new field stands at the end, behind
 *      every byte of the first release (padding too), and zero means "not used".
 *  (2) A program that was compiled with an older header hands in fewer bytes. The
 *      missing bytes count as zero.
 *  (3) A program that was compiled with a newer header hands in more bytes. Bytes
 *      that this library does not know must be zero; otherwise the call is refused,
 *      because the library would silently leave out what the program asked for.
 */
#ifndef BASE_GROWN_H
#define BASE_GROWN_H

#include <stddef.h>

#include "base/error.h"

struct grown {
    const char *what;  /* how messages begin: "event" */
    const char *unset; /* the whole message for a size that no release had */
    size_t first;      /* size in the first release */
    size_t now;        /* size in this library */
    size_t align;      /* a size is a multiple of the alignment */
    enum outrider_disposition disposition;
};

/* The size of a struct whose last field was LAST, padding included. */
#define GROWN_FIRST(type, last)                                                                 \
    ((offsetof(type, last) + sizeof(((type *)0)->last) + _Alignof(type) - 1) / _Alignof(type) * \
     _Alignof(type))

/* Whether `from` can be read: see (2) and (3). NULL is refused like a size that is not set. */
int outrider__grown_check(const struct grown *g, const void *from, struct outrider_error *err);

/* Copy a checked struct into one of this library's size. */
void outrider__grown_copy(const struct grown *g, void *to, const void *from);

#endif
