/* SPDX-License-Identifier: MIT */
/* What outcomes mean to a database: common/outcome.h, common/tally.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/outcome.h"
#include "common/tally.h"

static void check_text(struct bytes text, const char *expected)
{
    if (expected == NULL)
        assert_true(bytes_is_null(text));
    else
        assert_true(bytes_eq_str(text, expected));
}

/* outcome.h (1) */
static void each_outcome_changes_the_parked_rows_as_the_contract_says(void **state)
{
    static const enum row_change changes[OUTCOME_COUNT][2] = {
        [OUTCOME_PENDING] = {ROW_UNCHANGED, ROW_UNCHANGED},
        [OUTCOME_DELIVERED] = {ROW_UNCHANGED, ROW_REMOVED},
        [OUTCOME_SKIPPED] = {ROW_UNCHANGED, ROW_REMOVED},
        [OUTCOME_EXPIRED] = {ROW_UNCHANGED, ROW_REMOVED},
        [OUTCOME_PARKED] = {ROW_ADDED, ROW_CHANGED},
        [OUTCOME_QUEUED] = {ROW_ADDED, ROW_UNCHANGED},
        [OUTCOME_DEAD] = {ROW_ADDED, ROW_CHANGED},
        [OUTCOME_RELEASED] = {ROW_UNCHANGED, ROW_UNCHANGED},
    };
    (void)state;
    for (int o = 0; o < OUTCOME_COUNT; o++)
        for (int parked = 0; parked < 2; parked++) {
            struct event e = {.outcome = (enum outcome)o, .is_parked = parked != 0};
            enum row_change change = changes[o][parked];
            assert_int_equal(outcome_change(&e), change);
            assert_int_equal(outcome_is_kept(&e), change == ROW_ADDED || change == ROW_CHANGED);
            assert_int_equal(outcome_is_removed(&e), change == ROW_REMOVED);
        }
}

/* outcome.h (2) */
static void a_parked_row_has_one_of_three_states(void **state)
{
    (void)state;
    check_text(outrider__outcome_state(&(struct event){.outcome = OUTCOME_PARKED}), "parked");
    check_text(outrider__outcome_state(&(struct event){.outcome = OUTCOME_QUEUED}), "queued");
    check_text(outrider__outcome_state(&(struct event){.outcome = OUTCOME_DEAD}), "dead");
}

/* outcome.h (3) */
static void a_message_ends_before_what_is_no_text(void **state)
{
    struct outrider_error why = {.code = OUTRIDER_REJECTED, .origin = "http 400"};
    struct event e = {.outcome = OUTCOME_DEAD, .failure = &why};
    (void)state;
    (void)snprintf(why.message, sizeof why.message, "no \xC3\xA4pples \xE2\x82");
    check_text(outrider__outcome_message(&e), "no \xC3\xA4pples ");
    (void)snprintf(why.message, sizeof why.message, "\xFF");
    check_text(outrider__outcome_message(&e), "");
    assert_false(bytes_is_null(outrider__outcome_message(&e)));
    (void)snprintf(why.message, sizeof why.message, "plain");
    struct outcome_failure f = outrider__outcome_failure(&e);
    check_text(f.code, outrider_code_name(OUTRIDER_REJECTED));
    check_text(f.origin, "http 400");
    check_text(f.message, "plain");
}

static void an_event_without_a_failure_has_no_words_for_one(void **state)
{
    struct outcome_failure f =
        outrider__outcome_failure(&(struct event){.outcome = OUTCOME_QUEUED});
    (void)state;
    check_text(f.code, NULL);
    check_text(f.origin, NULL);
    check_text(f.message, NULL);
}

static void an_event_that_expired_says_so(void **state)
{
    struct outrider_error why = {.code = OUTRIDER_REJECTED, .message = "try again"};
    struct event e = {.outcome = OUTCOME_EXPIRED, .failure = &why};
    (void)state;
    check_text(outrider__outcome_code(&e), outrider_code_name(OUTRIDER_EXPIRED));
    check_text(outrider__outcome_message(&e), outrider_code_text(OUTRIDER_EXPIRED));
}

/* outcome.h (4) */
static void an_empty_partition_key_is_a_key(void **state)
{
    struct event e = {.id = bytes_str("1"), .aggregate_id = bytes_str("a")};
    (void)state;
    check_text(outcome_lane(&e, true), "a");
    e.partition_key = bytes_str("");
    check_text(outcome_lane(&e, true), "");
    e.partition_key = bytes_str("k");
    check_text(outcome_lane(&e, true), "k");
    check_text(outcome_lane(&e, false), "1");
}

static void a_delay_is_never_negative(void **state)
{
    struct event e = {.next_attempt_us = 500};
    (void)state;
    assert_int_equal(outcome_delay_us(&e, 200), 300);
    assert_int_equal(outcome_delay_us(&e, 900), 0);
}

#define N 6

static void fill(struct batch *b, struct event *events, const enum outcome *outcomes)
{
    *b = (struct batch){.events = events, .n = N, .n_settle = N};
    for (int i = 0; i < N; i++)
        events[i] = (struct event){.seq = 10 + i, .outcome = outcomes[i]};
}

/* tally.h (1) */
static void a_position_never_passes_an_event_without_an_outcome(void **state)
{
    static const enum outcome outcomes[N] = {OUTCOME_DELIVERED, OUTCOME_DEAD,    OUTCOME_EXPIRED,
                                             OUTCOME_RELEASED,  OUTCOME_SKIPPED, OUTCOME_PENDING};
    struct event events[N];
    struct batch b;
    (void)state;
    fill(&b, events, outcomes);
    struct tally t = outrider__tally_prefix(&b);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.last_seq, 12);
    assert_int_equal(t.delivered, 1);
    assert_int_equal(t.dead, 1);
    assert_int_equal(t.expired, 1);
    assert_int_equal(t.skipped, 0);
    b.n_settle = 2;
    assert_int_equal(outrider__tally_prefix(&b).n, 2);
    b.n_settle = 0;
    assert_int_equal(outrider__tally_prefix(&b).n, 0);
}

/* tally.h (2) */
static void rows_that_stand_alone_are_all_covered(void **state)
{
    static const enum outcome outcomes[N] = {OUTCOME_RELEASED, OUTCOME_PARKED, OUTCOME_DELIVERED,
                                             OUTCOME_SKIPPED,  OUTCOME_QUEUED, OUTCOME_PARKED};
    struct event events[N];
    struct batch b;
    (void)state;
    fill(&b, events, outcomes);
    struct tally t = outrider__tally_all(&b);
    assert_int_equal(t.n, N);
    assert_int_equal(t.parked, 2);
    assert_int_equal(tally_published(&t), 2);
    b.is_parked = true;
    assert_int_equal(outrider__tally_prefix(&b).n, N);
    b.n_settle = 3;
    assert_int_equal(outrider__tally_all(&b).n, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_outcome_changes_the_parked_rows_as_the_contract_says),
        cmocka_unit_test(a_parked_row_has_one_of_three_states),
        cmocka_unit_test(a_message_ends_before_what_is_no_text),
        cmocka_unit_test(an_event_without_a_failure_has_no_words_for_one),
        cmocka_unit_test(an_event_that_expired_says_so),
        cmocka_unit_test(an_empty_partition_key_is_a_key),
        cmocka_unit_test(a_delay_is_never_negative),
        cmocka_unit_test(a_position_never_passes_an_event_without_an_outcome),
        cmocka_unit_test(rows_that_stand_alone_are_all_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
