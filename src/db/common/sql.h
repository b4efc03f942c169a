/* SPDX-License-Identifier: MIT */
/*
 * SQL from files: statements stand in named blocks of .sql files (a line
 * "-- name: log_read" begins one; cmake/EmbedText.cmake makes a string
 * sql_log_read of it), with words between @ signs for what is known at run time.
 *
 *  (1) A word is letters and underscores between two @ signs: @outbox@. Any other
 *      @ is copied as it is.
 *  (2) A word that the table lacks fails the buffer: a typing error never reaches
 *      a server.
 *  (3) Values are put in as they are. Names must be quoted by whoever fills the
 *      table; user data never goes here but through parameters.
 */
#ifndef COMMON_SQL_H
#define COMMON_SQL_H

#include "base/strbuf.h"

/* A statement with all its words filled in is at most this long. */
#define SQL_TEXT_CAP (2u << 20)

struct sql_word {
    const char *name;  /* "outbox", without the @ signs */
    const char *value; /* NULL: an empty text */
};

/* Appends the template with its words filled in. */
void outrider__sql_append(struct strbuf *sql, const char *template, const struct sql_word *words,
                          size_t n);
/* The same as a string of its own, for free(); NULL if it fails. */
char *outrider__sql_expand(const char *template, const struct sql_word *words, size_t n);
/* For the message about (2): the first word of the template that the table lacks; NULL bytes:
 * the table has them all. */
struct bytes outrider__sql_unknown_word(const char *template, const struct sql_word *words,
                                        size_t n);

#endif
