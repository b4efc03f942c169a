/* SPDX-License-Identifier: MIT */
/* The races of a log, made with real sessions beside the source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/pg_fixture.h"
#include "support/pg_server.h"

#include <cmocka.h>

/* Inserts one event with payload N in session i. */
static void put(int i, int n)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES "
                   "('t', 'k', 'E', '{\"n\":%d}')",
                   n);
    pg_fixture_sql(i, sql);
}

static int set_up(void **state)
{
    struct harness *h = calloc(1, sizeof *h);
    harness_init(h, &pg_fixture);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    harness_release(*state);
    free(*state);
    return 0;
}

/* Fetches once and settles; the numbers as text: "1 2 3". */
static const char *fetch(struct harness *h)
{
    static char text[1024];
    size_t n = harness_fetch(h), at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu", i > 0 ? " " : "",
                               (unsigned long long)harness_number(&h->batch.events[i]));
    if (n > 0)
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    return text;
}

static int64_t gaps_saved(void)
{
    return pg_fixture_value(7, "SELECT coalesce(sum(upper(g) - lower(g)), 0) FROM outrider_cursor, "
                               "unnest(gaps) g");
}

/* Fetches without settling until the source has forgotten its gaps, then saves. */
static void forget_gaps(struct harness *h, int i)
{
    for (int k = 0; k < 3; k++)
        assert_int_equal(harness_fetch(h), 0);
    put(i, 99);
    assert_string_equal(fetch(h), "99");
    assert_int_equal(gaps_saved(), 0);
}

/* Session 2 has taken seq 1 and not committed, event 2 is delivered. */
static void open_a_gap(struct harness *h)
{
    harness_activate(h);
    pg_fixture_sql(2, "BEGIN");
    put(2, 1);
    put(3, 2);
    assert_string_equal(fetch(h), "2");
}

static void a_slow_transaction_that_commits_a_low_seq_late_is_delivered(void **state)
{
    struct harness *h = *state;
    open_a_gap(h);
    put(3, 3);
    assert_string_equal(fetch(h), "3");
    assert_int_equal(gaps_saved(), 1);
    pg_fixture_sql(2, "COMMIT");
    assert_string_equal(fetch(h), "1");
    assert_string_equal(fetch(h), "");
    assert_int_equal(gaps_saved(), 0);
}

static void a_late_event_is_delivered_after_a_restart_in_between(void **state)
{
    struct harness *h = *state;
    open_a_gap(h);
    harness_close(h);
    pg_fixture_sql(2, "COMMIT");
    harness_activate(h);
    assert_string_equal(fetch(h), "1");
}

static void a_late_event_that_was_read_and_not_settled_comes_again(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    pg_fixture_sql(2, "BEGIN");
    put(2, 1);
    put(3, 2);
    assert_int_equal(harness_fetch(h), 1); /* batch 1: event 2 */
    pg_fixture_sql(2, "COMMIT");
    struct batch second;
    assert_int_equal(outrider__batch_init(&second, 10, 1 << 20, NULL), 0);
    harness_must_do(h, &(struct source_op){.kind = SOURCE_FETCH, .batch = &second});
    assert_int_equal(second.n, 1); /* batch 2: event 1, out of the gap */
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    assert_int_equal(gaps_saved(), 1);
    harness_close(h);
    harness_activate(h);
    assert_string_equal(fetch(h), "1");
    outrider__batch_release(&second);
}

static void settling_late_events_in_part_keeps_the_rest(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    pg_fixture_sql(2, "BEGIN");
    put(2, 1);
    put(2, 2);
    put(2, 3);
    put(3, 4);
    assert_string_equal(fetch(h), "4");
    pg_fixture_sql(2, "COMMIT");
    assert_int_equal(harness_fetch(h), 3);
    h->batch.events[0].outcome = OUTCOME_DELIVERED;
    h->batch.n_settle = 1;
    harness_settle(h, &h->batch, OUTCOME_PENDING);
    assert_int_equal(gaps_saved(), 2);
    harness_close(h);
    harness_activate(h);
    assert_string_equal(fetch(h), "2 3");
}

static void an_aborted_transaction_leaves_no_gap_behind(void **state)
{
    struct harness *h = *state;
    open_a_gap(h);
    assert_int_equal(gaps_saved(), 1);
    pg_fixture_sql(2, "ROLLBACK");
    forget_gaps(h, 3);
}

static void a_savepoint_rolled_back_leaves_no_gap_when_its_transaction_ends(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    pg_fixture_sql(2, "BEGIN; SAVEPOINT a");
    put(2, 1);
    pg_fixture_sql(2, "ROLLBACK TO a");
    put(2, 2);
    put(3, 3);
    assert_string_equal(fetch(h), "3");
    pg_fixture_sql(2, "COMMIT");
    assert_string_equal(fetch(h), "2");
    forget_gaps(h, 3);
}

static void a_prepared_transaction_is_waited_for(void **state)
{
    struct harness *h = *state;
    open_a_gap(h);
    assert_int_equal(harness_fetch(h), 0); /* notes who writes */
    pg_fixture_sql(2, "PREPARE TRANSACTION 'slow'");
    for (int i = 0; i < 5; i++)
        assert_int_equal(harness_fetch(h), 0);
    pg_fixture_sql(3, "COMMIT PREPARED 'slow'");
    assert_string_equal(fetch(h), "1");
}

static void a_transaction_prepared_before_a_server_crash_is_waited_for(void **state)
{
    struct harness *h = *state;
    open_a_gap(h);
    pg_fixture_sql(2, "PREPARE TRANSACTION 'slow'");
    harness_close(h);
    pg_server_restart("immediate");
    pg_fixture.tear_down();
    harness_activate(h);
    for (int i = 0; i < 4; i++)
        assert_int_equal(harness_fetch(h), 0);
    pg_fixture_sql(3, "COMMIT PREPARED 'slow'");
    assert_string_equal(fetch(h), "1");
}

static void a_long_unrelated_transaction_stalls_nothing(void **state)
{
    struct harness *h = *state;
    pg_fixture_sql(4, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()");
    open_a_gap(h);
    pg_fixture_sql(2, "ROLLBACK");
    forget_gaps(h, 3);
}

static void a_gap_that_is_filled_while_nothing_else_happens_is_noticed(void **state)
{
    struct harness *h = *state;
    open_a_gap(h);
    assert_int_equal(harness_fetch(h), 0);
    pg_fixture_sql(2, "COMMIT");
    while (!h->source->ready) {
        assert_null(harness_poll(h));
        harness_pause(h);
    }
    assert_string_equal(fetch(h), "1");
}

static void serialised_transactions_of_a_key_come_in_their_order(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    pg_fixture_sql(5, "BEGIN");
    put(5, 1); /* a gap that stays */
    pg_fixture_sql(2, "BEGIN");
    put(2, 2);
    put(4, 3);
    assert_string_equal(fetch(h), "3");
    pg_fixture_sql(2, "COMMIT"); /* in a gap */
    put(3, 4);                   /* by a writer that came after it */
    assert_string_equal(fetch(h), "2 4");
    pg_fixture_sql(5, "COMMIT");
    assert_string_equal(fetch(h), "1");
}

static void explicit_batches_cut_from_the_top(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    pg_fixture_sql(2, "BEGIN");
    for (int i = 0; i < 100; i++)
        put(2, i);
    put(3, 1000);
    assert_string_equal(fetch(h), "1000");
    put(3, 1001);
    pg_fixture_sql(2, "COMMIT");
    uint64_t next = 0;
    while (next < 102) {
        size_t n = harness_fetch(h);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++, next++)
            assert_int_equal(harness_number(&h->batch.events[i]), next < 100    ? next
                                                                  : next == 100 ? 1001
                                                                                : 0);
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
        if (next == 101)
            break;
    }
    assert_int_equal(harness_fetch(h), 0);
    assert_int_equal(gaps_saved(), 0);
}

static void above_max_gaps_only_gaps_are_read_and_the_holder_is_named(void **state)
{
    struct harness *h = *state;
    h->config.source.max_gaps = 5;
    harness_activate(h);
    pg_fixture_sql(2, "BEGIN");
    for (int i = 0; i < 8; i++) {
        put(2, i);
        put(3, 100 + i);
    }
    assert_string_equal(fetch(h), "100 101 102 103 104 105 106 107");
    put(3, 200);
    assert_int_equal(harness_fetch(h), 0);
    assert_int_equal(harness_fetch(h), 0);
    assert_true(h->source->warnings > 0);
    assert_non_null(strstr(h->source->warning, "max_gaps"));
    pg_fixture_sql(2, "COMMIT");
    assert_string_equal(fetch(h), "0 1 2 3 4 5 6 7");
    assert_string_equal(fetch(h), "200");
}

static bool is_broken(struct harness *h, struct outrider_error *err)
{
    struct source_op *done = NULL;
    return h->source->ops->poll(h->source, outrider__clock_now(), &done, err) < 0;
}

/* Opens until it is active or fails. */
static int open_error(struct harness *h, struct outrider_error *err)
{
    if (harness_open(h, err) < 0)
        return -1;
    while (!h->source->active) {
        if (is_broken(h, err)) {
            harness_close(h);
            return -1;
        }
        harness_pause(h);
    }
    return 0;
}

static void an_unsuitable_table_is_refused_with_the_reason(void **state)
{
    struct harness *h = *state;
    static const struct {
        const char *spoil, *mend, *says;
    } cases[] = {
        {"ALTER SEQUENCE outbox_seq_seq CACHE 10", "ALTER SEQUENCE outbox_seq_seq CACHE 1",
         "CACHE"},
        {"ALTER SEQUENCE outbox_seq_seq INCREMENT 2", "ALTER SEQUENCE outbox_seq_seq INCREMENT 1",
         "by 1"},
        {"ALTER SEQUENCE outbox_seq_seq CYCLE", "ALTER SEQUENCE outbox_seq_seq NO CYCLE", "CYCLE"},
        {"ALTER TABLE outbox ALTER seq SET GENERATED BY DEFAULT",
         "ALTER TABLE outbox ALTER seq SET GENERATED ALWAYS", "ALWAYS"},
        {"ALTER TABLE outbox SET UNLOGGED", "ALTER TABLE outbox SET LOGGED", "unlogged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outrider_error err = {0};
        harness_activate(h); /* suitable; then it changes while running */
        pg_fixture_sql(1, cases[i].spoil);
        while (!is_broken(h, &err))
            harness_pause(h);
        assert_int_equal(err.disposition, OUTRIDER_RETRY);
        harness_close(h);
        assert_int_equal(open_error(h, &err), -1);
        assert_int_equal(err.code, OUTRIDER_SCHEMA_UNSUITABLE);
        assert_int_equal(err.disposition, OUTRIDER_STOP);
        assert_non_null(strstr(err.message, cases[i].says));
        pg_fixture_sql(1, cases[i].mend);
    }
}

static void a_truncated_outbox_stops_the_relay(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_activate(h);
    put(2, 1);
    put(2, 2);
    assert_string_equal(fetch(h), "1 2");
    pg_fixture_sql(1, "TRUNCATE outbox RESTART IDENTITY");
    put(2, 3);
    harness_close(h);
    assert_int_equal(open_error(h, &err), -1);
    assert_int_equal(err.code, OUTRIDER_HISTORY);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
    assert_non_null(strstr(err.message, "resync"));
}

static void an_anchor_that_is_replaced_while_running_stops_the_relay(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    harness_activate(h);
    put(2, 1);
    assert_string_equal(fetch(h), "1");
    pg_fixture_sql(1, "UPDATE outbox SET id = gen_random_uuid()");
    put(2, 2);
    outrider__batch_reset(&h->batch);
    assert_int_equal(
        harness_do(h, &(struct source_op){.kind = SOURCE_FETCH, .batch = &h->batch}, &err), -1);
    assert_int_equal(err.code, OUTRIDER_HISTORY);
}

static void what_is_not_flushed_is_not_handed_on_before_it_is(void **state)
{
    struct harness *h = *state;
    harness_activate(h);
    pg_fixture_sql(2, "SET synchronous_commit = off");
    for (int i = 0; i < 20; i++) {
        put(2, i);
        int64_t at = pg_fixture_value(2, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn");
        assert_int_equal(harness_fetch(h), 1);
        assert_true(pg_fixture_value(3, "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn") + 40 >=
                    at);
        harness_settle(h, &h->batch, OUTCOME_DELIVERED);
    }
}

static void clean_up_leaves_gaps_and_anchors(void **state)
{
    struct harness *h = *state;
    h->config.cleanup.retention_us = 3600LL * 1000000;
    harness_activate(h);
    pg_fixture_sql(2, "BEGIN");
    put(2, 1);
    put(3, 2);
    put(3, 3);
    assert_string_equal(fetch(h), "2 3");
    pg_fixture_sql(2, "COMMIT"); /* committed late, not yet read */
    pg_fixture.age_outbox(86400LL * 1000000);
    struct source_op op = {.kind = SOURCE_CLEANUP, .now_wall_us = outrider__clock_now().wall_us};
    harness_must_do(h, &op);
    assert_int_equal(op.removed, 1); /* 2; not 1, which waits in its gap, nor 3, the anchor */
    assert_string_equal(fetch(h), "1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_slow_transaction_that_commits_a_low_seq_late_is_delivered),
        TEST(a_late_event_is_delivered_after_a_restart_in_between),
        TEST(a_late_event_that_was_read_and_not_settled_comes_again),
        TEST(settling_late_events_in_part_keeps_the_rest),
        TEST(an_aborted_transaction_leaves_no_gap_behind),
        TEST(a_savepoint_rolled_back_leaves_no_gap_when_its_transaction_ends),
        TEST(a_prepared_transaction_is_waited_for),
        TEST(a_transaction_prepared_before_a_server_crash_is_waited_for),
        TEST(a_long_unrelated_transaction_stalls_nothing),
        TEST(a_gap_that_is_filled_while_nothing_else_happens_is_noticed),
        TEST(serialised_transactions_of_a_key_come_in_their_order),
        TEST(explicit_batches_cut_from_the_top),
        TEST(above_max_gaps_only_gaps_are_read_and_the_holder_is_named),
        TEST(an_unsuitable_table_is_refused_with_the_reason),
        TEST(a_truncated_outbox_stops_the_relay),
        TEST(an_anchor_that_is_replaced_while_running_stops_the_relay),
        TEST(what_is_not_flushed_is_not_handed_on_before_it_is),
        TEST(clean_up_leaves_gaps_and_anchors),
    };
    if (!pg_server_start()) {
        (void)fprintf(stderr, "no PostgreSQL server programs: skipped\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
