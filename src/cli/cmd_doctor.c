/* SPDX-License-Identifier: MIT */
/* doctor: what works, what does not, and what to do about it. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/url.h"
#include "cli/out.h"
#include "core/sink.h"
#include "run/modules.h"

struct doctor {
    bool as_json;
    size_t problems;
    struct json_out json;
};

static void doctor_found(void *ctx, enum finding_level level, const char *what, const char *advice)
{
    static const char *const names[] = {"ok", "note", "warning", "problem"};
    static const enum colour colours[] = {COLOUR_GREEN, COLOUR_DIM, COLOUR_YELLOW, COLOUR_RED};
    struct doctor *d = ctx;
    struct strbuf text;
    d->problems += level == FINDING_PROBLEM;
    if (d->as_json) {
        outrider__jout_open(&d->json, NULL, '{');
        outrider__jout_text(&d->json, "level", names[level]);
        outrider__jout_text(&d->json, "what", what);
        outrider__jout_text(&d->json, "advice", advice);
        outrider__jout_close(&d->json);
        return;
    }
    outrider__strbuf_init(&text, 65536);
    outrider__out_plain(&text, bytes_str(what));
    printf("%s%-8s%s %s\n", outrider__colour(1, colours[level]), names[level],
           outrider__colour_end(1), strbuf_cstr(&text));
    if (advice) {
        outrider__strbuf_clear(&text);
        outrider__out_plain(&text, bytes_str(advice));
        printf("         %s\n", strbuf_cstr(&text));
    }
    outrider__strbuf_release(&text);
}

static void doctor_ignore_report(void *ctx, struct delivery *d, const struct sink_report *report)
{
    (void)ctx;
    (void)d;
    (void)report;
}

static int doctor_find_sink(const struct pipeline_config *c, const struct sink_ops **ret_ops,
                            struct outrider_error *err)
{
    char scheme[32];
    if (outrider__url_scheme(bytes_str(c->sink.url), scheme, sizeof(scheme), err) < 0 ||
        outrider__sink_find(scheme, ret_ops, err) < 0)
        return -1;
    return 0;
}

static int doctor_try_sink(const struct pipeline_config *c, const struct sink_ops *ops,
                           struct outrider_error *err)
{
    struct sink *s = calloc(1, ops->size);
    if (s == NULL)
        return outrider__fail_nomem(err);
    s->ops = ops;
    s->reported = doctor_ignore_report;
    int r = ops->open(s, c, outrider__clock_now(), err);
    if (r == 0)
        r = ops->poll(s, outrider__clock_now(), err);
    ops->close(s);
    free(s);
    return r;
}

static void doctor_look_at_sink(struct doctor *d, const struct pipeline_config *c)
{
    struct outrider_error err = {0};
    struct bytes shown;
    const struct sink_ops *ops;
    char what[400];
    if (c->sink.url == NULL)
        return;
    if (doctor_find_sink(c, &ops, &err) < 0) {
        doctor_found(d, FINDING_PROBLEM, err.message, NULL);
        return;
    }
    if (ops->doctor != NULL) {
        if (ops->doctor(c, doctor_found, d, &err) < 0)
            doctor_found(d, FINDING_PROBLEM, err.message, NULL);
        return;
    }
    if (doctor_try_sink(c, ops, &err) < 0) {
        doctor_found(d, FINDING_PROBLEM, err.message, NULL);
        return;
    }
    if (outrider__url_redact(bytes_str(c->sink.url), c->arena, &shown) < 0)
        shown = BYTES_LIT("the sink");
    snprintf(what, sizeof(what), "%.*s can be opened", (int)shown.len, shown.data);
    doctor_found(d, FINDING_OK, what, NULL);
}

static void doctor_look_at_store(struct doctor *d, const struct pipeline_config *c)
{
    struct outrider_error err = {0};
    struct store *s;
    if (outrider__store_open(c, &s, &err) < 0) {
        doctor_found(d, FINDING_PROBLEM, err.message, NULL);
        return;
    }
    if (s->ops->doctor(s, doctor_found, d, &err) < 0)
        doctor_found(d, FINDING_PROBLEM, err.message, NULL);
    outrider__store_close(s);
}

int outrider__cmd_doctor(const struct args *a)
{
    struct doctor d = {.as_json = outrider__args_has(a, F_JSON)};
    struct outrider_error err = {0};
    struct pipeline_config *c;
    struct cli_setup setup;
    if (outrider__setup_load(a, &setup, &err) < 0)
        return outrider__cli_fail_as(CLI_USAGE, &err);
    if (outrider__setup_database(&setup, &c, &err) < 0) {
        outrider__setup_release(&setup);
        return outrider__cli_fail_as(CLI_USAGE, &err);
    }
    outrider__jout_init(&d.json);
    outrider__jout_open(&d.json, NULL, '{');
    outrider__jout_open(&d.json, "findings", '[');
    doctor_look_at_store(&d, c);
    doctor_look_at_sink(&d, c);
    outrider__jout_close(&d.json);
    outrider__jout_bool(&d.json, "ok", d.problems == 0);
    outrider__jout_close(&d.json);
    if (d.as_json && outrider__jout_print(&d.json) < 0)
        d.problems++;
    outrider__jout_release(&d.json);
    outrider__setup_release(&setup);
    return d.problems ? CLI_FAILED : CLI_DONE;
}
