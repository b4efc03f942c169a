/* SPDX-License-Identifier: MIT */
#include "contract/intent_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct source_fixture *fixture;
static const struct commit_mark none = {0}, first = {1, 4711}, second = {2, 4712};

static int set_up(void **state)
{
    struct harness *h = malloc(sizeof *h);
    assert_non_null(h);
    harness_init(h, fixture);
    h->config.exactly_once = true;
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    harness_release(*state);
    free(*state);
    return 0;
}

static int change(struct harness *h, enum source_op_kind kind, struct batch *settled,
                  struct batch *intent, struct commit_mark p, struct outrider_error *err)
{
    struct source_op op = {.kind = kind,
                           .batch = settled,
                           .intent = intent,
                           .progress = p,
                           .verdict =
                               outrider__progress_judge(h->source->saved, h->source->has_intent, p),
                           .now_wall_us = outrider__clock_now().wall_us};
    return harness_do(h, &op, err);
}

static void must(struct harness *h, enum source_op_kind kind, struct batch *settled,
                 struct batch *intent, struct commit_mark p)
{
    struct outrider_error err = {0};
    if (change(h, kind, settled, intent, p, &err) < 0)
        fail_msg("operation %d: %s", kind, err.message);
}

static void assert_saved(const struct harness *h, struct commit_mark p, bool has_intent)
{
    assert_true(progress_is(h->source->saved, p));
    assert_int_equal(h->source->has_intent, has_intent);
}

static void reopen(struct harness *h)
{
    harness_close(h);
    harness_activate(h);
}

/* Five events of two keys: one delivered, one parked with one behind it, a dead
 * one, and one more delivered; intended as `first`. */
static void intend(struct harness *h)
{
    harness_insert_many(h, 5, (const char *[]){"a", "b", "b", "c", "a"}, 5);
    assert_int_equal(harness_fetch(h), 5);
    struct event *e = h->batch.events;
    harness_decide(&e[0], OUTCOME_DELIVERED, 0);
    harness_decide(&e[1], OUTCOME_PARKED, 1000);
    harness_decide(&e[2], OUTCOME_QUEUED, 0);
    harness_decide(&e[3], OUTCOME_DEAD, 0);
    harness_decide(&e[4], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = h->batch.n;
    must(h, SOURCE_INTENT, NULL, &h->batch, first);
}

/* Of intend(): what was parked, what died and, where it has a row of its own, what queues. */
static int64_t n_failed(void)
{
    return fixture->rows_carry_state ? 2 : 3;
}

static void assert_settled_as_intended(struct harness *h)
{
    assert_int_equal(fixture->count_parked("parked"), 1);
    assert_int_equal(fixture->count_parked("dead"), 1);
    assert_int_equal(fixture->count_parked(NULL), n_failed());
    if (!fixture->rows_carry_state)
        assert_int_equal(harness_fetch(h), 0);
    assert_int_equal(harness_fetch_failed(h), 2);
    assert_int_equal(harness_number(&h->parked.events[0]), 1);
    assert_int_equal(h->parked.events[0].attempts, 1);
    assert_int_equal(harness_number(&h->parked.events[1]), 2);
    assert_int_equal(h->parked.events[1].attempts, 0);
}

static void a_fresh_pipeline_has_a_name_and_no_intent_10(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    assert_saved(h, none, false);
    assert_true(strlen(h->source->identity) > 8);
    char before[sizeof h->source->identity];
    memcpy(before, h->source->identity, sizeof before);
    reopen(h);
    assert_string_equal(h->source->identity, before);
}

static void an_intent_settles_nothing_by_itself_11(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    intend(h);
    assert_saved(h, first, true);
    assert_int_equal(fixture->count_parked(NULL), 0);
    reopen(h);
    assert_saved(h, first, true);
}

static void the_next_intent_settles_the_one_before_11(void **state)
{
    struct harness *h = *state;
    struct batch more;
    harness_activate(h);
    intend(h);
    assert_int_equal(outrider__batch_init(&more, HARNESS_BATCH, 1 << 20, NULL), 0);
    harness_insert(h, "d");
    assert_int_equal(harness_fetch_into(h, &more), 1);
    harness_decide(&more.events[0], OUTCOME_DELIVERED, 0);
    more.n_settle = more.n;
    must(h, SOURCE_INTENT, &h->batch, &more, second);
    assert_saved(h, second, true);
    assert_int_equal(fixture->count_parked(NULL), n_failed());
    /* The second one never was committed: its event comes again, and no other. */
    reopen(h);
    must(h, SOURCE_RECALL, NULL, NULL, first);
    assert_saved(h, first, false);
    assert_int_equal(harness_fetch(h), fixture->rows_carry_state ? 3 : 1); /* and what failed */
    assert_int_equal(harness_number(&h->batch.events[h->batch.n - 1]), 5);
    outrider__batch_release(&more);
}

static void the_last_intent_is_settled_alone_11(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    intend(h);
    must(h, SOURCE_INTENT, &h->batch, NULL, none);
    assert_saved(h, first, false);
    reopen(h);
    assert_saved(h, first, false);
    assert_settled_as_intended(h);
}

static void an_intent_that_is_saved_over_is_dropped_11(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    intend(h);
    for (size_t i = 0; i < h->batch.n; i++)
        harness_decide(&h->batch.events[i], OUTCOME_DELIVERED, 0);
    must(h, SOURCE_INTENT, NULL, &h->batch, (struct commit_mark){1, 99});
    reopen(h);
    must(h, SOURCE_RECALL, NULL, NULL, (struct commit_mark){1, 99});
    reopen(h);
    assert_int_equal(fixture->count_parked(NULL), 0);
    assert_int_equal(harness_fetch(h), 0);
}

static void a_committed_intent_is_settled_after_a_crash_12(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    intend(h);
    reopen(h);
    must(h, SOURCE_RECALL, NULL, NULL, first);
    reopen(h);
    assert_saved(h, first, false);
    assert_settled_as_intended(h);
}

static void an_intent_that_was_not_committed_is_dropped_12(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    intend(h);
    reopen(h);
    must(h, SOURCE_RECALL, NULL, NULL, none);
    assert_saved(h, none, false);
    assert_int_equal(harness_fetch(h), 5);
    assert_int_equal(fixture->count_parked(NULL), 0);
}

static void what_does_not_fit_is_left_alone_12(void **state)
{
    static const struct commit_mark strange[] = {{1, 4712}, {2, 4711}, {7, 7}};
    struct harness *h = *state;
    harness_activate(h);
    intend(h);
    reopen(h);
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        must(h, SOURCE_RECALL, NULL, NULL, strange[i]);
        assert_saved(h, first, true);
    }
    reopen(h);
    assert_saved(h, first, true);
    assert_int_equal(fixture->count_parked(NULL), 0);
}

static void parked_rows_leave_with_the_intent_that_delivered_them_11_12(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    intend(h);
    must(h, SOURCE_INTENT, &h->batch, NULL, none);
    assert_int_equal(harness_fetch_failed(h), 2);
    harness_decide(&h->parked.events[0], OUTCOME_DELIVERED, 0);
    harness_decide(&h->parked.events[1], OUTCOME_PARKED, 2000);
    h->parked.n_settle = 2;
    must(h, SOURCE_INTENT, NULL, &h->parked, second);
    assert_int_equal(fixture->count_parked(NULL), n_failed());
    reopen(h);
    must(h, SOURCE_RECALL, NULL, NULL, second);
    reopen(h);
    assert_int_equal(fixture->count_parked(NULL), 2);
    assert_int_equal(harness_fetch_failed(h), 1);
    assert_int_equal(harness_number(&h->parked.events[0]), 2);
    assert_int_equal(h->parked.events[0].attempts, 1);
}

static void a_relay_that_lost_its_pipeline_can_do_neither_13(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_activate(h);
    intend(h);
    fixture->take_over("default");
    assert_int_equal(change(h, SOURCE_INTENT, &h->batch, NULL, none, &err), -1);
    assert_int_equal(err.code, OUTRIDER_FENCED);
    static const struct commit_mark told[] = {{1, 4711}, {0, 0}, {9, 9}};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        reopen(h);
        fixture->take_over("default");
        assert_int_equal(change(h, SOURCE_RECALL, NULL, NULL, told[i], &err), -1);
        assert_int_equal(err.code, OUTRIDER_FENCED);
    }
    reopen(h);
    assert_saved(h, first, true);
}

/* Opens the source, which must be refused for good before it is active. */
static void assert_refused(struct harness *h, enum outrider_code code)
{
    struct outrider_error err = {0};
    struct source_op *done;
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    if (harness_open(h, &err) == 0) {
        while (h->source->ops->poll(h->source, outrider__clock_now(), &done, &err) == 0) {
            assert_false(h->source->active);
            assert_true(outrider__clock_now().mono_us < deadline);
            harness_pause(h);
        }
    }
    assert_int_equal(err.code, code);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
}

static void an_intent_is_not_passed_over_without_exactly_once_13(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    intend(h);
    harness_close(h);
    h->config.exactly_once = false;
    assert_refused(h, OUTRIDER_CONFIG);
}

static void a_way_of_reading_that_keeps_no_intents_refuses_exactly_once_10(void **state)
{
    struct harness *h = *state;
    harness_insert(h, "a");
    assert_refused(h, OUTRIDER_UNSUPPORTED);
    harness_close(h);
    h->config.exactly_once = false;
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
}

#define ROW(test)                                                                            \
    {                                                                                        \
        .name = #test, .test_func = (test), .setup_func = set_up, .teardown_func = tear_down \
    }

int intent_contract_run(const char *name, const struct source_fixture *f)
{
    const struct CMUnitTest tests[] = {
        ROW(a_fresh_pipeline_has_a_name_and_no_intent_10),
        ROW(an_intent_settles_nothing_by_itself_11),
        ROW(the_next_intent_settles_the_one_before_11),
        ROW(the_last_intent_is_settled_alone_11),
        ROW(an_intent_that_is_saved_over_is_dropped_11),
        ROW(a_committed_intent_is_settled_after_a_crash_12),
        ROW(an_intent_that_was_not_committed_is_dropped_12),
        ROW(what_does_not_fit_is_left_alone_12),
        ROW(parked_rows_leave_with_the_intent_that_delivered_them_11_12),
        ROW(a_relay_that_lost_its_pipeline_can_do_neither_13),
        ROW(an_intent_is_not_passed_over_without_exactly_once_13),
    };
    const struct CMUnitTest refusals[] = {
        ROW(a_way_of_reading_that_keeps_no_intents_refuses_exactly_once_10),
    };
    fixture = f;
    if (f->refuses_intents)
        return cmocka_run_group_tests_name(name, refusals, NULL, NULL);
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
