/* SPDX-License-Identifier: MIT */
#include "core/batch_counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define EVENTS 1000

static struct batch batch;
static struct batch_counts counts;
static char names[EVENTS][24];

static int set_up(void **state)
{
    (void)state;
    return outrider__batch_init(&batch, EVENTS, 1 << 20, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    outrider__batch_release(&batch);
    return 0;
}

static void add(const char *aggregate_type, const char *event_type, enum outcome outcome)
{
    struct event *e = outrider__batch_slot(&batch);
    assert_non_null(e);
    e->aggregate_type = bytes_str(aggregate_type);
    e->event_type = bytes_str(event_type);
    e->outcome = outcome;
    batch.n_settle = ++batch.n;
}

static void events_are_counted_by_both_types_and_outcome(void **state)
{
    (void)state;
    add("order", "Made", OUTCOME_DELIVERED);
    add("order", "Paid", OUTCOME_DELIVERED);
    add("bill", "Made", OUTCOME_PARKED);
    add("order", "Made", OUTCOME_DELIVERED);
    add("order", "Made", OUTCOME_DEAD);
    outrider__batch_count(&batch, &counts);
    assert_int_equal(counts.n_kinds, 3);
    assert_true(bytes_eq_str(counts.kinds[0].aggregate_type, "order"));
    assert_true(bytes_eq_str(counts.kinds[0].event_type, "Made"));
    assert_int_equal(counts.kinds[0].outcomes[OUTCOME_DELIVERED], 2);
    assert_int_equal(counts.kinds[0].outcomes[OUTCOME_DEAD], 1);
    assert_int_equal(counts.kinds[1].outcomes[OUTCOME_DELIVERED], 1);
    assert_true(bytes_eq_str(counts.kinds[2].aggregate_type, "bill"));
    assert_int_equal(counts.kinds[2].outcomes[OUTCOME_PARKED], 1);
    assert_false(counts.is_parked);
}

static void what_is_not_settled_is_not_counted(void **state)
{
    (void)state;
    add("order", "Made", OUTCOME_DELIVERED);
    add("order", "Made", OUTCOME_PENDING);
    batch.n_settle = 1;
    batch.is_parked = true;
    outrider__batch_count(&batch, &counts);
    assert_int_equal(counts.n_kinds, 1);
    assert_int_equal(counts.kinds[0].outcomes[OUTCOME_PENDING], 0);
    assert_true(counts.is_parked);
    batch.n_settle = 0;
    outrider__batch_count(&batch, &counts);
    assert_int_equal(counts.n_kinds, 0);
}

static void kinds_beyond_the_bound_are_counted_together(void **state)
{
    (void)state;
    for (int i = 0; i < EVENTS; i++) {
        (void)snprintf(names[i], sizeof names[i], "type-%d", i / 2);
        add("order", names[i], OUTCOME_DELIVERED);
    }
    outrider__batch_count(&batch, &counts);
    assert_int_equal(counts.n_kinds, BATCH_KINDS);
    uint64_t sum = counts.others.outcomes[OUTCOME_DELIVERED];
    assert_int_equal(sum, EVENTS - 2 * BATCH_KINDS);
    for (size_t i = 0; i < counts.n_kinds; i++)
        sum += counts.kinds[i].outcomes[OUTCOME_DELIVERED];
    assert_int_equal(sum, EVENTS);
    assert_true(bytes_is_null(counts.others.event_type));
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(events_are_counted_by_both_types_and_outcome),
        T(what_is_not_settled_is_not_counted),
        T(kinds_beyond_the_bound_are_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
