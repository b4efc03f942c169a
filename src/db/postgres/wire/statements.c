/* SPDX-License-Identifier: MIT */
#include "postgres/wire/statements.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void outrider__pg_words_init(struct pg_words *w, const struct pg_catalog *cat)
{
    w->n = 0;
    w->failed = false;
    (void)snprintf(w->oid, sizeof w->oid, "%u", cat->oid);
    (void)snprintf(w->system_id, sizeof w->system_id, "%" PRId64, cat->system_id);
    (void)snprintf(w->text_cut, sizeof w->text_cut, "%d", EVENT_TEXT_CUT);
    outrider__pg_words_add(w, "outbox", cat->table);
    outrider__pg_words_add(w, "sequence", cat->sequence);
    outrider__pg_words_add(w, "cursor", cat->cursor_table);
    outrider__pg_words_add(w, "parked", cat->parked_table);
    outrider__pg_words_add(w, "companions", cat->companion_schema);
    outrider__pg_words_add(w, "oid", w->oid);
    outrider__pg_words_add(w, "system_id", w->system_id);
    outrider__pg_words_add(w, "text_cut", w->text_cut);
}

/* A word that finds no room stays unknown, and so fails the statement that uses it. */
static void statements_words_put(struct pg_words *w, const char *name, const char *value,
                                 char *owned)
{
    size_t i = 0;
    while (i < w->n && strcmp(w->items[i].name, name) != 0)
        i++;
    if (i == PG_WORDS_MAX) {
        free(owned);
        return;
    }
    if (i < w->n)
        free(w->owned[i]);
    else
        w->n++;
    w->items[i] = (struct sql_word){name, value};
    w->owned[i] = owned;
}

void outrider__pg_words_add(struct pg_words *w, const char *name, const char *value)
{
    statements_words_put(w, name, value, NULL);
}

void outrider__pg_words_take(struct pg_words *w, const char *name, struct strbuf *value)
{
    w->failed |= value->failed;
    statements_words_put(w, name, value->data, value->data);
    *value = (struct strbuf){0};
}

void outrider__pg_words_add_block(struct pg_words *w, const char *name, const char *block)
{
    struct strbuf sql;
    if (!bytes_is_null(outrider__sql_unknown_word(block, w->items, w->n)))
        return; /* the statement that needs this word names it in its error */
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__sql_append(&sql, block, w->items, w->n);
    outrider__pg_words_take(w, name, &sql);
}

void outrider__pg_words_release(struct pg_words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->owned[i]);
    w->n = 0;
}

int outrider__pg_block_expand(const struct pg_block *block, const struct pg_words *words,
                              char **ret_sql, struct outrider_error *err)
{
    if (words->failed)
        return outrider__fail_nomem(err);
    char *sql = outrider__sql_expand(block->sql, words->items, words->n);
    if (sql != NULL) {
        *ret_sql = sql;
        return 0;
    }
    struct bytes unknown = outrider__sql_unknown_word(block->sql, words->items, words->n);
    if (bytes_is_null(unknown))
        return outrider__fail_nomem(err);
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                          "%s: the statement has the unknown word @%.*s@: this is an error of the "
                          "program",
                          block->what, (int)unknown.len, unknown.data);
}

int outrider__pg_statements_make(struct pg_statement *st, const struct pg_block *blocks, size_t n,
                                 const struct pg_words *words, struct outrider_error *err)
{
    for (size_t i = 0; i < n; i++) {
        char *sql = NULL;
        if (outrider__pg_block_expand(&blocks[i], words, &sql, err) < 0)
            return -1;
        st[i] = (struct pg_statement){
            .sql = sql, .own_sql = sql, .what = blocks[i].what, .purpose = blocks[i].purpose};
    }
    return 0;
}

void outrider__pg_statements_release(struct pg_statement *st, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(st[i].own_sql);
        st[i] = (struct pg_statement){0};
    }
}
