/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "outrider/version.h"

static void every_code_has_a_name_and_a_text_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < OUTRIDER_CODE_COUNT; i++) {
        const char *name = outrider_code_name((enum outrider_code)i);
        const char *text = outrider_code_text((enum outrider_code)i);
        assert_true(name != NULL && strlen(name) > 1);
        assert_true(text != NULL && strlen(text) > 4);
        for (const char *p = name; *p != '\0'; p++)
            assert_true(isupper((unsigned char)*p) || *p == '_');
        assert_string_not_equal(name, "UNKNOWN");
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(name, outrider_code_name((enum outrider_code)k));
            assert_string_not_equal(text, outrider_code_text((enum outrider_code)k));
        }
    }
}

static void a_code_is_found_by_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < OUTRIDER_CODE_COUNT; i++)
        assert_int_equal(outrider_code_by_name(outrider_code_name((enum outrider_code)i)), i);
    assert_int_equal(outrider_code_by_name("NO_SUCH_CODE"), OUTRIDER_CODE_COUNT);
    assert_int_equal(outrider_code_by_name("too_large"), OUTRIDER_CODE_COUNT);
    assert_int_equal(outrider_code_by_name(""), OUTRIDER_CODE_COUNT);
}

static void a_code_from_elsewhere_is_unknown_and_does_no_harm(void **state)
{
    (void)state;
    assert_string_equal(outrider_code_name((enum outrider_code)OUTRIDER_CODE_COUNT), "UNKNOWN");
    assert_string_equal(outrider_code_name((enum outrider_code) - 1), "UNKNOWN");
    assert_string_equal(outrider_code_text((enum outrider_code)9999), "unknown error");
}

static void dispositions_have_names(void **state)
{
    (void)state;
    assert_string_equal(outrider_disposition_name(OUTRIDER_RETRY), "retry");
    assert_string_equal(outrider_disposition_name(OUTRIDER_DEAD), "dead");
    assert_string_equal(outrider_disposition_name(OUTRIDER_STOP), "stop");
}

static void fail_fills_everything_and_returns_a_negative_number(void **state)
{
    (void)state;
    struct outrider_error err;
    memset(&err, 0x55, sizeof err);
    assert_int_equal(
        outrider__fail(&err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD, "payload of %d bytes", 7), -1);
    assert_int_equal(err.code, OUTRIDER_TOO_LARGE);
    assert_int_equal(err.disposition, OUTRIDER_DEAD);
    assert_string_equal(err.message, "payload of 7 bytes");
    assert_string_equal(err.origin, "");
}

static void a_caller_may_do_without_details(void **state)
{
    (void)state;
    assert_int_equal(outrider__fail(NULL, OUTRIDER_IO, OUTRIDER_RETRY, "x"), -1);
    assert_int_equal(outrider__fail_errno(NULL, EIO, "x"), -1);
    assert_int_equal(outrider__fail_nomem(NULL), -1);
    outrider__error_origin(NULL, "x");
}

static void a_message_is_one_line_whatever_was_put_into_it(void **state)
{
    (void)state;
    struct outrider_error err;
    (void)outrider__fail(&err, OUTRIDER_DB, OUTRIDER_STOP, "first\nsecond\t\x1b[31m\r\n");
    assert_string_equal(err.message, "first second  [31m");
}

static void a_long_message_is_cut(void **state)
{
    (void)state;
    struct outrider_error err;
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    (void)outrider__fail(&err, OUTRIDER_DB, OUTRIDER_STOP, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    (void)outrider__fail_errno(&err, EIO, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    outrider__error_origin(&err, text);
    assert_int_equal(strlen(err.origin), sizeof err.origin - 1);
}

static void a_failed_system_call_names_its_errno(void **state)
{
    (void)state;
    struct outrider_error err;
    assert_int_equal(outrider__fail_errno(&err, EACCES, "cannot open '%s'", "shop.db"), -1);
    assert_int_equal(err.code, OUTRIDER_IO);
    assert_string_equal(err.message, "cannot open 'shop.db': Permission denied");
    assert_string_equal(err.origin, "EACCES");
}

static void a_full_disk_has_a_code_of_its_own(void **state)
{
    (void)state;
    struct outrider_error err;
    (void)outrider__fail_errno(&err, ENOSPC, "cannot write");
    assert_int_equal(err.code, OUTRIDER_NO_SPACE);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    (void)outrider__fail_errno(&err, EDQUOT, "cannot write");
    assert_int_equal(err.code, OUTRIDER_NO_SPACE);
}

static void the_library_says_the_version_of_its_header(void **state)
{
    (void)state;
    assert_string_equal(outrider_version(), OUTRIDER_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_a_text_of_its_own),
        cmocka_unit_test(a_code_is_found_by_its_name),
        cmocka_unit_test(a_code_from_elsewhere_is_unknown_and_does_no_harm),
        cmocka_unit_test(dispositions_have_names),
        cmocka_unit_test(fail_fills_everything_and_returns_a_negative_number),
        cmocka_unit_test(a_caller_may_do_without_details),
        cmocka_unit_test(a_message_is_one_line_whatever_was_put_into_it),
        cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(a_failed_system_call_names_its_errno),
        cmocka_unit_test(a_full_disk_has_a_code_of_its_own),
        cmocka_unit_test(the_library_says_the_version_of_its_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
