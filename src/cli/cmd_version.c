/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include <stdio.h>

#include "cli/out.h"
#include "outrider/version.h"
#include "run/modules.h"

static const char *version_role_of(const struct module *m)
{
    if (m->source && m->sink)
        return "source and sink";
    return m->source ? "source" : "sink";
}

static void version_print_module(void *ctx, const char *name, const struct module *m,
                                 const struct outrider_error *why)
{
    (void)ctx;
    if (m)
        printf("  %-10.*s %-16s %s\n", (int)adapter_scheme(m->adapter).len, m->adapter->schemes,
               version_role_of(m), m->client_version ? m->client_version : "");
    else
        printf("  %-10s cannot be loaded: %s\n", name, why->message);
}

static void version_json_module(void *ctx, const char *name, const struct module *m,
                                const struct outrider_error *why)
{
    struct json_out *j = ctx;
    outrider__jout_open(j, NULL, '{');
    outrider__jout_text(j, "name", name);
    outrider__jout_bytes(j, "scheme", m ? adapter_scheme(m->adapter) : BYTES_NULL);
    outrider__jout_bool(j, "source", m && m->source);
    outrider__jout_bool(j, "sink", m && m->sink);
    outrider__jout_text(j, "client_version", m ? m->client_version : NULL);
    if (why)
        outrider__jout_text(j, "error", why->message);
    outrider__jout_close(j);
}

static int version_json(void)
{
    struct json_out j;
    const char *scheme;
    outrider__jout_init(&j);
    outrider__jout_open(&j, NULL, '{');
    outrider__jout_text(&j, "version", outrider_version());
    outrider__jout_open(&j, "builtin_sinks", '[');
    for (size_t i = 0; (scheme = outrider__builtin_sink(i)); i++)
        outrider__jout_text(&j, NULL, scheme);
    outrider__jout_close(&j);
    outrider__jout_open(&j, "modules", '[');
    outrider__modules_each(version_json_module, &j);
    outrider__jout_close(&j);
    outrider__jout_close(&j);
    int r = outrider__jout_print(&j);
    outrider__jout_release(&j);
    return r < 0 ? CLI_FAILED : CLI_DONE;
}

int outrider__cmd_version(const struct args *a)
{
    const char *scheme;
    if (outrider__args_has(a, F_JSON))
        return version_json();
    printf("outrider %s\n", outrider_version());
    for (size_t i = 0; (scheme = outrider__builtin_sink(i)); i++)
        printf("  %-10s %-16s built in\n", scheme, "sink");
    outrider__modules_each(version_print_module, NULL);
    return CLI_DONE;
}
