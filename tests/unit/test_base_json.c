/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/json.h"

/* Exact copies on the heap, so that a read or write past the end is caught. */
static bool is_valid(struct bytes text)
{
    char *copy = malloc(text.len ? text.len : 1);
    assert_non_null(copy);
    if (text.len > 0)
        memcpy(copy, text.data, text.len);
    bool valid = outrider__json_is_valid(bytes_of(copy, text.len));
    char *out = malloc(text.len ? text.len : 1);
    assert_non_null(out);
    assert_int_equal(outrider__json_minify(bytes_of(copy, text.len), out) >= 0, valid);
    free(out);
    free(copy);
    return valid;
}

static const char *const good[] = {
    "null",
    "true",
    "false",
    "0",
    "-0",
    "7",
    "-1",
    "1234567890123456789012345678901234567890",
    "0.5",
    "-0.0",
    "1e5",
    "1E+5",
    "1e-5",
    "0e0",
    "1.5e300",
    "1e999999",
    "\"\"",
    "\"a\"",
    "\"seven b\"",
    "\"eight by\"",
    "\"nine byte\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u0000\\u00e9\\uABCD\\uabcd\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud800\"", /* a lone half is within the grammar */
    "\"\\udc00\\ud800\"",
    "\"\x7f\"",
    "\"\xc3\xa9\xea\xb0\x80\xf0\x9f\x98\x80\"",
    "\"\xe2\x80\xa8\"", /* a line separator is not a control byte here */
    "[]",
    "{}",
    "[[],{}]",
    "[1,2,3]",
    "[null,true,false,\"\",0,[],{}]",
    "{\"a\":1}",
    "{\"\":0}",
    "{\"a\":{\"b\":[{\"c\":[]}]}}",
    "{\"a\":1,\"a\":2}", /* a repeated key is within the grammar */
    " \t\r\n1 \t\r\n",
    " { \"a\" : [ 1 , 2 ] , \"b\" : { } } ",
    "[ ]",
    "{ }",
};

static const char *const bad[] = {
    "",
    " ",
    "nul",
    "nulll",
    "True",
    "TRUE",
    "truefalse",
    "NaN",
    "Infinity",
    "-Infinity",
    "undefined",
    "-",
    "+1",
    "01",
    "-01",
    "00",
    "1.",
    ".5",
    "-.5",
    "1.e5",
    "1e",
    "1e+",
    "1ee5",
    "1.5.5",
    "0x10",
    "1_000",
    "1 2",
    "1a",
    "1,",
    "\"",
    "\"a",
    "\"a\"b",
    "\"a\\\"",
    "'a'",
    "a",
    "\"\\a\"",
    "\"\\x41\"",
    "\"\\'\"",
    "\"\\u\"",
    "\"\\u12\"",
    "\"\\u123\"",
    "\"\\u123g\"",
    "\"\\u12@4\"",
    "\"\\u`234\"",
    "\"\\u 234\"",
    "\"\\u-123\"",
    "\"\\U0041\"",
    "\"\\u00",
    "\"\\",
    "\"\n\"",
    "\"\t\"",
    "\"\x1f\"",
    "\"12345678\x01\"",
    "\"1234567\x01 more\"",
    "\"\xff\"",
    "\"\xc0\xaf\"",
    "\"\xed\xa0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xe2\x82\"",
    "\"\xe2\x82",
    "\"12345678\xc3\"",
    "\xef\xbb\xbf{}", /* a byte order mark */
    "[",
    "]",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1,,2]",
    "[1 2]",
    "[1}",
    "[}",
    "[]]",
    "[[]",
    "[\"a\":1]",
    "{",
    "}",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "{,\"a\":1}",
    "{\"a\":1,,\"b\":2}",
    "{\"a\" 1}",
    "{\"a\"::1}",
    "{\"a\":}",
    "{\"a\",\"b\"}",
    "{a:1}",
    "{'a':1}",
    "{1:1}",
    "{null:1}",
    "{\"a\":1]",
    "{\"a\":1}}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":[}",
    "{]",
    "[1]// comment",
    "/* */1",
    "[1]#",
    "\f1",
    "\v1",
    "1\xc2\xa0",
    "\342\200\2031",
};

static void what_the_grammar_has_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!is_valid(bytes_str(good[i])))
            fail_msg("refused: %s", good[i]);
}

static void what_the_grammar_has_not_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (is_valid(bytes_str(bad[i])))
            fail_msg("accepted: %s", bad[i]);
    assert_false(is_valid(BYTES_NULL));
    assert_false(is_valid(BYTES_LIT("1\0")));
    assert_false(is_valid(BYTES_LIT("\0")));
    assert_false(is_valid(BYTES_LIT("\"a\0b\"")));
    assert_false(is_valid(BYTES_LIT("[1,\0]")));
    assert_false(is_valid(BYTES_LIT("\"\\u00\0\x30\"")));
}

static void no_beginning_of_an_object_is_valid(void **state)
{
    (void)state;
    struct bytes text =
        BYTES_LIT("{\"k\\u00e9y\":[1.5e+3,true,null,{\"x\":\"\xc3\xa9 and more\"}]}");
    for (size_t n = 0; n < text.len; n++)
        assert_false(is_valid(bytes_of(text.data, n)));
    assert_true(is_valid(text));
}

/* Each offset within a word, each kind of byte that ends the fast path. */
static void special_bytes_are_seen_at_every_place_of_a_string(void **state)
{
    (void)state;
    for (size_t at = 0; at < 40; at++) {
        char text[44];
        text[0] = '"';
        memset(text + 1, 'a', 42);
        text[43] = '"';
        assert_true(is_valid(bytes_of(text, 44)));
        for (int c = 0; c < 256; c++) {
            text[1 + at] = (char)c;
            /* The backslash here stands before an a, which is no escape. */
            bool fine = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
            if (is_valid(bytes_of(text, 44)) != fine)
                fail_msg("byte %02x at %zu", (unsigned)c, at);
        }
        text[1 + at] = '\\';
        text[2 + at] = 'n';
        assert_true(is_valid(bytes_of(text, 44)));
    }
}

static bool is_nest_valid(size_t depth, char open, char close)
{
    char *text = malloc(2 * depth);
    assert_non_null(text);
    memset(text, open, depth);
    memset(text + depth, close, depth);
    bool valid = is_valid(bytes_of(text, 2 * depth));
    free(text);
    return valid;
}

static void nesting_ends_at_the_cap(void **state)
{
    (void)state;
    assert_true(is_nest_valid(JSON_DEPTH, '[', ']'));
    assert_false(is_nest_valid(JSON_DEPTH + 1, '[', ']'));
    assert_false(is_nest_valid(1000000, '[', ']'));
    assert_false(is_nest_valid(1000000, '{', '}'));
}

static const struct {
    const char *in, *out;
} minified[] = {
    {"1", "1"},
    {" 1\n", "1"},
    {"{\"a\":1}", "{\"a\":1}"},
    {"{ \"a b\" : [ 1 , 2.50 , -0 ] ,\n\t\"c\\u0020d\" : \" x \\n \" }",
     "{\"a b\":[1,2.50,-0],\"c\\u0020d\":\" x \\n \"}"},
    {"[ ]", "[]"},
    {" { } ", "{}"},
    {"\r\n[\r\n]\r\n", "[]"},
    {"{\"a\":1, \"a\":2}", "{\"a\":1,\"a\":2}"},
    {"[1E5, 1.0, 100000000000000000000]", "[1E5,1.0,100000000000000000000]"},
    {"\" \t\"", NULL},
    {"[1, 2", NULL},
};

static void minify_removes_white_space_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof minified / sizeof *minified; i++) {
        char out[200];
        ssize_t n = outrider__json_minify(bytes_str(minified[i].in), out);
        if (minified[i].out == NULL) {
            assert_int_equal(n, -1);
            continue;
        }
        assert_int_equal(n, strlen(minified[i].out));
        assert_memory_equal(out, minified[i].out, (size_t)n);
    }
}

static void members_are_walked_in_order(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"a", "1"},   {"b\\n", "\"x,}\\\"\""}, {"", "{\"a\":[1,\"}]\"]}"},
        {"a", "[ ]"}, {"z", "null"},
    };
    struct json_members m;
    struct bytes key, value;
    struct bytes text = BYTES_LIT(" { \"a\" : 1 , \"b\\n\":\"x,}\\\"\",\"\": {\"a\":[1,\"}]\"]} ,"
                                  "\"a\": [ ] , \"z\":null } ");
    assert_int_equal(outrider__json_members_begin(&m, text), 0);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(outrider__json_members_next(&m, &key, &value), 1);
        assert_true(bytes_eq_str(key, expected[i][0]));
        assert_true(bytes_eq_str(value, expected[i][1]));
    }
    assert_int_equal(outrider__json_members_next(&m, &key, &value), 0);
    assert_int_equal(outrider__json_members_next(&m, &key, &value), 0);
    assert_true(bytes_eq_str(key, "z")); /* untouched at the end */
}

static void an_empty_object_has_no_members(void **state)
{
    (void)state;
    struct json_members m;
    struct bytes key, value;
    assert_int_equal(outrider__json_members_begin(&m, BYTES_LIT(" { } ")), 0);
    assert_int_equal(outrider__json_members_next(&m, &key, &value), 0);
}

static void only_a_valid_object_can_be_walked(void **state)
{
    (void)state;
    struct json_members m;
    static const char *const texts[] = {"", "[]", "1", "\"{}\"", "{\"a\":1", "{\"a\":1}}", "null"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(outrider__json_members_begin(&m, bytes_str(texts[i])), -1);
}

static const struct {
    const char *in;
    struct bytes out;
} decoded[] = {
    {"plain", {"plain", 5}},
    {"a\\nb", {"a\nb", 3}},
    {"\\\"\\\\\\/\\b\\f\\n\\r\\t", {"\"\\/\b\f\n\r\t", 8}},
    {"\\u0041\\u00e9\\uAC00", {"A\xc3\xa9\xea\xb0\x80", 6}},
    {"\\u0000", {"\0", 1}},
    {"\\ud83d\\ude00", {"\xf0\x9f\x98\x80", 4}},
    {"\\uDBFF\\uDFFF", {"\xf4\x8f\xbf\xbf", 4}},
    {"\\ud83d", {"\xef\xbf\xbd", 3}},                               /* half at the end */
    {"\\ud83dx", {"\xef\xbf\xbdx", 4}},                             /* half, then a letter */
    {"\\ud83d\\n", {"\xef\xbf\xbd\n", 4}},                          /* half, then an escape */
    {"\\ude00", {"\xef\xbf\xbd", 3}},                               /* second half alone */
    {"\\ud83d\\ud83d\\ude00", {"\xef\xbf\xbd\xf0\x9f\x98\x80", 7}}, /* half, then a pair */
    {"\\ud83d\\u0041",
     {"\xef\xbf\xbd"
      "A",
      4}},
};

static void escapes_are_decoded(void **state)
{
    (void)state;
    struct arena a;
    outrider__arena_init(&a, 256);
    for (size_t i = 0; i < sizeof decoded / sizeof *decoded; i++) {
        struct bytes text;
        assert_int_equal(outrider__json_unescape(bytes_str(decoded[i].in), &a, &text), 0);
        if (!bytes_eq(text, decoded[i].out))
            fail_msg("case %zu", i);
        assert_true(outrider__bytes_is_utf8(text));
    }
    outrider__arena_release(&a);
}

static void a_string_without_escapes_is_borrowed(void **state)
{
    (void)state;
    struct arena a;
    outrider__arena_init(&a, 256);
    struct bytes in = BYTES_LIT("order-42"), text;
    assert_int_equal(outrider__json_unescape(in, &a, &text), 0);
    assert_ptr_equal(text.data, in.data);
    assert_int_equal(a.used, 0);
    assert_int_equal(outrider__json_unescape(BYTES_NULL, &a, &text), 0);
    assert_int_equal(text.len, 0);
    outrider__arena_release(&a);
}

static void a_broken_escape_is_an_error_and_the_result_untouched(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "\\",        "a\\",        "\\x",       "\\u",          "\\u1",           "\\u12g4",
        "abc\\u123", "\\ud83d\\u", "\\ud83d\\", "\\ud83d\\u12", "\\ud83d\\uzzzz", "\\'"};
    struct arena a;
    outrider__arena_init(&a, 256);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct bytes text = BYTES_LIT("before");
        char *copy = malloc(strlen(broken[i]));
        assert_non_null(copy);
        memcpy(copy, broken[i], strlen(broken[i]));
        if (outrider__json_unescape(bytes_of(copy, strlen(broken[i])), &a, &text) == 0)
            fail_msg("accepted: %s", broken[i]);
        assert_true(bytes_eq_str(text, "before"));
        free(copy);
    }
    struct bytes text;
    assert_int_equal(outrider__json_unescape(BYTES_LIT("\\\0"), &a, &text), -1);
    outrider__arena_release(&a);
}

static void a_value_as_text_is_decoded_only_if_it_is_a_string(void **state)
{
    (void)state;
    struct arena a;
    struct bytes text;
    outrider__arena_init(&a, 256);
    assert_int_equal(outrider__json_text(BYTES_LIT("\"a\\tb\""), &a, &text), 0);
    assert_true(bytes_eq_str(text, "a\tb"));
    assert_int_equal(outrider__json_text(BYTES_LIT("\"\""), &a, &text), 0);
    assert_true(bytes_eq_str(text, ""));
    assert_int_equal(outrider__json_text(BYTES_LIT("1.50"), &a, &text), 0);
    assert_true(bytes_eq_str(text, "1.50"));
    assert_int_equal(outrider__json_text(BYTES_LIT("{\"a\":\"\\n\"}"), &a, &text), 0);
    assert_true(bytes_eq_str(text, "{\"a\":\"\\n\"}"));
    assert_int_equal(outrider__json_text(BYTES_LIT("\""), &a, &text), -1);
    assert_int_equal(outrider__json_text(BYTES_LIT("\"a"), &a, &text), -1);
    outrider__arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_grammar_has_is_accepted),
        cmocka_unit_test(what_the_grammar_has_not_is_refused),
        cmocka_unit_test(no_beginning_of_an_object_is_valid),
        cmocka_unit_test(special_bytes_are_seen_at_every_place_of_a_string),
        cmocka_unit_test(nesting_ends_at_the_cap),
        cmocka_unit_test(minify_removes_white_space_and_nothing_else),
        cmocka_unit_test(members_are_walked_in_order),
        cmocka_unit_test(an_empty_object_has_no_members),
        cmocka_unit_test(only_a_valid_object_can_be_walked),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(a_string_without_escapes_is_borrowed),
        cmocka_unit_test(a_broken_escape_is_an_error_and_the_result_untouched),
        cmocka_unit_test(a_value_as_text_is_decoded_only_if_it_is_a_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
