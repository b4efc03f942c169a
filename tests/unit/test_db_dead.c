/* SPDX-License-Identifier: MIT */
/* Statements on dead letters in another dialect than PostgreSQL's: common/dead.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/dead.h"
#include "unit/question_dialect.h"

static const struct dead_names names = {.parked = "outrider_parked",
                                        .cursor = "outrider_cursor",
                                        .event = "seq, id",
                                        .has_outbox = true};

static void no_statement_has_words_of_one_server_alone(void **state)
{
    (void)state;
    for (int i = 0; i < DEAD_STATEMENTS; i++) {
        char *sql =
            outrider__dead_sql(&question_dialect, &names, (enum dead_statement)i, NULL, NULL);
        assert_non_null(sql);
        const char *word = question_foreign_word(sql);
        if (word != NULL)
            fail_msg("%s is in %s", word, sql);
        free(sql);
    }
}

static void check(enum dead_statement which, const char *expected, const char *places)
{
    struct sql_params params = {0};
    char *sql = outrider__dead_sql(&question_dialect, &names, which, &params, NULL);
    assert_non_null(sql);
    assert_string_equal(sql, expected);
    assert_int_equal(params.n, strlen(places));
    for (size_t i = 0; i < params.n; i++)
        assert_int_equal(params.order[i], places[i] - '0');
    free(sql);
}

static void a_filter_that_is_null_says_nothing(void **state)
{
    (void)state;
    check(DEAD_DISCARD,
          "DELETE FROM outrider_parked WHERE (? IS NULL OR pipeline = ?)\n"
          "AND (? IS NULL OR id IN (SELECT j.v FROM JSON_TABLE(?, '$[*]' COLUMNS (v LONGTEXT PATH "
          "'$')) AS j))\n"
          "AND (? IS NULL OR event_type IN (?, '\\x' || lower(hex(?))))\n"
          "AND updated_at >= ? AND (state = 'dead' OR ?)\n\n",
          "112233345");
}

static void failures_of_one_pipeline_are_counted(void **state)
{
    (void)state;
    check(DEAD_FAILED,
          "SELECT count(CASE WHEN state <> 'dead' THEN 1 END), count(CASE WHEN state = 'dead' THEN "
          "1 END)\n"
          "FROM outrider_parked\n"
          "WHERE pipeline = ? AND outbox = ?\n",
          "12");
}

static void lanes_are_mended_by_the_rows_whose_state_is_wrong(void **state)
{
    char *sql = outrider__dead_sql(&question_dialect, &names, DEAD_MEND, NULL, NULL);
    (void)state;
    assert_non_null(strstr(sql, "UPDATE outrider_parked p, (WITH f AS (SELECT p.pipeline,"));
    assert_non_null(strstr(sql, ") w\nSET p.state = CASE WHEN w.is_first THEN 'parked'"));
    free(sql);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_statement_has_words_of_one_server_alone),
        cmocka_unit_test(a_filter_that_is_null_says_nothing),
        cmocka_unit_test(failures_of_one_pipeline_are_counted),
        cmocka_unit_test(lanes_are_mended_by_the_rows_whose_state_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
