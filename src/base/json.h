/* SPDX-License-Identifier: MIT */
/*
 * JSON over bytes, without building a tree.
 *
 * jansson, which the command line uses, rewrites numbers and drops repeated
 * keys; a payload must leave as it came, so what carries payloads is here:
 * checking, removing white space, walking one object, decoding one string.
 * Input is foreign: any bytes at all, nested at most JSON_DEPTH deep.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/arena.h"
#include "base/bytes.h"

#include <sys/types.h>

#define JSON_DEPTH 512

/* Whether the bytes are one JSON value (RFC 8259, UTF-8) with nothing behind it. */
bool outrider__json_is_valid(struct bytes text);

/* Copies the value to out (room for text.len bytes) without white space
 * outside strings, checking it on the way; nothing else changes. The length,
 * or -1 where it is not valid JSON. One pass: this runs once per event. */
ssize_t outrider__json_minify(struct bytes text, char *out);

/* A walk over the members of one object. */
struct json_members {
    const char *p, *end;
    bool first;
};

/* 0, or -1 where the text is not valid JSON or not an object. */
int outrider__json_members_begin(struct json_members *m, struct bytes text);
/* 1 with the next member (key undecoded without its quotes, value raw), 0 at the end. */
int outrider__json_members_next(struct json_members *m, struct bytes *ret_key,
                                struct bytes *ret_value);
/* Decodes the inside of a string (escapes, surrogate pairs) into the arena; half
 * a pair becomes U+FFFD. Borrows the input where there is nothing to decode.
 * -1 where an escape is broken, or there is no memory. */
int outrider__json_unescape(struct bytes inside, struct arena *arena, struct bytes *ret_text);
/* A member's value as text: a string decoded, anything else as it stands. */
int outrider__json_text(struct bytes value, struct arena *arena, struct bytes *ret_text);

#endif
