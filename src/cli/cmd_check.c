/* SPDX-License-Identifier: MIT */
/*
 * check: reads a configuration as relay would, without touching a database or
 * a sink.
 */
#include "cli/cli.h"

#include <stdio.h>

#include "base/url.h"
#include "cli/debezium_check.h"
#include "cli/out.h"
#include "core/options.h"
#include "core/relay.h"
#include "run/modules.h"

/* Whose errors are told, and how many they are. */
struct teller {
    const char *path;
    const struct pipeline_config *config;
    unsigned n;
};

static void check_tell(void *ctx, const struct outrider_error *why)
{
    struct teller *t = ctx;
    outrider__cli_say("%s: pipeline '%s': %s", t->path, t->config->name, why->message);
    t->n++;
}

static const struct source_ops *check_source(struct teller *t)
{
    struct outrider_error err = {0};
    const struct source_ops *source = NULL;
    const char *url = t->config->source.url;
    char scheme[32];
    if (url != NULL && (outrider__url_scheme(bytes_str(url), scheme, sizeof(scheme), &err) < 0 ||
                        outrider__source_find(scheme, &source, &err) < 0))
        check_tell(t, &err);
    return source;
}

static const struct sink_ops *check_sink(struct teller *t)
{
    struct outrider_error err = {0};
    const struct sink_ops *sink = NULL;
    const char *url = t->config->sink.url;
    char scheme[32];
    if (url != NULL && (outrider__url_scheme(bytes_str(url), scheme, sizeof(scheme), &err) < 0 ||
                        outrider__sink_find(scheme, &sink, &err) < 0 ||
                        (sink->check != NULL && sink->check(t->config, &err) < 0)))
        check_tell(t, &err);
    return sink;
}

/* What relay does before it connects: options, patterns, adapters. How many errors it told. */
static unsigned check_pipeline(const char *path, const struct pipeline_config *c, bool is_broken)
{
    struct teller t = {.path = path, .config = c};
    struct outrider_error err = {0};
    (void)outrider__config_check_all(c, !is_broken, check_tell, &t);
    const struct source_ops *source = check_source(&t);
    const struct sink_ops *sink = check_sink(&t);
    if (source != NULL && sink != NULL && outrider__relay_check(c, source, sink, &err) < 0)
        check_tell(&t, &err);
    return t.n;
}

static void check_text_of(const struct pipeline_config *c, const struct option *o,
                          struct strbuf *text)
{
    outrider__strbuf_clear(text);
    if (outrider__config_get(c, o, text) < 0)
        outrider__strbuf_clear(text);
}

/* One key a line, which the loader reads back: the file's form, unfolded. */
static void check_print_pipeline(const struct pipeline_config *c)
{
    size_t n;
    const struct option *all = outrider__options(&n);
    struct strbuf text, quoted;
    outrider__strbuf_init(&text, OPTION_VALUE_MAX * 2);
    outrider__strbuf_init(&quoted, OPTION_VALUE_MAX * 8);
    printf("  - name: %s\n", c->name);
    for (size_t i = 0; i < n; i++) {
        bool is_plain = option_is_list(&all[i]) || all[i].type == OPTION_MAP;
        check_text_of(c, &all[i], &text);
        if (text.len == 0 && all[i].initial == NULL)
            continue;
        outrider__strbuf_clear(&quoted);
        if (is_plain)
            outrider__strbuf_append(&quoted, strbuf_bytes(&text));
        else
            outrider__strbuf_append_json(&quoted, strbuf_bytes(&text));
        printf("    %s: %s\n", all[i].name, strbuf_cstr(&quoted));
    }
    outrider__strbuf_release(&text);
    outrider__strbuf_release(&quoted);
}

/* "retry.on_dead" under "retry:", which is written where the section begins. */
static void check_print_option(const struct option *o, const char *value, char section[64])
{
    const char *dot = strchr(o->name, '.');
    size_t n = dot != NULL ? (size_t)(dot - o->name) : 0;
    if (dot == NULL) {
        printf("    %s: %s\n", o->name, value);
    } else {
        if (strncmp(section, o->name, n) != 0 || section[n] != '\0')
            printf("    %.*s:\n", (int)n, o->name);
        printf("      %s: %s\n", dot + 1, value);
    }
    (void)snprintf(section, 64, "%.*s", (int)n, o->name);
}

static void check_value_of(const struct pipeline_config *c, const struct option *o,
                           struct strbuf *value)
{
    struct strbuf text;
    outrider__strbuf_init(&text, OPTION_VALUE_MAX * 2);
    check_text_of(c, o, &text);
    outrider__strbuf_clear(value);
    if (option_is_list(o) || o->type == OPTION_MAP)
        outrider__strbuf_append(value, strbuf_bytes(&text));
    else
        outrider__strbuf_append_json(value, strbuf_bytes(&text));
    outrider__strbuf_release(&text);
}

/* A file for -c: what is not as it is by default. */
static int check_print_connector(const struct cli_setup *s, struct outrider_error *err)
{
    const struct pipeline_config *c = &s->file.pipelines[0];
    struct pipeline_config initial;
    struct strbuf value;
    char section[64] = "";
    size_t n;
    const struct option *all = outrider__options(&n);
    if (outrider__config_init(&initial, c->arena, c->name, err) < 0)
        return -1;
    outrider__strbuf_init(&value, OPTION_VALUE_MAX * 8);
    check_value_of(c, outrider__option_find(BYTES_LIT("source.url")), &value);
    outrider__debezium_without_password(&value);
    printf("pipelines:\n  - name: %s\n", c->name);
    check_print_option(outrider__option_find(BYTES_LIT("source.url")), strbuf_cstr(&value),
                       section);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, "source.url") == 0 ||
            !outrider__config_differs(c, &initial, &all[i]))
            continue;
        check_value_of(c, &all[i], &value);
        check_print_option(&all[i], strbuf_cstr(&value), section);
    }
    outrider__strbuf_release(&value);
    return 0;
}

static void check_say_lines(const char *prefix, const char *lines)
{
    for (size_t n; *lines != '\0'; lines += n + 1) {
        n = strcspn(lines, "\n");
        outrider__cli_say("%s%s%.*s", prefix, *prefix != '\0' ? ": " : "", (int)n, lines);
    }
}

static void check_json_pipeline(struct json_out *j, const struct pipeline_config *c)
{
    size_t n;
    const struct option *all = outrider__options(&n);
    struct strbuf text;
    outrider__strbuf_init(&text, OPTION_VALUE_MAX * 2);
    outrider__jout_open(j, NULL, '{');
    outrider__jout_text(j, "name", c->name);
    outrider__jout_open(j, "options", '{');
    for (size_t i = 0; i < n; i++) {
        check_text_of(c, &all[i], &text);
        if (text.len || all[i].initial)
            outrider__jout_bytes(j, all[i].name, strbuf_bytes(&text));
    }
    outrider__jout_close(j);
    outrider__jout_close(j);
    outrider__strbuf_release(&text);
}

static void check_summary(const struct pipeline_config *c)
{
    struct bytes from, to;
    if (outrider__url_redact(bytes_str(c->source.url), c->arena, &from) < 0 ||
        outrider__url_redact(bytes_str(c->sink.url), c->arena, &to) < 0)
        return;
    printf("%sok%s %s: %.*s -> %.*s\n", outrider__colour(1, COLOUR_GREEN), outrider__colour_end(1),
           c->name, (int)from.len, from.data, (int)to.len, to.data);
}

static int check_show(const struct args *a, const struct cli_setup *s)
{
    bool as_json = outrider__args_has(a, F_JSON), print = outrider__args_has(a, F_PRINT);
    struct json_out j;
    int r = 0;
    if (s->is_debezium && !as_json) {
        struct outrider_error err = {0};
        return check_print_connector(s, &err) < 0 ? outrider__cli_fail(&err) : CLI_DONE;
    }
    outrider__jout_init(&j);
    outrider__jout_open(&j, NULL, '{');
    outrider__jout_bool(&j, "ok", true);
    outrider__jout_open(&j, "pipelines", '[');
    if (print && !as_json)
        printf("pipelines:\n");
    for (size_t i = 0; i < s->file.n; i++) {
        const struct pipeline_config *c = &s->file.pipelines[i];
        if (s->selected && c != s->selected)
            continue;
        if (as_json)
            check_json_pipeline(&j, c);
        else if (print)
            check_print_pipeline(c);
        else
            check_summary(c);
    }
    outrider__jout_close(&j);
    outrider__jout_close(&j);
    if (as_json)
        r = outrider__jout_print(&j);
    outrider__jout_release(&j);
    return r < 0 ? CLI_FAILED : CLI_DONE;
}

static int check_all(const struct args *a, struct cli_setup *s, bool has_errors)
{
    struct outrider_error err = {0};
    unsigned n = 0;
    if (has_errors && s->is_debezium)
        return CLI_USAGE;
    if (outrider__debezium_guess_sink(s, &err) < 0)
        return outrider__cli_fail_as(CLI_USAGE, &err);
    for (size_t i = 0; i < s->file.n; i++) {
        const struct pipeline_config *c = &s->file.pipelines[i];
        bool is_broken = s->file.is_broken != NULL && s->file.is_broken[i];
        if (!s->selected || s->selected == c)
            n += check_pipeline(s->path, c, is_broken);
    }
    return n > 0 || has_errors ? CLI_USAGE : check_show(a, s);
}

int outrider__cmd_check(const struct args *a)
{
    struct cli_setup s;
    struct strbuf errors;
    if (!outrider__args_has(a, F_CONFIG) && !outrider__args_has(a, F_DEBEZIUM))
        return outrider__cli_usage(a, "which file? -c FILE, or --debezium FILE");
    outrider__strbuf_init(&errors, CONFIG_FILE_MAX);
    int code = CLI_USAGE, r = outrider__setup_load_all(a, &s, &errors);
    if (r == 0)
        check_say_lines(s.path, strbuf_cstr(&s.warnings));
    check_say_lines("", strbuf_cstr(&errors));
    if (r == 0) {
        code = check_all(a, &s, errors.len > 0);
        outrider__setup_release(&s);
    }
    outrider__strbuf_release(&errors);
    return code;
}
