/* SPDX-License-Identifier: MIT */
/* A replay over a reader that can do nothing but read: core/replay.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "core/replay.h"
#include "support/fake_ends.h"

#define EVENTS 6

static int n_marks, n_fetches, n_read, n_open;
static int64_t from_seq;

struct fake_reader {
    struct source base;
    struct source_op *op;
    int polls; /* that the operation takes */
};

static int reader_open(struct source *s, const struct pipeline_config *config, struct instant now,
                       struct outrider_error *err)
{
    n_open++;
    from_seq = config->replay_from_seq;
    return fake_source_open(s, config, now, err);
}

/* source.h (16): MARK and FETCH alone, one at a time. */
static int reader_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    struct fake_reader *me = (struct fake_reader *)s;
    (void)err;
    assert_null(me->op);
    assert_true(op->kind == SOURCE_MARK || op->kind == SOURCE_FETCH);
    me->op = op;
    me->polls = 2;
    s->wake_us = 0;
    return 0;
}

/* One event of the key "a", then one of "b", and so on. */
static void reader_fill(struct batch *b)
{
    static const char *const keys[] = {"a", "b"};
    for (int i = 0; i < 2 && n_read < EVENTS; i++, n_read++) {
        struct event *e = outrider__batch_slot(b);
        e->seq = n_read + 1;
        e->id = e->aggregate_type = e->event_type = BYTES_LIT("x");
        e->aggregate_id = bytes_str(keys[n_read % 2]);
        e->payload = BYTES_LIT("{}");
        b->n++;
    }
}

static int reader_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct fake_reader *me = (struct fake_reader *)s;
    (void)now;
    (void)err;
    *ret_done = NULL;
    s->parked_due_us = 0; /* is not the replay's business */
    s->ready = n_read < EVENTS;
    if (me->op == NULL || --me->polls > 0)
        return 0;
    n_marks += me->op->kind == SOURCE_MARK;
    n_fetches += me->op->kind == SOURCE_FETCH;
    if (me->op->kind == SOURCE_FETCH)
        reader_fill(me->op->batch);
    s->ready = n_read < EVENTS;
    s->mark_reached = !s->ready;
    s->wake_us = CLOCK_NEVER;
    *ret_done = me->op;
    me->op = NULL;
    return 0;
}

static void reader_close(struct source *s)
{
    (void)s;
    n_open--;
}

static const struct source_ops reader_ops = {.scheme = "fake",
                                             .size = sizeof(struct fake_reader),
                                             .open = reader_open,
                                             .start = reader_start,
                                             .poll = reader_poll,
                                             .close = reader_close};
static const struct source_ops adapter_ops = {
    .scheme = "fake", .keeps_intents = true, .reader = &reader_ops};

static int setup(void **state)
{
    (void)state;
    n_marks = n_fetches = n_read = n_open = 0;
    return 0;
}

static struct source *open_replay(struct source_ops *ops)
{
    struct outrider_error err = {0};
    static struct pipeline_config config;
    config = fake_config();
    outrider__replay_configure(&config, 4, 0);
    assert_int_equal(outrider__replay_wrap(&adapter_ops, ops, &err), 0);
    struct source *s = calloc(1, ops->size);
    assert_non_null(s);
    s->ops = ops;
    s->parked_due_us = s->wake_us = CLOCK_NEVER;
    assert_int_equal(ops->open(s, &config, (struct instant){0}, &err), 0);
    return s;
}

static void operations_complete_in_their_order(void **state)
{
    (void)state;
    struct source_ops ops;
    struct source *s = open_replay(&ops);
    struct outrider_error err = {0};
    struct batch b, parked;
    struct source_op *done;
    assert_int_equal(outrider__batch_init(&b, 10, 1 << 20, NULL), 0);
    assert_int_equal(outrider__batch_init(&parked, 10, 1 << 20, NULL), 0);
    struct source_op order[] = {
        {.kind = SOURCE_MARK},
        {.kind = SOURCE_FETCH, .batch = &b},
        {.kind = SOURCE_SETTLE, .batch = &b},
        {.kind = SOURCE_FETCH_PARKED, .batch = &parked},
        {.kind = SOURCE_CLEANUP, .removed = 7, .more = true},
        {.kind = SOURCE_INTENT},
        {.kind = SOURCE_FETCH, .batch = &b},
    };
    size_t n = sizeof order / sizeof *order;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ops.start(s, &order[i], &err), 0);
    for (size_t i = 0; i < n; i++) {
        do
            assert_int_equal(ops.poll(s, (struct instant){0}, &done, &err), 0);
        while (done == NULL);
        assert_ptr_equal(done, &order[i]);
    }
    assert_int_equal(n_marks, 1);
    assert_int_equal(n_fetches, 2);
    assert_int_equal(b.n, 4);
    assert_int_equal(parked.n, 0);
    assert_true(parked.is_parked);
    assert_int_equal(order[4].removed, 0);
    assert_false(order[4].more);
    assert_int_equal(s->parked_due_us, CLOCK_NEVER);
    assert_int_equal(from_seq, 4);
    ops.close(s);
    free(s);
    assert_int_equal(n_open, 0);
    outrider__batch_release(&b);
    outrider__batch_release(&parked);
}

static void a_replay_that_is_closed_in_the_middle_closes_its_reader(void **state)
{
    (void)state;
    struct source_ops ops;
    struct source *s = open_replay(&ops);
    struct outrider_error err = {0};
    struct source_op mark = {.kind = SOURCE_MARK};
    assert_int_equal(ops.start(s, &mark, &err), 0);
    ops.close(s);
    ops.close(s);
    free(s);
    assert_int_equal(n_open, 0);
}

static void an_adapter_without_a_reader_is_refused(void **state)
{
    (void)state;
    struct source_ops ops;
    struct outrider_error err = {0};
    assert_int_equal(outrider__replay_wrap(&reader_ops, &ops, &err), -1);
    assert_int_equal(err.code, OUTRIDER_UNSUPPORTED);
}

static struct delivery *taken[FAKE_BATCH];
static size_t n_taken;
static int n_tried;

static size_t sink_submit(struct sink *s, struct delivery **d, size_t n, struct instant now)
{
    (void)s;
    (void)now;
    for (size_t i = 0; i < n; i++)
        taken[n_taken++] = d[i];
    return n;
}

/* Refuses the first event of each key. */
static int sink_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    struct outrider_error why;
    size_t n = n_taken;
    (void)now;
    (void)err;
    n_taken = 0;
    outrider__fail(&why, OUTRIDER_REJECTED, OUTRIDER_RETRY, "no");
    for (size_t i = 0; i < n; i++) {
        bool is_refused = event_of(taken[i])->seq <= 2;
        n_tried++;
        sink_report(s, taken[i], is_refused ? SINK_RETRY : SINK_DELIVERED,
                    is_refused ? &why : NULL);
    }
    return 0;
}

static const struct sink_ops sink_ops = {.scheme = "fake",
                                         .size = sizeof(struct sink),
                                         .open = fake_sink_open,
                                         .submit = sink_submit,
                                         .flush = fake_sink_flush,
                                         .poll = sink_poll,
                                         .fds = fake_sink_fds,
                                         .close = fake_sink_close};

/* What the pipeline says of retries, blocking and transactions is not for a replay. */
static void what_cannot_be_delivered_is_counted_and_the_rest_goes_on(void **state)
{
    (void)state;
    struct source_ops ops;
    struct outrider_error err = {0};
    struct pipeline_config config = fake_config();
    struct relay *relay = NULL;
    enum relay_state result = RELAY_RUNNING;
    config.retry.max_attempts = 10;
    config.retry.on_dead = ON_DEAD_BLOCK;
    config.exactly_once = true;
    config.cleanup.retention_us = 1;
    config.source.connect_timeout_us = 1000000;
    n_tried = 0;
    outrider__replay_configure(&config, 0, 1);
    assert_int_equal(outrider__replay_wrap(&adapter_ops, &ops, &err), 0);
    struct relay_setup setup = {.config = &config, .source_ops = &ops, .sink_ops = &sink_ops};
    assert_int_equal(outrider__relay_new(&setup, &relay, &err), 0);
    for (int64_t us = 1; us < 1000 && result == RELAY_RUNNING; us++) {
        int64_t wake_us;
        result = outrider__relay_step(relay, (struct instant){.mono_us = us, .wall_us = us},
                                      &wake_us, &err);
    }
    assert_int_equal(result, RELAY_DONE);
    const struct relay_stats *stats = outrider__relay_stats(relay);
    assert_int_equal(stats->outcomes[OUTCOME_DEAD], 2);
    assert_int_equal(stats->outcomes[OUTCOME_DELIVERED], EVENTS - 2);
    assert_int_equal(n_tried, EVENTS);
    assert_int_equal(n_marks, 1);
    outrider__relay_free(relay);
    assert_int_equal(n_open, 0);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(operations_complete_in_their_order),
        T(a_replay_that_is_closed_in_the_middle_closes_its_reader),
        T(an_adapter_without_a_reader_is_refused),
        T(what_cannot_be_delivered_is_counted_and_the_rest_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
