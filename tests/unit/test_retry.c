/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/options.h"
#include "core/retry.h"

#define SECOND INT64_C(1000000)

struct fixture {
    struct arena arena;
    struct pipeline_config config;
};

static int make(void **state)
{
    static struct fixture f;
    outrider__arena_init(&f.arena, 4096);
    assert_int_equal(outrider__config_init(&f.config, &f.arena, "default", NULL), 0);
    *state = &f;
    return 0;
}

static int drop(void **state)
{
    outrider__arena_release(&((struct fixture *)*state)->arena);
    return 0;
}

static void set(struct fixture *f, const char *name, const char *value)
{
    struct outrider_error err;
    if (outrider__config_set(&f->config, bytes_str(name), bytes_str(value), &err) < 0)
        fail_msg("%s", err.message);
}

static void the_list_gives_each_wait_and_its_last_one_repeats(void **state)
{
    struct fixture *f = *state;
    static const int64_t seconds[] = {1, 5, 30, 300, 1800, 1800, 1800};
    for (uint32_t n = 1; n <= 7; n++)
        assert_int_equal(outrider__retry_delay_us(&f->config, n, 0.5), seconds[n - 1] * SECOND);
    assert_int_equal(outrider__retry_delay_us(&f->config, UINT32_MAX, 0.5), 1800 * SECOND);
}

static void a_list_has_no_jitter(void **state)
{
    struct fixture *f = *state;
    set(f, "retry.jitter", "1");
    assert_int_equal(outrider__retry_delay_us(&f->config, 2, 0.0), 5 * SECOND);
    assert_int_equal(outrider__retry_delay_us(&f->config, 2, 0.999), 5 * SECOND);
}

static void waits_grow_by_the_factor_up_to_the_longest(void **state)
{
    struct fixture *f = *state;
    static const int64_t seconds[] = {5, 10, 20, 40, 80, 160, 160, 160};
    set(f, "retry.base", "5s");
    set(f, "retry.max", "160s");
    set(f, "retry.jitter", "0");
    for (uint32_t n = 1; n <= 8; n++)
        assert_int_equal(outrider__retry_delay_us(&f->config, n, 0.5), seconds[n - 1] * SECOND);
    assert_int_equal(outrider__retry_delay_us(&f->config, UINT32_MAX, 0.5), 160 * SECOND);
}

static void jitter_only_shortens(void **state)
{
    struct fixture *f = *state;
    set(f, "retry.base", "10s");
    set(f, "retry.jitter", "0.5");
    assert_int_equal(outrider__retry_delay_us(&f->config, 1, 0.0), 10 * SECOND);
    assert_int_equal(outrider__retry_delay_us(&f->config, 1, 0.5), 7500000);
    assert_true(outrider__retry_delay_us(&f->config, 1, 0.999) > 5 * SECOND);
}

static void backoff_doubles_up_to_a_second(void **state)
{
    (void)state;
    static const int64_t most[] = {100000, 200000, 400000, 800000, 1000000, 1000000};
    for (uint32_t n = 1; n <= 6; n++) {
        assert_int_equal(outrider__backoff_us(n, 0.0), most[n - 1] / 2);
        int64_t longest = outrider__backoff_us(n, 0.9999999);
        assert_true(longest <= most[n - 1] && longest > most[n - 1] * 9 / 10);
    }
    assert_int_equal(outrider__backoff_us(0, 0.0), 50000);
    assert_int_equal(outrider__backoff_us(UINT32_MAX, 0.0), 500000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_list_gives_each_wait_and_its_last_one_repeats, make,
                                        drop),
        cmocka_unit_test_setup_teardown(a_list_has_no_jitter, make, drop),
        cmocka_unit_test_setup_teardown(waits_grow_by_the_factor_up_to_the_longest, make, drop),
        cmocka_unit_test_setup_teardown(jitter_only_shortens, make, drop),
        cmocka_unit_test(backoff_doubles_up_to_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
