/* SPDX-License-Identifier: MIT */
/* Neutral statements as a dialect writes them: common/dialect.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unit/question_dialect.h"

static void check(const char *neutral, const char *expected)
{
    char *sql = outrider__sql_finish(&question_dialect, neutral, NULL, NULL);
    assert_non_null(sql);
    assert_string_equal(sql, expected);
    free(sql);
}

static void a_parameter_is_written_as_the_dialect_does(void **state)
{
    (void)state;
    check("a = @1:text@ AND b < @2:time@", "a = ? AND b < ?");
    check("@4:text[]@ IS NULL", "? IS NULL");
    check("c > @6:int8[3]@", "c > CAST(JSON_EXTRACT(?, '$[2]') AS SIGNED)");
}

static void a_marker_inside_of_quotes_is_none(void **state)
{
    (void)state;
    check("\"a@1:text@b\" = '@2:text@''@1:text@' || @3:text@",
          "\"a@1:text@b\" = '@2:text@''@1:text@' || ?");
}

static void another_at_sign_is_copied(void **state)
{
    (void)state;
    check("a @> b @ c @1@ @0:text@ @1:word@ @99:text@ @1:text",
          "a @> b @ c @1@ @0:text@ @1:word@ @99:text@ @1:text");
}

static void the_places_of_parameters_are_known(void **state)
{
    struct sql_params params;
    (void)state;
    char *sql = outrider__sql_finish(&question_dialect, "@2:text@ @1:int8@ @2:text@ @12:int8[1]@",
                                     &params, NULL);
    assert_non_null(sql);
    free(sql);
    assert_int_equal(params.n, 4);
    assert_memory_equal(params.order, ((unsigned char[]){2, 1, 2, 12}), 4);
}

static void quotes_in_names_and_literals_are_doubled(void **state)
{
    struct strbuf q;
    (void)state;
    outrider__strbuf_init(&q, 1024);
    outrider__sql_name(&q, "a\"b'c");
    strbuf_append_str(&q, " = ");
    outrider__sql_literal(&q, "d'e\\\"f");
    assert_string_equal(strbuf_cstr(&q), "\"a\"\"b'c\" = 'd''e\\\"f'");
    outrider__strbuf_release(&q);
}

static void a_prefix_is_as_long_as_its_characters(void **state)
{
    struct strbuf q;
    (void)state;
    outrider__strbuf_init(&q, 1024);
    outrider__sql_begins(&q, "o.owner", "caf\xc3\xa9@");
    assert_string_equal(strbuf_cstr(&q), "left(o.owner, 5) = 'caf\xc3\xa9@'");
    outrider__strbuf_release(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_is_written_as_the_dialect_does),
        cmocka_unit_test(a_marker_inside_of_quotes_is_none),
        cmocka_unit_test(another_at_sign_is_copied),
        cmocka_unit_test(the_places_of_parameters_are_known),
        cmocka_unit_test(quotes_in_names_and_literals_are_doubled),
        cmocka_unit_test(a_prefix_is_as_long_as_its_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
