/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdalign.h>
#include <string.h>

#include "base/arena.h"

static void pieces_are_aligned_for_any_type(void **state) /* contract 1 */
{
    (void)state;
    struct arena a;
    outrider__arena_init(&a, 256);
    for (size_t size = 0; size < 100; size++) {
        void *p = outrider__arena_alloc(&a, size);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % alignof(max_align_t), 0);
        memset(p, 0xab, size);
    }
    outrider__arena_release(&a);
}

static void pieces_stay_where_they_are_until_reset(void **state) /* contract 1 */
{
    (void)state;
    struct arena a;
    unsigned char *pieces[200];
    outrider__arena_init(&a, 512);
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = outrider__arena_alloc(&a, 1 + i * 7 % 700);
        assert_non_null(pieces[i]);
        memset(pieces[i], (int)i, 1 + i * 7 % 700);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < 1 + i * 7 % 700; k++)
            assert_int_equal(pieces[i][k], (unsigned char)i);
    outrider__arena_release(&a);
}

static void reset_keeps_ordinary_chunks_up_to_a_limit(void **state) /* contract 2 */
{
    (void)state;
    struct arena a;
    outrider__arena_init(&a, 1024);
    for (int i = 0; i < ARENA_KEEP + 5; i++)
        assert_non_null(outrider__arena_alloc(&a, 1024));
    outrider__arena_reset(&a);
    assert_int_equal(a.used, 0);
    assert_int_equal(a.generation, 1);
    for (int i = 0; i < ARENA_KEEP; i++) {
        assert_non_null(a.spare);
        assert_non_null(outrider__arena_alloc(&a, 1000));
    }
    assert_null(a.spare);
    outrider__arena_release(&a);
}

static void reset_gives_an_oversized_chunk_back(void **state) /* contract 2 */
{
    (void)state;
    struct arena a;
    outrider__arena_init(&a, 64);
    assert_non_null(outrider__arena_alloc(&a, 1 << 20));
    outrider__arena_reset(&a);
    assert_null(a.head);
    assert_null(a.spare);
    outrider__arena_release(&a);
}

static void a_size_no_system_has_is_refused(void **state)
{
    (void)state;
    struct arena a;
    outrider__arena_init(&a, 64);
    assert_null(outrider__arena_alloc(&a, SIZE_MAX));
    assert_null(outrider__arena_alloc(&a, SIZE_MAX / 2 + 1));
    assert_int_equal(a.used, 0);
    outrider__arena_release(&a);
}

static void a_copy_ends_with_a_zero_byte_that_len_does_not_count(void **state)
{
    (void)state;
    struct arena a;
    struct bytes copy = BYTES_LIT("before");
    outrider__arena_init(&a, 64);
    assert_int_equal(outrider__arena_dup(&a, BYTES_LIT("a\0b"), &copy), 0);
    assert_int_equal(copy.len, 3);
    assert_memory_equal(copy.data, "a\0b\0", 4);
    assert_int_equal(outrider__arena_dup(&a, BYTES_LIT(""), &copy), 0);
    assert_non_null(copy.data);
    assert_string_equal(copy.data, "");
    assert_int_equal(outrider__arena_dup(&a, BYTES_NULL, &copy), 0);
    assert_true(bytes_is_null(copy));
    outrider__arena_release(&a);
}

static void release_may_be_called_twice(void **state)
{
    (void)state;
    struct arena a;
    outrider__arena_init(&a, 64);
    outrider__arena_release(&a);
    assert_non_null(outrider__arena_alloc(&a, 10));
    outrider__arena_release(&a);
    outrider__arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_for_any_type),
        cmocka_unit_test(pieces_stay_where_they_are_until_reset),
        cmocka_unit_test(reset_keeps_ordinary_chunks_up_to_a_limit),
        cmocka_unit_test(reset_gives_an_oversized_chunk_back),
        cmocka_unit_test(a_size_no_system_has_is_refused),
        cmocka_unit_test(a_copy_ends_with_a_zero_byte_that_len_does_not_count),
        cmocka_unit_test(release_may_be_called_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
