/* SPDX-License-Identifier: MIT */
#include "support/inbox_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "outrider/inbox.h"

void inbox_case_misuse(void *conn, inbox_call *call)
{
    static char long_text[OUTRIDER_INBOX_TEXT_MAX + 2];
    memset(long_text, 'x', sizeof long_text - 1);
    const char *const bad[] = {NULL, "", "\xff", "\xed\xa0\x80", long_text};
    struct outrider_error err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int second = 0; second < 2; second++) {
            err.code = OUTRIDER_OK;
            assert_int_equal(call(conn, second ? "mail" : bad[i], second ? bad[i] : "1", &err), -1);
            assert_int_equal(err.code, OUTRIDER_INVALID);
        }
    }
    assert_int_equal(call(NULL, "mail", "1", &err), -1);
    assert_int_equal(err.code, OUTRIDER_INVALID);
    assert_int_equal(call(NULL, NULL, NULL, NULL), -1);
}
