/* SPDX-License-Identifier: MIT */
#include "contract/source_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "contract/intent_contract.h"
#include "contract/parked_contract.h"
#include "contract/point_contract.h"
#include "contract/rows_contract.h"
#include "contract/size_contract.h"

#define HOUR_US 3600000000LL

static bool is_active(const struct source *s)
{
    return s->active;
}

static bool is_ready(const struct source *s)
{
    return s->ready;
}

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

/* (1) */
static void events_come_in_the_order_of_their_commits(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b", "c"};
    harness_activate(h);
    for (int i = 0; i < 5; i++)
        harness_insert_many(h, 20, keys, 3);
    uint64_t n = 0;
    while (harness_fetch(h) > 0) {
        for (size_t i = 0; i < h->batch.n; i++)
            assert_int_equal(harness_number(&h->batch.events[i]), n++);
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    }
    assert_int_equal(n, 100);
    assert_false(h->source->ready);
}

/* (1) */
static void a_rolled_back_event_is_never_returned(void **state)
{
    struct harness *h = *state;
    const char *key = "a";
    harness_activate(h);
    harness_insert(h, "a");
    harness_write(h, 3, &key, 1, false);
    harness_insert(h, "a");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1);
}

/* (1) */
static void an_event_of_an_open_transaction_is_not_seen_before_its_commit(void **state)
{
    struct harness *h = *state;
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = e.aggregate_id = e.event_type = "x";
    e.payload = "{\"n\":7}";
    e.payload_len = 7;
    harness_activate(h);
    h->fixture->insert(&e, 1);
    assert_int_equal(harness_fetch(h), 0);
    h->fixture->finish(true);
    harness_wait(h, is_ready); /* and nobody has to ask */
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 7);
}

/* (1) */
static void what_a_relay_beside_this_one_writes_is_no_event(void **state)
{
    struct harness *h = *state;
    struct harness poller;
    const uint64_t n = 20;
    uint64_t next = 0;
    if (h->fixture->write_lazily == NULL || h->fixture->rows_carry_state)
        skip();
    harness_init_second(&poller, h, h->config.name);
    poller.config.name = "poller";
    poller.config.source.mode = MODE_POLL;
    harness_activate(h);
    harness_activate(&poller);
    h->fixture->write_lazily(); /* who polls has to see to it that commits come to disk */
    for (uint64_t i = 0; i < n; i++) {
        harness_insert(h, "a");
        outrider__batch_reset(&poller.batch);
        harness_must_do(&poller, &(struct source_op){.kind = SOURCE_FETCH, .batch = &poller.batch});
        harness_settle(&poller, &poller.batch, OUTCOME_DELIVERED);
    }
    while (next < n) {
        harness_fetch_some(h, &h->batch);
        for (size_t i = 0; i < h->batch.n; i++)
            assert_int_equal(harness_number(&h->batch.events[i]), next++);
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    }
    harness_release(&poller);
}

/* (1), (2) */
static void what_was_returned_survives_a_crash_of_the_database(void **state)
{
    struct harness *h = *state;
    if (h->fixture->crash == NULL)
        skip();
    harness_activate(h);
    h->fixture->write_lazily();
    harness_insert(h, "a");
    harness_fetch_some(h, &h->batch);
    h->fixture->crash();
    harness_close(h);
    assert_int_equal(h->fixture->count_outbox(), 1);
    harness_activate(h);
    harness_fetch_some(h, &h->batch);
    ASSERT_NUMBERS(&h->batch, 0);
}

/* (2) */
static void an_event_is_returned_until_it_is_settled(void **state)
{
    struct harness *h = *state;
    harness_insert(h, "a");
    harness_insert(h, "b");
    for (int i = 0; i < 3; i++) {
        harness_activate(h);
        harness_fetch(h);
        ASSERT_NUMBERS(&h->batch, 0, 1);
        harness_close(h); /* as after a crash */
    }
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 2);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(harness_fetch(h), 0);
    harness_close(h);
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 0);
    harness_insert(h, "a");
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 2);
}

/* (2) */
static void fetching_runs_ahead_of_settling(void **state)
{
    struct harness *h = *state;
    struct batch second;
    assert_int_equal(outrider__batch_init(&second, HARNESS_BATCH, 1 << 20, NULL), 0);
    harness_activate(h);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    harness_insert(h, "a");
    harness_fetch_into(h, &second);
    ASSERT_NUMBERS(&second, 1);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_close(h); /* the second batch was never settled */
    outrider__batch_release(&second);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 1);
}

/* (3) */
static void settling_the_front_of_a_batch_keeps_the_rest(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b"};
    harness_activate(h);
    harness_insert_many(h, 6, keys, 2);
    assert_int_equal(harness_fetch(h), 6);
    for (size_t i = 0; i < 4; i++)
        harness_decide(&h->batch.events[i], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 4;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    harness_close(h);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 4, 5);
}

/* (3), (6) */
static void a_relay_that_was_taken_over_settles_nothing(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "b");
    assert_int_equal(harness_fetch(h), 2);
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 1);
    harness_decide(&h->batch.events[1], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 2;
    h->fixture->take_over("default");
    struct source_op op = {.kind = SOURCE_SETTLE, .batch = &h->batch, .now_wall_us = 1};
    assert_int_equal(harness_do(h, &op, &err), -1);
    assert_int_equal(err.code, OUTRIDER_FENCED);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    assert_int_equal(h->fixture->count_parked(NULL), 0);
    harness_close(h);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1);
}

/* (4) */
static void operations_complete_in_the_order_in_which_they_were_started(void **state)
{
    struct harness *h = *state;
    struct source *s;
    struct outrider_error err = {0};
    harness_activate(h);
    s = h->source;
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    harness_decide(&h->batch.events[0], OUTCOME_DELIVERED, 0);
    h->batch.n_settle = 1;
    outrider__batch_reset(&h->parked);
    struct source_op ops[] = {
        {.kind = SOURCE_SETTLE, .batch = &h->batch, .now_wall_us = 1},
        {.kind = SOURCE_MARK},
        {.kind = SOURCE_FETCH_PARKED, .batch = &h->parked, .now_wall_us = 1},
        {.kind = SOURCE_CLEANUP, .now_wall_us = 1},
    };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(s->ops->start(s, &ops[i], &err), 0);
    size_t n = 0;
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (n < 4 && outrider__clock_now().mono_us < deadline) {
        struct source_op *done = harness_poll(h);
        if (done != NULL)
            assert_ptr_equal(done, &ops[n++]);
        else
            harness_pause(h);
    }
    assert_int_equal(n, 4);
}

/* Starts both, and polls until both are done; which one came first. */
static struct source_op *do_both(struct harness *h, struct source_op *one, struct source_op *other)
{
    struct outrider_error err = {0};
    struct source_op *first = NULL;
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    assert_int_equal(h->source->ops->start(h->source, one, &err), 0);
    assert_int_equal(h->source->ops->start(h->source, other, &err), 0);
    for (int n = 0; n < 2;) {
        struct source_op *done = harness_poll(h);
        assert_true(outrider__clock_now().mono_us < deadline);
        assert_true(done == NULL || ((done == one || done == other) && done != first));
        if (done == NULL)
            harness_pause(h);
        else if (n++ == 0)
            first = done;
    }
    return first;
}

/* Two events of a lane, each in a batch of its own; the second is not fetched yet. */
static void settle_and_fetch(struct harness *h, enum outcome outcome)
{
    harness_activate(h);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    harness_insert(h, "a");
    if (h->fixture->arrive != NULL)
        h->fixture->arrive(h);
    harness_decide(&h->batch.events[0], outcome, outrider__clock_now().wall_us + HOUR_US);
    h->batch.n_settle = 1;
    outrider__batch_reset(&h->parked);
    struct source_op settle = {
        .kind = SOURCE_SETTLE, .batch = &h->batch, .now_wall_us = outrider__clock_now().wall_us};
    struct source_op fetch = {.kind = SOURCE_FETCH, .batch = &h->parked};
    struct source_op *first = do_both(h, &settle, &fetch);
    if (outcome != OUTCOME_DELIVERED)
        assert_ptr_equal(first, &settle);
}

/* (4) */
static void a_fetch_behind_a_settle_of_delivered_events_finds_what_comes_next(void **state)
{
    struct harness *h = *state;
    settle_and_fetch(h, OUTCOME_DELIVERED);
    ASSERT_NUMBERS(&h->parked, 1);
    assert_false(h->parked.events[0].is_blocked);
    harness_settle(h, &h->parked, OUTCOME_DELIVERED);
    assert_int_equal(harness_fetch(h), 0);
}

/* (4), (7), (17) */
static void a_fetch_behind_a_settle_that_parks_knows_of_it(void **state)
{
    struct harness *h = *state;
    settle_and_fetch(h, OUTCOME_PARKED);
    if (h->fixture->rows_carry_state) {
        assert_int_equal(h->parked.n, 0);
        return;
    }
    ASSERT_NUMBERS(&h->parked, 1);
    assert_true(h->parked.events[0].is_blocked);
}

/* (17): the first event stands before the second, also when it has just been given back. */
static void a_fetch_behind_a_settle_that_gives_back_keeps_the_order(void **state)
{
    struct harness *h = *state;
    if (!h->fixture->rows_carry_state)
        skip(); /* what is given back was a parked row: FETCH_PARKED returns it */
    settle_and_fetch(h, OUTCOME_RELEASED);
    ASSERT_NUMBERS(&h->parked, 0, 1);
}

/* (3) */
static void an_empty_settle_is_no_error(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    h->batch.n_settle = 0;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    harness_close(h);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0);
}

/* (3) */
static void every_outcome_that_ends_an_event_ends_it_for_good(void **state)
{
    struct harness *h = *state;
    static const char *const keys[] = {"a", "b", "c", "d"};
    static const enum outcome ends[] = {OUTCOME_DELIVERED, OUTCOME_SKIPPED, OUTCOME_EXPIRED,
                                        OUTCOME_DEAD};
    harness_activate(h);
    harness_insert_many(h, 4, keys, 4);
    assert_int_equal(harness_fetch(h), 4);
    for (size_t i = 0; i < 4; i++)
        harness_decide(&h->batch.events[i], ends[i], 0);
    h->batch.n_settle = 4;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(harness_fetch(h), 0);
        assert_int_equal(harness_fetch_parked(h, CLOCK_NEVER - 1), 0);
        assert_true(h->source->parked_due_us == CLOCK_NEVER);
        assert_true(h->fixture->count_parked("dead") >= 1);
        harness_close(h);
        harness_activate(h);
    }
}

/* (5) */
static void a_lost_connection_voids_what_is_under_way_and_a_new_one_reads_it_again(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    struct source_op *done = NULL;
    if (h->fixture->cut == NULL)
        skip();
    harness_activate(h);
    harness_insert(h, "a");
    harness_insert(h, "b");
    assert_int_equal(harness_fetch(h), 2);
    h->fixture->cut();
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (h->source->ops->poll(h->source, outrider__clock_now(), &done, &err) == 0) {
        assert_null(done);
        assert_true(outrider__clock_now().mono_us < deadline);
        harness_pause(h);
    }
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    harness_close(h);
    harness_activate(h);
    harness_fetch(h);
    ASSERT_NUMBERS(&h->batch, 0, 1);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(harness_fetch(h), 0);
}

/* (5), (9) */
static void close_is_legal_with_operations_under_way_and_after_a_failed_open(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_activate(h);
    harness_insert(h, "a");
    outrider__batch_reset(&h->batch);
    struct source_op op = {.kind = SOURCE_FETCH, .batch = &h->batch};
    assert_int_equal(h->source->ops->start(h->source, &op, &err), 0);
    harness_close(h);
    assert_int_equal(harness_open(h, &err), 0); /* and while it connects */
    harness_close(h);
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    harness_close(h);
    h->config.source.url = h->fixture->bad_url;
    assert_int_equal(harness_open(h, &err), -1);
    assert_true(strlen(err.message) > 0);
}

static bool is_waiting(const struct source *s)
{
    return s->waiting_for[0] != '\0';
}

/* (6) */
static void a_second_relay_stands_by_until_the_first_one_ends(void **state)
{
    struct harness *h = *state;
    struct harness second;
    struct outrider_error err = {0};
    harness_init_second(&second, h, h->config.name);
    harness_insert(h, "a");
    harness_activate(h);
    assert_int_equal(harness_open(&second, &err), 0);
    harness_wait(&second, is_waiting);
    assert_false(second.source->active);
    struct source_op op = {.kind = SOURCE_FETCH, .batch = &second.batch};
    assert_int_equal(second.source->ops->start(second.source, &op, &err), -1);
    assert_int_equal(err.code, OUTRIDER_STANDBY);
    harness_close(h);
    harness_wait(&second, is_active);
    harness_fetch(&second);
    ASSERT_NUMBERS(&second.batch, 0);
    harness_release(&second);
}

/* (6), (17) */
static void what_one_pipeline_settles_is_not_settled_for_another(void **state)
{
    struct harness *h = *state;
    struct harness other;
    harness_init_second(&other, h, "other");
    harness_insert(h, "a");
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 1);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_activate(&other);
    harness_fetch(&other);
    if (h->fixture->rows_carry_state)
        assert_int_equal(other.batch.n, 0); /* the row says it to all */
    else
        ASSERT_NUMBERS(&other.batch, 0);
    harness_release(&other);
}

/* (6) */
static void a_new_pipeline_begins_with_what_the_outbox_holds(void **state)
{
    struct harness *h = *state;
    struct harness late;
    static const char *const keys[] = {"a", "b"};
    harness_init_second(&late, h, h->config.name);
    late.config.name = "late";
    harness_insert_many(h, 3, keys, 2);
    harness_activate(&late);
    uint64_t n = 0;
    while (n < 3) {
        if (!late.source->ready)
            harness_wait(&late, is_ready);
        outrider__batch_reset(&late.batch);
        harness_must_do(&late, &(struct source_op){.kind = SOURCE_FETCH, .batch = &late.batch});
        for (size_t i = 0; i < late.batch.n; i++)
            assert_int_equal(harness_number(&late.batch.events[i]), n++);
        harness_settle(&late, &late.batch, OUTCOME_DELIVERED);
    }
    harness_release(&late);
}

/* (2) */
static void an_empty_outbox_is_no_error(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    assert_int_equal(harness_fetch(h), 0);
    assert_false(h->source->ready);
    assert_int_equal(harness_fetch_parked(h, CLOCK_NEVER - 1), 0);
    assert_true(h->source->parked_due_us == CLOCK_NEVER);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    harness_insert(h, "a");
    harness_wait(h, is_ready);
    assert_int_equal(harness_fetch(h), 1);
}

static bool has(const struct harness *h, enum source_field field)
{
    return (h->fixture->lacks & field) == 0;
}

static void assert_full_event(const struct harness *h, const struct event *e,
                              const struct outrider_event *in)
{
    if (in->id != NULL)
        assert_true(bytes_eq_str(e->id, in->id));
    assert_true(e->id.len > 0);
    assert_true(bytes_eq_str(e->aggregate_type, in->aggregate_type));
    assert_true(bytes_eq_str(e->aggregate_id, in->aggregate_id));
    assert_true(bytes_eq_str(e->event_type, in->event_type));
    assert_true(bytes_eq(e->payload, bytes_of(in->payload, in->payload_len)));
    if (has(h, FIELD_HEADERS))
        assert_true(bytes_eq_str(e->headers, in->headers));
    if (has(h, FIELD_TOPIC))
        assert_true(bytes_eq_str(e->topic, in->topic));
    if (has(h, FIELD_PARTITION_KEY))
        assert_true(bytes_eq_str(e->partition_key, in->partition_key));
    if (has(h, FIELD_PARTITION))
        assert_int_equal(e->partition, in->partition);
    if (has(h, FIELD_OCCURRED_AT))
        assert_int_equal(e->occurred_at_us, in->occurred_at_us);
    if (has(h, FIELD_EXPIRES_AT))
        assert_int_equal(e->expires_at_us, in->expires_at_us);
    assert_true(llabs(e->created_at_us - outrider__clock_now().wall_us) < HOUR_US);
    assert_false(e->is_malformed);
}

static void every_field_arrives_as_it_was_written(void **state)
{
    struct harness *h = *state;
    struct outrider_event in = OUTRIDER_EVENT_INIT;
    in.id = has(h, FIELD_UUID) ? "0190a5b4-7e11-7abc-8def-0123456789ab" : NULL;
    in.aggregate_type = "Bestellung-\xc3\xa4";
    in.aggregate_id = "42";
    in.event_type = "OrderCreated";
    in.payload = "{ \"a\" : 1.50 }";
    in.payload_len = strlen(in.payload);
    if (has(h, FIELD_HEADERS))
        in.headers = "{\"X-Correlation-ID\": \"7\"}"; /* as jsonb writes it, too */
    in.topic = has(h, FIELD_TOPIC) ? "orders" : NULL;
    in.partition_key = has(h, FIELD_PARTITION_KEY) ? "k" : NULL;
    in.partition = 3;
    in.occurred_at_us = 1700000000123456;
    in.expires_at_us = 4000000000000000;
    harness_activate(h);
    h->fixture->insert(&in, 1);
    h->fixture->finish(true);
    assert_int_equal(harness_fetch(h), 1);
    assert_full_event(h, &h->batch.events[0], &in);
    harness_decide(&h->batch.events[0], OUTCOME_PARKED, 1);
    h->batch.n_settle = 1;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    assert_int_equal(harness_fetch_failed(h), 1);
    assert_full_event(h, &h->parked.events[0], &in);
}

static void absent_fields_are_absent(void **state)
{
    struct harness *h = *state;
    unsigned demands = h->fixture->demands;
    harness_activate(h);
    harness_insert(h, "a");
    assert_int_equal(harness_fetch(h), 1);
    const struct event *e = &h->batch.events[0];
    if (has(h, FIELD_UUID))
        assert_int_equal(e->id.len, 36);
    assert_true(bytes_is_null(e->headers));
    assert_true(bytes_is_null(e->topic) == ((demands & FIELD_TOPIC) == 0));
    assert_true(bytes_is_null(e->partition_key) == ((demands & FIELD_PARTITION_KEY) == 0));
    assert_int_equal(e->partition, -1);
    assert_int_equal(e->expires_at_us, 0);
    assert_int_equal(e->occurred_at_us, e->created_at_us);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int source_contract_run(const char *name, const struct source_fixture *f)
{
    const struct CMUnitTest tests[] = {
        T(events_come_in_the_order_of_their_commits),
        T(a_rolled_back_event_is_never_returned),
        T(an_event_of_an_open_transaction_is_not_seen_before_its_commit),
        T(what_a_relay_beside_this_one_writes_is_no_event),
        T(what_was_returned_survives_a_crash_of_the_database),
        T(an_event_is_returned_until_it_is_settled),
        T(fetching_runs_ahead_of_settling),
        T(settling_the_front_of_a_batch_keeps_the_rest),
        T(a_relay_that_was_taken_over_settles_nothing),
        T(an_empty_settle_is_no_error),
        T(every_outcome_that_ends_an_event_ends_it_for_good),
        T(operations_complete_in_the_order_in_which_they_were_started),
        T(a_fetch_behind_a_settle_of_delivered_events_finds_what_comes_next),
        T(a_fetch_behind_a_settle_that_parks_knows_of_it),
        T(a_fetch_behind_a_settle_that_gives_back_keeps_the_order),
        T(a_lost_connection_voids_what_is_under_way_and_a_new_one_reads_it_again),
        T(close_is_legal_with_operations_under_way_and_after_a_failed_open),
        T(a_second_relay_stands_by_until_the_first_one_ends),
        T(what_one_pipeline_settles_is_not_settled_for_another),
        T(a_new_pipeline_begins_with_what_the_outbox_holds),
        T(an_empty_outbox_is_no_error),
        T(every_field_arrives_as_it_was_written),
        T(absent_fields_are_absent),
    };
    fixture = f;
    int failed = cmocka_run_group_tests_name(name, tests, NULL, NULL);
    failed += f->rows_carry_state ? rows_contract_run(name, f) : parked_contract_run(name, f);
    return failed + size_contract_run(name, f) + point_contract_run(name, f) +
           intent_contract_run(name, f);
}
