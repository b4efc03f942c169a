/* SPDX-License-Identifier: MIT */
/*
 * Writes JSON strings and base64 through a bare pointer, into room that the caller has
 * counted before. base/strbuf.h has the same for a buffer that grows.
 *
 *  (1) Control characters, quotes and backslashes are escaped, with the short escapes of
 *      JSON where there are any. Everything else of a UTF-8 text stays as it is.
 *  (2) A text that is not UTF-8 keeps its ASCII; each other byte of it becomes U+FFFD.
 */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include "base/bytes.h"

/* Whether all bytes are ASCII and stand in a JSON string as they are: nearly all names and
 * ids do. May say no of bytes that do, never yes of bytes that do not. */
bool outrider__json_is_plain(struct bytes b);
/* How long the string will be with its quotes; at most 6 * len + 2. */
size_t outrider__json_string_len(struct bytes b);
/* The string with its quotes; len is what outrider__json_string_len() said. Returns the end. */
char *outrider__json_put_string(char *p, struct bytes b, size_t len);
/* The inside of a string; the bytes are UTF-8. */
char *outrider__json_put_escaped(char *p, struct bytes utf8);

static inline size_t base64_len(size_t n)
{
    return (n + 2) / 3 * 4;
}

char *outrider__base64_put(char *p, struct bytes b);

#endif
