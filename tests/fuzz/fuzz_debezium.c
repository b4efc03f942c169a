/* SPDX-License-Identifier: MIT */
/* Any bytes as a connector's configuration: what is taken must be a configuration of ours,
 * which can be written and read again. */
#include <stdint.h>
#include <stdlib.h>

#include "cli/debezium.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_options(const struct pipeline_config *c)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_file file;
    struct strbuf warnings;
    struct outrider_error err = {0};
    outrider__strbuf_init(&warnings, 64 * 1024 * 1024);
    if (outrider__debezium_parse(bytes_of(data, size), "f", NULL, &file, &warnings, &err) < 0) {
        must(err.disposition != OUTRIDER_DEAD && err.message[0] == 'f');
    } else {
        must(file.n == 1);
        must(outrider__config_check_name(bytes_str(file.pipelines[0].name), NULL) == 0);
        check_options(&file.pipelines[0]);
        outrider__config_release(&file);
    }
    outrider__strbuf_release(&warnings);
    return 0;
}
