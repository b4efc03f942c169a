/* SPDX-License-Identifier: MIT */
#include "base/uuid.h"

#include <ctype.h>
#include <sys/random.h>

int outrider__uuid_new(int64_t wall_us, char ret_text[OUTRIDER_ID_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char b[16];
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return -1;
    /* RFC 9562: 48 bits of milliseconds, then the version; the 12 bits of
     * rand_a carry the fraction of the millisecond, so that ids made by one
     * process in one millisecond still sort. */
    uint64_t ms = (uint64_t)(wall_us / 1000);
    unsigned sub = (unsigned)((wall_us % 1000) * 4096 / 1000);
    for (int i = 0; i < 6; i++)
        b[i] = (unsigned char)(ms >> (8 * (5 - i)));
    b[6] = (unsigned char)(0x70 | sub >> 8);
    b[7] = (unsigned char)sub;
    b[8] = (unsigned char)(0x80 | (b[8] & 0x3f));
    char *p = ret_text;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = hex[b[i] >> 4];
        *p++ = hex[b[i] & 15];
    }
    *p = '\0';
    return 0;
}

bool outrider__uuid_is_valid(struct bytes text)
{
    if (text.len != 36)
        return false;
    for (size_t i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text.data[i] != '-' : !isxdigit((unsigned char)text.data[i]))
            return false;
    }
    return true;
}
