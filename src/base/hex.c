/* SPDX-License-Identifier: MIT */
#include "base/hex.h"

static const char digits[] = "0123456789abcdef";

static bool hex_begins(struct bytes b)
{
    return b.len >= 2 && b.data[0] == '\\' && b.data[1] == 'x';
}

bool outrider__hex_is_text(struct bytes b)
{
    return !hex_begins(b) && (b.len == 0 || memchr(b.data, '\0', b.len) == NULL) &&
           outrider__bytes_is_utf8(b);
}

static char *hex_put(char *p, struct bytes b)
{
    *p++ = '\\';
    *p++ = 'x';
    for (size_t i = 0; i < b.len; i++) {
        unsigned char c = (unsigned char)b.data[i];
        *p++ = digits[c >> 4];
        *p++ = digits[c & 15];
    }
    return p;
}

void outrider__hex_append(struct strbuf *out, struct bytes b)
{
    char *p = outrider__strbuf_reserve(out, 2 + 2 * b.len);
    if (p == NULL)
        return;
    *hex_put(p, b) = '\0';
    out->len += 2 + 2 * b.len;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ssize_t outrider__hex_read(struct bytes text, char *out)
{
    if (!hex_begins(text) || text.len % 2 != 0)
        return -1;
    for (size_t i = 2; i < text.len; i++)
        if (hex_digit(text.data[i]) < 0)
            return -1;
    for (size_t i = 2; i < text.len; i += 2)
        out[i / 2 - 1] = (char)(hex_digit(text.data[i]) << 4 | hex_digit(text.data[i + 1]));
    return (ssize_t)(text.len / 2 - 1);
}

int outrider__hex_show(struct bytes b, struct arena *arena, struct bytes *ret_text)
{
    if (outrider__bytes_is_utf8(b)) {
        *ret_text = b;
        return 0;
    }
    char *p = outrider__arena_alloc(arena, 3 + 2 * b.len);
    if (p == NULL)
        return -1;
    *hex_put(p, b) = '\0';
    *ret_text = bytes_of(p, 2 + 2 * b.len);
    return 0;
}
