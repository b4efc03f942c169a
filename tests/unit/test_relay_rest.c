/* SPDX-License-Identifier: MIT */
/* Contract (9) of core/source.h: what a source may still write down before an end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fake_ends.h"

#define SECOND INT64_C(1000000)

static bool wants;     /* the source has something to write down */
static int polls_left; /* so many polls after it was told of the end; negative: never done */
static bool was_told;

static int source_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    (void)s;
    (void)op;
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "nothing is to be started");
}

static int source_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    (void)now;
    (void)err;
    *ret_done = NULL;
    was_told |= s->is_ending;
    if (s->is_ending && polls_left > 0)
        polls_left--;
    s->wants_rest = wants && polls_left != 0;
    return 0;
}

static const struct source_ops source_ops = {.scheme = "fake",
                                             .size = sizeof(struct source),
                                             .open = fake_source_open,
                                             .start = source_start,
                                             .poll = source_poll,
                                             .fds = fake_source_fds,
                                             .close = fake_source_close};

static size_t sink_submit(struct sink *s, struct delivery **d, size_t n, struct instant now)
{
    (void)s;
    (void)d;
    (void)now;
    return n;
}

static int sink_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    (void)s;
    (void)now;
    (void)err;
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

/* How long a stop takes, on a clock that goes as far as the engine asks to be woken. */
static int64_t stop_takes(bool is_wanted, int polls)
{
    struct pipeline_config config = fake_config();
    struct relay_setup setup = {
        .config = &config, .source_ops = &source_ops, .sink_ops = &sink_ops};
    struct relay *r;
    struct outrider_error err;
    struct instant now = {.mono_us = 1, .wall_us = 1};
    int64_t wake = 1;
    wants = is_wanted;
    polls_left = polls;
    was_told = false;
    config.shutdown_timeout_us = 60 * SECOND;
    assert_int_equal(outrider__relay_new(&setup, &r, &err), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(outrider__relay_step(r, now, &wake, &err), RELAY_RUNNING);
    assert_false(was_told);
    outrider__relay_stop(r, now);
    for (int i = 0; outrider__relay_step(r, now, &wake, &err) == RELAY_RUNNING; i++) {
        assert_true(i < 100);
        if (wake > now.mono_us)
            now.mono_us = wake;
    }
    outrider__relay_free(r);
    return now.mono_us - 1;
}

static void a_stop_waits_until_the_source_has_written_down_what_it_has(void **state)
{
    (void)state;
    assert_int_equal(stop_takes(true, 1), 0);
    assert_true(was_told);
    assert_int_equal(polls_left, 0);
}

static void a_source_that_wants_nothing_is_not_waited_for(void **state)
{
    (void)state;
    assert_int_equal(stop_takes(false, 1), 0);
    assert_false(was_told);
}

static void a_source_that_never_comes_to_an_end_is_closed(void **state)
{
    (void)state;
    int64_t us = stop_takes(true, -1);
    assert_true(was_told);
    assert_in_range(us, 1, 10 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_waits_until_the_source_has_written_down_what_it_has),
        cmocka_unit_test(a_source_that_wants_nothing_is_not_waited_for),
        cmocka_unit_test(a_source_that_never_comes_to_an_end_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
