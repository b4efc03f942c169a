/* SPDX-License-Identifier: MIT */
/*
 * Reading foreign bytes from front to back. A read past the end gives zeros
 * and sets is_short, which sticks: a caller reads on and looks once.
 * Shared by cdc/decode.c and cdc/event.c.
 */
#ifndef POSTGRES_CDC_READ_H
#define POSTGRES_CDC_READ_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define CDC_EPOCH_US 946684800000000LL /* 2000-01-01 */

struct cdc_reader {
    const unsigned char *p, *end;
    bool is_short;
};

static inline struct cdc_reader cdc_reader_of(struct bytes b)
{
    const unsigned char *p = (const unsigned char *)b.data;
    return (struct cdc_reader){p, p == NULL ? p : p + b.len, false};
}

static inline struct bytes cdc_rest(const struct cdc_reader *r)
{
    return bytes_of(r->p, (size_t)(r->end - r->p));
}

static inline struct bytes cdc_read_bytes(struct cdc_reader *r, size_t n)
{
    if (r->is_short || (size_t)(r->end - r->p) < n) {
        r->is_short = true;
        return BYTES_NULL;
    }
    struct bytes b = bytes_of(r->p, n);
    r->p += n;
    return b;
}

static inline uint8_t cdc_read_u8(struct cdc_reader *r)
{
    struct bytes b = cdc_read_bytes(r, 1);
    return b.data == NULL ? 0 : (uint8_t)b.data[0];
}

/* Integers come with their highest byte first. */
#define CDC_READ_BIG_ENDIAN(name, type, swap)         \
    static inline type name(struct cdc_reader *r)     \
    {                                                 \
        type v = 0;                                   \
        struct bytes b = cdc_read_bytes(r, sizeof v); \
        if (b.data != NULL)                           \
            memcpy(&v, b.data, sizeof v);             \
        return swap(v);                               \
    }
CDC_READ_BIG_ENDIAN(cdc_read_u16, uint16_t, be16toh)
CDC_READ_BIG_ENDIAN(cdc_read_u32, uint32_t, be32toh)
CDC_READ_BIG_ENDIAN(cdc_read_u64, uint64_t, be64toh)

/* Up to a zero byte, which is not part of it. */
static inline struct bytes cdc_read_string(struct cdc_reader *r)
{
    const void *zero =
        r->is_short || r->p == r->end ? NULL : memchr(r->p, 0, (size_t)(r->end - r->p));
    if (zero == NULL) {
        r->is_short = true;
        return BYTES_NULL;
    }
    struct bytes b = cdc_read_bytes(r, (size_t)((const unsigned char *)zero - r->p));
    r->p++;
    return b;
}

/* A length in four bytes, then so many. */
static inline struct bytes cdc_read_counted(struct cdc_reader *r)
{
    uint32_t n = cdc_read_u32(r);
    return cdc_read_bytes(r, n);
}

/* One column of a row: 'n' NULL, 'u' unchanged and not sent, 't' text, 'b' binary. */
struct cdc_cell {
    char form;
    struct bytes value;
};

static inline int cdc_read_cell(struct cdc_reader *r, struct cdc_cell *ret)
{
    struct cdc_cell c = {.form = (char)cdc_read_u8(r), .value = BYTES_NULL};
    if (c.form == 't' || c.form == 'b') {
        c.value = cdc_read_counted(r);
    } else if (c.form != 'n' && c.form != 'u') {
        return -1;
    }
    if (r->is_short)
        return -1;
    *ret = c;
    return 0;
}

/* As an integer: binary of 1, 2, 4 or 8 bytes, or decimal digits. */
int64_t outrider__cdc_cell_int(const struct cdc_cell *c, int64_t otherwise);

#endif
