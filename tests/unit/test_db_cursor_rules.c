/* SPDX-License-Identifier: MIT */
/* The rules of a cursor: common/cursor_rules.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/cursor_rules.h"

static struct pipeline_config config = {.name = "shop"};
static const struct cursor_place place = {&config, "public.outbox", NULL};

static int check_sink(const char *mine, const char *stored, struct outrider_error *err)
{
    config.sink_identity = mine;
    return outrider__cursor_check_sink(&place, bytes_str(stored), err);
}

/* (1) */
static void a_pipeline_stays_with_its_sink(void **state)
{
    struct outrider_error err = {0};
    (void)state;
    assert_int_equal(check_sink("kafka:a", "", &err), 0);
    assert_int_equal(check_sink("kafka:a", "kafka:a", &err), 0);
    assert_int_equal(check_sink(NULL, "kafka:a", &err), 0);
    assert_int_equal(check_sink("", "kafka:a", &err), 0);
    assert_int_equal(check_sink("kafka:b", "kafka:a", &err), -1);
    assert_int_equal(err.code, OUTRIDER_SINK_MISMATCH);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
    assert_non_null(strstr(err.message, "'shop' of public.outbox"));
    assert_non_null(strstr(err.message, "kafka:a"));
    assert_non_null(strstr(err.message, "--name"));
    config.sink_identity = NULL;
    assert_string_equal(cursor_sink(&config), "");
}

/* (2) */
static void who_lost_the_epoch_is_fenced(void **state)
{
    struct outrider_error err = {0};
    (void)state;
    assert_int_equal(outrider__cursor_fail_fenced(&place, &err), -1);
    assert_int_equal(err.code, OUTRIDER_FENCED);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
}

/* (3) */
static void a_change_of_the_policy_is_noticed(void **state)
{
    (void)state;
    config.retry.on_dead = ON_DEAD_BLOCK;
    assert_string_equal(cursor_policy(&config), "block");
    assert_true(cursor_is_other_policy(&config, bytes_str("skip")));
    assert_false(cursor_is_other_policy(&config, bytes_str("block")));
    config.retry.on_dead = ON_DEAD_SKIP;
    assert_string_equal(cursor_policy(&config), "skip");
    assert_true(cursor_is_other_policy(&config, bytes_str("block")));
}

/* (4) */
static void the_anchor_tells_whether_history_was_rewritten(void **state)
{
    static const struct {
        struct cursor_anchor a;
        enum anchor_verdict verdict;
    } cases[] = {
        {{.position = 0, .sequence = 0}, ANCHOR_FITS},
        {{9, 9, {"i", 1}, {"i", 1}}, ANCHOR_FITS},
        {{9, 12, {"i", 1}, {"i", 1}}, ANCHOR_FITS},
        {{9, 8, {"i", 1}, {"i", 1}}, ANCHOR_SEQUENCE_SET_BACK},
        {{9, 9, {"i", 1}, {NULL, 0}}, ANCHOR_ROW_GONE},
        {{9, 9, {"i", 1}, {"k", 1}}, ANCHOR_ROW_CHANGED},
        {{9, 9, {"i", 1}, {"", 0}}, ANCHOR_ROW_CHANGED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outrider_error err = {0};
        bool fits = cases[i].verdict == ANCHOR_FITS;
        assert_int_equal(outrider__anchor_judge(&cases[i].a), cases[i].verdict);
        assert_int_equal(outrider__cursor_check_anchor(&place, &cases[i].a, &err), fits ? 0 : -1);
        if (fits)
            continue;
        assert_int_equal(err.code, OUTRIDER_HISTORY);
        assert_int_equal(err.disposition, OUTRIDER_STOP);
        assert_non_null(strstr(err.message, "`outrider resync --name shop`"));
    }
}

static void a_database_whose_url_is_no_secret_is_named_in_the_command(void **state)
{
    struct cursor_place file = {&config, "shop.db", "sqlite:shop.db"};
    struct outrider_error err = {0};
    (void)state;
    assert_int_equal(outrider__cursor_fail_history(&file, "the row is gone", &err), -1);
    assert_non_null(strstr(err.message, "`outrider resync --db sqlite:shop.db --name shop`"));
    assert_non_null(strstr(err.message, "the row is gone"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_stays_with_its_sink),
        cmocka_unit_test(who_lost_the_epoch_is_fenced),
        cmocka_unit_test(a_change_of_the_policy_is_noticed),
        cmocka_unit_test(the_anchor_tells_whether_history_was_rewritten),
        cmocka_unit_test(a_database_whose_url_is_no_secret_is_named_in_the_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
