/* SPDX-License-Identifier: MIT */
/* Any bytes as a configuration file; what is taken must survive being written and read again. */
#include <stdint.h>

#include "cli/config.h"
#include "options_survive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pipeline(const struct pipeline_config *c)
{
    struct outrider_error err;
    must(outrider__config_check_name(bytes_str(c->name), NULL) == 0);
    options_survive(c);
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
        check_pipeline(&file.pipelines[i]);
    outrider__config_release(&file);
    return 0;
}
