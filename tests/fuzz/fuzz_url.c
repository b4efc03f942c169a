/* SPDX-License-Identifier: MIT */
/* Any bytes as a URL; and any bytes as a password, which must stay hidden. */
#include <stdint.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "base/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static bool contains(struct bytes text, const char *word)
{
    return text.len > 0 && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

static void check_parts(const struct url *u, struct bytes text)
{
    must(u->scheme.len > 0 && u->scheme.len < text.len);
    must(u->rest.len == text.len - u->scheme.len - 1);
    must(u->path.data != NULL && strlen(u->path.data) == u->path.len);
    for (size_t i = 0; i < u->n_params; i++) {
        must(u->params[i].name.len > 0 && u->params[i].value.data != NULL);
        must(strlen(u->params[i].value.data) == u->params[i].value.len);
    }
}

static void check_text(struct bytes text, struct arena *arena)
{
    struct url u;
    struct bytes shown, again, identity;
    struct outrider_error err = {0};
    if (outrider__url_parse(text, arena, &u, &err) == 0) {
        check_parts(&u, text);
        must(err.code == OUTRIDER_OK);
    } else {
        must(err.code == OUTRIDER_URL && err.message[0] != '\0');
    }
    must(outrider__url_redact(text, arena, &shown) == 0);
    must(shown.len <= 2 * text.len + 16 && shown.data[shown.len] == '\0');
    must(outrider__url_redact(shown, arena, &again) == 0);
    must(outrider__url_identity(text, arena, &identity) == 0);
    char scheme[16];
    (void)outrider__url_scheme(text, scheme, sizeof scheme, &err);
}

/* The bytes, with a marker at either end, as a password in each place where a
 * URL may have one. */
static void check_secret(struct bytes text, struct arena *arena)
{
    static const char *const around[][2] = {{"pg://u:hush", "hush@h:1/db"},
                                            {"pg://u:hush", "hush@h/db?a=1"},
                                            {"redis://:hush", "hush@h"},
                                            {"u:hush", "hush@h"}};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        struct strbuf sb;
        struct bytes shown;
        struct url u;
        struct outrider_error err = {0};
        outrider__strbuf_init(&sb, text.len + 64);
        strbuf_append_str(&sb, around[i][0]);
        outrider__strbuf_append(&sb, text);
        strbuf_append_str(&sb, around[i][1]);
        must(!sb.failed);
        must(outrider__url_redact(strbuf_bytes(&sb), arena, &shown) == 0);
        must(!contains(shown, "hush"));
        (void)outrider__url_parse(strbuf_bytes(&sb), arena, &u, &err);
        must(strstr(err.message, "hush") == NULL);
        outrider__strbuf_release(&sb);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    outrider__arena_init(&arena, 4096);
    check_text(bytes_of(data, size), &arena);
    /* The markers themselves may be among the bytes. */
    if (!contains(bytes_of(data, size), "h"))
        check_secret(bytes_of(data, size), &arena);
    outrider__arena_release(&arena);
    return 0;
}
