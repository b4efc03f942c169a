/* SPDX-License-Identifier: MIT */
/* One column of a row in the replication stream. */
#ifndef POSTGRES_CDC_CELL_H
#define POSTGRES_CDC_CELL_H

#include "base/reader.h"

#define CDC_EPOCH_US 946684800000000LL /* 2000-01-01: where the server's clock begins */

struct cdc_cell {
    char form; /* 'n' NULL, 'u' unchanged and not sent, 't' text, 'b' binary */
    struct bytes value;
};

/* Reads one cell. -1: the bytes end inside it, or its form is unknown. */
static inline int cdc_cell_read(struct byte_reader *r, struct cdc_cell *ret)
{
    struct cdc_cell c = {.form = (char)reader_u8(r), .value = BYTES_NULL};
    if (c.form == 't' || c.form == 'b')
        c.value = reader_bytes(r, reader_u32_be(r));
    else if (c.form != 'n' && c.form != 'u')
        return -1;
    if (r->is_short)
        return -1;
    *ret = c;
    return 0;
}

/* The cell as an integer: binary of 2, 4 or 8 bytes, or decimal digits. */
int64_t outrider__cdc_cell_int(const struct cdc_cell *c, int64_t otherwise);

#endif
