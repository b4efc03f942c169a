/* SPDX-License-Identifier: MIT */
#include "support/fake_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct pipeline_config fake_config(void)
{
    return (struct pipeline_config){
        .name = "default",
        .source = {.batch = FAKE_BATCH,
                   .batch_bytes = 1 << 20,
                   .max_payload = 1 << 20,
                   .max_headers = 1 << 16},
        .route = {.topic = "t"},
        .headers = {.event_id = "", .event_type = "", .aggregate_type = ""},
        .retry = {.max_attempts = 1},
        .ordered = true};
}

int fake_source_open(struct source *s, const struct pipeline_config *config, struct instant now,
                     struct outrider_error *err)
{
    (void)config;
    (void)now;
    (void)err;
    s->active = true;
    s->parked_due_us = s->wake_us = CLOCK_NEVER;
    return 0;
}

int fake_source_fds(struct source *s, struct pollfd *ret_fds, int max)
{
    (void)s;
    (void)ret_fds;
    (void)max;
    return 0;
}

void fake_source_close(struct source *s)
{
    (void)s;
}

int fake_sink_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                   struct outrider_error *err)
{
    (void)config;
    (void)now;
    (void)err;
    s->wake_us = CLOCK_NEVER;
    return 0;
}

void fake_sink_flush(struct sink *s, struct instant now)
{
    (void)s;
    (void)now;
}

int fake_sink_fds(struct sink *s, struct pollfd *ret_fds, int max)
{
    (void)s;
    (void)ret_fds;
    (void)max;
    return 0;
}

void fake_sink_close(struct sink *s)
{
    (void)s;
}

int64_t fake_step(struct relay *r, struct instant now)
{
    struct outrider_error err;
    int64_t wake_us = 0;
    do
        assert_int_equal(outrider__relay_step(r, now, &wake_us, &err), RELAY_RUNNING);
    while (wake_us <= now.mono_us);
    return wake_us;
}
