/* SPDX-License-Identifier: MIT */
#include "support/source_harness.h"

#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define DAY_US (24 * 3600000000LL)

static void init_batches(struct harness *h)
{
    assert_int_equal(outrider__batch_init(&h->batch, HARNESS_BATCH, 1 << 20, NULL), 0);
    assert_int_equal(outrider__batch_init(&h->parked, HARNESS_BATCH, 1 << 20, NULL), 0);
}

void harness_init(struct harness *h, const struct source_fixture *f)
{
    *h = (struct harness){.fixture = f};
    f->set_up(h->url, sizeof h->url);
    h->config = (struct pipeline_config){
        .name = "default",
        .source = {.url = h->url,
                   .poll_interval_us = 20000,
                   .batch = HARNESS_BATCH,
                   .batch_bytes = 1 << 20,
                   .max_payload = 1 << 20,
                   .max_headers = 1 << 16,
                   .connect_timeout_us = 2000000,
                   .lease_us = 600000000},
        .retry = {.max_attempts = 6, .on_dead = ON_DEAD_SKIP},
        .cleanup = {.retention_us = DAY_US, .batch = 10},
        .ordered = true,
        .sink_identity = "null:",
    };
    init_batches(h);
    if (f->configure != NULL)
        f->configure(&h->config);
    if (f->begin != NULL)
        f->begin(h);
}

void harness_init_second(struct harness *h, const struct harness *first, const char *pipeline)
{
    *h = (struct harness){.fixture = first->fixture, .config = first->config, .is_second = true};
    init_batches(h);
    h->config.name = pipeline;
    if (strcmp(pipeline, first->config.name) != 0 && h->fixture->begin != NULL)
        h->fixture->begin(h);
}

void harness_release(struct harness *h)
{
    harness_close(h);
    outrider__batch_release(&h->batch);
    outrider__batch_release(&h->parked);
    if (h->fixture != NULL && !h->is_second)
        h->fixture->tear_down();
    h->fixture = NULL;
}

void harness_close(struct harness *h)
{
    if (h->source == NULL)
        return;
    h->source->ops->close(h->source);
    free(h->source);
    h->source = NULL;
}

int harness_open(struct harness *h, struct outrider_error *err)
{
    const struct source_ops *ops = h->fixture->ops;
    if (h->is_replay) {
        if (outrider__replay_wrap(ops, &h->replay, err) < 0)
            return -1;
        outrider__replay_configure(&h->config, h->config.replay_from_seq,
                                   h->config.replay_since_us);
        ops = &h->replay;
    }
    h->source = calloc(1, ops->size);
    if (h->source == NULL)
        abort();
    h->source->ops = ops;
    h->source->parked_due_us = h->source->wake_us = CLOCK_NEVER;
    if (h->source->ops->open(h->source, &h->config, outrider__clock_now(), err) == 0)
        return 0;
    harness_close(h);
    return -1;
}

void harness_pause(struct harness *h)
{
    struct source *s = h->source;
    struct pollfd fds[4];
    int n = s->ops->fds(s, fds, 4);
    int64_t left_us = s->wake_us - outrider__clock_now().mono_us;
    int ms = left_us <= 0 ? 0 : left_us > 20000 ? 20 : (int)(left_us / 1000) + 1;
    (void)poll(fds, (nfds_t)n, ms);
}

struct source_op *harness_poll(struct harness *h)
{
    struct outrider_error err = {0};
    struct source_op *done = NULL;
    if (h->source == NULL ||
        h->source->ops->poll(h->source, outrider__clock_now(), &done, &err) < 0)
        fail_msg("poll: %s", err.message);
    return done;
}

void harness_wait(struct harness *h, bool (*holds)(const struct source *s))
{
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    for (;;) {
        assert_null(harness_poll(h));
        if (holds(h->source))
            return;
        if (outrider__clock_now().mono_us > deadline)
            fail_msg("waited for %s in vain", h->source->description);
        harness_pause(h);
    }
}

static bool is_active(const struct source *s)
{
    return s != NULL && s->active;
}

void harness_activate(struct harness *h)
{
    struct outrider_error err = {0};
    if (harness_open(h, &err) < 0)
        fail_msg("open: %s", err.message);
    harness_wait(h, is_active);
}

int harness_do(struct harness *h, struct source_op *op, struct outrider_error *err)
{
    struct source *s = h->source;
    struct source_op *done = NULL;
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    if (s->ops->start(s, op, err) < 0)
        return -1;
    for (;;) {
        if (s->ops->poll(s, outrider__clock_now(), &done, err) < 0)
            return -1;
        if (done != NULL)
            break;
        if (outrider__clock_now().mono_us > deadline)
            fail_msg("operation %d of %s never ended", op->kind, s->description);
        harness_pause(h);
    }
    assert_ptr_equal(done, op);
    return 0;
}

void harness_must_do(struct harness *h, struct source_op *op)
{
    struct outrider_error err = {0};
    if (harness_do(h, op, &err) < 0)
        fail_msg("operation %d: %s", op->kind, err.message);
}

size_t harness_fetch_into(struct harness *h, struct batch *b)
{
    if (h->fixture->arrive != NULL)
        h->fixture->arrive(h);
    outrider__batch_reset(b);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_FETCH, .batch = b});
    return b->n;
}

void harness_fetch_some(struct harness *h, struct batch *b)
{
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (harness_fetch_into(h, b) == 0) {
        assert_true(outrider__clock_now().mono_us < deadline);
        harness_pause(h);
    }
}

size_t harness_fetch(struct harness *h)
{
    return harness_fetch_into(h, &h->batch);
}

size_t harness_fetch_failed(struct harness *h)
{
    if (h->fixture->rows_carry_state)
        return harness_fetch_into(h, &h->parked);
    return harness_fetch_parked(h, outrider__clock_now().wall_us);
}

size_t harness_fetch_parked(struct harness *h, int64_t now_wall_us)
{
    outrider__batch_reset(&h->parked);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_FETCH_PARKED,
                                           .batch = &h->parked,
                                           .now_wall_us = now_wall_us});
    return h->parked.n;
}

void harness_decide(struct event *e, enum outcome outcome, int64_t next_attempt_us)
{
    e->outcome = outcome;
    e->next_attempt_us = next_attempt_us;
    if (outcome != OUTCOME_PARKED && outcome != OUTCOME_DEAD)
        return;
    e->attempts++;
    e->failure = outrider__arena_alloc(&e->batch->arena, sizeof *e->failure);
    assert_non_null(e->failure);
    (void)outrider__fail(e->failure, OUTRIDER_REJECTED, OUTRIDER_RETRY, "no, try %u", e->attempts);
    outrider__error_origin(e->failure, "E42");
}

static void settle_as_is(struct harness *h, struct batch *b)
{
    harness_must_do(h, &(struct source_op){.kind = SOURCE_SETTLE,
                                           .batch = b,
                                           .now_wall_us = outrider__clock_now().wall_us});
}

void harness_settle(struct harness *h, struct batch *b, enum outcome outcome)
{
    if (outcome != OUTCOME_PENDING) {
        for (size_t i = 0; i < b->n; i++)
            harness_decide(&b->events[i], outcome, 0);
        b->n_settle = b->n;
    }
    settle_as_is(h, b);
}

void harness_write(struct harness *h, size_t n, const char *const *keys, size_t n_keys, bool commit)
{
    for (size_t i = 0; i < n; i++) {
        char payload[32];
        struct outrider_event e = OUTRIDER_EVENT_INIT;
        e.aggregate_type = "order";
        e.aggregate_id = keys[i % n_keys];
        e.event_type = "OrderChanged";
        e.payload = payload;
        e.payload_len = (size_t)snprintf(payload, sizeof payload, "{\"n\":%" PRIu64 "}",
                                         commit ? h->n_inserted++ : UINT64_MAX);
        h->fixture->insert(&e, 1);
    }
    h->fixture->finish(commit);
}

void harness_insert_many(struct harness *h, size_t n, const char *const *keys, size_t n_keys)
{
    harness_write(h, n, keys, n_keys, true);
}

void harness_insert(struct harness *h, const char *key)
{
    harness_write(h, 1, &key, 1, true);
}

uint64_t harness_number(const struct event *e)
{
    uint64_t n = 0;
    assert_true(e->payload.len > 5 && memcmp(e->payload.data, "{\"n\":", 5) == 0);
    for (size_t i = 5; i < e->payload.len && e->payload.data[i] != '}'; i++)
        n = n * 10 + (uint64_t)(e->payload.data[i] - '0');
    return n;
}

void harness_assert_numbers(const struct batch *b, const uint64_t *numbers, size_t n)
{
    assert_int_equal(b->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(harness_number(&b->events[i]), numbers[i]);
}
