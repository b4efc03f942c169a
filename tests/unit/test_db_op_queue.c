/* SPDX-License-Identifier: MIT */
/* The order in which operations are given back: common/op_queue.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/op_queue.h"

static struct batch clean = {
    .events = (struct event[]){{.outcome = OUTCOME_DELIVERED}}, .n = 1, .n_settle = 1};
static struct batch unclean = {
    .events = (struct event[]){{.outcome = OUTCOME_PARKED}}, .n = 1, .n_settle = 1};

static struct source_op fetch(void)
{
    return (struct source_op){.kind = SOURCE_FETCH};
}

static struct source_op settle(struct batch *b)
{
    return (struct source_op){.kind = SOURCE_SETTLE, .batch = b};
}

static size_t add(struct op_queue *q, struct source_op *op)
{
    size_t slot = OP_QUEUE_NONE;
    assert_int_equal(outrider__op_queue_add(q, op, "default", &slot, NULL), 0);
    assert_ptr_equal(q->slots[slot].op, op);
    return slot;
}

static size_t give(struct op_queue *q)
{
    return outrider__op_queue_give(q, NULL, NULL);
}

static void an_operation_waits_for_those_before_it(void **state)
{
    struct op_queue q = {0};
    struct source_op a = {.kind = SOURCE_MARK}, b = {.kind = SOURCE_CLEANUP}, c = fetch();
    size_t sa = add(&q, &a), sb = add(&q, &b), sc = add(&q, &c);
    (void)state;
    op_queue_done(&q, sc);
    op_queue_done(&q, sb);
    assert_true(give(&q) == OP_QUEUE_NONE);
    op_queue_done(&q, sa);
    assert_int_equal(give(&q), sa);
    assert_int_equal(give(&q), sb);
    assert_int_equal(give(&q), sc);
    assert_int_equal(q.n, 0);
    assert_true(give(&q) == OP_QUEUE_NONE);
}

static void a_fetch_passes_settles_of_delivered_events(void **state)
{
    struct op_queue q = {0};
    struct source_op a = settle(&clean), b = settle(&clean), c = fetch(), d = fetch();
    size_t sa = add(&q, &a), sb = add(&q, &b), sc = add(&q, &c), sd = add(&q, &d);
    (void)state;
    assert_int_equal(outrider__op_queue_passing(&q), sc);
    op_queue_done(&q, sd);
    assert_true(give(&q) == OP_QUEUE_NONE); /* the fetch before it is not done */
    op_queue_done(&q, sc);
    assert_int_equal(give(&q), sc);
    assert_int_equal(give(&q), sd);
    assert_true(outrider__op_queue_passing(&q) == OP_QUEUE_NONE);
    assert_int_equal(q.n, 4); /* the slots behind the oldest one are still in use */
    op_queue_done(&q, sb);
    assert_true(give(&q) == OP_QUEUE_NONE); /* a settle passes nothing */
    op_queue_done(&q, sa);
    assert_int_equal(give(&q), sa);
    assert_int_equal(give(&q), sb);
    assert_int_equal(q.n, 0);
}

static void a_fetch_waits_for_a_settle_that_parks(void **state)
{
    struct op_queue q = {0};
    struct source_op a = settle(&unclean), b = fetch();
    size_t sa = add(&q, &a), sb = add(&q, &b);
    (void)state;
    op_queue_done(&q, sb);
    assert_true(give(&q) == OP_QUEUE_NONE);
    assert_true(outrider__op_queue_passing(&q) == OP_QUEUE_NONE);
    op_queue_done(&q, sa);
    assert_int_equal(give(&q), sa);
    assert_int_equal(give(&q), sb);
}

static void nothing_but_a_fetch_passes_a_settle(void **state)
{
    struct op_queue q = {0};
    struct source_op a = settle(&clean), b = {.kind = SOURCE_FETCH_PARKED}, c = fetch();
    (void)add(&q, &a);
    size_t sb = add(&q, &b), sc = add(&q, &c);
    (void)state;
    op_queue_done(&q, sb);
    op_queue_done(&q, sc);
    assert_true(give(&q) == OP_QUEUE_NONE);
    assert_true(outrider__op_queue_passing(&q) == OP_QUEUE_NONE);
}

static bool is_allowed(const void *ctx, size_t slot)
{
    return *(const size_t *)ctx != slot;
}

static void what_is_done_may_be_held_back_by_the_source(void **state)
{
    struct op_queue q = {0};
    struct source_op a = fetch(), b = fetch();
    size_t sa = add(&q, &a), sb = add(&q, &b), held = sa;
    (void)state;
    op_queue_done(&q, sa);
    op_queue_done(&q, sb);
    assert_true(outrider__op_queue_give(&q, is_allowed, &held) == OP_QUEUE_NONE);
    held = OP_QUEUE_NONE;
    assert_int_equal(outrider__op_queue_give(&q, is_allowed, &held), sa);
}

static void one_operation_too_many_is_refused(void **state)
{
    struct op_queue q = {0};
    struct source_op ops[OP_QUEUE_MAX + 1];
    struct outrider_error err = {0};
    size_t slot;
    (void)state;
    for (int i = 0; i < OP_QUEUE_MAX; i++) {
        ops[i] = fetch();
        (void)add(&q, &ops[i]);
    }
    assert_int_equal(outrider__op_queue_add(&q, &ops[OP_QUEUE_MAX], "shop", &slot, &err), -1);
    assert_int_equal(err.code, OUTRIDER_INVALID);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
    assert_non_null(strstr(err.message, "'shop'"));
}

static void the_ring_goes_round(void **state)
{
    struct op_queue q = {0};
    (void)state;
    for (int i = 0; i < 3 * OP_QUEUE_MAX; i++) {
        struct source_op a = fetch(), b = fetch();
        size_t sa = add(&q, &a), sb = add(&q, &b);
        op_queue_done(&q, sa);
        op_queue_done(&q, sb);
        assert_int_equal(give(&q), sa);
        assert_int_equal(give(&q), sb);
        assert_int_equal(q.n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_waits_for_those_before_it),
        cmocka_unit_test(a_fetch_passes_settles_of_delivered_events),
        cmocka_unit_test(a_fetch_waits_for_a_settle_that_parks),
        cmocka_unit_test(nothing_but_a_fetch_passes_a_settle),
        cmocka_unit_test(what_is_done_may_be_held_back_by_the_source),
        cmocka_unit_test(one_operation_too_many_is_refused),
        cmocka_unit_test(the_ring_goes_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
