/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/strbuf.h"

static void appends_add_up_to_a_c_string(void **state) /* contract 1 */
{
    (void)state;
    struct strbuf sb;
    outrider__strbuf_init(&sb, 1000);
    assert_string_equal(strbuf_cstr(&sb), "");
    assert_int_equal(strbuf_bytes(&sb).len, 0);
    strbuf_append_str(&sb, "orders");
    strbuf_append_char(&sb, '.');
    outrider__strbuf_append(&sb, BYTES_NULL);
    outrider__strbuf_appendf(&sb, "%s-%d", "created", 42);
    assert_string_equal(strbuf_cstr(&sb), "orders.created-42");
    assert_int_equal(sb.len, 17);
    assert_false(sb.failed);
    outrider__strbuf_release(&sb);
}

static void the_cap_can_be_filled_but_not_passed(void **state) /* contract 2 */
{
    (void)state;
    struct strbuf sb;
    outrider__strbuf_init(&sb, 8);
    strbuf_append_str(&sb, "12345678");
    assert_false(sb.failed);
    strbuf_append_char(&sb, '9');
    assert_true(sb.failed);
    assert_string_equal(strbuf_cstr(&sb), "12345678");
    outrider__strbuf_release(&sb);
}

static void an_append_past_the_cap_appends_nothing_and_the_failure_sticks(void **state)
{
    (void)state; /* contract 2 */
    struct strbuf sb;
    outrider__strbuf_init(&sb, 4);
    strbuf_append_str(&sb, "ab");
    outrider__strbuf_appendf(&sb, "%s", "cdef");
    assert_true(sb.failed);
    assert_string_equal(strbuf_cstr(&sb), "ab");
    strbuf_append_str(&sb, "c");
    assert_string_equal(strbuf_cstr(&sb), "ab");
    outrider__strbuf_append_base64(&sb, BYTES_LIT("xyz"));
    assert_int_equal(sb.len, 2);
    outrider__strbuf_clear(&sb);
    assert_false(sb.failed);
    strbuf_append_str(&sb, "abcd");
    assert_string_equal(strbuf_cstr(&sb), "abcd");
    outrider__strbuf_release(&sb);
}

static void reserve_refuses_a_size_that_would_wrap(void **state)
{
    (void)state;
    struct strbuf sb;
    outrider__strbuf_init(&sb, 100);
    strbuf_append_str(&sb, "ab");
    assert_null(outrider__strbuf_reserve(&sb, SIZE_MAX));
    assert_true(sb.failed);
    outrider__strbuf_release(&sb);
}

static void release_leaves_a_buffer_that_can_be_used_again(void **state)
{
    (void)state;
    struct strbuf sb;
    outrider__strbuf_init(&sb, 5);
    strbuf_append_str(&sb, "abcde");
    outrider__strbuf_release(&sb);
    outrider__strbuf_release(&sb);
    strbuf_append_str(&sb, "fghij");
    assert_string_equal(strbuf_cstr(&sb), "fghij");
    outrider__strbuf_release(&sb);
}

static const struct {
    struct bytes in;
    const char *out;
} json_cases[] = {
    {{NULL, 0}, "\"\""},
    {{"", 0}, "\"\""},
    {{"plain", 5}, "\"plain\""},
    {{"q\"b\\s/", 6}, "\"q\\\"b\\\\s/\""},
    {{"\b\f\n\r\t", 5}, "\"\\b\\f\\n\\r\\t\""},
    {{"\0\x01\x1f\x7f", 4}, "\"\\u0000\\u0001\\u001f\x7f\""},
    {{"\xea\xb0\x80x", 4}, "\"\xea\xb0\x80x\""},
    {{"a\xff"
      "b",
      3},
     "\"a\xef\xbf\xbd"
     "b\""},
    /* What is well-formed stays, also beside what is not. */
    {{"\xc3\xa9\xff\xc3\xa9", 5}, "\"\xc3\xa9\xef\xbf\xbd\xc3\xa9\""},
    {{"\xe2\x82", 2}, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    {{"\xed\xa0\x80", 3}, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {{"\n\n", 2}, "\"\\n\\n\""},
};

static void any_bytes_become_a_json_string(void **state)
{
    (void)state;
    struct strbuf sb;
    outrider__strbuf_init(&sb, 1000);
    for (size_t i = 0; i < sizeof json_cases / sizeof *json_cases; i++) {
        outrider__strbuf_clear(&sb);
        outrider__strbuf_append_json(&sb, json_cases[i].in);
        assert_string_equal(strbuf_cstr(&sb), json_cases[i].out);
        assert_true(outrider__json_is_valid(strbuf_bytes(&sb)));
    }
    outrider__strbuf_release(&sb);
}

static void each_byte_alone_becomes_a_valid_json_string(void **state)
{
    (void)state;
    struct strbuf sb;
    outrider__strbuf_init(&sb, 100);
    for (int c = 0; c < 256; c++) {
        char byte = (char)c;
        outrider__strbuf_clear(&sb);
        outrider__strbuf_append_json(&sb, bytes_of(&byte, 1));
        assert_true(outrider__json_is_valid(strbuf_bytes(&sb)));
    }
    outrider__strbuf_release(&sb);
}

/* RFC 4648, section 10. */
static void base64_matches_the_vectors_of_its_standard(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xff\xfe\xfb", "//77"}};
    struct strbuf sb;
    outrider__strbuf_init(&sb, 100);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outrider__strbuf_clear(&sb);
        outrider__strbuf_append_base64(&sb, bytes_str(cases[i][0]));
        assert_string_equal(strbuf_cstr(&sb), cases[i][1]);
    }
    outrider__strbuf_release(&sb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_add_up_to_a_c_string),
        cmocka_unit_test(the_cap_can_be_filled_but_not_passed),
        cmocka_unit_test(an_append_past_the_cap_appends_nothing_and_the_failure_sticks),
        cmocka_unit_test(reserve_refuses_a_size_that_would_wrap),
        cmocka_unit_test(release_leaves_a_buffer_that_can_be_used_again),
        cmocka_unit_test(any_bytes_become_a_json_string),
        cmocka_unit_test(each_byte_alone_becomes_a_valid_json_string),
        cmocka_unit_test(base64_matches_the_vectors_of_its_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
