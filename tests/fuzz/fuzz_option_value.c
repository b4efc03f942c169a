/* SPDX-License-Identifier: MIT */
/* NAME=VALUE, as --set takes it, for a pipeline and for the program. */
#include <stdint.h>
#include <stdlib.h>

#include "core/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_round_trip(struct pipeline_config *c, const struct option *o)
{
    struct pipeline_config before = *c;
    struct strbuf text;
    outrider__strbuf_init(&text, 16 * 1024 * 1024);
    must(outrider__config_get(c, o, &text) == 0);
    if (o->type != OPTION_SECRET_URL && text.len <= OPTION_VALUE_MAX) {
        must(outrider__config_set(c, bytes_str(o->name), strbuf_bytes(&text), NULL) == 0);
        must(!outrider__config_differs(c, &before, o));
    }
    outrider__strbuf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct pipeline_config c, untouched;
    struct program_config program;
    struct outrider_error err = {0};
    struct bytes name = bytes_of(data, size), value = BYTES_NULL;
    const char *equals = size > 0 ? memchr(data, '=', size) : NULL;
    if (equals != NULL) {
        name.len = (size_t)(equals - name.data);
        value = bytes_of(equals + 1, size - name.len - 1);
    }
    outrider__arena_init(&arena, 4096);
    must(outrider__config_init(&c, &arena, "fuzz", NULL) == 0);
    untouched = c;
    const struct option *o = outrider__option_find(name);
    if (outrider__config_set(&c, name, value, &err) == 0) {
        must(o != NULL);
        check_round_trip(&c, o);
    } else {
        must(err.code == OUTRIDER_CONFIG && err.message[0] != '\0');
        must(o == NULL || !outrider__config_differs(&c, &untouched, o));
    }
    (void)outrider__option_nearest(name);
    must(outrider__program_init(&program, NULL) == 0);
    (void)outrider__program_set(&program, name, value, &err);
    outrider__arena_release(&arena);
    return 0;
}
