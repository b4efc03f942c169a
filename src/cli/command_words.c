/* SPDX-License-Identifier: MIT */
/*
 * The texts of commands and flags name no adapter: where they need a URL, they have a word
 * between @ signs, which becomes an example of an adapter of this source tree.
 */
#include "cli/command_words.h"

#include <string.h>

#include "base/strbuf.h"
#include "core/adapter.h"

#define WORDS_CAP 65536

static const struct {
    const char *word;
    enum adapter_example example;
} examples[] = {
    {"@db@", EXAMPLE_SOURCE},
    {"@server@", EXAMPLE_SOURCE_SERVER},
    {"@broker@", EXAMPLE_SINK_SERVER},
};

static const char sinks_word[] = "@sinks@";

/* Appends what a word stands for; how long the word is, or 0: there is none. */
static size_t word_append(const char *p, struct strbuf *out)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        size_t n = strlen(examples[i].word);
        if (strncmp(p, examples[i].word, n) == 0) {
            strbuf_append_str(out, outrider__adapter_example(examples[i].example));
            return n;
        }
    }
    if (strncmp(p, sinks_word, sizeof sinks_word - 1) != 0)
        return 0;
    outrider__adapter_sink_forms(out);
    return sizeof sinks_word - 1;
}

const char *outrider__command_words(const char *text)
{
    struct strbuf out;
    if (text == NULL || strchr(text, '@') == NULL)
        return text;
    outrider__strbuf_init(&out, WORDS_CAP);
    while (*text != '\0') {
        size_t n = *text == '@' ? word_append(text, &out) : 0;
        if (n == 0)
            strbuf_append_char(&out, *text);
        text += n > 0 ? n : 1;
    }
    if (out.failed)
        outrider__strbuf_release(&out);
    return out.data;
}
