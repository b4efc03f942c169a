/* SPDX-License-Identifier: MIT */
/* Whatever was taken as a configuration must survive being written and read again. */
#ifndef FUZZ_OPTIONS_SURVIVE_H
#define FUZZ_OPTIONS_SURVIVE_H

#include <stdlib.h>

#include "core/config.h"
#include "core/options.h"

static inline void must(bool condition)
{
    if (!condition)
        abort();
}

static inline void options_survive(const struct pipeline_config *c)
{
    size_t n;
    const struct option *options = outrider__options(&n);
    struct pipeline_config again;
    struct strbuf text;
    must(outrider__config_init(&again, c->arena, c->name, NULL) == 0);
    outrider__strbuf_init(&text, 64 * 1024 * 1024);
    for (size_t i = 0; i < n; i++) {
        if (options[i].type == OPTION_SECRET_URL)
            continue;
        outrider__strbuf_clear(&text);
        must(outrider__config_get(c, &options[i], &text) == 0);
        if (text.len > OPTION_VALUE_MAX)
            continue;
        must(outrider__config_set(&again, bytes_str(options[i].name), strbuf_bytes(&text), NULL) ==
             0);
        must(!outrider__config_differs(c, &again, &options[i]));
    }
    outrider__strbuf_release(&text);
}

#endif
