/* SPDX-License-Identifier: MIT */
/* The reader of foreign bytes: base/reader.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/reader.h"

static struct byte_reader of(const char *data, size_t len)
{
    return reader_of(bytes_of(data, len));
}

static void integers_are_read_in_both_byte_orders(void **state)
{
    static const char raw[] = "\x01\x02\x03\x04\x05\x06\x07\xf8";
    struct byte_reader r;
    (void)state;
    r = of(raw, 8);
    assert_int_equal(reader_u16_be(&r), 0x0102);
    assert_int_equal(reader_u16_le(&r), 0x0403);
    assert_int_equal(reader_u32_be(&r), 0x050607f8u);
    r = of(raw, 8);
    assert_int_equal(reader_u32_le(&r), 0x04030201u);
    assert_int_equal(reader_u8(&r), 5);
    assert_int_equal(reader_uint_le(&r, 3), 0xf80706u);
    r = of(raw, 8);
    assert_true(reader_u64_be(&r) == 0x01020304050607f8u);
    r = of(raw, 8);
    assert_true(reader_u64_le(&r) == 0xf807060504030201u);
    assert_false(r.is_short);
    r = of(raw, 8);
    assert_true(reader_uint_le(&r, 6) == 0x060504030201u);
    r = of(raw, 8);
    assert_true(reader_uint_le(&r, 8) == 0xf807060504030201u);
    assert_int_equal(reader_rest(&r).len, 0);
}

/* (2) */
static void a_read_past_the_end_gives_zeros_and_every_later_one_too(void **state)
{
    struct byte_reader r = of("\x01\x02\x03", 3);
    (void)state;
    assert_int_equal(reader_u16_be(&r), 0x0102);
    assert_int_equal(reader_u16_be(&r), 0);
    assert_true(r.is_short);
    assert_int_equal(reader_u8(&r), 0); /* although one byte is left */
    assert_true(bytes_is_null(reader_bytes(&r, 0)));
    assert_true(bytes_is_null(reader_string(&r)));
    assert_int_equal(reader_rest(&r).len, 1);
}

static void integers_of_no_size_and_of_too_many_bytes_are_short_reads(void **state)
{
    static const size_t sizes[] = {0, 9, SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct byte_reader r = of("0123456789", 10);
        assert_true(reader_uint_le(&r, sizes[i]) == 0);
        assert_true(r.is_short);
    }
}

static void a_string_ends_at_its_zero_byte_or_is_none(void **state)
{
    struct byte_reader r = of("ab\0\0c", 5);
    (void)state;
    assert_true(bytes_eq_str(reader_string(&r), "ab"));
    struct bytes empty = reader_string(&r);
    assert_true(empty.len == 0 && empty.data != NULL);
    assert_true(bytes_is_null(reader_string(&r)));
    assert_true(r.is_short);
}

static void no_bytes_can_be_read_too(void **state)
{
    struct byte_reader r = reader_of(BYTES_NULL);
    (void)state;
    assert_int_equal(reader_rest(&r).len, 0);
    assert_int_equal(reader_u64_le(&r), 0);
    assert_true(r.is_short);
}

static size_t read_any(struct byte_reader *r)
{
    size_t before = reader_rest(r).len;
    switch (rand() % 9) {
    case 0:
        (void)reader_u8(r);
        break;
    case 1:
        (void)reader_u16_le(r);
        break;
    case 2:
        (void)reader_u32_be(r);
        break;
    case 3:
        (void)reader_u64_le(r);
        break;
    case 4:
        (void)reader_string(r);
        break;
    case 5:
        (void)reader_bytes(r, (size_t)rand() % 9);
        break;
    case 6:
        (void)reader_bytes(r, reader_u32_le(r));
        break;
    case 7:
        (void)reader_uint_le(r, (size_t)rand() % 10);
        break;
    default:
        (void)reader_bytes(r, SIZE_MAX - (size_t)rand() % 3);
    }
    return before - reader_rest(r).len;
}

/* (1): a copy on the heap, so that the sanitizer sees a read outside it. */
static void any_reads_of_any_bytes_stay_inside_them(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        size_t len = (size_t)rand() % 24, taken = 0;
        char *bytes = malloc(len + 1);
        assert_non_null(bytes);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)(rand() % 3 == 0 ? 0 : rand());
        char *copy = len > 0 ? realloc(bytes, len) : bytes;
        struct byte_reader r = of(copy, len);
        for (int i = 0; i < 12; i++) {
            bool was_short = r.is_short;
            size_t n = read_any(&r);
            assert_true(!was_short || n == 0);
            taken += n;
        }
        assert_int_equal(taken + reader_rest(&r).len, len);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_read_in_both_byte_orders),
        cmocka_unit_test(a_read_past_the_end_gives_zeros_and_every_later_one_too),
        cmocka_unit_test(integers_of_no_size_and_of_too_many_bytes_are_short_reads),
        cmocka_unit_test(a_string_ends_at_its_zero_byte_or_is_none),
        cmocka_unit_test(no_bytes_can_be_read_too),
        cmocka_unit_test(any_reads_of_any_bytes_stay_inside_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
