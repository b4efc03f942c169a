/* SPDX-License-Identifier: MIT */
/* Any bytes as a configuration file; what is taken must survive being written and read again. */
#include <stdint.h>
#include <stdlib.h>

#include "cli/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_pipeline(const struct pipeline_config *c, struct arena *arena)
{
    size_t n;
    const struct option *options = outrider__options(&n);
    struct pipeline_config again;
    struct strbuf text;
    struct outrider_error err;
    must(outrider__config_check_name(bytes_str(c->name), NULL) == 0);
    must(outrider__config_init(&again, arena, c->name, NULL) == 0);
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
    if (outrider__config_check(c, &err) < 0)
        must(err.code == OUTRIDER_CONFIG && err.message[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_file file;
    struct outrider_error err = {0};
    if (outrider__config_parse(bytes_of(data, size), "f", &file, &err) < 0) {
        must(err.code == OUTRIDER_CONFIG && err.disposition == OUTRIDER_STOP);
        must(err.message[0] == 'f' && err.message[1] == ':');
        return 0;
    }
    must(file.n > 0);
    for (size_t i = 0; i < file.n; i++)
        check_pipeline(&file.pipelines[i], &file.arena);
    outrider__config_release(&file);
    return 0;
}
