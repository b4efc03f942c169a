/* SPDX-License-Identifier: MIT */
#include "contract/size_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct source_fixture *fixture;

static int set_up(void **state)
{
    struct harness *h = malloc(sizeof *h);
    assert_non_null(h);
    harness_init(h, fixture);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    harness_release(*state);
    free(*state);
    return 0;
}

static void a_payload_above_the_limit_is_not_read_but_kept(void **state)
{
    struct harness *h = *state;
    char payload[3000];
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    memset(payload, '1', sizeof payload);
    e.aggregate_type = e.aggregate_id = e.event_type = "x";
    e.payload = payload;
    e.payload_len = sizeof payload;
    h->config.source.max_payload = 2999;
    harness_activate(h);
    h->fixture->insert(&e, 1);
    h->fixture->finish(true);
    harness_fetch_some(h, &h->batch);
    assert_int_equal(h->batch.n, 1);
    assert_true(h->batch.events[0].is_oversize);
    assert_true(bytes_is_null(h->batch.events[0].payload));
    assert_int_equal(h->batch.events[0].payload_len, sizeof payload);
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 1);
    h->batch.n_settle = 1;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    harness_close(h);
    h->config.source.max_payload = 3000; /* the operator allows it */
    harness_activate(h);
    assert_int_equal(harness_fetch_failed(h), 1);
    assert_false(h->parked.events[0].is_oversize);
    assert_int_equal(h->parked.events[0].payload.len, sizeof payload);
    assert_memory_equal(h->parked.events[0].payload.data, payload, sizeof payload);
}

static void headers_above_the_limit_are_not_read_but_kept(void **state)
{
    struct harness *h = *state;
    static char headers[20000];
    if ((h->fixture->lacks & FIELD_HEADERS) != 0)
        skip();
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    (void)snprintf(headers, sizeof headers, "{\"h\": \"%0*d\"}", (int)sizeof headers - 20, 1);
    e.aggregate_type = e.aggregate_id = e.event_type = "x";
    e.payload = "1";
    e.payload_len = 1;
    e.headers = headers;
    h->config.source.max_headers = 2999;
    harness_activate(h);
    h->fixture->insert(&e, 1);
    h->fixture->finish(true);
    harness_fetch_some(h, &h->batch);
    assert_int_equal(h->batch.n, 1);
    const struct event *large = &h->batch.events[0];
    assert_true(large->is_oversize);
    assert_string_equal(large->large_column, "headers");
    assert_true(large->large_len > 2999);
    assert_true(bytes_is_null(large->headers));
    assert_true(bytes_eq_str(large->payload, "1"));
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 1);
    h->batch.n_settle = 1;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    assert_int_equal(harness_fetch_failed(h), 1);
    assert_true(h->parked.events[0].is_oversize);
    harness_close(h);
    h->config.source.max_headers = sizeof headers; /* the operator allows it */
    harness_activate(h);
    assert_int_equal(harness_fetch_failed(h), 1);
    assert_false(h->parked.events[0].is_oversize);
    assert_int_equal(h->parked.events[0].headers.len, strlen(headers));
    assert_memory_equal(h->parked.events[0].headers.data, headers, strlen(headers));
}

static void assert_few_at_a_time(struct harness *h, size_t left)
{
    while (left > 0) {
        harness_fetch_some(h, &h->batch);
        assert_in_range(h->batch.n, 1, 2); /* a second one goes beyond the bytes */
        left -= h->batch.n;
        if (h->batch.n == 2 && left > 0)
            assert_true(h->source->ready);
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    }
}

static void a_batch_ends_with_the_headers_that_fill_it(void **state)
{
    struct harness *h = *state;
    static char headers[20000];
    if ((h->fixture->lacks & FIELD_HEADERS) != 0)
        skip();
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    (void)snprintf(headers, sizeof headers, "{\"h\": \"%0*d\"}", (int)sizeof headers - 20, 1);
    e.aggregate_type = e.aggregate_id = e.event_type = "x";
    e.payload = "1";
    e.payload_len = 1;
    e.headers = headers;
    harness_activate(h);
    for (int i = 0; i < 5; i++)
        h->fixture->insert(&e, 1);
    h->fixture->finish(true);
    h->batch.max_bytes = 30000;
    assert_few_at_a_time(h, 5);
}

static void a_batch_ends_with_the_event_that_fills_it(void **state)
{
    struct harness *h = *state;
    static char payload[20000];
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    memset(payload, '1', sizeof payload);
    e.aggregate_type = e.aggregate_id = e.event_type = "x";
    e.payload = payload;
    e.payload_len = sizeof payload;
    harness_activate(h);
    for (int i = 0; i < 5; i++)
        h->fixture->insert(&e, 1);
    h->fixture->finish(true);
    h->batch.max_bytes = 30000;
    assert_few_at_a_time(h, 5);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int size_contract_run(const char *name, const struct source_fixture *f)
{
    const struct CMUnitTest tests[] = {
        T(a_payload_above_the_limit_is_not_read_but_kept),
        T(headers_above_the_limit_are_not_read_but_kept),
        T(a_batch_ends_with_the_event_that_fills_it),
        T(a_batch_ends_with_the_headers_that_fill_it),
    };
    fixture = f;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
