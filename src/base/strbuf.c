/* SPDX-License-Identifier: MIT */
#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>

void outrider__strbuf_init(struct strbuf *sb, size_t cap)
{
    *sb = (struct strbuf){.cap = cap};
}

void outrider__strbuf_release(struct strbuf *sb)
{
    free(sb->data);
    *sb = (struct strbuf){.cap = sb->cap};
}

void outrider__strbuf_clear(struct strbuf *sb)
{
    sb->len = 0;
    sb->failed = false;
    if (sb->data != NULL)
        sb->data[0] = '\0';
}

char *outrider__strbuf_reserve(struct strbuf *sb, size_t n)
{
    if (sb->failed || n > sb->cap - sb->len) {
        sb->failed = true;
        return NULL;
    }
    size_t need = sb->len + n + 1;
    if (need > sb->size) {
        size_t size = sb->size ? sb->size * 2 : 128;
        if (size < need)
            size = need;
        char *data = realloc(sb->data, size);
        if (data == NULL) {
            sb->failed = true;
            return NULL;
        }
        sb->data = data;
        sb->size = size;
    }
    return sb->data + sb->len;
}

void outrider__strbuf_append(struct strbuf *sb, struct bytes b)
{
    char *p = outrider__strbuf_reserve(sb, b.len);
    if (p == NULL)
        return;
    if (b.len > 0)
        memcpy(p, b.data, b.len);
    sb->len += b.len;
    sb->data[sb->len] = '\0';
}

void outrider__strbuf_vappendf(struct strbuf *sb, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = n < 0 ? NULL : outrider__strbuf_reserve(sb, (size_t)n);
    if (p != NULL) {
        (void)vsnprintf(p, (size_t)n + 1, fmt, again);
        sb->len += (size_t)n;
    } else {
        sb->failed = true;
    }
    va_end(again);
}

void outrider__strbuf_appendf(struct strbuf *sb, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    outrider__strbuf_vappendf(sb, fmt, ap);
    va_end(ap);
}

/* 0: as it is; 'u': \u00XX; else the letter of a short escape. */
static char escape_of(unsigned char c)
{
    switch (c) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return c < 0x20 ? 'u' : 0;
    }
}

void outrider__strbuf_append_json(struct strbuf *sb, struct bytes b)
{
    size_t start = 0, i = 0;
    strbuf_append_char(sb, '"');
    while (i < b.len) {
        unsigned char c = (unsigned char)b.data[i];
        char e = escape_of(c);
        size_t n = c < 0x80 ? 1 : outrider__utf8_length(b.data + i, b.len - i);
        if (e == 0 && n > 0) {
            i += n;
            continue;
        }
        outrider__strbuf_append(sb, bytes_of(b.data + start, i - start));
        if (n == 0)
            strbuf_append_str(sb, "\xef\xbf\xbd");
        else if (e == 'u')
            outrider__strbuf_appendf(sb, "\\u%04x", c);
        else
            outrider__strbuf_append(sb, bytes_of((char[]){'\\', e}, 2));
        start = ++i;
    }
    if (i > start)
        outrider__strbuf_append(sb, bytes_of(b.data + start, i - start));
    strbuf_append_char(sb, '"');
}

void outrider__strbuf_append_base64(struct strbuf *sb, struct bytes b)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)b.data;
    size_t need = (b.len + 2) / 3 * 4;
    char *out = outrider__strbuf_reserve(sb, need);
    if (out == NULL)
        return;
    for (size_t i = 0; i < b.len; i += 3) {
        size_t left = b.len - i;
        unsigned v = (unsigned)in[i] << 16 | (left > 1 ? (unsigned)in[i + 1] << 8 : 0) |
                     (left > 2 ? in[i + 2] : 0);
        *out++ = digits[v >> 18 & 63];
        *out++ = digits[v >> 12 & 63];
        *out++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[v & 63] : '=';
    }
    sb->len += need;
    sb->data[sb->len] = '\0';
}
