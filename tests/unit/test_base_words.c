/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/words.h"

static unsigned distance(const char *a, const char *b)
{
    return outrider__name_distance(bytes_str(a), bytes_str(b));
}

static void distance_counts_single_changes(void **state)
{
    (void)state;
    assert_int_equal(distance("relay", "relay"), 0);
    assert_int_equal(distance("form", "from"), 1);
    assert_int_equal(distance("stats", "status"), 1);
    assert_int_equal(distance("", "abc"), 3);
    assert_int_equal(distance("kitten", "sitting"), 3);
}

static void case_and_joints_do_not_count(void **state)
{
    (void)state;
    assert_int_equal(distance("maxAttempts", "max_attempts"), 0);
    assert_int_equal(distance("dry_run", "dry-run"), 0);
}

static void a_list_has_whole_words_only(void **state)
{
    (void)state;
    assert_true(outrider__words_have("log|status", '|', BYTES_LIT("status")));
    assert_true(outrider__words_have("log", '|', BYTES_LIT("log")));
    assert_false(outrider__words_have("log|status", '|', BYTES_LIT("stat")));
    assert_false(outrider__words_have("log|status", '|', BYTES_LIT("log|status")));
    assert_false(outrider__words_have("", ' ', BYTES_LIT("x")));
    assert_false(outrider__words_have(NULL, ' ', BYTES_LIT("x")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_counts_single_changes),
        cmocka_unit_test(case_and_joints_do_not_count),
        cmocka_unit_test(a_list_has_whole_words_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
