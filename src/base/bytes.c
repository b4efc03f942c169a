/* SPDX-License-Identifier: MIT */
#include "base/bytes.h"

static inline uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ULL;
    h ^= h >> 32;
    return h;
}

uint64_t outrider__bytes_hash(struct bytes b)
{
    uint64_t h = 0x9e3779b97f4a7c15ULL ^ b.len;
    const char *p = b.data;
    size_t n = b.len;
    while (n >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = mix(h ^ w) * 0x9fb21c651e98df25ULL;
        p += 8;
        n -= 8;
    }
    if (n > 0) {
        uint64_t w = 0;
        memcpy(&w, p, n);
        h = mix(h ^ w) * 0x9fb21c651e98df25ULL;
    }
    return mix(h);
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
        size_t n = outrider__utf8_length(p, left);
        if (n == 0)
            return false;
        p += n;
        left -= n;
    }
    return true;
}
