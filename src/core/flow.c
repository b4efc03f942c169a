/* SPDX-License-Identifier: MIT */
/*
 * Lists and maps as text, the way YAML writes them on one line. Items are bare
 * words, or stand in quotes: '' within single ones, \" and \\ within double.
 */
#include "core/option_value.h"

static bool list_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct bytes list_trim(struct bytes b)
{
    while (b.len > 0 && list_is_space(b.data[0])) {
        b.data++;
        b.len--;
    }
    while (b.len > 0 && list_is_space(b.data[b.len - 1]))
        b.len--;
    return b;
}

int outrider__flow_begin(struct flow *f, struct bytes text, char open, char close)
{
    text = list_trim(text);
    if (text.len > 0 && text.data[0] == open) {
        if (text.len < 2 || text.data[text.len - 1] != close)
            return -1;
        text = list_trim(bytes_of(text.data + 1, text.len - 2));
    }
    *f = (struct flow){text.data, text.data + text.len, true};
    return 0;
}

static void list_skip_space(struct flow *f)
{
    while (f->p < f->end && list_is_space(*f->p))
        f->p++;
}

static int list_quoted(struct flow *f, struct arena *arena, struct bytes *ret)
{
    char quote = *f->p++;
    char *out = outrider__arena_alloc(arena, (size_t)(f->end - f->p) + 1);
    size_t n = 0;
    if (out == NULL)
        return -1;
    for (; f->p < f->end; f->p++) {
        char c = *f->p;
        bool has_next = f->p + 1 < f->end;
        if (c == quote) {
            if (quote == '"' || !has_next || f->p[1] != '\'') {
                f->p++;
                out[n] = '\0';
                *ret = bytes_of(out, n);
                return 0;
            }
            f->p++;
        } else if (c == '\\' && quote == '"') {
            if (!has_next || (f->p[1] != '"' && f->p[1] != '\\'))
                return -1;
            c = *++f->p;
        }
        out[n++] = c;
    }
    return -1;
}

/* A word up to the separator; it may not be empty unless it is quoted. */
static int list_word(struct flow *f, struct arena *arena, char separator, struct bytes *ret)
{
    list_skip_space(f);
    if (f->p < f->end && (*f->p == '"' || *f->p == '\''))
        return list_quoted(f, arena, ret);
    const char *start = f->p;
    while (f->p < f->end && *f->p != separator && *f->p != ',')
        f->p++;
    struct bytes b = list_trim(bytes_of(start, (size_t)(f->p - start)));
    return b.len == 0 ? -1 : outrider__arena_dup(arena, b, ret);
}

int outrider__flow_next(struct flow *f, struct arena *arena, struct bytes *ret_name,
                        struct bytes *ret_item)
{
    list_skip_space(f);
    if (f->p == f->end)
        return 0;
    if (!f->is_first) {
        if (*f->p++ != ',')
            return -1;
    }
    f->is_first = false;
    if (ret_name != NULL) {
        if (list_word(f, arena, ':', ret_name) < 0)
            return -1;
        list_skip_space(f);
        if (f->p == f->end || *f->p++ != ':')
            return -1;
    }
    return list_word(f, arena, ',', ret_item) < 0 ? -1 : 1;
}

void outrider__flow_append(struct strbuf *out, const char *item)
{
    size_t n = strlen(item);
    if (n > 0 && strpbrk(item, ",:[]{}\"'\\#&*!|>%@`\t\r\n") == NULL && !list_is_space(item[0]) &&
        !list_is_space(item[n - 1])) {
        strbuf_append_str(out, item);
        return;
    }
    strbuf_append_char(out, '"');
    for (const char *p = item; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            strbuf_append_char(out, '\\');
        strbuf_append_char(out, *p);
    }
    strbuf_append_char(out, '"');
}
