/* SPDX-License-Identifier: MIT */
/*
 * A reader of foreign bytes, from front to back.
 *
 *  (1) Nothing outside the bytes is ever read.
 *  (2) A read past the end gives zeros (bytes: BYTES_NULL), takes nothing, and sets
 *      is_short. is_short stays set, and every later read fails too. So a caller
 *      reads all the fields of a message and looks at is_short once.
 *  (3) Bytes that are returned are borrowed from those that were given.
 *
 * _be: the most significant byte comes first (PostgreSQL); _le: the least
 * significant byte comes first (MySQL).
 */
#ifndef BASE_READER_H
#define BASE_READER_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct byte_reader {
    const unsigned char *p, *end;
    bool is_short;
};

static inline struct byte_reader reader_of(struct bytes b)
{
    const unsigned char *p = (const unsigned char *)b.data;
    return (struct byte_reader){p, p == NULL ? p : p + b.len, false};
}

/* All that was not read yet; the reader stays where it is. */
static inline struct bytes reader_rest(const struct byte_reader *r)
{
    return bytes_of(r->p, (size_t)(r->end - r->p));
}

static inline struct bytes reader_bytes(struct byte_reader *r, size_t n)
{
    if (r->is_short || (size_t)(r->end - r->p) < n) {
        r->is_short = true;
        return BYTES_NULL;
    }
    struct bytes b = bytes_of(r->p, n);
    r->p += n;
    return b;
}

static inline uint8_t reader_u8(struct byte_reader *r)
{
    struct bytes b = reader_bytes(r, 1);
    return b.data == NULL ? 0 : (uint8_t)b.data[0];
}

#define READER_INTEGER(name, type, swap)            \
    static inline type name(struct byte_reader *r)  \
    {                                               \
        type v = 0;                                 \
        struct bytes b = reader_bytes(r, sizeof v); \
        if (b.data != NULL)                         \
            memcpy(&v, b.data, sizeof v);           \
        return swap(v);                             \
    }
READER_INTEGER(reader_u16_be, uint16_t, be16toh)
READER_INTEGER(reader_u32_be, uint32_t, be32toh)
READER_INTEGER(reader_u64_be, uint64_t, be64toh)
READER_INTEGER(reader_u16_le, uint16_t, le16toh)
READER_INTEGER(reader_u32_le, uint32_t, le32toh)
READER_INTEGER(reader_u64_le, uint64_t, le64toh)
#undef READER_INTEGER

/* An unsigned integer of n bytes, 1 to 8 (MySQL has integers of 3 and 6 bytes). Any other
 * n is a short read. */
static inline uint64_t reader_uint_le(struct byte_reader *r, size_t n)
{
    uint64_t v = 0;
    struct bytes b = n == 0 || n > sizeof v ? BYTES_NULL : reader_bytes(r, n);
    if (b.data == NULL) {
        r->is_short = true;
        return 0;
    }
    for (size_t i = n; i > 0; i--)
        v = v << 8 | (unsigned char)b.data[i - 1];
    return v;
}

/* Up to a zero byte. The zero byte is read too, and is not part of the answer. */
static inline struct bytes reader_string(struct byte_reader *r)
{
    const void *zero =
        r->is_short || r->p == r->end ? NULL : memchr(r->p, 0, (size_t)(r->end - r->p));
    if (zero == NULL) {
        r->is_short = true;
        return BYTES_NULL;
    }
    struct bytes b = reader_bytes(r, (size_t)((const unsigned char *)zero - r->p));
    r->p++;
    return b;
}

#endif
