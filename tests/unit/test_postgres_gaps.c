/* SPDX-License-Identifier: MIT */
/* The gaps of a log: who may still fill them, and when they are forgotten. */
#include <setjmp.h>
#include <stdarg.h>

#include "postgres/poll_log/gaps.h"

#include <cmocka.h>

#define W(n) (((uint64_t)2 << 32) | (n))
#define P(n) (PG_WRITER_PREPARED | (n))

static int set_up(void **state)
{
    static struct gap_set g;
    outrider__gaps_init(&g);
    *state = &g;
    return 0;
}

static int tear_down(void **state)
{
    outrider__gaps_release(*state);
    return 0;
}

static void note(struct gap_set *g, size_t n, const uint64_t *writers)
{
    uint64_t copy[8];
    for (size_t i = 0; i < n; i++)
        copy[i] = writers[i];
    assert_int_equal(outrider__gaps_note_writers(g, copy, n), 0);
}

static void add(struct gap_set *g, int64_t low, int64_t high)
{
    assert_int_equal(outrider__gaps_add(g, low, high), 0);
}

static void read_all(struct gap_set *g)
{
    assert_int_equal(outrider__gaps_apply_read(g, NULL, 0, INT64_MAX), 0);
}

static void transactions_have_numbers(void **state)
{
    (void)state;
    assert_true(outrider__pg_writer_parse("3/17") != outrider__pg_writer_parse("3/18"));
    assert_true(outrider__pg_writer_parse("3/17") != outrider__pg_writer_parse("17/3"));
    assert_true(outrider__pg_writer_parse("0/1") != 0);
    assert_int_equal(outrider__pg_writer_parse("-1/4711"), P(4711));
    assert_int_equal(outrider__pg_writer_parse(""), 0);
    assert_int_equal(outrider__pg_writer_parse("3"), 0);
    assert_int_equal(outrider__pg_writer_parse("3/"), 0);
    assert_int_equal(outrider__pg_writer_parse("a/b"), 0);
}

static void a_gap_stays_until_its_writers_were_noted(void **state)
{
    struct gap_set *g = *state;
    add(g, 5, 6);
    read_all(g);
    assert_int_equal(g->n, 1);
    note(g, 0, NULL);
    read_all(g);
    assert_int_equal(g->n, 0);
    assert_null(g->groups);
}

static void a_gap_stays_while_one_of_its_writers_is_there(void **state)
{
    struct gap_set *g = *state;
    add(g, 5, 6);
    note(g, 2, (uint64_t[]){W(2), W(1)});
    read_all(g);
    note(g, 2, (uint64_t[]){W(1), W(9)}); /* a later one does not count */
    read_all(g);
    assert_int_equal(g->n, 1);
    note(g, 1, (uint64_t[]){W(9)});
    read_all(g);
    assert_int_equal(g->n, 0);
}

static void a_writer_that_is_prepared_is_not_gone(void **state)
{
    struct gap_set *g = *state;
    add(g, 5, 5);
    note(g, 1, (uint64_t[]){W(1)});
    note(g, 2, (uint64_t[]){P(77), W(2)});
    read_all(g);
    assert_int_equal(g->n, 1);
    note(g, 2, (uint64_t[]){P(78), W(2)}); /* another one, prepared since: not of this gap */
    read_all(g);
    assert_int_equal(g->n, 0);
}

static void what_is_found_leaves_and_splits_a_range(void **state)
{
    struct gap_set *g = *state;
    add(g, 2, 6);
    add(g, 9, 9);
    assert_int_equal(outrider__gaps_apply_read(g, (int64_t[]){2, 4, 9}, 3, 9), 0);
    assert_int_equal(g->n, 2);
    assert_int_equal(g->items[0].low, 3);
    assert_int_equal(g->items[0].high, 3);
    assert_int_equal(g->items[1].low, 5);
    assert_int_equal(g->items[1].high, 6);
}

static void a_range_that_was_not_looked_at_is_not_forgotten(void **state)
{
    struct gap_set *g = *state;
    add(g, 2, 3);
    add(g, 5, 8);
    note(g, 0, NULL);
    assert_int_equal(outrider__gaps_apply_read(g, NULL, 0, 7), 0);
    assert_int_equal(g->n, 1);
    assert_int_equal(g->items[0].low, 5);
}

static void each_read_has_a_group_of_its_own(void **state)
{
    struct gap_set *g = *state;
    outrider__gaps_begin_group(g);
    add(g, 2, 3);
    note(g, 1, (uint64_t[]){W(1)});
    outrider__gaps_begin_group(g);
    add(g, 5, 5);
    assert_true(outrider__gaps_needs_writers(g));
    note(g, 2, (uint64_t[]){W(1), W(2)});
    assert_false(outrider__gaps_needs_writers(g));
    note(g, 1, (uint64_t[]){W(2)});
    read_all(g);
    assert_int_equal(g->n, 1);
    assert_int_equal(g->items[0].low, 5);
}

static void many_ranges_survive_many_finds(void **state)
{
    struct gap_set *g = *state;
    int64_t found[500];
    for (int i = 0; i < 1000; i++)
        add(g, i * 10, i * 10 + 2);
    for (int i = 0; i < 500; i++)
        found[i] = i * 20 + 1;
    assert_int_equal(outrider__gaps_apply_read(g, found, 500, INT64_MAX), 0);
    assert_int_equal(g->n, 1500);
    for (size_t i = 1; i < g->n; i++)
        assert_true(g->items[i - 1].high < g->items[i].low);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(transactions_have_numbers),
        TEST(a_gap_stays_until_its_writers_were_noted),
        TEST(a_gap_stays_while_one_of_its_writers_is_there),
        TEST(a_writer_that_is_prepared_is_not_gone),
        TEST(what_is_found_leaves_and_splits_a_range),
        TEST(a_range_that_was_not_looked_at_is_not_forgotten),
        TEST(each_read_has_a_group_of_its_own),
        TEST(many_ranges_survive_many_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
