/* SPDX-License-Identifier: MIT */
/* Reads of bounded size: contract numbers are those of common/bounded_read.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/bounded_read.h"
#include "core/options.h"

#define CAPACITY 1000
#define MAX_BYTES 100000

static struct arena arena;
static struct pipeline_config config;
static struct batch batch;
static struct bounded_read reads;

static int set_up(void **state)
{
    (void)state;
    reads = (struct bounded_read){0};
    outrider__arena_init(&arena, 4096);
    if (outrider__config_init(&config, &arena, "default", NULL) < 0)
        return -1;
    config.source.max_payload = 1 << 20;
    config.source.max_headers = 1 << 16;
    return outrider__batch_init(&batch, CAPACITY, MAX_BYTES, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    outrider__batch_release(&batch);
    outrider__arena_release(&arena);
    return 0;
}

/* A read that takes rows of so many bytes each, then meets a large row, if asked to. */
static void read_rows(size_t n, size_t bytes, bool meets_large)
{
    outrider__batch_reset(&batch);
    outrider__read_begin(&reads, &config, &batch);
    for (size_t i = 0; i < n; i++)
        assert_false(outrider__read_ends_at(&reads, false));
    batch.n = n;
    batch.arena.used = n * bytes;
    if (meets_large && !outrider__read_ends_at(&reads, true))
        batch.n++;
    outrider__read_end(&reads, &batch, (int64_t)batch.n);
}

static void a_large_row_ends_a_usual_read_and_the_next_read_is_large(void **state)
{
    (void)state; /* (1) */
    read_rows(3, 100, true);
    assert_false(reads.is_large);
    assert_int_equal(batch.n, 3);
    assert_false(outrider__read_is_repeated(&reads, &batch));
    read_rows(0, 0, true);
    assert_true(reads.is_large);
    assert_int_equal(batch.n, 1);
    assert_in_range(reads.limit, 1, 16);
    read_rows(1, 100, false); /* still large, and meets usual rows alone */
    assert_true(reads.is_large);
    read_rows(1, 100, false);
    assert_false(reads.is_large);
}

static void a_read_that_begins_with_a_large_row_is_repeated_at_once(void **state)
{
    (void)state;
    read_rows(0, 0, true);
    assert_true(outrider__read_is_repeated(&reads, &batch));
    read_rows(0, 0, true);
    assert_false(outrider__read_is_repeated(&reads, &batch));
}

static void a_read_asks_for_what_fits_into_a_batch_and_a_little_more(void **state)
{
    (void)state;
    read_rows(10, 999, false);
    assert_int_equal(reads.limit, CAPACITY);
    read_rows(10, 99999, false);
    assert_int_equal(reads.limit, 126);
    read_rows(10, 99, false);
    assert_int_equal(reads.limit, READ_FEWEST_ROWS);
    read_rows(0, 0, false); /* teaches nothing */
    assert_int_equal(reads.limit, CAPACITY);
}

static void a_read_that_claims_asks_for_no_more_than_fits(void **state)
{
    (void)state;
    reads.claims = true;
    read_rows(10, 1000, false);
    read_rows(10, 1000, false);
    assert_int_equal(reads.limit, 101);
    read_rows(4, 100, true); /* those behind the large row were claimed in vain */
    read_rows(0, 0, true);
    assert_true(reads.is_large);
    read_rows(1, 100, false);
    read_rows(16, 100, false);
    assert_false(reads.is_large);
    assert_int_equal(reads.limit, READ_FEWEST_ROWS);
    read_rows(16, 100, false);
    assert_int_equal(reads.limit, 2 * READ_FEWEST_ROWS);
}

static void bounds_are_those_of_the_configuration_or_smaller(void **state)
{
    (void)state;
    struct event_bounds usual = outrider__read_bounds(&config, false);
    struct event_bounds large = outrider__read_bounds(&config, true);
    assert_int_equal(usual.payload, READ_USUAL_PAYLOAD);
    assert_int_equal(usual.text, READ_USUAL_TEXT);
    assert_int_equal(large.payload, 1 << 20);
    assert_int_equal(large.headers, 1 << 16);
    config.source.max_payload = 100;
    assert_int_equal(outrider__read_bounds(&config, false).payload, 100);
    config.source.max_payload = 1 << 30;
    assert_int_equal(outrider__read_large_rows(&config, 50), 1);
}

static void a_row_is_large_by_any_of_its_columns(void **state)
{
    (void)state;
    assert_false(outrider__read_is_large(&(struct read_sizes){
        READ_USUAL_PAYLOAD, READ_USUAL_HEADERS, READ_USUAL_TEXT, false, false}));
    assert_true(outrider__read_is_large(&(struct read_sizes){.payload = READ_USUAL_PAYLOAD + 1}));
    assert_true(outrider__read_is_large(&(struct read_sizes){.headers = READ_USUAL_HEADERS + 1}));
    assert_true(outrider__read_is_large(&(struct read_sizes){.text = READ_USUAL_TEXT + 1}));
    assert_true(outrider__read_is_large(&(struct read_sizes){.has_payload_left_out = true}));
    assert_true(outrider__read_is_large(&(struct read_sizes){.has_headers_left_out = true}));
}

static void a_dead_letter_keeps_the_beginning_of_a_text_and_tells_its_size(void **state)
{
    static char text[3000];
    struct event *e = outrider__batch_slot(&batch);
    (void)state; /* (2), (3) */
    memset(text, 'x', sizeof text);
    struct bytes kept =
        outrider__read_bound_text(e, "topic", bytes_of(text, sizeof text), false, 2000);
    assert_int_equal(kept.len, EVENT_TEXT_CUT);
    assert_true(e->is_oversize);
    e = outrider__batch_slot(&batch);
    kept = outrider__read_bound_text(e, "topic", bytes_of(text, 2000), true, 2000);
    assert_int_equal(kept.len, 2000);
    outrider__read_note_large(e, "");
    outrider__read_note_large(e, "nonsense 5");
    assert_false(e->is_oversize);
    outrider__read_note_large(e, "headers 1048588");
    assert_true(e->is_oversize);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_large_row_ends_a_usual_read_and_the_next_read_is_large),
        TEST(a_read_that_begins_with_a_large_row_is_repeated_at_once),
        TEST(a_read_asks_for_what_fits_into_a_batch_and_a_little_more),
        TEST(a_read_that_claims_asks_for_no_more_than_fits),
        TEST(bounds_are_those_of_the_configuration_or_smaller),
        TEST(a_row_is_large_by_any_of_its_columns),
        TEST(a_dead_letter_keeps_the_beginning_of_a_text_and_tells_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
