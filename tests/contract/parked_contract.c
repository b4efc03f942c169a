/* SPDX-License-Identifier: MIT */
#include "contract/parked_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

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

/* Parks the first event of a key's lane until due_us; the others queue behind it. */
static void park_lane(struct harness *h, const char *key, size_t n, int64_t due_us)
{
    for (size_t i = 0; i < n; i++)
        harness_insert(h, key);
    for (size_t i = 0; i < n;) {
        size_t first = i == 0 ? 0 : SIZE_MAX;
        harness_fetch_some(h, &h->batch);
        i += h->batch.n;
        assert_true(i <= n);
        for (size_t k = 0; k < h->batch.n; k++)
            harness_decide(&h->batch.events[k], k == first ? OUTCOME_PARKED : OUTCOME_QUEUED,
                           due_us);
        h->batch.n_settle = h->batch.n;
        harness_settle(h, &h->batch, OUTCOME_PENDING);
    }
}

/* (7) */
static void events_behind_a_parked_one_are_blocked_and_others_are_not(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    park_lane(h, "a", 1, CLOCK_NEVER - 1);
    harness_insert(h, "a");
    harness_insert(h, "b");
    assert_int_equal(harness_fetch(h), 2);
    assert_true(h->batch.events[0].is_blocked);
    assert_false(h->batch.events[1].is_blocked);
}

static void die_alone(struct harness *h, const char *key)
{
    harness_insert(h, key);
    assert_int_equal(harness_fetch(h), 1);
    harness_settle(h, &h->batch, OUTCOME_DEAD);
    assert_int_equal(h->fixture->count_parked("dead"), 1);
    harness_insert(h, key);
    assert_int_equal(harness_fetch(h), 1);
}

/* (7) */
static void a_dead_letter_does_not_block_its_lane_under_skip(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    die_alone(h, "a");
    assert_false(h->batch.events[0].is_blocked);
}

/* (7) */
static void a_dead_letter_blocks_its_lane_under_block(void **state)
{
    struct harness *h = *state;
    h->config.retry.on_dead = ON_DEAD_BLOCK;
    harness_activate(h);
    die_alone(h, "a");
    assert_true(h->batch.events[0].is_blocked);
    harness_settle(h, &h->batch, OUTCOME_QUEUED);
    assert_int_equal(h->fixture->count_parked("queued"), 1);
    assert_int_equal(harness_fetch_parked(h, CLOCK_NEVER - 1), 0);
    assert_true(h->source->parked_due_us == CLOCK_NEVER);
}

/* (8) */
static void parked_rows_come_when_due_with_those_behind_them_in_order(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    park_lane(h, "a", 3, 1000);
    park_lane(h, "b", 2, 2000);
    assert_int_equal(h->source->parked_due_us, 1000);
    assert_int_equal(harness_fetch_parked(h, 999), 0);
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 0, 1, 2);
    assert_true(h->parked.is_parked);
    assert_true(h->parked.events[0].is_parked);
    assert_int_equal(h->parked.events[0].attempts, 1);
    assert_int_equal(h->parked.events[1].attempts, 0);
    harness_fetch_parked(h, 2000);
    ASSERT_NUMBERS(&h->parked, 0, 1, 2, 3, 4);
}

/* (8) */
static void what_is_released_stays_as_it_was(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    park_lane(h, "a", 3, 1000);
    assert_int_equal(harness_fetch_parked(h, 1000), 3);
    harness_decide(&h->parked.events[0], OUTCOME_PARKED, 5000);
    harness_decide(&h->parked.events[1], OUTCOME_RELEASED, 0);
    harness_decide(&h->parked.events[2], OUTCOME_RELEASED, 0);
    h->parked.n_settle = 3;
    harness_settle(h, &h->parked, OUTCOME_PENDING);
    assert_int_equal(h->source->parked_due_us, 5000);
    assert_int_equal(harness_fetch_parked(h, 4999), 0);
    harness_fetch_parked(h, 5000);
    ASSERT_NUMBERS(&h->parked, 0, 1, 2);
    assert_int_equal(h->parked.events[0].attempts, 2);
    assert_int_equal(h->parked.events[1].attempts, 0);
}

/* (8) */
static void when_the_first_of_a_lane_leaves_the_next_is_due_at_once(void **state)
{
    struct harness *h = *state;
    static const enum outcome leaves[] = {OUTCOME_DELIVERED, OUTCOME_EXPIRED, OUTCOME_SKIPPED,
                                          OUTCOME_DEAD};
    harness_activate(h);
    park_lane(h, "a", 5, 1000);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(harness_fetch_parked(h, 1000), 5 - i);
        assert_int_equal(harness_number(&h->parked.events[0]), i);
        harness_decide(&h->parked.events[0], leaves[i], 0);
        h->parked.n_settle = 1;
        harness_settle(h, &h->parked, OUTCOME_PENDING);
        assert_true(h->source->parked_due_us <= 1000);
    }
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 4);
    harness_settle(h, &h->parked, OUTCOME_DELIVERED);
    assert_true(h->source->parked_due_us == CLOCK_NEVER);
    assert_int_equal(h->fixture->count_parked(NULL), 1); /* the dead one */
}

/* (8) */
static void a_parked_event_that_dies_under_block_keeps_its_lane(void **state)
{
    struct harness *h = *state;
    h->config.retry.on_dead = ON_DEAD_BLOCK;
    harness_activate(h);
    park_lane(h, "a", 2, 1000);
    assert_int_equal(harness_fetch_parked(h, 1000), 2);
    harness_decide(&h->parked.events[0], OUTCOME_DEAD, 0);
    harness_decide(&h->parked.events[1], OUTCOME_RELEASED, 0);
    h->parked.n_settle = 2;
    harness_settle(h, &h->parked, OUTCOME_PENDING);
    assert_int_equal(harness_fetch_parked(h, CLOCK_NEVER - 1), 0);
    assert_int_equal(h->fixture->count_parked("queued"), 1);
    harness_close(h);
    h->config.retry.on_dead = ON_DEAD_SKIP; /* the operator changes the rule */
    harness_activate(h);
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 1);
}

/* (8) */
static void a_dead_letter_within_a_lane_keeps_those_behind_it_under_block(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    park_lane(h, "a", 3, 1000);
    assert_int_equal(harness_fetch_parked(h, 1000), 3);
    harness_decide(&h->parked.events[0], OUTCOME_RELEASED, 0);
    harness_decide(&h->parked.events[1], OUTCOME_DEAD, 0);
    harness_decide(&h->parked.events[2], OUTCOME_RELEASED, 0);
    h->parked.n_settle = 3;
    harness_settle(h, &h->parked, OUTCOME_PENDING);
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 0, 2);
    harness_close(h);
    h->config.retry.on_dead = ON_DEAD_BLOCK;
    harness_activate(h);
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 0);
    harness_settle(h, &h->parked, OUTCOME_DELIVERED);
    assert_int_equal(harness_fetch_parked(h, CLOCK_NEVER - 1), 0);
    assert_int_equal(h->fixture->count_parked("queued"), 1);
}

/* (8) */
static void a_key_of_any_length_has_a_lane_of_its_own(void **state)
{
    struct harness *h = *state;
    char one[9001], other[9001];
    unsigned int noise = 1;
    if ((fixture->lacks & FIELD_LONG_KEY) != 0)
        skip();
    for (size_t i = 0; i < sizeof one - 1; i++) { /* nothing that could be compressed */
        noise = noise * 1103515245U + 12345U;
        one[i] = other[i] = (char)('!' + 1 + noise / 65536U % 80U);
        if (one[i] == '\'' || one[i] == '\\')
            one[i] = other[i] = 'x';
    }
    one[sizeof one - 1] = other[sizeof other - 1] = '\0';
    other[sizeof other - 2] = '~';
    harness_activate(h);
    park_lane(h, one, 2, 1000);
    harness_insert(h, one);
    harness_fetch_some(h, &h->batch);
    assert_true(h->batch.events[0].is_blocked);
    harness_settle(h, &h->batch, OUTCOME_QUEUED);
    harness_insert(h, other);
    harness_fetch_some(h, &h->batch);
    assert_false(h->batch.events[0].is_blocked);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 0, 1, 2);
}

/* (8) */
static void
an_event_that_must_queue_behind_a_lane_that_is_empty_by_then_is_due_at_once(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    park_lane(h, "a", 1, 1000);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    assert_true(h->batch.events[0].is_blocked);
    assert_int_equal(harness_fetch_parked(h, 1000), 1);
    harness_settle(h, &h->parked, OUTCOME_DELIVERED);
    harness_settle(h, &h->batch, OUTCOME_QUEUED);
    assert_true(h->source->parked_due_us <= 1000);
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 1);
}

/* (8) */
static void parked_rows_outlive_a_change_of_ordered(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    park_lane(h, "a", 2, 1000);
    harness_close(h);
    h->config.ordered = false;
    harness_activate(h);
    assert_int_equal(harness_fetch_parked(h, 1000), 2);
    harness_decide(&h->parked.events[0], OUTCOME_PARKED, 2000);
    harness_decide(&h->parked.events[1], OUTCOME_PARKED, 3000);
    h->parked.n_settle = 2;
    harness_settle(h, &h->parked, OUTCOME_PENDING);
    assert_int_equal(h->source->parked_due_us, 2000);
    harness_fetch_parked(h, 2000);
    ASSERT_NUMBERS(&h->parked, 0, 1);
    harness_settle(h, &h->parked, OUTCOME_DELIVERED);
    assert_int_equal(h->fixture->count_parked(NULL), 0);
}

/* (8) */
static void without_order_parked_events_of_a_key_do_not_wait_for_each_other(void **state)
{
    struct harness *h = *state;
    h->config.ordered = false;
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 2);
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 5000);
    harness_decide(&h->batch.events[1], OUTCOME_PARKED, 1000);
    h->batch.n_settle = 2;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 1);
}

/* (8) */
static void an_event_parked_behind_a_parked_one_waits_for_it(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    park_lane(h, "a", 1, 5000);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 1000);
    h->batch.n_settle = 1;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    assert_int_equal(h->source->parked_due_us, 5000);
    assert_int_equal(harness_fetch_parked(h, 4000), 0);
    harness_fetch_parked(h, 5000);
    ASSERT_NUMBERS(&h->parked, 0, 1);
    assert_int_equal(h->parked.events[1].attempts, 1);
}

/* (8) */
static void a_long_lane_keeps_its_order_over_many_batches_and_others_get_their_turn(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a"};
    harness_activate(h);
    for (int i = 0; i < 4; i++) {
        harness_insert_many(h, HARNESS_BATCH, keys, 1);
        assert_int_equal(harness_fetch(h), HARNESS_BATCH);
        for (size_t k = 0; k < h->batch.n; k++)
            harness_decide(&h->batch.events[k], i + k == 0 ? OUTCOME_PARKED : OUTCOME_QUEUED, 1);
        h->batch.n_settle = h->batch.n;
        harness_settle(h, &h->batch, OUTCOME_PENDING);
    }
    park_lane(h, "b", 1, 2);
    uint64_t next = 0;
    bool b_came = false;
    while (harness_fetch_parked(h, 1000) > 0) {
        for (size_t i = 0; i < h->parked.n; i++) {
            if (bytes_eq_str(h->parked.events[i].aggregate_id, "b"))
                b_came = true;
            else
                assert_int_equal(harness_number(&h->parked.events[i]), next++);
        }
        if (next <= HARNESS_BATCH)
            assert_true(b_came);
        harness_settle(h, &h->parked, OUTCOME_DELIVERED);
    }
    assert_int_equal(next, 4 * HARNESS_BATCH);
    assert_int_equal(h->fixture->count_parked(NULL), 0);
}

/* (2), (8) */
static void parked_rows_survive_a_restart(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    park_lane(h, "a", 2, 1000);
    harness_close(h);
    harness_activate(h);
    assert_int_equal(h->source->parked_due_us, 1000);
    assert_int_equal(harness_fetch(h), 0);
    harness_fetch_parked(h, 1000);
    ASSERT_NUMBERS(&h->parked, 0, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int parked_contract_run(const char *name, const struct source_fixture *f)
{
    const struct CMUnitTest tests[] = {
        T(events_behind_a_parked_one_are_blocked_and_others_are_not),
        T(a_dead_letter_does_not_block_its_lane_under_skip),
        T(a_dead_letter_blocks_its_lane_under_block),
        T(parked_rows_come_when_due_with_those_behind_them_in_order),
        T(what_is_released_stays_as_it_was),
        T(when_the_first_of_a_lane_leaves_the_next_is_due_at_once),
        T(a_parked_event_that_dies_under_block_keeps_its_lane),
        T(a_dead_letter_within_a_lane_keeps_those_behind_it_under_block),
        T(a_key_of_any_length_has_a_lane_of_its_own),
        T(an_event_that_must_queue_behind_a_lane_that_is_empty_by_then_is_due_at_once),
        T(parked_rows_outlive_a_change_of_ordered),
        T(without_order_parked_events_of_a_key_do_not_wait_for_each_other),
        T(an_event_parked_behind_a_parked_one_waits_for_it),
        T(a_long_lane_keeps_its_order_over_many_batches_and_others_get_their_turn),
        T(parked_rows_survive_a_restart),
    };
    fixture = f;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
