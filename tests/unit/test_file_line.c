/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "sink/file/line.h"

static void check_line(const struct delivery *d, const char *expected)
{
    struct strbuf out, member;
    struct outrider_error err = {0};
    outrider__strbuf_init(&out, FILE_LINE_MAX);
    outrider__strbuf_init(&member, 4096);
    assert_int_equal(outrider__line_topic(&member, d->topic), 0);
    assert_int_equal(
        outrider__line_append(&out, 18446744073709551615u, strbuf_bytes(&member), d, &err), 0);
    assert_int_equal(out.data[out.len - 1], '\n');
    assert_true(outrider__json_is_valid(bytes_of(out.data, out.len - 1)));
    out.data[out.len - 1] = '\0';
    assert_string_equal(out.data, expected);
    outrider__strbuf_release(&out);
    outrider__strbuf_release(&member);
}

static void a_line_has_the_documented_form(void **state)
{
    (void)state;
    const struct header headers[] = {{BYTES_LIT("event-id"), BYTES_LIT("e1")},
                                     {BYTES_LIT("note \"x\""), BYTES_LIT("a\\b\n")}};
    struct delivery d = {.topic = BYTES_LIT("orders"),
                         .key = BYTES_LIT("42"),
                         .payload = BYTES_LIT(" { \"a\" : 1.0 , \"b\" : 1e400 } "),
                         .headers = headers,
                         .n_headers = 2,
                         .partition = -1,
                         .timestamp_us = 1767322245678000};
    check_line(&d, "{\"offset\":18446744073709551615,\"topic\":\"orders\",\"key\":\"42\","
                   "\"timestamp\":\"2026-01-02T02:50:45.678Z\","
                   "\"headers\":{\"event-id\":\"e1\",\"note \\\"x\\\"\":\"a\\\\b\\n\"},"
                   "\"payload\":{\"a\":1.0,\"b\":1e400}}");
}

static void an_explicit_partition_follows_the_key(void **state)
{
    (void)state;
    struct delivery d = {.topic = BYTES_LIT("t"), .payload = BYTES_LIT("1"), .partition = 0};
    check_line(&d, "{\"offset\":18446744073709551615,\"topic\":\"t\",\"key\":null,\"partition\":0,"
                   "\"timestamp\":\"1970-01-01T00:00:00Z\",\"headers\":{},\"payload\":1}");
}

static void bytes_that_are_not_text_are_base64_and_say_so(void **state)
{
    (void)state;
    const struct header headers[] = {{BYTES_LIT("h\xff"), BYTES_LIT("\xff\xfe")}};
    struct delivery d = {.topic = BYTES_LIT("t\x80"),
                         .key = BYTES_LIT("\x80"),
                         .payload = BYTES_LIT("\"\x80\""),
                         .headers = headers,
                         .n_headers = 1,
                         .partition = -1};
    check_line(&d, "{\"offset\":18446744073709551615,\"topic_base64\":\"dIA=\","
                   "\"key_base64\":\"gA==\",\"timestamp\":\"1970-01-01T00:00:00Z\","
                   "\"headers\":{\"h\xef\xbf\xbd\":{\"base64\":\"//4=\"}},"
                   "\"payload_base64\":\"IoAi\"}");
}

static void every_control_byte_is_escaped(void **state)
{
    (void)state;
    char text[33], expected[512];
    size_t n = (size_t)snprintf(expected, sizeof expected,
                                "{\"offset\":18446744073709551615,\"topic\":\"t\",\"key\":\"k\","
                                "\"timestamp\":\"1970-01-01T00:00:00Z\",\"headers\":{},"
                                "\"payload_text\":\"");
    for (int c = 0; c < 32; c++) {
        static const char *const shorts = "btn?fr";
        text[c] = (char)c;
        if (c >= 8 && c <= 13 && c != 11)
            n += (size_t)snprintf(expected + n, sizeof expected - n, "\\%c", shorts[c - 8]);
        else
            n += (size_t)snprintf(expected + n, sizeof expected - n, "\\u%04x", (unsigned)c);
    }
    text[32] = 0x7f;
    (void)snprintf(expected + n, sizeof expected - n, "\x7f\"}");
    struct delivery d = {.topic = BYTES_LIT("t"),
                         .key = BYTES_LIT("k"),
                         .payload = bytes_of(text, sizeof text),
                         .partition = -1};
    check_line(&d, expected);
}

/* A line is one level deeper than its payload, and must still be JSON. */
static void a_payload_as_deep_as_json_may_be_still_makes_a_valid_line(void **state)
{
    (void)state;
    for (size_t depth = JSON_DEPTH - 2; depth <= JSON_DEPTH + 1; depth++) {
        char text[2 * (JSON_DEPTH + 1)];
        struct strbuf out;
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        struct delivery d = {
            .topic = BYTES_LIT("t"), .payload = bytes_of(text, 2 * depth), .partition = -1};
        outrider__strbuf_init(&out, FILE_LINE_MAX);
        assert_int_equal(outrider__line_append(&out, 0, BYTES_LIT(",\"topic\":\"t\""), &d, NULL),
                         0);
        assert_true(outrider__json_is_valid(bytes_of(out.data, out.len - 1)));
        bool as_json = strstr(out.data, "\"payload\":[") != NULL;
        assert_int_equal(as_json, depth < JSON_DEPTH);
        outrider__strbuf_release(&out);
    }
}

static void a_line_that_would_be_too_long_is_refused_and_leaves_no_trace(void **state)
{
    (void)state;
    struct strbuf out;
    struct outrider_error err = {0};
    size_t n = FILE_LINE_MAX / 4;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 1, n); /* six bytes each, escaped */
    struct delivery d = {.topic = BYTES_LIT("t"), .payload = bytes_of(text, n), .partition = -1};
    outrider__strbuf_init(&out, 16 * FILE_LINE_MAX);
    strbuf_append_str(&out, "before\n");
    assert_int_equal(outrider__line_append(&out, 0, BYTES_LIT(",\"topic\":\"t\""), &d, &err), -1);
    assert_int_equal(err.code, OUTRIDER_TOO_LARGE);
    assert_int_equal(err.disposition, OUTRIDER_DEAD);
    assert_int_equal(out.len, 7);
    outrider__strbuf_release(&out);
    free(text);
}

static void no_topic_leaves_its_directory(void **state)
{
    (void)state;
    static const struct {
        struct bytes topic;
        const char *name; /* NULL: refused */
    } table[] = {
        {BYTES_LIT("orders"), "orders"},
        {BYTES_LIT("order.OrderCreated"), "order.OrderCreated"},
        {BYTES_LIT("a-b_c.9"), "a-b_c.9"},
        {BYTES_LIT("."), "%2E"},
        {BYTES_LIT(".."), "%2E."},
        {BYTES_LIT("../x"), "%2E.%2Fx"},
        {BYTES_LIT(".hidden"), "%2Ehidden"},
        {BYTES_LIT("a/b"), "a%2Fb"},
        {BYTES_LIT("/etc/passwd"), "%2Fetc%2Fpasswd"},
        {BYTES_LIT("a\\b"), "a%5Cb"},
        {BYTES_LIT("a\0b"), "a%00b"},
        {BYTES_LIT("a\n\x7f"), "a%0A%7F"},
        {BYTES_LIT("%2E"), "%252E"},
        {BYTES_LIT("a b"), "a%20b"},
        {BYTES_LIT("\xc3\xa9"), "%C3%A9"},
        {BYTES_LIT("\xff"), "%FF"},
        {BYTES_LIT("~root"), "%7Eroot"},
        {BYTES_LIT(""), NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char name[TOPIC_DIR_SIZE] = "untouched", topic[TOPIC_DIR_SIZE];
        size_t len;
        struct outrider_error err = {0};
        int r = outrider__topic_encode(table[i].topic, name, &err);
        if (table[i].name == NULL) {
            assert_int_equal(r, -1);
            assert_int_equal(err.code, OUTRIDER_TOPIC);
            assert_int_equal(err.disposition, OUTRIDER_DEAD);
            assert_string_equal(name, "untouched");
            continue;
        }
        assert_int_equal(r, 0);
        assert_string_equal(name, table[i].name);
        assert_int_equal(outrider__topic_decode(name, topic, &len), 0);
        assert_true(bytes_eq(bytes_of(topic, len), table[i].topic));
    }
}

static void a_topic_of_255_bytes_is_the_longest(void **state)
{
    (void)state;
    char text[400], name[TOPIC_DIR_SIZE];
    memset(text, 'x', sizeof text);
    assert_int_equal(outrider__topic_encode(bytes_of(text, 255), name, NULL), 0);
    assert_int_equal(strlen(name), 255);
    assert_int_equal(outrider__topic_encode(bytes_of(text, 256), name, NULL), -1);
    memset(text, '/', sizeof text);
    assert_int_equal(outrider__topic_encode(bytes_of(text, 85), name, NULL), 0);
    assert_int_equal(outrider__topic_encode(bytes_of(text, 86), name, NULL), -1);
}

static void only_names_that_encoding_makes_are_topics(void **state)
{
    (void)state;
    static const char *const names[] = {"", ".", "..", ".x", "a b", "%", "%2", "%2e", "%41", "a/b"};
    char topic[TOPIC_DIR_SIZE];
    size_t len;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(outrider__topic_decode(names[i], topic, &len), -1);
}

int main(void)
{
    const struct CMUnitTest file_line[] = {
        cmocka_unit_test(a_line_has_the_documented_form),
        cmocka_unit_test(an_explicit_partition_follows_the_key),
        cmocka_unit_test(bytes_that_are_not_text_are_base64_and_say_so),
        cmocka_unit_test(every_control_byte_is_escaped),
        cmocka_unit_test(a_payload_as_deep_as_json_may_be_still_makes_a_valid_line),
        cmocka_unit_test(a_line_that_would_be_too_long_is_refused_and_leaves_no_trace),
        cmocka_unit_test(no_topic_leaves_its_directory),
        cmocka_unit_test(a_topic_of_255_bytes_is_the_longest),
        cmocka_unit_test(only_names_that_encoding_makes_are_topics),
    };
    return cmocka_run_group_tests(file_line, NULL, NULL);
}
