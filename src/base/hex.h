/* SPDX-License-Identifier: MIT */
/*
 * Bytes where a text is asked for: "\x" and two digits for each byte, as
 * PostgreSQL writes them.
 */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/strbuf.h"

/* Whether a text column holds the bytes as they are, and nobody takes them for hex:
 * UTF-8, without a zero byte, not beginning with "\x". */
bool outrider__hex_is_text(struct bytes b);
void outrider__hex_append(struct strbuf *out, struct bytes b);
/* The bytes that the text stands for; at most half as many, so out may be the text itself.
 * -1: it is not of this form. */
ssize_t outrider__hex_read(struct bytes text, char *out);
/* For people and for JSON: UTF-8 as it is, everything else as hex. */
int outrider__hex_show(struct bytes b, struct arena *arena, struct bytes *ret_text);

#endif
