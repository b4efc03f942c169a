/* SPDX-License-Identifier: MIT */
#include "base/bytes.h"

/* A full product folded in two: one multiplication mixes 16 bytes. */
static inline uint64_t bytes_fold(uint64_t a, uint64_t b)
{
    __uint128_t m = (__uint128_t)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t bytes_word(const char *p, size_t n)
{
    uint64_t w = 0;
    memcpy(&w, p, n);
    return w;
}

uint64_t outrider__bytes_hash(struct bytes b)
{
    const uint64_t k0 = 0x9e3779b97f4a7c15ULL, k1 = 0xd6e8feb86659fd93ULL;
    uint64_t h = (b.len + 1) * 0xa0761d6478bd642fULL; /* never k1: that would make a factor 0 */
    const char *p = b.data;
    size_t n = b.len;
    for (; n > 16; p += 16, n -= 16)
        h = bytes_fold(bytes_word(p, 8) ^ k0 ^ h, bytes_word(p + 8, 8) ^ k1);
    uint64_t lo = 0, hi = 0;
    if (n >= 8) {
        lo = bytes_word(p, 8);
        hi = bytes_word(p + n - 8, 8);
    } else if (n >= 4) {
        lo = bytes_word(p, 4) << 32 | bytes_word(p + n - 4, 4);
    } else if (n > 0) {
        lo = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[n / 2] << 8 |
             (unsigned char)p[n - 1];
    }
    return bytes_fold(lo ^ k0 ^ h, hi ^ k1 ^ h) ^ h;
}

size_t outrider__utf8_length(const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char c = p[0];
    size_t n;
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        n = 2;
    else if ((c & 0xf0) == 0xe0)
        n = 3;
    else if (c >= 0xf0 && c <= 0xf4)
        n = 4;
    else
        return 0;
    if (left < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) || (c == 0xf0 && p[1] < 0x90) ||
        (c == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

bool outrider__bytes_is_utf8(struct bytes b)
{
    const char *p = b.data;
    size_t left = b.len;
    while (left > 0) {
        if (left >= 8) {
            uint64_t w;
            memcpy(&w, p, 8);
            if ((w & 0x8080808080808080ULL) == 0) {
                p += 8;
                left -= 8;
                continue;
            }
        }
        size_t n = (*p & 0x80) == 0 ? 1 : outrider__utf8_length(p, left);
        if (n == 0)
            return false;
        p += n;
        left -= n;
    }
    return true;
}
