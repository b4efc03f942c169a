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

/* Whoever goes on behind an error comes to an end, and finds one where there is one. */
static bool collect_errors(struct bytes text)
{
    struct config_file file;
    struct outrider_error err = {0};
    struct strbuf errors;
    outrider__strbuf_init(&errors, CONFIG_FILE_MAX);
    int r = outrider__config_parse(text, "f", &file, &errors, &err);
    bool is_good = r == 0 && errors.len == 0;
    must(errors.len == 0 || strncmp(strbuf_cstr(&errors), "f:", 2) == 0);
    if (r == 0)
        outrider__config_release(&file);
    outrider__strbuf_release(&errors);
    return is_good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_file file;
    struct outrider_error err = {0};
    bool is_good = collect_errors(bytes_of(data, size));
    int r = outrider__config_parse(bytes_of(data, size), "f", &file, NULL, &err);
    must((r == 0) == is_good);
    if (r < 0) {
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
