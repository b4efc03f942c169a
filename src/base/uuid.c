/* SPDX-License-Identifier: MIT */
#include "base/uuid.h"

#include <ctype.h>
#include <string.h>
#include <sys/random.h>

#define RANDOM_PART 8 /* of an id's 16 bytes */

/* The first time for one id only: there may be no second. */
static int refill(struct uuid_pool *pool)
{
    size_t n = pool->end == 0 ? RANDOM_PART : sizeof pool->bytes;
    if (getrandom(pool->bytes, n, 0) != (ssize_t)n)
        return -1;
    pool->next = 0;
    pool->end = n;
    return 0;
}

int outrider__uuid_from(struct uuid_pool *pool, int64_t wall_us, char ret_text[OUTRIDER_ID_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char b[16];
    if (pool->next == pool->end && refill(pool) < 0)
        return -1;
    memcpy(b + sizeof b - RANDOM_PART, pool->bytes + pool->next, RANDOM_PART);
    pool->next += RANDOM_PART;
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

int outrider__uuid_new(int64_t wall_us, char ret_text[OUTRIDER_ID_SIZE])
{
    struct uuid_pool pool = {0};
    return outrider__uuid_from(&pool, wall_us, ret_text);
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
