/* SPDX-License-Identifier: MIT */
/*
 * Borrowed bytes: a pointer and a length, never assumed to end with a zero.
 * data may be NULL only when len is 0; NULL data means "absent" where the
 * field says it may be absent (see bytes_is_null).
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const char *data;
    size_t len;
};

#define BYTES_NULL ((struct bytes){NULL, 0})
#define BYTES_LIT(s) ((struct bytes){"" s, sizeof(s) - 1})

static inline struct bytes bytes_of(const void *data, size_t len)
{
    return (struct bytes){(const char *)data, len};
}

static inline struct bytes bytes_str(const char *s)
{
    return s ? (struct bytes){s, strlen(s)} : BYTES_NULL;
}

static inline bool bytes_is_null(struct bytes b)
{
    return b.data == NULL;
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.data == b.data || a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool bytes_eq_str(struct bytes a, const char *s)
{
    return bytes_eq(a, bytes_str(s));
}

/* A 64-bit hash of the bytes, good enough for tables keyed by foreign data
 * only because tables here are bounded; not for security. */
uint64_t outrider__bytes_hash(struct bytes b);

/* Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms). */
bool outrider__bytes_is_utf8(struct bytes b);
/* The length of the well-formed UTF-8 sequence at the front of the text, of
 * which left > 0 bytes may be read; 0 where it is not well-formed. */
size_t outrider__utf8_length(const char *text, size_t left);

#endif
