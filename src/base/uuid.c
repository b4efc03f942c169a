/* SPDX-License-Identifier: MIT */
#include "base/uuid.h"

#include <ctype.h>
#include <endian.h>
#include <string.h>
#include <sys/random.h>

#define RANDOM_PART 8 /* of an id's 16 bytes */

/* The first time for one id only: there may be no second. */
static int uuid_refill(struct uuid_pool *pool)
{
    size_t n = pool->end == 0 ? RANDOM_PART : sizeof pool->bytes;
    if (getrandom(pool->bytes, n, 0) != (ssize_t)n)
        return -1;
    pool->next = 0;
    pool->end = n;
    return 0;
}

/* Four bytes as eight digits, all at once: each nibble gets a byte of its own. */
static void uuid_hex_of_4(const char *p, char *first, char *second)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    uint64_t x = be32toh(four);
    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t is_letter = ((x + UINT64_C(0x0606060606060606)) >> 4) & UINT64_C(0x0101010101010101);
    x = htobe64(x + UINT64_C(0x3030303030303030) + is_letter * ('a' - '0' - 10));
    memcpy(first, &x, 4);
    memcpy(second, (const char *)&x + 4, 4);
}

void outrider__uuid_text(const char bytes[16], char ret_text[OUTRIDER_ID_SIZE])
{
    uuid_hex_of_4(bytes, ret_text, ret_text + 4);
    uuid_hex_of_4(bytes + 4, ret_text + 9, ret_text + 14);
    uuid_hex_of_4(bytes + 8, ret_text + 19, ret_text + 24);
    uuid_hex_of_4(bytes + 12, ret_text + 28, ret_text + 32);
    ret_text[8] = ret_text[13] = ret_text[18] = ret_text[23] = '-';
    ret_text[OUTRIDER_ID_SIZE - 1] = '\0';
}

int outrider__uuid_from(struct uuid_pool *pool, int64_t wall_us, char ret_text[OUTRIDER_ID_SIZE])
{
    char b[16];
    if (pool->next == pool->end && uuid_refill(pool) < 0)
        return -1;
    memcpy(b + sizeof b - RANDOM_PART, pool->bytes + pool->next, RANDOM_PART);
    pool->next += RANDOM_PART;
    /* RFC 9562: 48 bits of milliseconds, then the version; the 12 bits of
     * rand_a carry the fraction of the millisecond, so that ids made by one
     * process in one millisecond still sort. */
    uint64_t ms = (uint64_t)(wall_us / 1000);
    unsigned sub = (unsigned)((wall_us % 1000) * 4096 / 1000);
    for (int i = 0; i < 6; i++)
        b[i] = (char)(ms >> (8 * (5 - i)));
    b[6] = (char)(0x70 | sub >> 8);
    b[7] = (char)sub;
    b[8] = (char)(0x80 | (b[8] & 0x3f));
    outrider__uuid_text(b, ret_text);
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
