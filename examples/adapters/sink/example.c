/* SPDX-License-Identifier: MIT */
/*
 * `example:` publishes to a broker that confirms each message. It is the smallest
 * sink that keeps the whole contract of core/sink.h; docs/adding-a-sink.md walks
 * through it. Numbers in the comments are those of the contract.
 *
 *  - A delivery is in the client's hands from submit() to its report in poll().
 *  - lane_depth is 1: the engine gives the sink one delivery of a lane at a time,
 *    so order needs no work here (6).
 */
#include "example.h"

#include "base/error.h"
#include "client.h"
#include "core/config.h"

#include <stdio.h>

struct example_sink {
    struct sink base; /* must stay first: see example_of() */
    struct client *client;
};

static struct example_sink *example_of(struct sink *s)
{
    return (struct example_sink *)s;
}

static int example_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                        struct outrider_error *err)
{
    struct example_sink *x = example_of(s);
    (void)now;
    s->wants_headers = true;
    s->lane_depth = 1;
    s->wake_us = CLOCK_NEVER;
    (void)snprintf(s->description, sizeof s->description, "example:");
    x->client = client_connect(config->sink.url);
    if (x->client == NULL)
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY,
                              "no broker at '%s'; is the broker running?", config->sink.url);
    return 0;
}

static struct bytes example_header(const struct delivery *d, const char *name)
{
    for (size_t i = 0; i < d->n_headers; i++)
        if (bytes_eq_str(d->headers[i].name, name))
            return d->headers[i].value;
    return BYTES_LIT("");
}

/* (1): takes what the client has room for, and never waits. */
static size_t example_submit(struct sink *s, struct delivery **d, size_t n, struct instant now)
{
    struct example_sink *x = example_of(s);
    size_t taken = 0;
    for (; taken < n; taken++) {
        const struct delivery *one = d[taken];
        struct bytes id = example_header(one, "event-id");
        struct client_message m = {
            .topic = one->topic.data,
            .topic_len = one->topic.len,
            .key = one->key.data,
            .key_len = one->key.len,
            .payload = one->payload.data,
            .payload_len = one->payload.len,
            .id = id.data,
            .id_len = id.len,
        };
        if (!client_send(x->client, &m, d[taken]))
            break;
    }
    if (taken > 0)
        s->wake_us = now.mono_us; /* a real client has a descriptor instead: see fds() */
    return taken;
}

static void example_flush(struct sink *s, struct instant now)
{
    (void)s;
    (void)now;
}

/* (5): what the broker's answer means for the event. */
static void example_report(struct sink *s, struct delivery *d, enum client_answer answer)
{
    struct outrider_error why = {0};
    switch (answer) {
    case CLIENT_CONFIRMED:
        sink_report(s, d, SINK_DELIVERED, NULL);
        break;
    case CLIENT_AWAY:
        (void)outrider__fail(&why, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY, "the broker is away");
        sink_report(s, d, SINK_DOWN, &why);
        break;
    case CLIENT_REFUSED:
        (void)outrider__fail(&why, OUTRIDER_TOPIC, OUTRIDER_DEAD,
                             "the broker refuses the topic '%.*s'", (int)d->topic.len,
                             d->topic.data);
        sink_report(s, d, SINK_DEAD, &why);
        break;
    }
}

/* (2): reports come from here and from nowhere else. */
static int example_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    struct example_sink *x = example_of(s);
    void *tag;
    enum client_answer answer;
    (void)now;
    (void)err;
    s->wake_us = CLOCK_NEVER;
    while (client_next(x->client, &tag, &answer))
        example_report(s, tag, answer);
    return 0;
}

static int example_fds(struct sink *s, struct pollfd *ret_fds, int max)
{
    (void)s;
    (void)ret_fds;
    (void)max;
    return 0;
}

/* (4): legal at any time, also after open() failed. */
static void example_close(struct sink *s)
{
    struct example_sink *x = example_of(s);
    client_close(x->client);
    x->client = NULL;
}

const struct sink_ops outrider__sink_example = {
    .scheme = "example",
    .size = sizeof(struct example_sink),
    .open = example_open,
    .submit = example_submit,
    .flush = example_flush,
    .poll = example_poll,
    .fds = example_fds,
    .close = example_close,
};
