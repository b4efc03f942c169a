/* SPDX-License-Identifier: MIT */
#include "base/strbuf.h"

#include "base/json_write.h"

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

/* One run of UTF-8. */
static void strbuf_append_escaped(struct strbuf *sb, struct bytes run)
{
    if (run.len == 0)
        return;
    size_t need = outrider__json_string_len(run) - 2;
    char *p = outrider__strbuf_reserve(sb, need);
    if (p == NULL)
        return;
    *outrider__json_put_escaped(p, run) = '\0';
    sb->len += need;
}

void outrider__strbuf_append_json(struct strbuf *sb, struct bytes b)
{
    size_t start = 0, i = 0;
    strbuf_append_char(sb, '"');
    while (i < b.len) {
        size_t n =
            (unsigned char)b.data[i] < 0x80 ? 1 : outrider__utf8_length(b.data + i, b.len - i);
        if (n > 0) {
            i += n;
            continue;
        }
        strbuf_append_escaped(sb, bytes_of(b.data + start, i - start));
        strbuf_append_str(sb, "\xef\xbf\xbd");
        start = ++i;
    }
    if (i > start)
        strbuf_append_escaped(sb, bytes_of(b.data + start, i - start));
    strbuf_append_char(sb, '"');
}

void outrider__strbuf_append_base64(struct strbuf *sb, struct bytes b)
{
    size_t need = base64_len(b.len);
    char *p = outrider__strbuf_reserve(sb, need);
    if (p == NULL)
        return;
    *outrider__base64_put(p, b) = '\0';
    sb->len += need;
}
