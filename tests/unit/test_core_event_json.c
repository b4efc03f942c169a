/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/event_json.h"
#include "cli/out.h"

#define HEAD "\"aggregate_type\":\"order\",\"aggregate_id\":\"42\",\"event_type\":\"Created\""

static struct arena arena;

static int setup(void **state)
{
    (void)state;
    outrider__arena_init(&arena, 1024);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    outrider__arena_release(&arena);
    return 0;
}

static int parse(const char *text, struct outrider_event *ret, struct outrider_error *err)
{
    *err = (struct outrider_error){0};
    return outrider__event_from_json(bytes_str(text), &arena, ret, err);
}

static void a_payload_is_taken_as_its_exact_bytes(void **state)
{
    static const char *const payloads[] = {
        "{\"total\": 10.10, \"a\":1, \"a\":2}", "[1,  2]", "\"text\"", "1e400", "null", "{}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
        struct outrider_error err;
        struct outrider_event e;
        char line[200];
        snprintf(line, sizeof(line), "{" HEAD ",\"payload\" :  %s  }", payloads[i]);
        assert_int_equal(parse(line, &e, &err), 0);
        assert_int_equal(e.payload_len, strlen(payloads[i]));
        assert_memory_equal(e.payload, payloads[i], e.payload_len);
    }
}

static void every_column_has_its_key(void **state)
{
    struct outrider_error err;
    struct outrider_event e;
    (void)state;
    assert_int_equal(
        parse("{" HEAD ",\"payload\":1,\"headers\":{\"a\":\"b\"},\"topic\":\"t\","
              "\"partition_key\":\"caf\\u00e9\",\"partition\":3,\"id\":\"u\","
              "\"occurred_at\":\"2026-01-31T08:00:00Z\",\"expires_at\":\"2026-01-31T09:00:00Z\"}",
              &e, &err),
        0);
    assert_string_equal(e.aggregate_type, "order");
    assert_string_equal(e.aggregate_id, "42");
    assert_string_equal(e.event_type, "Created");
    assert_string_equal(e.headers, "{\"a\":\"b\"}");
    assert_string_equal(e.topic, "t");
    assert_string_equal(e.partition_key, "caf\xc3\xa9");
    assert_string_equal(e.id, "u");
    assert_int_equal(e.partition, 3);
    assert_int_equal(e.occurred_at_us, 1769846400000000);
    assert_int_equal(e.expires_at_us, 1769850000000000);
}

static void null_means_not_given_and_a_number_may_be_an_id(void **state)
{
    struct outrider_error err;
    struct outrider_event e;
    (void)state;
    assert_int_equal(parse("{\"aggregate_type\":\"o\",\"aggregate_id\":42,\"event_type\":\"E\","
                           "\"payload\":1,\"headers\":null,\"topic\":null,\"partition\":null,"
                           "\"key\":null,\"occurred_at\":null}",
                           &e, &err),
                     0);
    assert_string_equal(e.aggregate_id, "42");
    assert_null(e.headers);
    assert_null(e.topic);
    assert_null(e.partition_key);
    assert_int_equal(e.partition, -1);
}

static void text_and_base64_payloads_are_decoded(void **state)
{
    struct outrider_error err;
    struct outrider_event e;
    (void)state;
    assert_int_equal(parse("{" HEAD ",\"payload_text\":\"a\\nb\"}", &e, &err), 0);
    assert_int_equal(e.payload_len, 3);
    assert_memory_equal(e.payload, "a\nb", 3);
    assert_int_equal(parse("{" HEAD ",\"payload_base64\":\"/wD+\"}", &e, &err), 0);
    assert_int_equal(e.payload_len, 3);
    assert_memory_equal(e.payload, "\xff\x00\xfe", 3);
    assert_int_equal(parse("{" HEAD ",\"payload_text\":\"\"}", &e, &err), 0);
    assert_int_equal(e.payload_len, 0);
    assert_non_null(e.payload);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"", "is not valid JSON"},
        {"{", "is not valid JSON"},
        {"[1]", "is not a JSON object"},
        {"{" HEAD "}", "'payload' is missing"},
        {"{\"payload\":1}", "'aggregate_type' is missing"},
        {"{" HEAD ",\"payload\":1,\"agregate_id\":2}", "unknown key 'agregate_id'"},
        {"{" HEAD ",\"payload\":1,\"payload\":2}", "'payload' stands twice"},
        {"{" HEAD ",\"payload\":1,\"payload_text\":\"x\"}", "only one of 'payload'"},
        {"{" HEAD ",\"payload\":1,\"topic\":{}}", "'topic' must be a string"},
        {"{" HEAD ",\"payload\":1,\"topic\":\"a\\u0000b\"}", "'topic' holds a zero byte"},
        {"{" HEAD ",\"payload\":1,\"partition\":-1}", "'partition' must be a whole number"},
        {"{" HEAD ",\"payload\":1,\"partition\":4294967296}", "'partition' is too large"},
        {"{" HEAD ",\"payload\":1,\"headers\":[]}", "'headers' must be an object"},
        {"{" HEAD ",\"payload\":1,\"occurred_at\":\"soon\"}", "'occurred_at' must be a time"},
        {"{" HEAD ",\"payload_text\":5}", "'payload_text' must be a string"},
        {"{" HEAD ",\"payload_base64\":\"@@@@\"}", "'payload_base64' is not base64"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outrider_error err;
        struct outrider_event e;
        assert_int_equal(parse(cases[i].line, &e, &err), -1);
        if (strncmp(err.message, cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("%s: '%s' instead of '%s'", cases[i].line, err.message, cases[i].says);
    }
}

static void base64_comes_back_as_it_was(void **state)
{
    char data[64];
    (void)state;
    for (size_t len = 0; len < sizeof(data); len++) {
        struct strbuf sb;
        struct bytes back;
        for (size_t i = 0; i < len; i++)
            data[i] = (char)(i * 37 + len);
        outrider__strbuf_init(&sb, 1000);
        outrider__strbuf_append_base64(&sb, bytes_of(data, len));
        assert_int_equal(outrider__base64_decode(strbuf_bytes(&sb), &arena, &back), 0);
        assert_true(bytes_eq(back, bytes_of(data, len)));
        outrider__strbuf_release(&sb);
    }
    static const char *const bad[] = {"A", "AA", "AAA", "A===", "====", "AA=A", "AAA\n"};
    struct bytes back;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(outrider__base64_decode(bytes_str(bad[i]), &arena, &back), -1);
}

static void a_terminal_gets_no_control_bytes(void **state)
{
    struct strbuf sb;
    (void)state;
    outrider__strbuf_init(&sb, 1000);
    outrider__out_plain(&sb, BYTES_LIT("a\x1b[31m\n\xc2\x9b"
                                       "caf\xc3\xa9\xff\0z"));
    assert_string_equal(sb.data, "a\\x1b[31m\\x0a\\xc2\\x9bcaf\xc3\xa9\\xff\\x00z");
    outrider__strbuf_clear(&sb);
    outrider__out_cut(&sb,
                      BYTES_LIT("abc\xc3\xa9"
                                "defgh"),
                      7);
    assert_string_equal(sb.data, "abc...");
    outrider__strbuf_release(&sb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_payload_is_taken_as_its_exact_bytes),
        cmocka_unit_test(every_column_has_its_key),
        cmocka_unit_test(null_means_not_given_and_a_number_may_be_an_id),
        cmocka_unit_test(text_and_base64_payloads_are_decoded),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(base64_comes_back_as_it_was),
        cmocka_unit_test(a_terminal_gets_no_control_bytes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
