/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"

static void null_and_empty_are_told_apart_but_equal(void **state)
{
    (void)state;
    assert_true(bytes_is_null(BYTES_NULL));
    assert_true(bytes_is_null(bytes_str(NULL)));
    assert_false(bytes_is_null(bytes_str("")));
    assert_true(bytes_eq(BYTES_NULL, bytes_str("")));
}

static void equality_is_by_length_and_bytes(void **state)
{
    (void)state;
    assert_true(bytes_eq(BYTES_LIT("a\0b"), bytes_of("a\0b", 3)));
    assert_false(bytes_eq(BYTES_LIT("a\0b"), BYTES_LIT("a\0c")));
    assert_false(bytes_eq(BYTES_LIT("ab"), BYTES_LIT("abc")));
    assert_true(bytes_eq_str(BYTES_LIT("topic"), "topic"));
}

static void the_hash_depends_on_each_byte_and_on_the_length(void **state)
{
    (void)state;
    char text[33] = {0};
    for (size_t len = 0; len <= 32; len++) {
        uint64_t before = outrider__bytes_hash(bytes_of(text, len));
        assert_int_equal(before, outrider__bytes_hash(bytes_of(text, len)));
        assert_int_not_equal(before, outrider__bytes_hash(bytes_of(text, len ? len - 1 : 1)));
        for (size_t i = 0; i < len; i++) {
            text[i] = 1;
            assert_int_not_equal(before, outrider__bytes_hash(bytes_of(text, len)));
            text[i] = 0;
        }
    }
}

static const struct {
    const char *text;
    bool good;
} utf8_cases[] = {
    {"", true},
    {"plain ascii, longer than one word", true},
    {"\x7f", true},
    {"\xc2\x80", true},
    {"\xdf\xbf", true},
    {"\xe0\xa0\x80", true},
    {"\xed\x9f\xbf", true},
    {"\xee\x80\x80", true},
    {"\xef\xbf\xbf", true},
    {"\xf0\x90\x80\x80", true},
    {"\xf4\x8f\xbf\xbf", true},
    {"12345678\xea\xb0\x80", true},
    {"\x80", false},             /* a continuation alone */
    {"\xc0\xaf", false},         /* overlong slash */
    {"\xc1\xbf", false},         /* overlong */
    {"\xe0\x9f\xbf", false},     /* overlong */
    {"\xf0\x8f\xbf\xbf", false}, /* overlong */
    {"\xed\xa0\x80", false},     /* surrogate */
    {"\xed\xbf\xbf", false},     /* surrogate */
    {"\xf4\x90\x80\x80", false}, /* above U+10FFFF */
    {"\xf5\x80\x80\x80", false},
    {"\xff", false},
    {"\xfe", false},
    {"\xc2", false},         /* cut */
    {"\xe2\x82", false},     /* cut */
    {"\xf0\x9f\x98", false}, /* cut */
    {"\xc2\x41", false},
    {"\xe2\x82\x41", false},
    {"12345678\xff", false},
    {"1234567\xc3", false},
};

static void utf8_is_judged_by_the_standard(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof utf8_cases / sizeof *utf8_cases; i++)
        if (outrider__bytes_is_utf8(bytes_str(utf8_cases[i].text)) != utf8_cases[i].good)
            fail_msg("case %zu: expected %s", i, utf8_cases[i].good ? "good" : "bad");
}

/* The encoder of this test is the plain definition; the decoder must agree. */
static void every_code_point_but_surrogates_is_well_formed(void **state)
{
    (void)state;
    for (unsigned c = 0x80; c <= 0x10ffff; c++) {
        unsigned char u[4];
        size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        for (size_t i = n - 1; i > 0; i--)
            u[i] = (unsigned char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
        u[0] = (unsigned char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c >> (6 * (n - 1)));
        size_t expected = c >= 0xd800 && c <= 0xdfff ? 0 : n;
        if (outrider__utf8_length((const char *)u, n) != expected)
            fail_msg("U+%04X", c);
        if (outrider__utf8_length((const char *)u, n - 1) != 0)
            fail_msg("U+%04X cut short", c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_and_empty_are_told_apart_but_equal),
        cmocka_unit_test(equality_is_by_length_and_bytes),
        cmocka_unit_test(the_hash_depends_on_each_byte_and_on_the_length),
        cmocka_unit_test(utf8_is_judged_by_the_standard),
        cmocka_unit_test(every_code_point_but_surrogates_is_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
