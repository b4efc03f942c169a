/* SPDX-License-Identifier: MIT */
/* Parked rows for every database: common/parked.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/parked.h"
#include "unit/question_dialect.h"

static const struct parked_names copying = {
    .table = "outrider_parked", .copy = "o.id, o.expires_at FROM u JOIN outbox o ON o.seq = u.seq"};
static const struct parked_names sending = {
    .table = "outrider_parked", .blocks = true, .whole = "SELECT o.id FROM outbox o"};

static void no_statement_has_words_of_one_server_alone(void **state)
{
    const struct parked_names *all[] = {&copying, &sending};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct parked_sql p;
        assert_int_equal(outrider__parked_sql_init(&p, &question_dialect, all[k], NULL), 0);
        for (int i = 0; i < PARKED_STATEMENTS; i++) {
            const char *word = question_foreign_word(p.sql[i]);
            if (word != NULL)
                fail_msg("%s is in %s", word, p.sql[i]);
        }
        outrider__parked_sql_release(&p);
    }
}

static void check(enum parked_statement which, const char *expected, const char *places)
{
    struct parked_sql p;
    assert_int_equal(outrider__parked_sql_init(&p, &question_dialect, &copying, NULL), 0);
    assert_string_equal(p.sql[which], expected);
    assert_int_equal(p.params[which].n, strlen(places));
    for (size_t i = 0; i < p.params[which].n; i++)
        assert_int_equal(p.params[which].order[i], places[i] - '0');
    outrider__parked_sql_release(&p);
}

static void rows_are_removed_by_their_numbers(void **state)
{
    (void)state;
    check(PARKED_REMOVE,
          "DELETE FROM outrider_parked WHERE pipeline = ? AND outbox = ? AND arrival IN (SELECT "
          "j.v FROM JSON_TABLE(?, '$[*]' COLUMNS (v BIGINT PATH '$')) AS j)\n",
          "123");
}

static void rows_that_are_sent_stand_before_set_where_the_dialect_wants_it(void **state)
{
    (void)state;
    check(PARKED_UPDATE,
          "UPDATE outrider_parked p, JSON_TABLE(?, '$[*]' COLUMNS (\"arrival\" BIGINT PATH '$[0]', "
          "\"state\" LONGTEXT PATH '$[1]', \"attempts\" INT PATH '$[2]', \"next_at\" DATETIME(6) "
          "PATH '$[3]', \"code\" LONGTEXT PATH '$[4]', \"origin\" LONGTEXT PATH '$[5]', "
          "\"message\" LONGTEXT PATH '$[6]')) AS u\n"
          "SET p.state = u.state, p.attempts = u.attempts, p.next_attempt_at = u.next_at,\n"
          "p.error_code = u.code, p.error_origin = u.origin, p.error_message = u.message,\n"
          "p.updated_at = ?\n"
          "WHERE p.pipeline = ? AND p.outbox = ? AND p.arrival = u.arrival\n",
          "4312");
}

static void a_copy_is_made_by_the_database_itself(void **state)
{
    (void)state;
    check(PARKED_INSERT,
          "INSERT INTO outrider_parked (pipeline, outbox, parked_at, updated_at, lane, state, seq, "
          "attempts,\n"
          "next_attempt_at, error_code, error_origin, error_message, id, aggregate_type, "
          "aggregate_id,\n"
          "event_type, payload, headers, topic, partition_key, \"partition\", occurred_at, "
          "created_at,\n"
          "expires_at)\n"
          "WITH u AS (SELECT * FROM JSON_TABLE(?, '$[*]' COLUMNS (\"seq\" BIGINT PATH '$[0]', "
          "\"id\" LONGTEXT PATH '$[1]', \"lane\" LONGTEXT PATH '$[2]', \"state\" LONGTEXT PATH "
          "'$[3]', \"attempts\" INT PATH '$[4]', \"next_at\" DATETIME(6) PATH '$[5]', \"code\" "
          "LONGTEXT PATH '$[6]', \"origin\" LONGTEXT PATH '$[7]', \"message\" LONGTEXT PATH "
          "'$[8]', n FOR ORDINALITY)) AS u)\n"
          "SELECT ?, ?, ?, ?, u.lane, u.state, u.seq, u.attempts, u.next_at, u.code,\n"
          "u.origin, u.message, o.id, o.expires_at FROM u JOIN outbox o ON o.seq = u.seq\n"
          "ORDER BY u.n\n",
          "41233");
}

static struct event event_with(enum outcome outcome, bool is_parked)
{
    return (struct event){.outcome = outcome, .is_parked = is_parked};
}

static void check_steps(struct event e, size_t n, enum parked_statement first,
                        enum parked_statement last)
{
    enum parked_statement steps[3];
    assert_int_equal(outrider__parked_steps(&e, 1, e.is_parked, steps), n);
    if (n > 0) {
        assert_int_equal(steps[0], first);
        assert_int_equal(steps[n - 1], last);
    }
}

static void an_outcome_says_which_statements_it_needs(void **state)
{
    (void)state;
    check_steps(event_with(OUTCOME_DELIVERED, false), 0, 0, 0);
    check_steps(event_with(OUTCOME_RELEASED, true), 0, 0, 0);
    check_steps(event_with(OUTCOME_QUEUED, true), 0, 0, 0);
    check_steps(event_with(OUTCOME_QUEUED, false), 2, PARKED_INSERT, PARKED_MEND);
    check_steps(event_with(OUTCOME_DEAD, false), 2, PARKED_INSERT, PARKED_MEND);
    check_steps(event_with(OUTCOME_PARKED, true), 2, PARKED_UPDATE, PARKED_MEND);
    check_steps(event_with(OUTCOME_SKIPPED, true), 2, PARKED_REMOVE, PARKED_MEND);
}

static void values_follow_the_outcome(void **state)
{
    struct pipeline_config config = {.ordered = true};
    struct outrider_error failure = {.code = OUTRIDER_TIMEOUT, .message = "cut here: \xc3"};
    struct event e = event_with(OUTCOME_PARKED, false);
    (void)state;
    e.failure = &failure;
    e.next_attempt_us = 7;
    e.partition = -1;
    struct sql_value v = outrider__parked_value(&config, &e, PARKED_MESSAGE);
    assert_true(bytes_eq(v.bytes, BYTES_LIT("cut here: ")));
    v = outrider__parked_value(&config, &e, PARKED_NEXT);
    assert_false(v.is_null);
    assert_int_equal(v.number, 7);
    assert_true(outrider__parked_value(&config, &e, PARKED_PARTITION).is_null);
    e.outcome = OUTCOME_DEAD;
    assert_true(outrider__parked_value(&config, &e, PARKED_NEXT).is_null);
    v = outrider__parked_value(&config, &e, PARKED_STATE);
    assert_true(bytes_eq(v.bytes, BYTES_LIT("dead")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_statement_has_words_of_one_server_alone),
        cmocka_unit_test(rows_are_removed_by_their_numbers),
        cmocka_unit_test(rows_that_are_sent_stand_before_set_where_the_dialect_wants_it),
        cmocka_unit_test(a_copy_is_made_by_the_database_itself),
        cmocka_unit_test(an_outcome_says_which_statements_it_needs),
        cmocka_unit_test(values_follow_the_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
