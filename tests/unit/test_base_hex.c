/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hex.h"

static void what_is_written_is_read_again(void **state)
{
    struct strbuf text;
    char all[256], back[256];
    (void)state;
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    outrider__strbuf_init(&text, 1024);
    outrider__hex_append(&text, bytes_of(all, sizeof all));
    assert_int_equal(text.len, 2 + 2 * sizeof all);
    assert_int_equal(outrider__hex_read(strbuf_bytes(&text), back), sizeof all);
    assert_memory_equal(all, back, sizeof all);
    assert_int_equal(outrider__hex_read(strbuf_bytes(&text), text.data), sizeof all);
    assert_memory_equal(all, text.data, sizeof all);
    outrider__strbuf_release(&text);
}

static void other_texts_are_left_alone(void **state)
{
    static const char *const texts[] = {"", "x", "\\", "\\x4", "\\xzz", "\\x4Z", "\\X41", "41"};
    char out[8];
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(outrider__hex_read(bytes_str(texts[i]), out), -1);
    assert_int_equal(outrider__hex_read(BYTES_NULL, out), -1);
    assert_int_equal(outrider__hex_read(BYTES_LIT("\\x"), out), 0);
}

/* A text that could be taken for hex is none for a column that holds both. */
static void a_text_is_told_from_hex_by_its_beginning(void **state)
{
    (void)state;
    assert_true(outrider__hex_is_text(BYTES_LIT("")));
    assert_true(outrider__hex_is_text(BYTES_LIT("k\\x41")));
    assert_true(outrider__hex_is_text(BYTES_LIT("schl\xc3\xbcssel")));
    assert_false(outrider__hex_is_text(BYTES_LIT("\\x41")));
    assert_false(outrider__hex_is_text(BYTES_LIT("\\xyz")));
    assert_false(outrider__hex_is_text(BYTES_LIT("a\0b")));
    assert_false(outrider__hex_is_text(BYTES_LIT("\xff")));
}

static void only_what_is_no_text_is_shown_as_hex(void **state)
{
    struct arena arena;
    struct bytes shown = BYTES_NULL;
    (void)state;
    outrider__arena_init(&arena, 64);
    assert_int_equal(outrider__hex_show(BYTES_LIT("\\x41"), &arena, &shown), 0);
    assert_true(bytes_eq_str(shown, "\\x41"));
    assert_int_equal(outrider__hex_show(BYTES_LIT("\xff\0"), &arena, &shown), 0);
    assert_true(bytes_eq_str(shown, "\\xff00"));
    outrider__arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(other_texts_are_left_alone),
        cmocka_unit_test(a_text_is_told_from_hex_by_its_beginning),
        cmocka_unit_test(only_what_is_no_text_is_shown_as_hex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
