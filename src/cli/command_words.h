/* SPDX-License-Identifier: MIT */
#ifndef CLI_COMMAND_WORDS_H
#define CLI_COMMAND_WORDS_H

/*
 * A text with its words filled in: @db@ (a database without a server), @server@ (one with
 * a server), @broker@, @sinks@ (the forms of all sinks' URLs). A text without any is
 * returned as it is, another one in memory that nobody frees; NULL: none is left.
 */
const char *outrider__command_words(const char *text);

#endif
