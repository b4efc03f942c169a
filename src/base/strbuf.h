/* SPDX-License-Identifier: MIT */
/*
 * A growing string with a mandatory cap.
 *
 *  (1) data is always a valid C string once something was appended.
 *  (2) An append that would pass the cap, or finds no memory, appends nothing
 *      and sets `failed`, which sticks until clear: a caller may append many
 *      times and look once.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdarg.h>

#include "base/bytes.h"

struct strbuf {
    char *data;
    size_t len;
    size_t size; /* allocated */
    size_t cap;  /* len never passes it */
    bool failed;
};

void outrider__strbuf_init(struct strbuf *sb, size_t cap);
void outrider__strbuf_release(struct strbuf *sb);
/* Empties it and forgets a failure; keeps the memory. */
void outrider__strbuf_clear(struct strbuf *sb);
/* Room for n more bytes, or NULL (and failed). Follow with strbuf_commit. */
char *outrider__strbuf_reserve(struct strbuf *sb, size_t n);
void outrider__strbuf_append(struct strbuf *sb, struct bytes b);
void outrider__strbuf_appendf(struct strbuf *sb, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void outrider__strbuf_vappendf(struct strbuf *sb, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
/* The bytes as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void outrider__strbuf_append_json(struct strbuf *sb, struct bytes b);
void outrider__strbuf_append_base64(struct strbuf *sb, struct bytes b);

static inline void strbuf_append_str(struct strbuf *sb, const char *s)
{
    outrider__strbuf_append(sb, bytes_str(s));
}

static inline void strbuf_append_char(struct strbuf *sb, char c)
{
    outrider__strbuf_append(sb, (struct bytes){&c, 1});
}

static inline struct bytes strbuf_bytes(const struct strbuf *sb)
{
    return (struct bytes){sb->data ? sb->data : "", sb->len};
}

static inline const char *strbuf_cstr(const struct strbuf *sb)
{
    return sb->data ? sb->data : "";
}

#endif
