/* SPDX-License-Identifier: MIT */
#include "support/writer_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct outrider_event writer_case_event(const char *payload)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = "order";
    e.aggregate_id = "42";
    e.event_type = "OrderCreated";
    e.payload = payload;
    e.payload_len = strlen(payload);
    return e;
}

void writer_case_fill(struct writer_case_array *a)
{
    for (int i = 0; i < WRITER_CASE_N; i++) {
        a->events[i] = writer_case_event("{\"a\": 1}");
        (void)snprintf(a->keys[i], sizeof a->keys[i], "%d", i);
        a->events[i].aggregate_id = a->keys[i];
    }
}

char *writer_case_big(struct outrider_event *e)
{
    char *big = malloc(WRITER_CASE_BIG);
    assert_non_null(big);
    memset(big, 'x', WRITER_CASE_BIG);
    big[0] = big[WRITER_CASE_BIG - 1] = '"';
    e->payload = big;
    e->payload_len = WRITER_CASE_BIG;
    return big;
}

size_t writer_case_spoil(struct outrider_event *bad, size_t cap)
{
    size_t n = 0;
#define BAD(statement)                        \
    do {                                      \
        assert_true(n < cap);                 \
        bad[n] = writer_case_event("{}");     \
        struct outrider_event *e = &bad[n++]; \
        statement;                            \
    } while (0)
    BAD(e->size = 0);
    BAD(e->size = sizeof *e - 1);
    BAD(e->size = sizeof *e + 1);
    BAD(e->size = (size_t)-8);
    BAD(e->id = "");
    BAD(e->id = "42");
    BAD(e->id = "0190a5b4-7e11-7abc-8def-0123456789ag");
    BAD(e->aggregate_type = NULL);
    BAD(e->aggregate_type = "");
    BAD(e->aggregate_id = NULL);
    BAD(e->aggregate_id = "\xc3");
    BAD(e->event_type = NULL);
    BAD(e->event_type = "\xe4nderung");
    BAD(e->payload = NULL);
    BAD(e->payload_len = (size_t)-1; e->payload = NULL);
    BAD(e->headers = "");
    BAD(e->headers = "[1]");
    BAD(e->headers = "{\"a\":1}");
    BAD(e->headers = "{\"a\":\"\xff\"}");
    BAD(e->headers = "{\"a\":\"b\"");
    BAD(e->topic = "\xff");
    BAD(e->partition_key = "\xed\xa0\x80"); /* half of a surrogate pair */
#undef BAD
    return n;
}

static void must_fail(int rc, const struct outrider_error *err, size_t i)
{
    if (rc != -1 || err->message[0] == '\0' ||
        (err->code != OUTRIDER_INVALID && err->code != OUTRIDER_NOT_JSON &&
         err->code != OUTRIDER_UNSUPPORTED))
        fail_msg("case %zu: %d %s: %s", i, rc, outrider_code_name(err->code), err->message);
}

void writer_case_misuse(struct outrider_writer *w)
{
    struct outrider_event bad[WRITER_CASE_BAD];
    struct outrider_error err = {0};
    size_t n = writer_case_spoil(bad, sizeof bad / sizeof *bad);
    for (size_t i = 0; i < n; i++) {
        struct outrider_event pair[2] = {writer_case_event("{}"), bad[i]};
        char id[OUTRIDER_ID_SIZE] = "untouched";
        err.message[0] = '\0';
        must_fail(outrider_writer_put(w, &bad[i], 0, id, &err), &err, i);
        assert_string_equal(id, "untouched");
        err.message[0] = '\0';
        must_fail(outrider_writer_put_many(w, pair, 2, 0, NULL, &err), &err, i);
        assert_non_null(strstr(err.message, "event 1:"));
        assert_int_equal(outrider_writer_put(w, &bad[i], 0, NULL, NULL), -1);
    }
    struct {
        struct outrider_event event;
        void *field_of_a_later_version;
    } newer = {writer_case_event("{}"), &err};
    newer.event.size = sizeof newer;
    must_fail(outrider_writer_put(w, &newer.event, 0, NULL, &err), &err, n);
    must_fail(outrider_writer_put(w, NULL, 0, NULL, &err), &err, n);
    must_fail(outrider_writer_put_many(w, NULL, 1, 0, NULL, &err), &err, n);
    struct outrider_event good = writer_case_event("{}");
    must_fail(outrider_writer_put(NULL, &good, 0, NULL, &err), &err, n);
    must_fail(outrider_writer_put_many(NULL, &good, 1, 0, NULL, &err), &err, n);
    must_fail(outrider_writer_put(w, &good, 0x40, NULL, &err), &err, n);
    assert_int_equal(outrider_writer_put_many(w, NULL, 0, 0, NULL, &err), 0);
}
