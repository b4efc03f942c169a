/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/uuid.h"

static const struct {
    int64_t us;
    const char *text;
} instants[] = {
    {0, "1970-01-01T00:00:00Z"},
    {1, "1970-01-01T00:00:00.000001Z"},
    {1000, "1970-01-01T00:00:00.001Z"},
    {999999, "1970-01-01T00:00:00.999999Z"},
    {-1, "1969-12-31T23:59:59.999999Z"},
    {1767323045678000, "2026-01-02T03:04:05.678Z"},
    {951782400000000, "2000-02-29T00:00:00Z"},  /* divisible by 400: leap */
    {4107542400000000, "2100-03-01T00:00:00Z"}, /* divisible by 100: not */
    {4107456000000000, "2100-02-28T00:00:00Z"},
    {1709164800000000, "2024-02-29T00:00:00Z"},
    {-62167219200000000, "0000-01-01T00:00:00Z"},
    {253402300799999999, "9999-12-31T23:59:59.999999Z"},
};

static void instants_are_written_and_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof instants / sizeof *instants; i++) {
        char text[CLOCK_TEXT_SIZE];
        int64_t us = 0;
        outrider__clock_format(instants[i].us, text);
        assert_string_equal(text, instants[i].text);
        assert_int_equal(outrider__clock_parse(bytes_str(text), &us), 0);
        assert_int_equal(us, instants[i].us);
    }
}

static void instants_beyond_four_digit_years_are_clamped(void **state)
{
    (void)state;
    char text[CLOCK_TEXT_SIZE];
    outrider__clock_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59Z");
    outrider__clock_format(INT64_MIN, text);
    assert_string_equal(text, "0000-01-01T00:00:00Z");
}

/* The C library is the judge, over a day in each of 4,000 months. */
static void dates_agree_with_gmtime(void **state)
{
    (void)state;
    for (int64_t day = -60000; day < 60000; day += 29) {
        time_t t = (time_t)(day * 86400 + 3661);
        struct tm tm;
        char expected[40], text[CLOCK_TEXT_SIZE];
        assert_non_null(gmtime_r(&t, &tm));
        assert_true(strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
        outrider__clock_format((int64_t)t * 1000000, text);
        assert_string_equal(text, expected);
    }
}

static const struct {
    const char *text;
    int64_t us;
} readable[] = {
    {"2026-01-02", 1767312000000000},
    {"2026-01-02 03:04:05", 1767323045000000},
    {"2026-01-02t03:04:05z", 1767323045000000},
    {"2026-01-02T03:04", 1767323040000000},
    {"2026-01-02T03:04Z", 1767323040000000},
    {"2026-01-02T03:04:05.1Z", 1767323045100000},
    {"2026-01-02T03:04:05.123456789Z", 1767323045123456},
    {"2026-01-02T03:04:05+00:00", 1767323045000000},
    {"2026-01-02T12:04:05+09:00", 1767323045000000},
    {"2026-01-01T21:34:05-0530", 1767323045000000},
    {"2026-01-02T04:04:05+01", 1767323045000000},
    {"2016-12-31T23:59:60Z", 1483228800000000}, /* a leap second is the next second */
};

static void usual_forms_of_an_instant_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) {
        int64_t us = 0;
        if (outrider__clock_parse(bytes_str(readable[i].text), &us) != 0 || us != readable[i].us)
            fail_msg("%s: %lld", readable[i].text, (long long)us);
    }
}

static void what_is_no_instant_is_refused_and_the_result_untouched(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2026",
        "2026-1-2",
        "2026-13-01",
        "2026-00-01",
        "2026-01-00",
        "2026-01-32",
        "2026-04-31",
        "2026-02-29",
        "2100-02-29",
        "1900-02-29",
        "2024-02-30",
        "2026-01-02T",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:60:00Z",
        "2026-01-02T03:04:61Z",
        "2026-01-02T03",
        "2026-01-02T03:04:05.",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05ZZ",
        "2026-01-02T03:04:05+",
        "2026-01-02T03:04:05+9",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05+09:60",
        "2026-01-02T03:04:05 Europe/Paris",
        "2026-01-02x03:04:05",
        " 2026-01-02",
        "2026-01-02 ",
        "+2026-01-02",
        "yesterday",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t us = 4711;
        if (outrider__clock_parse(bytes_str(bad[i]), &us) == 0)
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(us, 4711);
    }
    int64_t us;
    assert_int_equal(outrider__clock_parse(BYTES_LIT("2026-01-02\0"), &us), -1);
    assert_int_equal(outrider__clock_parse(BYTES_NULL, &us), -1);
}

static const struct {
    const char *text;
    int64_t us;
    const char *shortest;
} durations[] = {
    {"0", 0, "0"},
    {"0s", 0, "0"},
    {"1us", 1, "1us"},
    {"250ms", 250000, "250ms"},
    {"1500ms", 1500000, "1500ms"},
    {"1000ms", 1000000, "1s"},
    {"30s", 30000000, "30s"},
    {"90s", 90000000, "90s"},
    {"60s", 60000000, "1m"},
    {"1h30m", 5400000000, "90m"},
    {"24h", 86400000000, "1d"},
    {"7d", 604800000000, "7d"},
    {"1d1us", 86400000001, "86400000001us"},
};

static void durations_are_read_and_written_in_their_shortest_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        int64_t us = -1, again = -1;
        char text[CLOCK_TEXT_SIZE];
        assert_int_equal(outrider__duration_parse(bytes_str(durations[i].text), &us), 0);
        assert_int_equal(us, durations[i].us);
        outrider__duration_format(us, text);
        assert_string_equal(text, durations[i].shortest);
        assert_int_equal(outrider__duration_parse(bytes_str(text), &again), 0);
        assert_int_equal(again, us);
    }
}

static void what_is_no_duration_is_refused_and_the_result_untouched(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    "5",   "00", "-1s", "+1s", "1.5s", "s",     "1w",
        "1 s", "s1",  "1S", "1mo", "1s ", " 1s",  "1s,2s", "99999999999999999999s",
        "1d1", "inf", "1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t us = 4711;
        assert_int_equal(outrider__duration_parse(bytes_str(bad[i]), &us), -1);
        assert_int_equal(us, 4711);
    }
    int64_t us;
    assert_int_equal(outrider__duration_parse(bytes_str("106751992d"), &us), -1);
    assert_int_equal(outrider__duration_parse(bytes_str("106751991d106751991d"), &us), -1);
}

static void the_monotonic_clock_does_not_run_backwards(void **state)
{
    (void)state;
    struct instant before = outrider__clock_now();
    for (int i = 0; i < 1000; i++) {
        struct instant now = outrider__clock_now();
        assert_true(now.mono_us >= before.mono_us);
        before = now;
    }
    assert_true(before.wall_us > 1700000000000000);
}

static void a_new_uuid_is_version_7_of_its_time(void **state)
{
    (void)state;
    char id[OUTRIDER_ID_SIZE];
    assert_int_equal(outrider__uuid_new(0x0123456789abLL * 1000 + 500, id), 0);
    assert_true(outrider__uuid_is_valid(bytes_str(id)));
    assert_memory_equal(id, "01234567-89ab-7800-", 19);
    assert_non_null(strchr("89ab", id[19]));
}

static void uuids_of_later_microseconds_sort_later(void **state)
{
    (void)state;
    char before[OUTRIDER_ID_SIZE], id[OUTRIDER_ID_SIZE];
    assert_int_equal(outrider__uuid_new(1767323045000000, before), 0);
    for (int64_t us = 1767323045000001; us < 1767323045002500; us++) {
        assert_int_equal(outrider__uuid_new(us, id), 0);
        assert_true(strcmp(before, id) < 0);
        (void)memcpy(before, id, sizeof id);
    }
}

static void uuids_of_one_instant_differ(void **state)
{
    (void)state;
    char ids[200][OUTRIDER_ID_SIZE];
    struct uuid_pool pool = {0};
    for (size_t i = 0; i < 200; i++) { /* a pool is filled several times */
        int r = i % 2 != 0 ? outrider__uuid_new(1767323045000000, ids[i])
                           : outrider__uuid_from(&pool, 1767323045000000, ids[i]);
        assert_int_equal(r, 0);
        assert_true(outrider__uuid_is_valid(bytes_str(ids[i])));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(ids[i], ids[k]);
    }
}

static void a_uuid_has_its_usual_form_and_no_other(void **state)
{
    (void)state;
    assert_true(outrider__uuid_is_valid(bytes_str("018f2b6e-1111-7222-8333-444455556666")));
    assert_true(outrider__uuid_is_valid(bytes_str("018F2B6E-ABCD-7222-8333-444455556666")));
    static const char *const bad[] = {"",
                                      "018f2b6e1111722283334444555566660000",
                                      "018f2b6e-1111-7222-8333-44445555666",
                                      "018f2b6e-1111-7222-8333-4444555566667",
                                      "018f2b6g-1111-7222-8333-444455556666",
                                      "018f2b6e-1111-7222-8333-44445555666 ",
                                      "018f2b6e-1111-72228-333-444455556666",
                                      "{18f2b6e-1111-7222-8333-44445555666}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(outrider__uuid_is_valid(bytes_str(bad[i])));
    assert_false(outrider__uuid_is_valid(BYTES_NULL));
}

static void a_time_of_day_is_hours_and_minutes(void **state)
{
    static const char *const bad[] = {"",      "2:00",     "02:0",  "24:00", "02:60",
                                      "02-00", "02:00:00", " 2:00", "0a:00", "-1:00"};
    int64_t us = -1;
    (void)state;
    assert_int_equal(outrider__day_time_parse(bytes_str("00:00"), &us), 0);
    assert_int_equal(us, 0);
    assert_int_equal(outrider__day_time_parse(bytes_str("23:59"), &us), 0);
    assert_int_equal(us, (23 * 60 + 59) * INT64_C(60000000));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(outrider__day_time_parse(bytes_str(bad[i]), &us), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instants_are_written_and_read_back),
        cmocka_unit_test(instants_beyond_four_digit_years_are_clamped),
        cmocka_unit_test(dates_agree_with_gmtime),
        cmocka_unit_test(usual_forms_of_an_instant_are_read),
        cmocka_unit_test(what_is_no_instant_is_refused_and_the_result_untouched),
        cmocka_unit_test(durations_are_read_and_written_in_their_shortest_form),
        cmocka_unit_test(what_is_no_duration_is_refused_and_the_result_untouched),
        cmocka_unit_test(the_monotonic_clock_does_not_run_backwards),
        cmocka_unit_test(a_new_uuid_is_version_7_of_its_time),
        cmocka_unit_test(uuids_of_later_microseconds_sort_later),
        cmocka_unit_test(a_time_of_day_is_hours_and_minutes),
        cmocka_unit_test(uuids_of_one_instant_differ),
        cmocka_unit_test(a_uuid_has_its_usual_form_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
