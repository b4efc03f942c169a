/* SPDX-License-Identifier: MIT */
/*
 * `null:` takes everything and keeps nothing: what the rest of a pipeline
 * costs can be measured with it.
 */
#include "sink/builtin.h"

#include "core/config.h"

#define NULL_HELD 4096

struct null_sink {
    struct sink base; /* must stay first: see null_of() */
    size_t n;
    struct delivery *held[NULL_HELD];
};

static struct null_sink *null_of(struct sink *s)
{
    return (struct null_sink *)s;
}

static int null_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                     struct outrider_error *err)
{
    (void)config;
    (void)now;
    (void)err;
    null_of(s)->n = 0;
    s->wants_headers = false;
    s->lane_depth = 0;
    s->wake_us = CLOCK_NEVER;
    memcpy(s->description, "null:", sizeof "null:");
    return 0;
}

static size_t null_submit(struct sink *s, struct delivery **d, size_t n, struct instant now)
{
    struct null_sink *k = null_of(s);
    size_t room = NULL_HELD - k->n;
    size_t take = n < room ? n : room;
    if (take > 0) {
        memcpy(k->held + k->n, d, take * sizeof(struct delivery *));
        k->n += take;
        s->wake_us = now.mono_us;
    }
    return take;
}

static void null_flush(struct sink *s, struct instant now)
{
    (void)s;
    (void)now;
}

static int null_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    struct null_sink *k = null_of(s);
    (void)now;
    (void)err;
    /* Whoever is told may submit again: only what is here now is reported. */
    size_t n = k->n;
    for (size_t i = 0; i < n; i++)
        sink_report(s, k->held[i], SINK_DELIVERED, NULL);
    k->n -= n;
    if (k->n > 0)
        memmove(k->held, k->held + n, k->n * sizeof(struct delivery *));
    else
        s->wake_us = CLOCK_NEVER;
    return 0;
}

static int null_fds(struct sink *s, struct pollfd *ret_fds, int max)
{
    (void)s;
    (void)ret_fds;
    (void)max;
    return 0;
}

static void null_close(struct sink *s)
{
    null_of(s)->n = 0;
}

const struct sink_ops outrider__sink_null = {
    .scheme = "null",
    .size = sizeof(struct null_sink),
    .open = null_open,
    .submit = null_submit,
    .flush = null_flush,
    .poll = null_poll,
    .fds = null_fds,
    .close = null_close,
};
