/* SPDX-License-Identifier: MIT */
/* A pipeline's configuration: defaults, values, and what must fit together. */
#include "core/adapter.h"
#include "core/option_value.h"

#include <strings.h>

#include "core/route.h"

int outrider__config_init(struct pipeline_config *c, struct arena *arena, const char *name,
                          struct outrider_error *err)
{
    size_t n;
    const struct option *options = outrider__options(&n);
    struct pipeline_config fresh = {.arena = arena, .places = outrider__adapter_places()};
    struct bytes copy;
    if (outrider__arena_dup(arena, bytes_str(name != NULL ? name : "default"), &copy) < 0)
        return outrider__fail_nomem(err);
    fresh.name = copy.data;
    for (size_t i = 0; i < n; i++)
        if (options[i].initial != NULL &&
            outrider__value_set(&options[i], &fresh, arena, bytes_str(options[i].initial), err) < 0)
            return -1;
    *c = fresh;
    return 0;
}

int outrider__config_set(struct pipeline_config *c, struct bytes name, struct bytes value,
                         struct outrider_error *err)
{
    struct bytes item = BYTES_NULL;
    const struct option *o = outrider__option_resolve(name, &item);
    if (o == NULL)
        return outrider__option_unknown(name, err);
    return item.len > 0 ? outrider__value_put(o, c, c->arena, item, value, err)
                        : outrider__value_set(o, c, c->arena, value, err);
}

void outrider__config_clear(struct pipeline_config *c, const struct option *o)
{
    outrider__value_clear(o, c);
}

int outrider__config_add(struct pipeline_config *c, const struct option *o, struct bytes map_name,
                         struct bytes value, struct outrider_error *err)
{
    return outrider__value_add(o, c, c->arena, map_name, value, err);
}

int outrider__config_get(const struct pipeline_config *c, const struct option *o,
                         struct strbuf *ret_text)
{
    return outrider__value_get(o, c, ret_text);
}

bool outrider__config_differs(const struct pipeline_config *a, const struct pipeline_config *b,
                              const struct option *o)
{
    return outrider__value_differs(o, a, b);
}

void outrider__config_reload(struct pipeline_config *c, const struct pipeline_config *fresh)
{
    size_t n;
    const struct option *options = outrider__options(&n);
    for (size_t i = 0; i < n; i++)
        if (options[i].reloadable)
            outrider__value_borrow(&options[i], c, fresh);
}

int outrider__program_init(struct program_config *p, struct outrider_error *err)
{
    size_t n;
    const struct option *options = outrider__program_options(&n);
    struct program_config fresh = {0};
    for (size_t i = 0; i < n; i++)
        if (outrider__value_set(&options[i], &fresh, NULL, bytes_str(options[i].initial), err) < 0)
            return -1;
    *p = fresh;
    return 0;
}

int outrider__program_set(struct program_config *p, struct bytes name, struct bytes value,
                          struct outrider_error *err)
{
    const struct option *o = outrider__program_option_find(name);
    if (o == NULL)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "unknown option '%.*s' (known: log.level, log.format)",
                              name.len > 80 ? 80 : (int)name.len, name.len > 0 ? name.data : "");
    return outrider__value_set(o, p, NULL, value, err);
}

int outrider__program_get(const struct program_config *p, const struct option *o,
                          struct strbuf *ret_text)
{
    return outrider__value_get(o, p, ret_text);
}

static int config_refuse(struct outrider_error *err, const char *what)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "%s", what);
}

int outrider__config_check_name(struct bytes name, struct outrider_error *err)
{
    bool good = name.len > 0 && name.len < 64;
    for (size_t i = 0; good && i < name.len; i++) {
        char ch = name.data[i];
        good = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
               (i > 0 && (ch == '_' || ch == '-' || ch == '.'));
    }
    if (good)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "'%.*s' is not a name for a pipeline: 1 to 63 letters, digits, '_', '-' "
                          "and '.', beginning with a letter or digit",
                          name.len > 80 ? 80 : (int)name.len, name.len > 0 ? name.data : "");
}

static bool config_delays_are_default(const struct pipeline_config *c)
{
    const struct option *o = outrider__option_find(BYTES_LIT("retry.delays"));
    struct strbuf text;
    outrider__strbuf_init(&text, 128);
    bool same =
        outrider__config_get(c, o, &text) == 0 && bytes_eq_str(strbuf_bytes(&text), o->initial);
    outrider__strbuf_release(&text);
    return same;
}

static int config_check_name(const struct pipeline_config *c, struct outrider_error *err)
{
    return outrider__config_check_name(bytes_str(c->name), err);
}

static int config_check_source_url(const struct pipeline_config *c, struct outrider_error *err)
{
    if (c->source.url == NULL)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "source.url is missing, for example '%s' (or --from)",
                              outrider__adapter_example(EXAMPLE_SOURCE));
    return 0;
}

static int config_check_sink_url(const struct pipeline_config *c, struct outrider_error *err)
{
    if (c->sink.url == NULL)
        return config_refuse(err, "sink.url is missing, for example 'file:events' (or --to)");
    return 0;
}

static int config_check_exactly_once(const struct pipeline_config *c, struct outrider_error *err)
{
    if (c->exactly_once && !c->ordered)
        return config_refuse(
            err, "exactly_once and ordered: false exclude each other: relays that compete "
                 "cannot share a transaction's number; leave one of them out");
    return 0;
}

static int config_check_existing_rows(const struct pipeline_config *c, struct outrider_error *err)
{
    if (c->source.existing_rows == EXISTING_ROWS_SKIP && c->source.mode != MODE_CDC)
        return config_refuse(err,
                             "source.existing_rows: skip needs source.mode: cdc, because polling "
                             "reads rows whenever they were written");
    return 0;
}

static int config_check_delays(const struct pipeline_config *c, struct outrider_error *err)
{
    if (c->retry.base_us == 0 && c->retry.delays.n == 0 && c->retry.max_attempts > 1)
        return config_refuse(err,
                             "retry.delays is empty: give waits ('[1s, 5s]'), or retry.base, or "
                             "retry.max_attempts: 1");
    if (c->retry.base_us != 0 && c->retry.delays.n > 0 && !config_delays_are_default(c))
        return config_refuse(err, "retry.delays and retry.base are both set: leave one out, or set "
                                  "retry.base to 0");
    return 0;
}

static int config_check_longest_delay(const struct pipeline_config *c, struct outrider_error *err)
{
    if (c->retry.base_us != 0 && c->retry.max_us < c->retry.base_us)
        return config_refuse(err, "retry.max is shorter than retry.base");
    return 0;
}

static int config_check_form(const struct pipeline_config *c, struct outrider_error *err)
{
    bool is_cloudevent = c->form == FORM_CLOUDEVENTS || c->form == FORM_CLOUDEVENTS_BINARY;
    if (is_cloudevent && c->source_uri[0] == '\0')
        return config_refuse(err,
                             "cloudevents.source is empty, but a CloudEvent must have a source");
    return 0;
}

static bool config_same_header(const char *a, const char *b)
{
    return a[0] != '\0' && strcasecmp(a, b) == 0;
}

static int config_check_headers(const struct pipeline_config *c, struct outrider_error *err)
{
    if (config_same_header(c->headers.event_id, c->headers.event_type) ||
        config_same_header(c->headers.event_id, c->headers.aggregate_type) ||
        config_same_header(c->headers.event_type, c->headers.aggregate_type))
        return config_refuse(err,
                             "two of headers.event_id, event_type and aggregate_type are the same");
    return 0;
}

static int config_check_route(const struct pipeline_config *c, struct outrider_error *err)
{
    struct router *r;
    if (c->route.regex != NULL && c->route.replacement == NULL)
        return config_refuse(err,
                             "route.regex needs route.replacement, the topic of what it matches");
    if (c->route.regex == NULL && c->route.replacement != NULL)
        return config_refuse(err, "route.replacement needs route.regex");
    if (c->route.topic[0] == '\0' && c->route.by_type.n == 0 && c->route.regex == NULL)
        return config_refuse(err,
                             "route.topic is empty and nothing else gives a topic, for example "
                             "'${aggregate_type}.${event_type}'");
    if (outrider__router_new(c, &r, err) < 0)
        return -1;
    outrider__router_free(r);
    return 0;
}

/* Each is independent of the others, so that all that is wrong can be told. */
static int (*const checks[])(const struct pipeline_config *c, struct outrider_error *err) = {
    config_check_name,          config_check_source_url, config_check_sink_url,
    config_check_exactly_once,  config_check_delays,     config_check_longest_delay,
    config_check_form,          config_check_headers,    config_check_route,
    config_check_existing_rows,
};
#define N_CHECKS (sizeof checks / sizeof *checks)
#define N_SOURCE_CHECKS 2 /* those that need no sink */

unsigned outrider__config_check_all(const struct pipeline_config *c, bool with_urls,
                                    config_error_fn *tell, void *ctx)
{
    unsigned n = 0;
    for (size_t i = 0; i < N_CHECKS; i++) {
        struct outrider_error why = {0};
        if (!with_urls &&
            (checks[i] == config_check_source_url || checks[i] == config_check_sink_url))
            continue;
        if (checks[i](c, &why) == 0)
            continue;
        n++;
        tell(ctx, &why);
    }
    return n;
}

static int config_check_first(const struct pipeline_config *c, size_t n, struct outrider_error *err)
{
    struct outrider_error why = {0};
    for (size_t i = 0; i < n; i++)
        if (checks[i](c, &why) < 0)
            return outrider__fail(err, why.code, why.disposition, "pipeline '%.63s': %s", c->name,
                                  why.message);
    return 0;
}

int outrider__config_check_source(const struct pipeline_config *c, struct outrider_error *err)
{
    return config_check_first(c, N_SOURCE_CHECKS, err);
}

int outrider__config_check(const struct pipeline_config *c, struct outrider_error *err)
{
    return config_check_first(c, N_CHECKS, err);
}
