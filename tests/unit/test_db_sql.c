/* SPDX-License-Identifier: MIT */
/* SQL from named blocks: common/sql.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/sql.h"

static const struct sql_word words[] = {{"outbox", "\"shop\".\"outbox\""}, {"where", NULL}};
#define N_WORDS (sizeof words / sizeof *words)

static void check(const char *template, const char *expected)
{
    char *sql = outrider__sql_expand(template, words, N_WORDS);
    if (expected == NULL) {
        assert_null(sql);
    } else {
        assert_non_null(sql);
        assert_string_equal(sql, expected);
    }
    free(sql);
}

static void words_are_filled_in(void **state)
{
    (void)state;
    check("SELECT 1 FROM @outbox@ @where@", "SELECT 1 FROM \"shop\".\"outbox\" ");
    check("@outbox@@outbox@", "\"shop\".\"outbox\"\"shop\".\"outbox\"");
}

static void an_at_sign_that_begins_no_word_is_copied(void **state)
{
    (void)state;
    check("a @> b", "a @> b");
    check("'me@there'", "'me@there'");
    check("@", "@");
    check("@@", "@@");
}

static void an_unknown_word_fails(void **state)
{
    (void)state;
    check("SELECT @outbx@", NULL);
}

static void check_unknown(const char *template, const char *expected)
{
    struct bytes word = outrider__sql_unknown_word(template, words, N_WORDS);
    if (expected == NULL)
        assert_true(bytes_is_null(word));
    else
        assert_true(bytes_eq_str(word, expected));
}

static void an_unknown_word_is_named(void **state)
{
    (void)state;
    check_unknown("SELECT @outbx@", "outbx");
    check_unknown("a @> b, @outbox@@typo@", "typo");
    check_unknown("@@ @outbox@ a@b @where@", NULL);
    check_unknown("no words", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_filled_in),
        cmocka_unit_test(an_at_sign_that_begins_no_word_is_copied),
        cmocka_unit_test(an_unknown_word_fails),
        cmocka_unit_test(an_unknown_word_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
