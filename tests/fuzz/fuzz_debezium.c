/* SPDX-License-Identifier: MIT */
/* Any bytes as a connector's configuration: what is taken must be a configuration of ours,
 * which can be written and read again. */
#include <stdint.h>

#include "cli/debezium.h"
#include "options_survive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_file file;
    struct strbuf warnings;
    struct outrider_error err = {0};
    outrider__strbuf_init(&warnings, 64 * 1024 * 1024);
    if (outrider__debezium_parse(bytes_of(data, size), "f", NULL, &file, &warnings, NULL, &err) <
        0) {
        must(err.disposition != OUTRIDER_DEAD && err.message[0] == 'f');
    } else {
        must(file.n == 1);
        must(outrider__config_check_name(bytes_str(file.pipelines[0].name), NULL) == 0);
        options_survive(&file.pipelines[0]);
        outrider__config_release(&file);
    }
    outrider__strbuf_release(&warnings);
    return 0;
}
