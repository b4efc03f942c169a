/* SPDX-License-Identifier: MIT */
#include "common/dialect.h"

#include <stdlib.h>
#include <string.h>

#include "common/sql.h"

static const char *const sql_type_names[SQL_TYPES] = {
    [SQL_TEXT] = "text", [SQL_BYTES] = "bytes", [SQL_INT4] = "int4",    [SQL_INT8] = "int8",
    [SQL_TIME] = "time", [SQL_BOOL] = "bool",   [SQL_STORED] = "stored"};

struct sql_marker {
    int n;
    enum sql_type type;
    bool is_set;
    int item; /* 0: none */
};

static const char *dialect_sql_marker_number(const char *p, int *ret_n)
{
    int n = 0;
    const char *first = p;
    for (; *p >= '0' && *p <= '9' && n < 1000; p++)
        n = n * 10 + (*p - '0');
    *ret_n = n;
    return p > first ? p : NULL;
}

static const char *dialect_sql_marker_type(const char *p, enum sql_type *ret_type)
{
    for (int i = 0; i < SQL_TYPES; i++) {
        size_t n = strlen(sql_type_names[i]);
        if (strncmp(p, sql_type_names[i], n) == 0) {
            *ret_type = (enum sql_type)i;
            return p + n;
        }
    }
    return NULL;
}

/* "[]" or "[3]", or nothing. */
static const char *dialect_sql_marker_set(const char *p, struct sql_marker *m)
{
    if (*p != '[')
        return p;
    p++;
    if (*p == ']') {
        m->is_set = true;
        return p + 1;
    }
    p = dialect_sql_marker_number(p, &m->item);
    return p != NULL && *p == ']' && m->item > 0 ? p + 1 : NULL;
}

/* p: behind an @. Returns what is behind the marker's last @, or NULL: there is no marker. */
static const char *dialect_sql_marker_read(const char *p, struct sql_marker *ret_marker)
{
    *ret_marker = (struct sql_marker){0};
    p = dialect_sql_marker_number(p, &ret_marker->n);
    if (p == NULL || *p != ':' || ret_marker->n < 1 || ret_marker->n > SQL_PARAMS_MAX)
        return NULL;
    p = dialect_sql_marker_type(p + 1, &ret_marker->type);
    if (p != NULL)
        p = dialect_sql_marker_set(p, ret_marker);
    return p != NULL && *p == '@' ? p + 1 : NULL;
}

static void dialect_sql_marker_write(const struct sql_dialect *d, const struct sql_marker *m,
                                     struct strbuf *q, struct sql_params *params)
{
    if (m->item > 0)
        d->item(q, m->n, m->item);
    else
        d->param(q, m->n, m->type, m->is_set);
    if (params->n < SQL_PARAMS_MAX)
        params->order[params->n++] = (unsigned char)m->n;
    else
        q->failed = true;
}

/* The end of the quoted part that begins at p. */
static const char *dialect_sql_quoted_end(const char *p)
{
    const char *end = strchr(p + 1, *p);
    return end != NULL ? end + 1 : p + strlen(p);
}

char *outrider__sql_finish(const struct sql_dialect *d, const char *neutral,
                           struct sql_params *ret_params, struct outrider_error *err)
{
    struct sql_params params = {.n = 0};
    struct strbuf q;
    outrider__strbuf_init(&q, SQL_TEXT_CAP);
    for (const char *p = neutral; *p != '\0';) {
        size_t plain = strcspn(p, "@'\"");
        const char *end = p + plain;
        struct sql_marker m;
        const char *behind = *end == '@' ? dialect_sql_marker_read(end + 1, &m) : NULL;
        if (*end == '\'' || *end == '"')
            end = dialect_sql_quoted_end(end);
        else if (*end == '@' && behind == NULL)
            end++;
        outrider__strbuf_append(&q, bytes_of(p, (size_t)(end - p)));
        if (behind != NULL)
            dialect_sql_marker_write(d, &m, &q, &params);
        p = behind != NULL ? behind : end;
    }
    if (q.failed) {
        outrider__strbuf_release(&q);
        (void)outrider__fail_nomem(err);
        return NULL;
    }
    if (ret_params != NULL)
        *ret_params = params;
    return q.data;
}

static void dialect_sql_append_quoted(struct strbuf *q, const char *text, char quote)
{
    strbuf_append_char(q, quote);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == quote)
            strbuf_append_char(q, quote);
        strbuf_append_char(q, *p);
    }
    strbuf_append_char(q, quote);
}

void outrider__sql_name(struct strbuf *q, const char *name)
{
    dialect_sql_append_quoted(q, name, '"');
}

void outrider__sql_literal(struct strbuf *q, const char *text)
{
    dialect_sql_append_quoted(q, text, '\'');
}

void outrider__sql_begins(struct strbuf *q, const char *value, const char *prefix)
{
    int characters = 0;
    for (const char *p = prefix; *p != '\0'; p++)
        characters += ((unsigned char)*p & 0xc0) != 0x80;
    outrider__strbuf_appendf(q, "left(%s, %d) = ", value, characters);
    outrider__sql_literal(q, prefix);
}

void outrider__sql_join_init(struct sql_join *j, const struct sql_dialect *d, const char *relation)
{
    outrider__strbuf_init(&j->before_set, SQL_TEXT_CAP);
    outrider__strbuf_init(&j->after_set, SQL_TEXT_CAP);
    if (d->joins_before_set)
        outrider__strbuf_appendf(&j->before_set, ", %s", relation);
    else
        outrider__strbuf_appendf(&j->after_set, " FROM %s", relation);
}

void outrider__sql_join_release(struct sql_join *j)
{
    outrider__strbuf_release(&j->before_set);
    outrider__strbuf_release(&j->after_set);
}
