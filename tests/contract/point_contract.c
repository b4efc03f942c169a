/* SPDX-License-Identifier: MIT */
#include "contract/point_contract.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define HOUR_US 3600000000LL
#define DAY_US (24 * HOUR_US)

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

/* Fetches until the mark is reached; how many events came. */
static size_t fetch_to_mark(struct harness *h)
{
    size_t n = 0;
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (!h->source->mark_reached) {
        assert_true(outrider__clock_now().mono_us < deadline);
        if (h->source->ready) {
            outrider__batch_reset(&h->batch);
            harness_must_do(h, &(struct source_op){.kind = SOURCE_FETCH, .batch = &h->batch});
            n += h->batch.n;
            harness_settle(h, &h->batch, OUTCOME_DELIVERED);
        } else {
            assert_null(harness_poll(h));
            harness_pause(h);
        }
    }
    return n;
}

/* (14) */
static void the_mark_is_reached_when_all_that_was_committed_is_fetched(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b"};
    harness_insert_many(h, HARNESS_BATCH + 1, keys, 2);
    harness_activate(h);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_MARK});
    assert_false(h->source->mark_reached);
    harness_insert(h, "a"); /* after the mark: need not be waited for */
    assert_true(fetch_to_mark(h) >= HARNESS_BATCH + 1);
    harness_close(h);
    harness_activate(h);
    assert_false(h->source->mark_reached); /* the mark was the connection's */
}

/* Nothing is reached before the mark itself is there. */
static void do_mark(struct harness *h)
{
    struct outrider_error err = {0};
    struct source_op mark = {.kind = SOURCE_MARK};
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    assert_int_equal(h->source->ops->start(h->source, &mark, &err), 0);
    while (harness_poll(h) == NULL) {
        assert_false(h->source->mark_reached);
        assert_true(outrider__clock_now().mono_us < deadline);
        harness_pause(h);
    }
}

/* (14) */
static void the_mark_of_an_empty_outbox_is_reached_and_each_mark_counts_anew(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_MARK});
    assert_int_equal(fetch_to_mark(h), 0);
    for (uint64_t i = 0; i < 10; i++) { /* each mark counts anew */
        if (i % 2 == 1)
            harness_insert(h, "a");
        do_mark(h);
        assert_int_equal(fetch_to_mark(h), i % 2);
    }
}

static bool has_answer(struct harness *h)
{
    struct pollfd fds[4];
    int n = h->source->ops->fds(h->source, fds, 4);
    for (int i = 0; i < n; i++)
        fds[i].events &= POLLIN;
    return n == 0 || poll(fds, (nfds_t)n, 1000) > 0;
}

/* (4), (14) */
static void a_fetch_that_was_sent_before_the_mark_does_not_reach_it(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_activate(h);
    struct source *s = h->source;
    outrider__batch_reset(&h->batch);
    struct source_op fetch = {.kind = SOURCE_FETCH, .batch = &h->batch};
    struct source_op mark = {.kind = SOURCE_MARK};
    assert_int_equal(s->ops->start(s, &fetch, &err), 0);
    (void)has_answer(h); /* the database has looked, in vain */
    harness_insert(h, "a");
    assert_int_equal(s->ops->start(s, &mark, &err), 0);
    size_t n = 0;
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    for (size_t done = 0; done < 2;) {
        assert_true(outrider__clock_now().mono_us < deadline);
        const struct source_op *op = harness_poll(h);
        done += op != NULL;
        n += op == &fetch ? h->batch.n : 0;
        if (op == NULL)
            harness_pause(h);
    }
    if (n > 0)
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    n += fetch_to_mark(h);
    assert_int_equal(n, 1);
}

static uint64_t clean_up(struct harness *h, bool *ret_more)
{
    struct source_op op = {.kind = SOURCE_CLEANUP, .now_wall_us = outrider__clock_now().wall_us};
    harness_must_do(h, &op);
    *ret_more = op.more;
    return op.removed;
}

/* Cleans up until so many rows are left: a stream knows a moment later what is settled. */
static void clean_up_to(struct harness *h, int64_t left)
{
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    bool more;
    while (h->fixture->count_outbox() > left) {
        assert_true(outrider__clock_now().mono_us < deadline);
        assert_true(clean_up(h, &more) <= (uint64_t)h->config.cleanup.batch);
        assert_null(harness_poll(h));
        if (!more)
            harness_pause(h);
    }
}

/* (15) */
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
    clean_up_to(h, 1); /* a source may keep its anchor */
    harness_insert(h, "a");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 25);
    harness_close(h);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 25);
}

/* (15) */
static void clean_up_says_whether_there_is_more(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b"};
    bool more = true;
    harness_activate(h);
    harness_insert_many(h, 25, keys, 2);
    assert_int_equal(harness_fetch(h), 25);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    h->fixture->age_outbox(2 * DAY_US);
    clean_up_to(h, 24);
    while (more)
        (void)clean_up(h, &more);
    assert_true(h->fixture->count_outbox() <= 1);
}

/* (15) */
static void clean_up_never_removes_what_is_not_settled(void **state)
{
    struct harness *h = *state;
    struct harness other;
    static const char *const keys[] = {"a", "b"};
    bool more = true;
    harness_init_second(&other, h, "other");
    harness_insert_many(h, 8, keys, 2);
    h->fixture->age_outbox(2 * DAY_US);
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 8);
    while (more)
        assert_int_equal(clean_up(h, &more), 0); /* read, not settled */
    if (!h->fixture->rows_carry_state)
        harness_activate(&other);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    more = true;
    while (more)
        (void)clean_up(h, &more);
    if (!h->fixture->marks_rows) /* the other pipeline has settled nothing */
        assert_int_equal(h->fixture->count_outbox(), 8);
    if (!h->fixture->rows_carry_state) {
        harness_fetch(&other);
        ASSERT_NUMBERS(&other.batch, 0, 1, 2, 3, 4, 5, 6, 7);
    }
    harness_release(&other);
}

/* (15) */
static void without_a_retention_nothing_is_removed(void **state)
{
    struct harness *h = *state;
    bool more = true;
    h->config.cleanup.retention_us = 0;
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "b");
    assert_int_equal(harness_fetch(h), 2);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    h->fixture->age_outbox(2 * DAY_US);
    assert_int_equal(clean_up(h, &more), 0);
    assert_false(more);
    assert_int_equal(h->fixture->count_outbox(), 2);
}

static void deliver_more(struct harness *h, size_t n)
{
    static const char *const keys[] = {"a", "b"};
    harness_insert_many(h, n, keys, 2);
    assert_int_equal(harness_fetch(h), n);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
}

/* (16) */
static void a_replay_reads_from_a_point_and_leaves_no_trace(void **state)
{
    struct harness *h = *state;
    struct harness replay;
    if ((h->fixture->lacks & FIELD_SEQ) != 0)
        skip();
    harness_activate(h);
    deliver_more(h, 5);
    int64_t from = h->batch.events[2].seq;
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    harness_init_second(&replay, h, h->config.name);
    replay.is_replay = true;
    replay.config.replay_from_seq = from;
    harness_activate(&replay); /* beside the relay that is active */
    harness_must_do(&replay, &(struct source_op){.kind = SOURCE_MARK});
    harness_fetch(&replay);
    assert_true(replay.batch.n == 3 || (replay.batch.n == 4 && !h->fixture->rows_carry_state));
    for (size_t i = 0; i < replay.batch.n; i++) {
        assert_int_equal(harness_number(&replay.batch.events[i]), i + 2);
        harness_decide(&replay.batch.events[i], OUTCOME_DEAD, 0);
    }
    assert_true(replay.source->mark_reached);
    replay.batch.n_settle = replay.batch.n;
    harness_settle(&replay, &replay.batch, OUTCOME_PENDING);
    harness_release(&replay);
    assert_int_equal(h->fixture->count_parked(NULL), 0);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED); /* nobody took it over */
}

/* (16) */
static void a_replay_reads_from_a_time(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    deliver_more(h, 3);
    h->fixture->age_outbox(2 * DAY_US);
    deliver_more(h, 2);
    harness_close(h);
    h->is_replay = true;
    h->config.replay_since_us = outrider__clock_now().wall_us - HOUR_US;
    harness_activate(h);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_MARK});
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 3, 4);
    assert_true(h->source->mark_reached);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int point_contract_run(const char *name, const struct source_fixture *f)
{
    const struct CMUnitTest tests[] = {
        T(the_mark_is_reached_when_all_that_was_committed_is_fetched),
        T(the_mark_of_an_empty_outbox_is_reached_and_each_mark_counts_anew),
        T(a_fetch_that_was_sent_before_the_mark_does_not_reach_it),
        T(clean_up_removes_what_is_settled_and_old_in_portions),
        T(clean_up_says_whether_there_is_more),
        T(clean_up_never_removes_what_is_not_settled),
        T(without_a_retention_nothing_is_removed),
        T(a_replay_reads_from_a_point_and_leaves_no_trace),
        T(a_replay_reads_from_a_time),
    };
    fixture = f;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
