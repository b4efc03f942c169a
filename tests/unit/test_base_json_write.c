/* SPDX-License-Identifier: MIT */
#include "base/json_write.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct bytes write_string(struct bytes b, char *buffer, size_t size)
{
    size_t len = outrider__json_string_len(b);
    assert_true(len <= 6 * b.len + 2 && len < size);
    memset(buffer, '#', size);
    assert_ptr_equal(outrider__json_put_string(buffer, b, len), buffer + len);
    assert_int_equal(buffer[len], '#');
    return bytes_of(buffer, len);
}

static void a_string_is_escaped_as_json_says(void **state)
{
    static const struct {
        struct bytes in;
        const char *out;
    } cases[] = {
        {BYTES_LIT(""), "\"\""},
        {BYTES_LIT("order-4711"), "\"order-4711\""},
        {BYTES_LIT("a\"b\\c"), "\"a\\\"b\\\\c\""},
        {BYTES_LIT("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\""},
        {BYTES_LIT("\x01\x0b\x1f\x7f"), "\"\\u0001\\u000b\\u001f\x7f\""},
        {BYTES_LIT("gr\xc3\xbc\xc3\x9f\n"), "\"gr\xc3\xbc\xc3\x9f\\n\""},
        /* Not UTF-8: all that is not ASCII is replaced. */
        {BYTES_LIT("\xc3\xbc\xff\n"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\\n\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[128];
        struct bytes out = write_string(cases[i].in, buffer, sizeof buffer);
        if (!bytes_eq_str(out, cases[i].out))
            fail_msg("case %zu: %.*s", i, (int)out.len, out.data);
    }
}

static uint64_t random_next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

/* Random text of ASCII, or of any bytes. */
static struct bytes random_text(uint64_t *x, char *text, size_t size, bool is_ascii)
{
    size_t n = random_next(x) % size;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(random_next(x) % (is_ascii ? 0x80 : 0x100));
    return bytes_of(text, n);
}

static void whatever_is_written_reads_back_as_it_was(void **state)
{
    uint64_t x = 42;
    (void)state;
    for (int round = 0; round < 5000; round++) {
        char text[40], buffer[256];
        struct bytes in = random_text(&x, text, sizeof text, true), back;
        struct bytes out = write_string(in, buffer, sizeof buffer);
        struct arena arena;
        outrider__arena_init(&arena, 512);
        assert_true(outrider__json_is_valid(out));
        assert_int_equal(
            outrider__json_unescape(bytes_of(out.data + 1, out.len - 2), &arena, &back), 0);
        assert_true(bytes_eq(in, back));
        outrider__arena_release(&arena);
    }
}

static void plain_text_is_never_taken_for_plain_wrongly(void **state)
{
    uint64_t x = 7;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[20], buffer[128];
        struct bytes in = random_text(&x, text, sizeof text, round % 2 == 0);
        struct bytes out = write_string(in, buffer, sizeof buffer);
        bool is_same = out.len == in.len + 2 && memcmp(out.data + 1, in.data, in.len) == 0;
        if (outrider__json_is_plain(in))
            assert_true(is_same);
        assert_true(outrider__json_is_valid(out));
    }
    assert_true(outrider__json_is_plain(BYTES_LIT("4711-0001/order_made~")));
}

static void a_buffer_that_grows_gets_the_same_text(void **state)
{
    uint64_t x = 3;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        char text[40], buffer[256];
        struct bytes in = random_text(&x, text, sizeof text, true);
        struct strbuf sb;
        outrider__strbuf_init(&sb, 1024);
        outrider__strbuf_append_json(&sb, in);
        assert_true(bytes_eq(strbuf_bytes(&sb), write_string(in, buffer, sizeof buffer)));
        assert_int_equal(strlen(strbuf_cstr(&sb)), sb.len);
        outrider__strbuf_release(&sb);
    }
}

static void base64_has_the_forms_of_rfc_4648(void **state)
{
    static const char *const out[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                      "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    (void)state;
    for (size_t n = 0; n <= 6; n++) {
        char buffer[16];
        char *end = outrider__base64_put(buffer, bytes_of("foobar", n));
        assert_int_equal(end - buffer, base64_len(n));
        assert_true(bytes_eq_str(bytes_of(buffer, base64_len(n)), out[n]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_is_escaped_as_json_says),
        cmocka_unit_test(whatever_is_written_reads_back_as_it_was),
        cmocka_unit_test(plain_text_is_never_taken_for_plain_wrongly),
        cmocka_unit_test(a_buffer_that_grows_gets_the_same_text),
        cmocka_unit_test(base64_has_the_forms_of_rfc_4648),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
