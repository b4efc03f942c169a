/* SPDX-License-Identifier: MIT */
/* What help.c and help_render.c share. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/cli.h"

#define HELP_ABOUT                                                                                 \
    "A transactional outbox: an application writes its event in the same database transaction as " \
    "its data; outrider carries every committed event to its receiver, at least once, in order "   \
    "per key, and never one whose transaction rolled back."

/* Words of text in lines of at most width columns; the first line is begun already. */
void outrider__help_wrap(struct strbuf *out, const char *text, size_t indent, size_t width);
/* Each line of lines with a prefix. */
void outrider__help_lines(struct strbuf *out, const char *lines, const char *first,
                          const char *other);
/* "-c, --config FILE" */
void outrider__help_flag_form(const struct flag *f, char *ret_text, size_t size);

#endif
