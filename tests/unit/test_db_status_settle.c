/* SPDX-License-Identifier: MIT */
/* Which rows of a batch go into which statement: common/status_settle.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/status_settle.h"

static struct outbox_table table;
static struct status_rows rows;

static void set_word(enum map_state s, const char *word)
{
    (void)snprintf(table.map.values[s], MAP_VALUE_SIZE, "%s", word);
}

/* A table with words for everything but expired. */
static int make(void **state)
{
    (void)state;
    table = (struct outbox_table){.map.mark = MARK_STATUS};
    set_word(STATE_PENDING, "NEW");
    set_word(STATE_FAILED, "FAILED");
    set_word(STATE_DEAD, "DEAD");
    rows = (struct status_rows){.table = &table, .ordered = true};
    return 0;
}

/* The groups as letters: Published, Changed, parKed, Tried. */
static void check_groups(enum outcome outcome, const char *expected)
{
    const struct event e = {.outcome = outcome};
    char groups[GROUP_COUNT + 1] = "";
    size_t n = 0;
    for (int g = 0; g < GROUP_COUNT; g++)
        if (outrider__status_belongs(&rows, &e, (enum status_group)g))
            groups[n++] = "PCKT"[g];
    assert_string_equal(groups, expected);
}

static void an_outcome_has_its_groups(void **state)
{
    (void)state;
    check_groups(OUTCOME_DELIVERED, "PT");
    check_groups(OUTCOME_SKIPPED, "PT");
    check_groups(OUTCOME_PARKED, "CT");
    check_groups(OUTCOME_DEAD, "CT");
    check_groups(OUTCOME_EXPIRED, "CT");
    check_groups(OUTCOME_QUEUED, "");
    check_groups(OUTCOME_RELEASED, "");
}

static void a_claimed_row_that_was_not_tried_is_given_back(void **state)
{
    (void)state;
    rows.claims = true;
    check_groups(OUTCOME_QUEUED, "C");
    check_groups(OUTCOME_RELEASED, "C");
    struct event events[3] = {{.outcome = OUTCOME_DELIVERED}, {.outcome = OUTCOME_PENDING}};
    struct batch b = {.events = events, .n = 3, .n_settle = 1};
    outrider__status_give_back_rest(&rows, &b);
    assert_int_equal(b.n_settle, 3);
    assert_int_equal(events[0].outcome, OUTCOME_DELIVERED);
    assert_int_equal(events[2].outcome, OUTCOME_RELEASED);
    assert_int_equal(outrider__status_members(&rows, &b, GROUP_CHANGED), 2);
}

static void what_the_row_cannot_say_is_parked(void **state)
{
    (void)state;
    table.parks_retries = table.parks_dead = true;
    check_groups(OUTCOME_PARKED, "CKT");
    check_groups(OUTCOME_DEAD, "CKT");
    check_groups(OUTCOME_EXPIRED, "CKT");
    set_word(STATE_EXPIRED, "EXPIRED");
    check_groups(OUTCOME_EXPIRED, "CT");
}

static void check_word(enum outcome outcome, const char *word)
{
    const struct event e = {.outcome = outcome};
    struct sql_value v = outrider__status_value(&rows, &e, FIELD_STATE, 0);
    assert_true(bytes_eq(v.bytes, bytes_str(word)));
}

static void a_word_stands_in_for_one_that_is_missing(void **state)
{
    (void)state;
    check_word(OUTCOME_PARKED, "FAILED");
    check_word(OUTCOME_EXPIRED, "DEAD");
    check_word(OUTCOME_RELEASED, "NEW");
    set_word(STATE_DEAD, "");
    check_word(OUTCOME_DEAD, "FAILED");
    set_word(STATE_FAILED, "");
    check_word(OUTCOME_PARKED, "NEW");
}

static void only_a_parked_event_has_a_delay(void **state)
{
    struct event e = {.outcome = OUTCOME_PARKED, .next_attempt_us = 500};
    (void)state;
    assert_int_equal(outrider__status_value(&rows, &e, FIELD_DELAY, 200).number, 300);
    assert_int_equal(outrider__status_value(&rows, &e, FIELD_DELAY, 900).number, 0);
    e.outcome = OUTCOME_DEAD;
    assert_true(outrider__status_value(&rows, &e, FIELD_DELAY, 200).is_null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_outcome_has_its_groups, make),
        cmocka_unit_test_setup(a_claimed_row_that_was_not_tried_is_given_back, make),
        cmocka_unit_test_setup(what_the_row_cannot_say_is_parked, make),
        cmocka_unit_test_setup(a_word_stands_in_for_one_that_is_missing, make),
        cmocka_unit_test_setup(only_a_parked_event_has_a_delay, make),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
