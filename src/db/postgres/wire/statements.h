/* SPDX-License-Identifier: MIT */
/*
 * From blocks of .sql files to statements: fills the words in (common/sql.h).
 *
 *  (1) Every statement may use the words of the catalogue: @outbox@, @sequence@,
 *      @cursor@, @parked@, @companions@ (the schema of Outrider's own tables), @oid@,
 *      @system_id@, @text_cut@ (how many characters of an id an anchor holds). The caller
 *      adds the words of its own room.
 *  (2) Values of outrider__pg_words_add() are not copied: they must live until the
 *      statements are made. The values of the other two belong to the words.
 *  (3) A word that nobody added is an error of the program, and the message names it.
 */
#ifndef POSTGRES_STATEMENTS_H
#define POSTGRES_STATEMENTS_H

#include "common/sql.h"
#include "postgres/wire/catalog.h"
#include "postgres/wire/conn.h"

#define PG_WORDS_MAX 24

/* Points into itself: never copy it. */
struct pg_words {
    struct sql_word items[PG_WORDS_MAX];
    char *owned[PG_WORDS_MAX]; /* value i where it belongs to the words, or NULL */
    size_t n;
    bool failed; /* no memory */
    char oid[12], system_id[24], text_cut[12];
};

void outrider__pg_words_init(struct pg_words *w, const struct pg_catalog *cat);
/* A word that stands in the table already gets the new value. */
void outrider__pg_words_add(struct pg_words *w, const char *name, const char *value);
/* Takes the text over; the buffer is released. */
void outrider__pg_words_take(struct pg_words *w, const char *name, struct strbuf *value);
/* The value is a part of a statement, in which the words so far are filled in. */
void outrider__pg_words_add_block(struct pg_words *w, const char *name, const char *block);
/* Needed after the two above, legal after init(). */
void outrider__pg_words_release(struct pg_words *w);

/* A statement as its .sql file has it. */
struct pg_block {
    const char *sql;
    const char *what; /* for messages: "cannot read the outbox" */
    enum pg_purpose purpose;
};

/* *ret_sql is the caller's to free. */
int outrider__pg_block_expand(const struct pg_block *block, const struct pg_words *words,
                              char **ret_sql, struct outrider_error *err);
/* Makes n statements of n blocks; also after a failure release() is needed. */
int outrider__pg_statements_make(struct pg_statement *st, const struct pg_block *blocks, size_t n,
                                 const struct pg_words *words, struct outrider_error *err);
/* Frees the texts; statements that were never made are legal. */
void outrider__pg_statements_release(struct pg_statement *st, size_t n);

#endif
