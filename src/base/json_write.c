/* SPDX-License-Identifier: MIT */
#include "base/json_write.h"

#include <stdint.h>
#include <string.h>

/* The letter of a short escape; 'u' for the long one; 0: the byte stands as it is. */
/* clang-format off */
static const char escapes[256] = {
    [0 ... 7] = 'u', ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', [11] = 'u',
    ['\f'] = 'f', ['\r'] = 'r', [14 ... 31] = 'u', ['"'] = '"', ['\\'] = '\\',
};
/* clang-format on */

bool outrider__json_is_plain(struct bytes b)
{
    const uint64_t ones = 0x0101010101010101ULL, highs = 0x8080808080808080ULL;
    size_t i = 0;
    for (; i + 8 <= b.len; i += 8) {
        uint64_t w;
        memcpy(&w, b.data + i, 8);
        /* Eight bytes at a time. A borrow from a lower byte can only say no too often. */
        uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
        if (((quote - ones) | (slash - ones) | (w - ones * 0x20) | w) & highs)
            return false;
    }
    for (; i < b.len; i++)
        if ((unsigned char)b.data[i] >= 0x80 || escapes[(unsigned char)b.data[i]] != 0)
            return false;
    return true;
}

static size_t json_write_escaped_len(unsigned char c)
{
    return escapes[c] == 0 ? 1 : escapes[c] == 'u' ? 6 : 2;
}

size_t outrider__json_string_len(struct bytes b)
{
    size_t n = 2;
    if (outrider__json_is_plain(b))
        return b.len + 2;
    bool is_utf8 = outrider__bytes_is_utf8(b);
    for (size_t i = 0; i < b.len; i++) {
        unsigned char c = (unsigned char)b.data[i];
        n += !is_utf8 && c >= 0x80 ? 3 : json_write_escaped_len(c);
    }
    return n;
}

static char *json_write_put_escape(char *p, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    *p++ = '\\';
    *p++ = escapes[c];
    if (escapes[c] == 'u') {
        *p++ = '0';
        *p++ = '0';
        *p++ = hex[c >> 4];
        *p++ = hex[c & 15];
    }
    return p;
}

char *outrider__json_put_escaped(char *p, struct bytes utf8)
{
    for (size_t i = 0; i < utf8.len; i++) {
        unsigned char c = (unsigned char)utf8.data[i];
        if (escapes[c] != 0)
            p = json_write_put_escape(p, c);
        else
            *p++ = (char)c;
    }
    return p;
}

/* (2) */
static char *json_write_put_ascii(char *p, struct bytes b)
{
    static const char replacement[] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */
    for (size_t i = 0; i < b.len; i++) {
        if ((unsigned char)b.data[i] < 0x80) {
            p = outrider__json_put_escaped(p, bytes_of(b.data + i, 1));
        } else {
            memcpy(p, replacement, sizeof replacement);
            p += sizeof replacement;
        }
    }
    return p;
}

char *outrider__json_put_string(char *p, struct bytes b, size_t len)
{
    *p++ = '"';
    if (len == b.len + 2) { /* nothing is escaped, so no byte needs a look */
        if (b.len > 0)
            memcpy(p, b.data, b.len);
        p += b.len;
    } else if (outrider__bytes_is_utf8(b)) {
        p = outrider__json_put_escaped(p, b);
    } else {
        p = json_write_put_ascii(p, b);
    }
    *p++ = '"';
    return p;
}

char *outrider__base64_put(char *p, struct bytes b)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)b.data;
    for (size_t i = 0; i < b.len; i += 3) {
        size_t left = b.len - i;
        unsigned v = (unsigned)in[i] << 16 | (left > 1 ? (unsigned)in[i + 1] << 8 : 0) |
                     (left > 2 ? in[i + 2] : 0);
        *p++ = digits[v >> 18 & 63];
        *p++ = digits[v >> 12 & 63];
        *p++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *p++ = left > 2 ? digits[v & 63] : '=';
    }
    return p;
}
