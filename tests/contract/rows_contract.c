/* SPDX-License-Identifier: MIT */
#include "contract/rows_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define HOUR_US 3600000000LL

static const struct source_fixture *fixture;

static int set_up(void **state)
{
    struct harness *h = malloc(sizeof *h);
    assert_non_null(h);
    harness_init(h, fixture);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    harness_release(*state);
    free(*state);
    return 0;
}

static int64_t in_an_hour(void)
{
    return outrider__clock_now().wall_us + HOUR_US;
}

static void reopen(struct harness *h)
{
    harness_close(h);
    harness_activate(h);
}

/* The first events of the batch get these outcomes; parked ones are due in an hour. */
static void settle_with(struct harness *h, const enum outcome *outcomes, size_t n)
{
    assert_true(h->batch.n >= n);
    for (size_t i = 0; i < n; i++)
        harness_decide(&h->batch.events[i], outcomes[i], in_an_hour());
    h->batch.n_settle = n;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
}

#define SETTLE(h, ...)                                        \
    settle_with(h, (const enum outcome[]){__VA_ARGS__},       \
                sizeof((const enum outcome[]){__VA_ARGS__}) / \
                    sizeof(enum outcome)) /* NOLINT(bugprone-sizeof-expression) */

/* Inserts n events of a key and fetches them; the first one fails, the others queue. */
static void fail_lane(struct harness *h, const char *key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        harness_insert(h, key);
    assert_int_equal(harness_fetch(h), n);
    for (size_t i = 0; i < n; i++)
        harness_decide(&h->batch.events[i], i == 0 ? OUTCOME_PARKED : OUTCOME_QUEUED, in_an_hour());
    h->batch.n_settle = n;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
}

/* (17) */
static void a_failed_row_holds_its_lane_back_until_it_is_due(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    fail_lane(h, "a", 2);
    harness_insert(h, "a");
    harness_insert(h, "b");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 3);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    reopen(h); /* it is the database that remembers */
    assert_int_equal(harness_fetch(h), 0);
    fixture->make_due();
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1, 2);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(h->batch.events[i].attempts, i == 0 ? 1 : 0);
        assert_false(h->batch.events[i].is_blocked);
        assert_false(h->batch.events[i].is_parked);
    }
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(fixture->count_parked(NULL), 0);
}

/* (17) */
static void a_failed_row_that_is_due_comes_without_being_asked_for(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    fail_lane(h, "a", 1);
    assert_int_equal(harness_fetch(h), 0);
    fixture->make_due();
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (!h->source->ready) {
        assert_true(outrider__clock_now().mono_us < deadline);
        assert_null(harness_poll(h));
        harness_pause(h);
    }
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0);
}

/* (17) */
static void there_are_no_parked_rows(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    fail_lane(h, "a", 2);
    fixture->make_due();
    assert_int_equal(harness_fetch_parked(h, CLOCK_NEVER - 1), 0);
    assert_true(h->source->parked_due_us == CLOCK_NEVER);
}

/* (17) */
static void attempts_are_counted_from_try_to_try(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    fail_lane(h, "a", 2);
    for (uint32_t n = 1; n < 4; n++) {
        fixture->make_due();
        if (n == 2)
            reopen(h);
        harness_fetch(h);
        ASSERT_NUMBERS(&h->batch, 0, 1);
        assert_int_equal(h->batch.events[0].attempts, n);
        assert_int_equal(h->batch.events[1].attempts, 0);
        SETTLE(h, OUTCOME_PARKED, OUTCOME_RELEASED);
        assert_int_equal(fixture->count_parked("parked"), 1);
        assert_int_equal(harness_fetch(h), 0);
    }
}

/* (17) */
static void what_is_released_or_queued_stays_as_it_was(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "b");
    assert_int_equal(harness_fetch(h), 2);
    SETTLE(h, OUTCOME_RELEASED, OUTCOME_QUEUED);
    assert_int_equal(fixture->count_parked(NULL), 0);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1);
    assert_int_equal(h->batch.events[0].attempts, 0);
    assert_int_equal(h->batch.events[1].attempts, 0);
}

/* (17) */
static void a_failed_row_that_is_released_has_failed_still(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    fail_lane(h, "a", 1);
    fixture->make_due();
    assert_int_equal(harness_fetch(h), 1);
    SETTLE(h, OUTCOME_RELEASED);
    reopen(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0);
    assert_int_equal(h->batch.events[0].attempts, 1);
}

/* (17) */
static void when_the_first_of_a_lane_leaves_the_next_comes_at_once(void **state)
{
    struct harness *h = *state;
    static const enum outcome leaves[] = {OUTCOME_DELIVERED, OUTCOME_EXPIRED, OUTCOME_SKIPPED,
                                          OUTCOME_DEAD};
    harness_activate(h);
    fail_lane(h, "a", 5);
    fixture->make_due();
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(harness_fetch(h), 5 - i);
        assert_int_equal(harness_number(&h->batch.events[0]), i);
        settle_with(h, &leaves[i], 1);
    }
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 4);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(fixture->count_parked("parked"), 0);
}

/* (17) */
static void a_dead_row_lets_its_lane_go_on_under_skip(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 2);
    SETTLE(h, OUTCOME_DEAD, OUTCOME_QUEUED);
    assert_int_equal(fixture->count_parked("dead"), 1);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 1);
}

/* (17) */
static void a_dead_row_holds_its_lane_under_block_until_the_rule_is_another(void **state)
{
    struct harness *h = *state;
    h->config.retry.on_dead = ON_DEAD_BLOCK;
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 2);
    SETTLE(h, OUTCOME_DEAD, OUTCOME_QUEUED);
    harness_insert(h, "a");
    harness_insert(h, "b");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 3);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    reopen(h);
    assert_int_equal(harness_fetch(h), 0);
    harness_close(h);
    h->config.retry.on_dead = ON_DEAD_SKIP; /* the operator changes the rule */
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 1, 2);
}

/* (17) */
static void without_order_failed_rows_of_a_key_do_not_wait_for_each_other(void **state)
{
    struct harness *h = *state;
    h->config.ordered = false;
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "a");
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 3);
    SETTLE(h, OUTCOME_PARKED, OUTCOME_DEAD, OUTCOME_RELEASED);
    harness_insert(h, "a");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 2, 3);
}

/* (17) */
static void a_failed_row_outlives_a_change_of_ordered(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    fail_lane(h, "a", 2);
    harness_close(h);
    h->config.ordered = false;
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 1); /* it waits for nobody now */
    SETTLE(h, OUTCOME_RELEASED);
    harness_close(h);
    h->config.ordered = true;
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 0);
    fixture->make_due();
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1);
}

/* (17) */
static void a_long_lane_that_failed_keeps_its_order_over_many_batches(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a"};
    harness_activate(h);
    harness_insert_many(h, 3 * HARNESS_BATCH, keys, 1);
    assert_int_equal(harness_fetch(h), HARNESS_BATCH);
    for (size_t i = 0; i < h->batch.n; i++)
        harness_decide(&h->batch.events[i], i == 0 ? OUTCOME_PARKED : OUTCOME_QUEUED, in_an_hour());
    h->batch.n_settle = h->batch.n;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    assert_int_equal(harness_fetch(h), 0);
    fixture->make_due();
    uint64_t next = 0;
    while (harness_fetch(h) > 0) {
        for (size_t i = 0; i < h->batch.n; i++)
            assert_int_equal(harness_number(&h->batch.events[i]), next++);
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    }
    assert_int_equal(next, 3 * HARNESS_BATCH);
}

/* (17) */
static void what_is_in_flight_is_not_returned_a_second_time(void **state)
{
    struct harness *h = *state;
    struct batch second;
    assert_int_equal(outrider__batch_init(&second, HARNESS_BATCH, 1 << 20, NULL), 0);
    harness_activate(h);
    fail_lane(h, "a", 2);
    fixture->make_due();
    assert_int_equal(harness_fetch(h), 2);
    assert_int_equal(harness_fetch_into(h, &second), 0);
    harness_insert(h, "a");
    harness_fetch_into(h, &second);
    ASSERT_NUMBERS(&second, 2);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_settle(h, &second, OUTCOME_DELIVERED);
    reopen(h);
    assert_int_equal(harness_fetch(h), 0);
    outrider__batch_release(&second);
}

/* (18) */
static void without_order_many_relays_share_the_rows(void **state)
{
    struct harness *h = *state;
    struct harness second;
    static const char *const keys[] = {"a"};
    if (!fixture->rows_can_be_claimed)
        skip();
    h->config.ordered = false;
    h->config.source.concurrency = 2;
    harness_init_second(&second, h, h->config.name);
    second.config.source.concurrency = 0;
    harness_insert_many(h, 5, keys, 1);
    harness_activate(h);
    harness_activate(&second);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1);
    harness_fetch(&second);
    ASSERT_NUMBERS(&second.batch, 2, 3, 4);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(harness_fetch(h), 0);
    harness_close(&second); /* what it had goes back */
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (harness_fetch(h) == 0) {
        assert_true(outrider__clock_now().mono_us < deadline);
        harness_pause(h);
    }
    ASSERT_NUMBERS(&h->batch, 2, 3);
    harness_release(&second);
}

/* (18) */
static void a_claim_that_was_lost_settles_nothing(void **state)
{
    struct harness *h = *state;
    struct harness second;
    if (!fixture->rows_can_be_claimed)
        skip();
    h->config.ordered = false;
    h->config.source.lease_us = 1; /* over as soon as it is taken */
    harness_init_second(&second, h, h->config.name);
    second.config.source.lease_us = HOUR_US;
    harness_insert(h, "a");
    harness_activate(h);
    harness_activate(&second);
    assert_int_equal(harness_fetch(h), 1);
    assert_int_equal(harness_fetch(&second), 1);
    harness_settle(h, &h->batch, OUTCOME_DEAD); /* too late: the row is the other's */
    assert_int_equal(fixture->count_parked(NULL), 0);
    harness_settle(&second, &second.batch, OUTCOME_RELEASED);
    harness_fetch(&second);
    ASSERT_NUMBERS(&second.batch, 0);
    harness_release(&second);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int rows_contract_run(const char *name, const struct source_fixture *f)
{
    const struct CMUnitTest tests[] = {
        T(a_failed_row_holds_its_lane_back_until_it_is_due),
        T(a_failed_row_that_is_due_comes_without_being_asked_for),
        T(there_are_no_parked_rows),
        T(attempts_are_counted_from_try_to_try),
        T(what_is_released_or_queued_stays_as_it_was),
        T(a_failed_row_that_is_released_has_failed_still),
        T(when_the_first_of_a_lane_leaves_the_next_comes_at_once),
        T(a_dead_row_lets_its_lane_go_on_under_skip),
        T(a_dead_row_holds_its_lane_under_block_until_the_rule_is_another),
        T(without_order_failed_rows_of_a_key_do_not_wait_for_each_other),
        T(a_failed_row_outlives_a_change_of_ordered),
        T(a_long_lane_that_failed_keeps_its_order_over_many_batches),
        T(what_is_in_flight_is_not_returned_a_second_time),
        T(without_order_many_relays_share_the_rows),
        T(a_claim_that_was_lost_settles_nothing),
    };
    fixture = f;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
