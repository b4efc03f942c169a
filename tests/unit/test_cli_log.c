/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/log.h"

struct fixture {
    int fds[2];
    struct log log;
    struct log_pipeline pipeline;
    struct relay_observer observer;
};

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){0};
    assert_int_equal(pipe2(f.fds, O_NONBLOCK), 0);
    f.log.fd = f.fds[1];
    f.log.level = LOG_LEVEL_INFO;
    f.log.format = LOG_FORMAT_LOGFMT;
    f.pipeline = (struct log_pipeline){
        .log = &f.log, .name = "orders", .source = "sqlite:shop.db", .sink = "file:events"};
    f.observer = outrider__log_observer(&f.pipeline);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    close(f->fds[0]);
    close(f->fds[1]);
    return 0;
}

/* What was logged since the last call; "" if nothing was. */
static const char *logged(struct fixture *f)
{
    static char text[65536];
    ssize_t n = read(f->fds[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void fill_event(struct event *e, enum outcome outcome)
{
    *e = (struct event){.id = BYTES_LIT("0197"),
                        .aggregate_type = BYTES_LIT("order"),
                        .aggregate_id = BYTES_LIT("42"),
                        .event_type = BYTES_LIT("OrderCreated"),
                        .payload = BYTES_LIT("{\"card\":\"4111\"}"),
                        .attempts = 2,
                        .outcome = outcome};
}

static void a_level_that_is_not_wanted_writes_nothing(void **state)
{
    struct fixture *f = *state;
    struct event e;
    fill_event(&e, OUTCOME_DELIVERED);
    f->observer.event(f->observer.ctx, outrider__clock_now(), &e);
    assert_string_equal(logged(f), "");
    assert_false(f->observer.wants_delivered);
    f->log.level = LOG_LEVEL_DEBUG;
    assert_true(outrider__log_observer(&f->pipeline).wants_delivered);
    f->observer.event(f->observer.ctx, outrider__clock_now(), &e);
    assert_non_null(strstr(logged(f), "status=delivered"));
}

static void a_parked_event_is_told_with_all_that_helps_and_without_its_payload(void **state)
{
    struct fixture *f = *state;
    struct outrider_error why = {.code = OUTRIDER_TIMEOUT, .message = "no answer in 30s"};
    struct event e;
    fill_event(&e, OUTCOME_PARKED);
    e.failure = &why;
    e.next_attempt_us = 1769846400000000;
    f->observer.event(f->observer.ctx, outrider__clock_now(), &e);
    const char *line = logged(f);
    assert_non_null(strstr(line, " level=warn msg=event pipeline=orders event_id=0197 "
                                 "type=OrderCreated key=42 status=parked attempts=2 "
                                 "error_code=TIMEOUT error=\"no answer in 30s\" "
                                 "next_attempt=2026-01-31T08:00:00Z sink=file:events\n"));
    assert_null(strstr(line, "4111"));
}

static void whatever_a_value_holds_a_json_line_parses(void **state)
{
    static const struct bytes keys[] = {
        BYTES_LIT("plain"),         BYTES_LIT("two words"), BYTES_LIT("line\nend"),
        BYTES_LIT("\"quoted\" \\"), BYTES_LIT("\xff\xfe"),  BYTES_LIT("\0zero"),
        BYTES_LIT("caf\xc3\xa9"),   BYTES_LIT(""),
    };
    struct fixture *f = *state;
    f->log.format = LOG_FORMAT_JSON;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct outrider_error why = {.code = OUTRIDER_REJECTED, .message = "no"};
        struct event e;
        fill_event(&e, OUTCOME_DEAD);
        e.failure = &why;
        e.partition_key = keys[i];
        f->observer.event(f->observer.ctx, outrider__clock_now(), &e);
        const char *line = logged(f);
        assert_int_equal(strcspn(line, "\n"), strlen(line) - 1);
        json_t *j = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(j);
        assert_string_equal(json_string_value(json_object_get(j, "level")), "error");
        assert_string_equal(json_string_value(json_object_get(j, "status")), "dead");
        assert_true(json_is_string(json_object_get(j, "key")));
        json_decref(j);
    }
}

static void logfmt_quotes_what_would_break_the_line(void **state)
{
    struct fixture *f = *state;
    struct log_entry l;
    assert_true(outrider__log_begin(&l, &f->log, LOG_LEVEL_INFO, "two words"));
    outrider__log_bytes(&l, "a", BYTES_LIT("x=y"));
    outrider__log_bytes(&l, "b", BYTES_LIT("line\nend\x1b[31m"));
    outrider__log_bytes(&l, "c", BYTES_LIT(""));
    outrider__log_bytes(&l, "d", BYTES_NULL);
    outrider__log_int(&l, "e", -7);
    outrider__log_duration(&l, "f", 1500000);
    outrider__log_end(&l);
    const char *line = logged(f);
    assert_non_null(strstr(line, " msg=\"two words\" a=\"x=y\" b=\"line\\nend\\u001b[31m\" c=\"\" "
                                 "e=-7 f=1500ms\n"));
}

static void a_value_of_any_length_leaves_a_line_of_bounded_length(void **state)
{
    static char huge[100000];
    struct fixture *f = *state;
    struct log_entry l;
    memset(huge, '\x01', sizeof(huge));
    for (int i = 0; i < 2; i++) {
        f->log.format = i;
        assert_true(outrider__log_begin(&l, &f->log, LOG_LEVEL_INFO, "m"));
        outrider__log_bytes(&l, "key", bytes_of(huge, sizeof(huge)));
        outrider__log_end(&l);
        size_t len = strlen(logged(f));
        assert_true(len > 512 && len < 8192);
    }
}

static void an_outage_is_told_when_it_begins_and_when_it_ends(void **state)
{
    struct fixture *f = *state;
    struct outrider_error why = {.code = OUTRIDER_NO_SPACE, .message = "disk is full"};
    void *ctx = f->observer.ctx;
    f->observer.note(ctx, outrider__clock_now(), NOTE_SINK_DOWN, 0, &why);
    const char *line = logged(f);
    assert_non_null(strstr(line, "level=warn"));
    assert_non_null(strstr(line, "error_code=NO_SPACE error=\"disk is full\""));
    f->observer.note(ctx, outrider__clock_now(), NOTE_SINK_DOWN, 0, &why);
    assert_string_equal(logged(f), "");
    f->observer.note(ctx, outrider__clock_now(), NOTE_SINK_UP, 0, NULL);
    line = logged(f);
    assert_non_null(strstr(line, "level=info msg=\"sink is up\""));
    assert_non_null(strstr(line, " outage="));
    f->observer.note(ctx, outrider__clock_now(), NOTE_SINK_UP, 0, NULL);
    assert_null(strstr(logged(f), " outage="));
}

static void every_note_makes_one_line(void **state)
{
    struct fixture *f = *state;
    f->log.level = LOG_LEVEL_DEBUG;
    for (int note = NOTE_SOURCE_CONNECTED; note <= NOTE_STOPPED; note++) {
        f->observer.note(f->observer.ctx, outrider__clock_now(), (enum relay_note)note, 3, NULL);
        const char *line = logged(f);
        assert_true(strlen(line) > 0);
        assert_int_equal(strcspn(line, "\n"), strlen(line) - 1);
        assert_non_null(strstr(line, "pipeline=orders"));
    }
}

static void a_log_that_cannot_be_written_stops_nobody(void **state)
{
    struct fixture *f = *state;
    struct log_entry l;
    f->log.fd = -1;
    assert_true(outrider__log_begin(&l, &f->log, LOG_LEVEL_ERROR, "lost"));
    outrider__log_end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_level_that_is_not_wanted_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_parked_event_is_told_with_all_that_helps_and_without_its_payload, setup, teardown),
        cmocka_unit_test_setup_teardown(whatever_a_value_holds_a_json_line_parses, setup, teardown),
        cmocka_unit_test_setup_teardown(logfmt_quotes_what_would_break_the_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_value_of_any_length_leaves_a_line_of_bounded_length,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(an_outage_is_told_when_it_begins_and_when_it_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(every_note_makes_one_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_that_cannot_be_written_stops_nobody, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
