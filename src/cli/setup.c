/* SPDX-License-Identifier: MIT */
/*
 * From flags and a configuration file to pipelines, and to an open database.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"
#include "cli/debezium.h"
#include "core/adapter.h"
#include "core/options.h"
#include "run/modules.h"
#include "run/pipeline.h"

static void setup_names_of(const struct config_file *f, char *ret_text, size_t size)
{
    size_t len = 0;
    ret_text[0] = '\0';
    for (size_t i = 0; i < f->n && len < size; i++)
        len += (size_t)snprintf(ret_text + len, size - len, "%s%s", i ? ", " : "",
                                f->pipelines[i].name);
}

static struct pipeline_config *setup_pipeline_named(const struct config_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++) {
        if (strcmp(f->pipelines[i].name, name) == 0)
            return &f->pipelines[i];
    }
    return NULL;
}

static int setup_select_pipeline(const struct args *a, struct cli_setup *s,
                                 struct outrider_error *err)
{
    const char *name = outrider__args_text(a, F_NAME);
    char names[200];
    s->selected = s->file.n == 1 ? &s->file.pipelines[0] : NULL;
    if (name == NULL)
        return 0;
    s->selected = setup_pipeline_named(&s->file, name);
    if (s->selected)
        return 0;
    setup_names_of(&s->file, names, sizeof(names));
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "%s: no pipeline is named '%.64s'; it has: %s", s->path, name, names);
}

/* The flags that stand for an option. */
static const struct {
    enum flag_id flag;
    const char *option;
} shorthands[] = {
    {F_DB, "source.url"},    {F_FROM_SLOT, "source.url"},        {F_TO, "sink.url"},
    {F_MODE, "source.mode"}, {F_RETENTION, "cleanup.retention"},
};

static int setup_set_tables(const struct args *a, struct pipeline_config *c,
                            struct outrider_error *err)
{
    const struct option *o = outrider__option_find(BYTES_LIT("source.tables"));
    const char *table = outrider__args_text(a, F_TABLE);
    if (table == NULL)
        return 0;
    outrider__config_clear(c, o);
    for (size_t i = 0; (table = outrider__args_at(a, F_TABLE, i)) != NULL; i++) {
        if (outrider__config_add(c, o, BYTES_NULL, bytes_str(table), err) < 0)
            return -1;
    }
    return 0;
}

static int setup_set_flags(const struct args *a, struct pipeline_config *c,
                           struct outrider_error *err)
{
    for (size_t i = 0; i < sizeof(shorthands) / sizeof(shorthands[0]); i++) {
        const char *value = outrider__args_text(a, shorthands[i].flag);
        /* --from of `slot` is a slot's name, or, with a colon, a URL. */
        if (value && shorthands[i].flag == F_FROM_SLOT && strchr(value, ':') == NULL)
            continue;
        if (value &&
            outrider__config_set(c, bytes_str(shorthands[i].option), bytes_str(value), err) < 0)
            return -1;
    }
    if (setup_set_tables(a, c, err) < 0)
        return -1;
    const char *pair;
    for (size_t i = 0; (pair = outrider__args_at(a, F_SET, i)) != NULL; i++) {
        const char *eq = strchr(pair, '=');
        struct bytes name = bytes_of(pair, (size_t)(eq - pair));
        if (outrider__config_set(c, name, bytes_str(eq + 1), err) < 0)
            return -1;
    }
    return 0;
}

static bool setup_has_pipeline_flags(const struct args *a)
{
    for (size_t i = 0; i < sizeof(shorthands) / sizeof(shorthands[0]); i++) {
        if (outrider__args_has(a, shorthands[i].flag))
            return true;
    }
    return outrider__args_has(a, F_TABLE) || outrider__args_has(a, F_SET);
}

static int setup_apply_flags(const struct args *a, struct cli_setup *s, struct outrider_error *err)
{
    char names[200];
    const char *level = outrider__args_text(a, F_LOG_LEVEL);
    const char *format = outrider__args_text(a, F_LOG_FORMAT);
    if (level &&
        outrider__program_set(&s->file.program, BYTES_LIT("log.level"), bytes_str(level), err) < 0)
        return -1;
    if (format && outrider__program_set(&s->file.program, BYTES_LIT("log.format"),
                                        bytes_str(format), err) < 0)
        return -1;
    if (s->selected)
        return setup_set_flags(a, s->selected, err);
    if (!setup_has_pipeline_flags(a))
        return 0;
    setup_names_of(&s->file, names, sizeof(names));
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "%s has several pipelines: say with --name which one the flags are for "
                          "(%s)",
                          s->path, names);
}

static int setup_load_file(const struct args *a, struct cli_setup *s, struct strbuf *errors,
                           struct outrider_error *err)
{
    const char *name = outrider__args_text(a, F_NAME);
    const char *connector = outrider__args_text(a, F_DEBEZIUM);
    if (name && outrider__config_check_name(bytes_str(name), err) < 0)
        return -1;
    if (connector && s->path)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "-c and --debezium are two files for one thing: give one of them");
    if (connector) {
        s->path = connector;
        s->is_debezium = true;
        return outrider__debezium_load(connector, name, &s->file, &s->warnings, errors, err);
    }
    if (s->path)
        return outrider__config_load(s->path, &s->file, errors, err);
    return outrider__config_empty(name ? name : "default", &s->file, err);
}

/* A connector need not name its database, but somebody must. */
static int setup_check_connector(const struct cli_setup *s, struct outrider_error *err)
{
    if (!s->is_debezium || s->file.pipelines[0].source.url != NULL)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "%s names no database (database.hostname): give it with --from URL",
                          s->path);
}

static int setup_load(const struct args *a, struct cli_setup *s, struct strbuf *errors,
                      struct outrider_error *err)
{
    *s = (struct cli_setup){.path = outrider__args_text(a, F_CONFIG)};
    outrider__strbuf_init(&s->warnings, CONFIG_FILE_MAX);
    if (setup_load_file(a, s, errors, err) < 0) {
        outrider__strbuf_release(&s->warnings);
        return -1;
    }
    bool has_errors = errors != NULL && errors->len > 0;
    /* What flags and names speak of may be what could not be read. */
    int r = has_errors ? 0 : setup_select_pipeline(a, s, err);
    if (r == 0 && !has_errors)
        r = setup_apply_flags(a, s, err);
    if (r == 0 && !has_errors)
        r = setup_check_connector(s, err);
    for (size_t i = 0; r == 0 && i < s->file.n; i++)
        r = outrider__pipeline_identify(&s->file.pipelines[i], err);
    if (r < 0)
        outrider__setup_release(s);
    return r;
}

int outrider__setup_load(const struct args *a, struct cli_setup *ret_setup,
                         struct outrider_error *err)
{
    return setup_load(a, ret_setup, NULL, err);
}

int outrider__setup_load_all(const struct args *a, struct cli_setup *ret_setup,
                             struct strbuf *ret_errors)
{
    struct outrider_error err = {0};
    int r = setup_load(a, ret_setup, ret_errors, &err);
    if (r < 0)
        outrider__strbuf_appendf(ret_errors, "%s\n", err.message);
    return r;
}

void outrider__setup_release(struct cli_setup *s)
{
    if (s == NULL)
        return;
    outrider__config_release(&s->file);
    outrider__strbuf_release(&s->warnings);
    *s = (struct cli_setup){0};
}

int outrider__setup_database(const struct cli_setup *s, struct pipeline_config **ret_config,
                             struct outrider_error *err)
{
    struct pipeline_config *c = s->selected;
    char names[200];
    if (c == NULL) {
        c = &s->file.pipelines[0];
        for (size_t i = 1; i < s->file.n; i++) {
            const char *url = s->file.pipelines[i].source.url;
            if (c->source.url && url && strcmp(c->source.url, url) == 0)
                continue;
            setup_names_of(&s->file, names, sizeof(names));
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "%s has pipelines on several databases: say which with --name "
                                  "(%s)",
                                  s->path, names);
        }
    }
    if (c->source.url == NULL || c->source.url[0] == '\0')
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "no database is given: --db URL (for example --db %s), or -c FILE",
                              outrider__adapter_example(EXAMPLE_SOURCE));
    if (outrider__config_check_source(c, err) < 0)
        return -1;
    *ret_config = c;
    return 0;
}

int outrider__store_open(const struct pipeline_config *c, struct store **ret_store,
                         struct outrider_error *err)
{
    const struct store_ops *ops;
    char scheme[32];
    if (outrider__url_scheme(bytes_str(c->source.url), scheme, sizeof(scheme), err) < 0 ||
        outrider__store_find(scheme, &ops, err) < 0)
        return -1;
    struct store *s = calloc(1, ops->size);
    if (s == NULL)
        return outrider__fail_nomem(err);
    s->ops = ops;
    if (ops->open(s, c, err) < 0) {
        outrider__store_close(s);
        return -1;
    }
    *ret_store = s;
    return 0;
}

void outrider__store_close(struct store *s)
{
    if (s == NULL)
        return;
    s->ops->close(s);
    free(s);
}

int outrider__with_store(const struct args *a, store_work *work)
{
    struct outrider_error err = {0};
    struct pipeline_config *c = NULL;
    struct cli_setup setup;
    struct store *store = NULL;
    int code = CLI_DONE;
    if (outrider__setup_load(a, &setup, &err) < 0)
        return outrider__cli_fail_as(CLI_USAGE, &err);
    if (outrider__setup_database(&setup, &c, &err) < 0 || c == NULL) {
        code = outrider__cli_fail_as(CLI_USAGE, &err);
    } else if (outrider__store_open(c, &store, &err) < 0) {
        code = outrider__cli_fail(&err);
    } else {
        if (work(a, c, store, &err) < 0)
            code = outrider__cli_fail(&err);
        outrider__store_close(store);
    }
    outrider__setup_release(&setup);
    return code;
}
