/* SPDX-License-Identifier: MIT */
/* When the engine cleans up: against a source that only counts, with a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fake_ends.h"

#define HOUR (INT64_C(3600) * 1000000)
#define DAY (24 * HOUR)
#define MIDNIGHT (20000 * DAY)

static int cleanups;
static int portions; /* of the next clean-up */

struct fake_source {
    struct source base;
    struct source_op *done;
};

static int source_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    (void)err;
    assert_int_equal(op->kind, SOURCE_CLEANUP);
    op->more = --portions > 0;
    op->removed = 1;
    cleanups++;
    ((struct fake_source *)s)->done = op;
    return 0;
}

static int source_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct fake_source *me = (struct fake_source *)s;
    (void)now;
    (void)err;
    *ret_done = me->done;
    me->done = NULL;
    return 0;
}

static const struct source_ops source_ops = {.scheme = "fake",
                                             .size = sizeof(struct fake_source),
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

struct fixture {
    struct pipeline_config config;
    struct relay *relay;
    int64_t begun_wall_us;
};

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){.begun_wall_us = MIDNIGHT + HOUR};
    f.config = fake_config();
    f.config.cleanup.retention_us = DAY;
    f.config.cleanup.every_us = HOUR;
    f.config.cleanup.pause_us = 1000;
    cleanups = 0;
    portions = 1;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    outrider__relay_free(f->relay);
    return 0;
}

/* At an instant that is counted from the start, as what it returns is. */
static int64_t step(struct fixture *f, int64_t after_us)
{
    struct outrider_error err;
    if (f->relay == NULL) {
        struct relay_setup setup = {
            .config = &f->config, .source_ops = &source_ops, .sink_ops = &sink_ops};
        assert_int_equal(outrider__relay_new(&setup, &f->relay, &err), 0);
    }
    return fake_step(f->relay, (struct instant){.mono_us = 1 + after_us,
                                                .wall_us = f->begun_wall_us + after_us}) -
           1;
}

static void without_a_time_of_day_it_begins_at_once_and_then_by_the_clock(void **state)
{
    struct fixture *f = *state;
    assert_true(step(f, 0) <= HOUR);
    assert_int_equal(cleanups, 1);
    (void)step(f, HOUR - 1);
    assert_int_equal(cleanups, 1);
    (void)step(f, HOUR);
    assert_int_equal(cleanups, 2);
}

static void at_a_time_of_day_it_waits_for_it_and_then_for_the_next_day(void **state)
{
    struct fixture *f = *state;
    f->config.cleanup.at = "02:00";
    assert_true(step(f, 0) <= HOUR);
    (void)step(f, HOUR - 1);
    assert_int_equal(cleanups, 0);
    (void)step(f, HOUR);
    assert_int_equal(cleanups, 1);
    (void)step(f, HOUR + DAY - 1);
    assert_int_equal(cleanups, 1);
    (void)step(f, HOUR + DAY);
    assert_int_equal(cleanups, 2);
}

static void a_time_of_day_that_has_passed_is_tomorrows(void **state)
{
    struct fixture *f = *state;
    f->config.cleanup.at = "00:30";
    (void)step(f, 0);
    (void)step(f, DAY - HOUR / 2 - 1);
    assert_int_equal(cleanups, 0);
    (void)step(f, DAY - HOUR / 2);
    assert_int_equal(cleanups, 1);
}

static void its_portions_follow_each_other_whatever_the_time(void **state)
{
    struct fixture *f = *state;
    f->config.cleanup.at = "02:00";
    portions = 3;
    (void)step(f, 0);
    assert_int_equal(step(f, HOUR), HOUR + 1000);
    assert_int_equal(step(f, HOUR + 1000), HOUR + 2000);
    (void)step(f, HOUR + 2000);
    assert_int_equal(cleanups, 3);
    (void)step(f, DAY);
    assert_int_equal(cleanups, 3);
}

static void a_reload_moves_it(void **state)
{
    struct fixture *f = *state;
    struct outrider_error err;
    struct pipeline_config other = f->config;
    f->config.cleanup.at = "02:00";
    (void)step(f, 0);
    other.cleanup.at = "01:30";
    assert_int_equal(outrider__relay_reload(f->relay, &other, &err), 0);
    (void)step(f, HOUR / 2 - 1);
    assert_int_equal(cleanups, 0);
    (void)step(f, HOUR / 2);
    assert_int_equal(cleanups, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            without_a_time_of_day_it_begins_at_once_and_then_by_the_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(at_a_time_of_day_it_waits_for_it_and_then_for_the_next_day,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_time_of_day_that_has_passed_is_tomorrows, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(its_portions_follow_each_other_whatever_the_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_reload_moves_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
