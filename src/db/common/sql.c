/* SPDX-License-Identifier: MIT */
#include "common/sql.h"

#include <string.h>

/* The length of the word that begins behind an @ at p, or 0. */
static size_t sql_word_length(const char *p)
{
    size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz_");
    return p[n] == '@' ? n : 0;
}

static const struct sql_word *sql_word_find(const char *name, size_t len,
                                            const struct sql_word *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(words[i].name) == len && memcmp(words[i].name, name, len) == 0)
            return &words[i];
    return NULL;
}

void outrider__sql_append(struct strbuf *sql, const char *template, const struct sql_word *words,
                          size_t n)
{
    for (const char *p = template; *p != '\0';) {
        const char *at = strchrnul(p, '@');
        outrider__strbuf_append(sql, (struct bytes){p, (size_t)(at - p)});
        if (*at == '\0')
            return;
        size_t len = sql_word_length(at + 1);
        if (len == 0) {
            strbuf_append_char(sql, '@');
            p = at + 1;
            continue;
        }
        const struct sql_word *w = sql_word_find(at + 1, len, words, n);
        if (w == NULL)
            sql->failed = true;
        else if (w->value != NULL)
            strbuf_append_str(sql, w->value);
        p = at + len + 2;
    }
}

char *outrider__sql_expand(const char *template, const struct sql_word *words, size_t n)
{
    struct strbuf sql;
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__sql_append(&sql, template, words, n);
    if (sql.failed)
        outrider__strbuf_release(&sql);
    return sql.data;
}

struct bytes outrider__sql_unknown_word(const char *template, const struct sql_word *words,
                                        size_t n)
{
    for (const char *p = strchr(template, '@'); p != NULL; p = strchr(p, '@')) {
        size_t len = sql_word_length(++p);
        if (len == 0)
            continue;
        if (sql_word_find(p, len, words, n) == NULL)
            return bytes_of(p, len);
        p += len + 1;
    }
    return BYTES_NULL;
}
