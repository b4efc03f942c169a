/* SPDX-License-Identifier: MIT */
#include "contract/source_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define HOUR_US 3600000000LL
#define DAY_US (24 * HOUR_US)

static bool is_active(const struct source *s)
{
    return s->active;
}

static bool is_ready(const struct source *s)
{
    return s->ready;
}

static void settle_as_is(struct harness *h, struct batch *b)
{
    harness_must_do(h, &(struct source_op){.kind = SOURCE_SETTLE,
                                           .batch = b,
                                           .now_wall_us = outrider__clock_now().wall_us});
}

static void assert_numbers(const struct batch *b, const uint64_t *numbers, size_t n)
{
    assert_int_equal(b->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(harness_number(&b->events[i]), numbers[i]);
}

#define ASSERT_NUMBERS(b, ...)                         \
    assert_numbers(b, (const uint64_t[]){__VA_ARGS__}, \
                   sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

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
    assert_int_equal(harness_fetch(h), n);
    for (size_t i = 0; i < n; i++)
        harness_decide(&h->batch.events[i], i == 0 ? OUTCOME_PARKED : OUTCOME_QUEUED, due_us);
    h->batch.n_settle = n;
    settle_as_is(h, &h->batch);
}

/* (1) */
static void events_come_in_the_order_of_their_commits(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b", "c"};
    harness_activate(h);
    for (int i = 0; i < 5; i++)
        harness_insert_many(h, 20, keys, 3);
    uint64_t n = 0;
    while (harness_fetch(h) > 0)
        for (size_t i = 0; i < h->batch.n; i++)
            assert_int_equal(harness_number(&h->batch.events[i]), n++);
    assert_int_equal(n, 100);
    assert_false(h->source->ready);
}

/* (1) */
static void a_rolled_back_event_is_never_returned(void **state)
{
    struct harness *h = *state;
    const char *key = "a";
    harness_activate(h);
    harness_insert(h, "a");
    harness_write(h, 3, &key, 1, false);
    harness_insert(h, "a");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1);
}

/* (1) */
static void an_event_of_an_open_transaction_is_not_seen_before_its_commit(void **state)
{
    struct harness *h = *state;
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = e.aggregate_id = e.event_type = "x";
    e.payload = "{\"n\":7}";
    e.payload_len = 7;
    harness_activate(h);
    h->fixture->insert(&e, 1);
    assert_int_equal(harness_fetch(h), 0);
    h->fixture->finish(true);
    harness_wait(h, is_ready);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 7);
}

/* (2) */
static void an_event_is_returned_until_it_is_settled(void **state)
{
    struct harness *h = *state;
    harness_insert(h, "a");
    harness_insert(h, "b");
    for (int i = 0; i < 3; i++) {
        harness_activate(h);
        harness_fetch(h);
        ASSERT_NUMBERS(&h->batch, 0, 1);
        harness_close(h); /* as after a crash */
    }
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 2);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(harness_fetch(h), 0);
    harness_close(h);
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 0);
    harness_insert(h, "a");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 2);
}

/* (2) */
static void fetching_runs_ahead_of_settling(void **state)
{
    struct harness *h = *state;
    struct batch second;
    assert_int_equal(outrider__batch_init(&second, HARNESS_BATCH, 1 << 20, NULL), 0);
    harness_activate(h);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    harness_insert(h, "a");
    harness_must_do(h, &(struct source_op){.kind = SOURCE_FETCH, .batch = &second});
    ASSERT_NUMBERS(&second, 1);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_close(h); /* the second batch was never settled */
    outrider__batch_release(&second);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 1);
}

/* (3) */
static void settling_the_front_of_a_batch_keeps_the_rest(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b"};
    harness_activate(h);
    harness_insert_many(h, 6, keys, 2);
    assert_int_equal(harness_fetch(h), 6);
    for (size_t i = 0; i < 4; i++)
        harness_decide(&h->batch.events[i], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 4;
    settle_as_is(h, &h->batch);
    harness_close(h);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 4, 5);
}

/* (3), (6) */
static void a_relay_that_was_taken_over_settles_nothing(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "b");
    assert_int_equal(harness_fetch(h), 2);
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 1);
    harness_decide(&h->batch.events[1], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 2;
    h->fixture->take_over("default");
    struct source_op op = {.kind = SOURCE_SETTLE, .batch = &h->batch, .now_wall_us = 1};
    assert_int_equal(harness_do(h, &op, &err), -1);
    assert_int_equal(err.code, OUTRIDER_FENCED);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    assert_int_equal(h->fixture->count_parked(NULL), 0);
    harness_close(h);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1);
}

/* (4) */
static void operations_complete_in_the_order_in_which_they_were_started(void **state)
{
    struct harness *h = *state;
    struct source *s;
    struct outrider_error err = {0};
    harness_activate(h);
    s = h->source;
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    harness_decide(&h->batch.events[0], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 1;
    outrider__batch_reset(&h->parked);
    struct source_op ops[] = {
        {.kind = SOURCE_SETTLE, .batch = &h->batch, .now_wall_us = 1},
        {.kind = SOURCE_MARK},
        {.kind = SOURCE_FETCH_PARKED, .batch = &h->parked, .now_wall_us = 1},
        {.kind = SOURCE_CLEANUP, .now_wall_us = 1},
    };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(s->ops->start(s, &ops[i], &err), 0);
    size_t n = 0;
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (n < 4 && outrider__clock_now().mono_us < deadline) {
        struct source_op *done = harness_poll(h);
        if (done != NULL)
            assert_ptr_equal(done, &ops[n++]);
        else
            harness_pause(h);
    }
    assert_int_equal(n, 4);
}

/* (5), (9) */
static void close_is_legal_with_operations_under_way_and_after_a_failed_open(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_activate(h);
    harness_insert(h, "a");
    outrider__batch_reset(&h->batch);
    struct source_op op = {.kind = SOURCE_FETCH, .batch = &h->batch};
    assert_int_equal(h->source->ops->start(h->source, &op, &err), 0);
    harness_close(h);
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    harness_close(h);
    h->config.source.url = h->fixture->bad_url;
    assert_int_equal(harness_open(h, &err), -1);
    assert_true(strlen(err.message) > 0);
}

static bool is_waiting(const struct source *s)
{
    return s->waiting_for[0] != '\0';
}

/* (6) */
static void a_second_relay_stands_by_until_the_first_one_ends(void **state)
{
    struct harness *h = *state;
    struct harness second = {.fixture = h->fixture, .config = h->config};
    struct outrider_error err = {0};
    harness_insert(h, "a");
    harness_activate(h);
    assert_int_equal(harness_open(&second, &err), 0);
    harness_wait(&second, is_waiting);
    assert_false(second.source->active);
    struct source_op op = {.kind = SOURCE_FETCH, .batch = &h->batch};
    assert_int_equal(second.source->ops->start(second.source, &op, &err), -1);
    assert_int_equal(err.code, OUTRIDER_STANDBY);
    harness_close(h);
    harness_wait(&second, is_active);
    outrider__batch_reset(&h->batch);
    harness_must_do(&second, &op);
    ASSERT_NUMBERS(&h->batch, 0);
    harness_close(&second);
}

/* (6) */
static void pipelines_of_other_names_have_cursors_of_their_own(void **state)
{
    struct harness *h = *state;
    struct harness other = {.fixture = h->fixture, .config = h->config};
    other.config.name = "other";
    harness_insert(h, "a");
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_activate(&other);
    outrider__batch_reset(&h->parked);
    harness_must_do(&other, &(struct source_op){.kind = SOURCE_FETCH, .batch = &h->parked});
    ASSERT_NUMBERS(&h->parked, 0);
    harness_close(&other);
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
    settle_as_is(h, &h->parked);
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
        settle_as_is(h, &h->parked);
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
    settle_as_is(h, &h->parked);
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
    settle_as_is(h, &h->parked);
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
    harness_insert(h, other);
    assert_int_equal(harness_fetch(h), 2);
    assert_true(h->batch.events[0].is_blocked);
    assert_false(h->batch.events[1].is_blocked);
    harness_decide(&h->batch.events[0], OUTCOME_QUEUED, 0);
    harness_decide(&h->batch.events[1], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 2;
    settle_as_is(h, &h->batch);
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
    settle_as_is(h, &h->parked);
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
    settle_as_is(h, &h->batch);
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
    settle_as_is(h, &h->batch);
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
        settle_as_is(h, &h->batch);
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

static void the_mark_is_reached_when_all_that_was_committed_is_fetched(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b"};
    harness_activate(h);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_MARK});
    assert_true(h->source->mark_reached);
    harness_close(h);
    harness_insert_many(h, HARNESS_BATCH + 1, keys, 2);
    harness_activate(h);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_MARK});
    assert_false(h->source->mark_reached);
    assert_true(h->source->ready);
    harness_insert(h, "a"); /* after the mark: need not be waited for */
    assert_int_equal(harness_fetch(h), HARNESS_BATCH);
    assert_false(h->source->mark_reached);
    assert_true(harness_fetch(h) >= 1);
    assert_true(h->source->mark_reached);
}

static void an_empty_outbox_is_no_error(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 0);
    assert_false(h->source->ready);
    assert_int_equal(harness_fetch_parked(h, CLOCK_NEVER - 1), 0);
    assert_true(h->source->parked_due_us == CLOCK_NEVER);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_insert(h, "a");
    harness_wait(h, is_ready);
    assert_int_equal(harness_fetch(h), 1);
}

static uint64_t clean_up(struct harness *h, bool *ret_more)
{
    struct source_op op = {.kind = SOURCE_CLEANUP, .now_wall_us = outrider__clock_now().wall_us};
    harness_must_do(h, &op);
    *ret_more = op.more;
    return op.removed;
}

static void clean_up_removes_what_is_settled_and_old_in_portions(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b"};
    bool more;
    harness_activate(h);
    harness_insert_many(h, 25, keys, 2);
    assert_int_equal(harness_fetch(h), 25);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(clean_up(h, &more), 0); /* settled, but young */
    assert_false(more);
    h->fixture->age_outbox(2 * DAY_US);
    assert_int_equal(clean_up(h, &more), 10);
    assert_true(more);
    while (more)
        (void)clean_up(h, &more);
    assert_true(h->fixture->count_outbox() <= 1); /* a source may keep its anchor */
    harness_insert(h, "a");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 25);
    harness_close(h);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 25);
}

static void clean_up_never_removes_what_is_not_settled(void **state)
{
    struct harness *h = *state;
    struct harness other = {.fixture = h->fixture, .config = h->config};
    static const char *const keys[] = {"a", "b"};
    bool more = true;
    other.config.name = "other";
    harness_insert_many(h, 8, keys, 2);
    h->fixture->age_outbox(2 * DAY_US);
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 8);
    while (more)
        assert_int_equal(clean_up(h, &more), 0); /* read, not settled */
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_activate(&other);
    more = true;
    while (more)
        assert_int_equal(clean_up(h, &more), 0); /* the other pipeline has settled nothing */
    outrider__batch_reset(&h->parked);
    harness_must_do(&other, &(struct source_op){.kind = SOURCE_FETCH, .batch = &h->parked});
    ASSERT_NUMBERS(&h->parked, 0, 1, 2, 3, 4, 5, 6, 7);
    harness_close(&other);
}

static void a_payload_above_the_limit_is_not_read_but_kept(void **state)
{
    struct harness *h = *state;
    char payload[3000];
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    memset(payload, '1', sizeof payload);
    e.aggregate_type = e.aggregate_id = e.event_type = "x";
    e.payload = payload;
    e.payload_len = sizeof payload;
    h->config.source.max_payload = 2999;
    harness_activate(h);
    h->fixture->insert(&e, 1);
    h->fixture->finish(true);
    assert_int_equal(harness_fetch(h), 1);
    assert_true(h->batch.events[0].is_oversize);
    assert_true(bytes_is_null(h->batch.events[0].payload));
    assert_int_equal(h->batch.events[0].payload_len, sizeof payload);
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 1);
    h->batch.n_settle = 1;
    settle_as_is(h, &h->batch);
    harness_close(h);
    h->config.source.max_payload = 3000; /* the operator allows it */
    harness_activate(h);
    assert_int_equal(harness_fetch_parked(h, 1), 1);
    assert_false(h->parked.events[0].is_oversize);
    assert_int_equal(h->parked.events[0].payload.len, sizeof payload);
    assert_memory_equal(h->parked.events[0].payload.data, payload, sizeof payload);
}

static void a_batch_ends_with_the_event_that_fills_it(void **state)
{
    struct harness *h = *state;
    static char payload[20000];
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    memset(payload, '1', sizeof payload);
    e.aggregate_type = e.aggregate_id = e.event_type = "x";
    e.payload = payload;
    e.payload_len = sizeof payload;
    harness_activate(h);
    for (int i = 0; i < 5; i++)
        h->fixture->insert(&e, 1);
    h->fixture->finish(true);
    h->batch.max_bytes = 30000;
    assert_int_equal(harness_fetch(h), 2);
    assert_true(h->source->ready);
    assert_int_equal(harness_fetch(h), 2);
    assert_int_equal(harness_fetch(h), 1);
}

static void assert_full_event(const struct event *e, const struct outrider_event *in)
{
    assert_true(bytes_eq_str(e->id, in->id));
    assert_true(bytes_eq_str(e->aggregate_type, in->aggregate_type));
    assert_true(bytes_eq_str(e->aggregate_id, in->aggregate_id));
    assert_true(bytes_eq_str(e->event_type, in->event_type));
    assert_true(bytes_eq(e->payload, bytes_of(in->payload, in->payload_len)));
    assert_true(bytes_eq_str(e->headers, in->headers));
    assert_true(bytes_eq_str(e->topic, in->topic));
    assert_true(bytes_eq_str(e->partition_key, in->partition_key));
    assert_int_equal(e->partition, in->partition);
    assert_int_equal(e->occurred_at_us, in->occurred_at_us);
    assert_int_equal(e->expires_at_us, in->expires_at_us);
    assert_true(llabs(e->created_at_us - outrider__clock_now().wall_us) < HOUR_US);
    assert_false(e->is_malformed);
}

static void every_field_arrives_as_it_was_written(void **state)
{
    struct harness *h = *state;
    struct outrider_event in = OUTRIDER_EVENT_INIT;
    in.id = "0190a5b4-7e11-7abc-8def-0123456789ab";
    in.aggregate_type = "Bestellung-\xc3\xa4";
    in.aggregate_id = "42";
    in.event_type = "OrderCreated";
    in.payload = "{ \"a\" : 1.50 }";
    in.payload_len = strlen(in.payload);
    in.headers = "{\"X-Correlation-ID\": \"7\"}"; /* as jsonb writes it, too */
    in.topic = "orders";
    in.partition_key = "k";
    in.partition = 3;
    in.occurred_at_us = 1700000000123456;
    in.expires_at_us = 4000000000000000;
    harness_activate(h);
    h->fixture->insert(&in, 1);
    h->fixture->finish(true);
    assert_int_equal(harness_fetch(h), 1);
    assert_full_event(&h->batch.events[0], &in);
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 1);
    h->batch.n_settle = 1;
    settle_as_is(h, &h->batch);
    assert_int_equal(harness_fetch_parked(h, 1), 1);
    assert_full_event(&h->parked.events[0], &in);
}

static void absent_fields_are_absent(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    const struct event *e = &h->batch.events[0];
    assert_int_equal(e->id.len, 36);
    assert_true(bytes_is_null(e->headers));
    assert_true(bytes_is_null(e->topic));
    assert_true(bytes_is_null(e->partition_key));
    assert_int_equal(e->partition, -1);
    assert_int_equal(e->expires_at_us, 0);
    assert_int_equal(e->occurred_at_us, e->created_at_us);
}

static void a_replay_reads_from_a_point_and_leaves_no_trace(void **state)
{
    struct harness *h = *state;
    struct harness replay = {.fixture = h->fixture, .config = h->config};
    static const char *const keys[] = {"a", "b"};
    harness_insert_many(h, 5, keys, 2);
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 5);
    int64_t from = h->batch.events[2].seq;
    replay.config.replay = true;
    replay.config.replay_from_seq = from;
    harness_activate(&replay); /* beside the relay that is active */
    outrider__batch_reset(&h->parked);
    harness_must_do(&replay, &(struct source_op){.kind = SOURCE_MARK});
    harness_must_do(&replay, &(struct source_op){.kind = SOURCE_FETCH, .batch = &h->parked});
    ASSERT_NUMBERS(&h->parked, 2, 3, 4);
    assert_true(replay.source->mark_reached);
    for (size_t i = 0; i < 3; i++)
        harness_decide(&h->parked.events[i], OUTCOME_DEAD, 0);
    h->parked.n_settle = 3;
    settle_as_is(&replay, &h->parked);
    harness_close(&replay);
    assert_int_equal(h->fixture->count_parked(NULL), 0);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED); /* nobody took it over */
}

static void a_replay_reads_from_a_time(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a"};
    harness_insert_many(h, 3, keys, 1);
    h->fixture->age_outbox(2 * DAY_US);
    harness_insert_many(h, 2, keys, 1);
    h->config.replay = true;
    h->config.replay_since_us = outrider__clock_now().wall_us - HOUR_US;
    harness_activate(h);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_MARK});
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 3, 4);
    assert_true(h->source->mark_reached);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int source_contract_run(const char *name, const struct source_fixture *f)
{
    const struct CMUnitTest tests[] = {
        T(events_come_in_the_order_of_their_commits),
        T(a_rolled_back_event_is_never_returned),
        T(an_event_of_an_open_transaction_is_not_seen_before_its_commit),
        T(an_event_is_returned_until_it_is_settled),
        T(fetching_runs_ahead_of_settling),
        T(settling_the_front_of_a_batch_keeps_the_rest),
        T(a_relay_that_was_taken_over_settles_nothing),
        T(operations_complete_in_the_order_in_which_they_were_started),
        T(close_is_legal_with_operations_under_way_and_after_a_failed_open),
        T(a_second_relay_stands_by_until_the_first_one_ends),
        T(pipelines_of_other_names_have_cursors_of_their_own),
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
        T(the_mark_is_reached_when_all_that_was_committed_is_fetched),
        T(an_empty_outbox_is_no_error),
        T(clean_up_removes_what_is_settled_and_old_in_portions),
        T(clean_up_never_removes_what_is_not_settled),
        T(a_payload_above_the_limit_is_not_read_but_kept),
        T(a_batch_ends_with_the_event_that_fills_it),
        T(every_field_arrives_as_it_was_written),
        T(absent_fields_are_absent),
        T(a_replay_reads_from_a_point_and_leaves_no_trace),
        T(a_replay_reads_from_a_time),
    };
    fixture = f;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
