/* SPDX-License-Identifier: MIT */
/* Where a cursor goes after history was rewritten: common/resync.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/resync.h"

#define ID     \
    {          \
        "i", 1 \
    }
#define OTHER  \
    {          \
        "k", 1 \
    }
#define NONE    \
    {           \
        NULL, 0 \
    }

static void check(struct resync_facts f, int64_t position, const char *why)
{
    struct resync_verdict v = outrider__resync_judge(&f);
    assert_int_equal(v.is_intact, why == NULL);
    assert_int_equal(v.old_position, f.anchor.position);
    assert_int_equal(v.new_position, position);
    if (why != NULL)
        assert_non_null(strstr(v.why, why));
}

/* (1) */
static void a_cursor_that_fits_stays(void **state)
{
    (void)state;
    check((struct resync_facts){.anchor = {9, 12, ID, ID}}, 9, NULL);
    check((struct resync_facts){.anchor = {0, 0, NONE, NONE}}, 0, NULL);
}

/* (2) */
static void a_doubt_begins_at_the_start(void **state)
{
    (void)state;
    check((struct resync_facts){.anchor = {9, 4, ID, ID}}, 0, "sequence was set back");
    check((struct resync_facts){.anchor = {9, 4, ID, NONE}, .has_moved = true, .moved_to = 3}, 0,
          "sequence was set back");
    check((struct resync_facts){.anchor = {9, 12, ID, OTHER}, .last_settled = 8}, 0,
          "is another one now");
    check((struct resync_facts){.anchor = {9, 12, ID, NONE}, .has_newer = true, .last_settled = 8},
          0, "newer than the last settle");
    check((struct resync_facts){.anchor = {9, 12, ID, OTHER}, .has_moved = true, .moved_to = 3}, 0,
          "still awaited");
}

static void a_row_that_moved_in_order_is_followed(void **state)
{
    (void)state;
    check(
        (struct resync_facts){
            .anchor = {9, 12, ID, OTHER}, .has_moved = true, .moved_to = 3, .is_order_kept = true},
        3, "another seq now");
    check(
        (struct resync_facts){
            .anchor = {9, 4, ID, NONE}, .has_moved = true, .moved_to = 3, .is_order_kept = true},
        3, "another seq now");
}

static void a_row_that_was_removed_leaves_the_ones_before_it(void **state)
{
    (void)state;
    check((struct resync_facts){.anchor = {9, 12, ID, NONE}, .last_settled = 8}, 8, "was removed");
    check((struct resync_facts){.anchor = {9, 12, ID, NONE}}, 0, "was removed");
}

/* (3) */
static void the_report_says_what_is_done_and_what_is_not_known(void **state)
{
    struct resync_facts f = {.anchor = {9, 4, ID, NONE}, .held = 5};
    struct resync_verdict v = outrider__resync_judge(&f);
    struct strbuf out;
    (void)state;
    outrider__strbuf_init(&out, 4096);
    outrider__resync_report(&v, "shop", &out);
    assert_non_null(strstr(strbuf_cstr(&out), "pipeline 'shop': position 9 becomes 0"));
    assert_non_null(strstr(strbuf_cstr(&out), "holds 5 events"));
    assert_non_null(strstr(strbuf_cstr(&out), "cannot be known"));
    outrider__strbuf_clear(&out);
    f = (struct resync_facts){.anchor = {9, 12, ID, ID}};
    v = outrider__resync_judge(&f);
    outrider__resync_report(&v, "shop", &out);
    assert_non_null(strstr(strbuf_cstr(&out), "intact, position 9 stays"));
    outrider__strbuf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_that_fits_stays),
        cmocka_unit_test(a_doubt_begins_at_the_start),
        cmocka_unit_test(a_row_that_moved_in_order_is_followed),
        cmocka_unit_test(a_row_that_was_removed_leaves_the_ones_before_it),
        cmocka_unit_test(the_report_says_what_is_done_and_what_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
