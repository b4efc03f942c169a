/* SPDX-License-Identifier: MIT */
/* The writer on PostgreSQL: events one by one and in arrays, and its misuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outrider/postgres.h"
#include "support/pg_fixture.h"
#include "support/pg_server.h"
#include "support/writer_cases.h"

#include <cmocka.h>

static struct harness h;

static int set_up(void **state)
{
    (void)state;
    harness_init(&h, &pg_fixture);
    pg_fixture_sql(0, "ALTER TABLE outbox ALTER payload TYPE jsonb USING NULL");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    harness_release(&h);
    return 0;
}

static struct outrider_writer *writer(unsigned flags)
{
    struct outrider_writer *w = NULL;
    assert_int_equal(outrider_writer_new_pg(pg_fixture_session(0), flags, &w, NULL), 0);
    return w;
}

static void must(int rc, const struct outrider_error *err)
{
    if (rc < 0)
        fail_msg("%s: %s", outrider_code_name(err->code), err->message);
}

#define PREPARED "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'outrider%'"

static void a_writer_prepares_once_and_takes_it_back(void **state)
{
    struct outrider_event e = writer_case_event("{}");
    struct outrider_error err = {0};
    struct outrider_writer *w = writer(0);
    (void)state;
    for (int i = 0; i < 3; i++) {
        pg_fixture_sql(0, "BEGIN");
        must(outrider_writer_put(w, &e, 0, NULL, &err), &err);
        pg_fixture_sql(0, i == 1 ? "ROLLBACK" : "COMMIT");
        assert_int_equal(pg_fixture_value(0, PREPARED), 1);
    }
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outbox"), 2);
    outrider_writer_free(w);
    assert_int_equal(pg_fixture_value(0, PREPARED), 0);
}

static void one_shot_calls_and_unprepared_writers_leave_nothing_behind(void **state)
{
    struct writer_case_array a;
    struct outrider_error err = {0};
    (void)state;
    writer_case_fill(&a);
    PGconn *c = pg_fixture_session(0);
    struct outrider_writer *w = writer(OUTRIDER_WRITER_UNPREPARED);
    pg_fixture_sql(0, "BEGIN");
    must(outrider_enqueue_pg(c, &a.events[0], 0, NULL, &err), &err);
    must(outrider_enqueue_many_pg(c, a.events, 10, 0, NULL, &err), &err);
    must(outrider_writer_put(w, &a.events[0], 0, NULL, &err), &err);
    must(outrider_writer_put_many(w, a.events, 10, 0, NULL, &err), &err);
    pg_fixture_sql(0, "COMMIT");
    assert_int_equal(pg_fixture_value(0, PREPARED), 0);
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outbox"), 22);
    outrider_writer_free(w);
}

static void two_writers_on_one_connection_do_not_meet(void **state)
{
    struct outrider_event e = writer_case_event("{}");
    struct outrider_error err = {0};
    (void)state;
    struct outrider_writer *a = writer(0), *b = writer(0);
    pg_fixture_sql(0, "BEGIN");
    must(outrider_writer_put(a, &e, 0, NULL, &err), &err);
    must(outrider_writer_put(b, &e, 0, NULL, &err), &err);
    outrider_writer_free(a);
    must(outrider_writer_put(b, &e, 0, NULL, &err), &err);
    pg_fixture_sql(0, "COMMIT");
    outrider_writer_free(b);
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outbox"), 3);
}

/* Every column, both ways, must come out alike. */
static void an_array_writes_what_single_events_write(void **state)
{
    struct outrider_event e = writer_case_event("{\"a\": \"\xc3\xa4\"}");
    struct outrider_event pair[2];
    struct outrider_error err = {0};
    (void)state;
    pg_fixture_sql(0, "BEGIN");
    for (int full = 0; full < 2; full++) {
        if (full) {
            e.headers = "{\"trace\": \"1\"}";
            e.topic = "t";
            e.partition_key = "k";
            e.partition = 3;
            e.occurred_at_us = 1600000000123456;
            e.expires_at_us = 4000000000000001;
        }
        pair[0] = pair[1] = e;
        must(outrider_enqueue_pg(pg_fixture_session(0), &e, 0, NULL, &err), &err);
        must(outrider_enqueue_many_pg(pg_fixture_session(0), pair, 2, 0, NULL, &err), &err);
    }
    pg_fixture_sql(0, "COMMIT");
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM (SELECT DISTINCT aggregate_type, "
                                         "aggregate_id, event_type, payload, headers, topic, "
                                         "partition_key, partition, occurred_at, expires_at "
                                         "FROM outbox) x"),
                     2);
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outbox WHERE partition = 3 AND "
                                         "occurred_at = '2020-09-13 12:26:40.123456+00' AND "
                                         "headers->>'trace' = '1' AND topic = 't' AND "
                                         "partition_key = 'k'"),
                     3);
}

static void an_array_goes_in_in_its_order_with_its_ids(void **state)
{
    struct writer_case_array a;
    struct outrider_error err = {0};
    char sql[160];
    (void)state;
    writer_case_fill(&a);
    a.events[5].id = "0190A5B4-7e11-7abc-8def-0123456789ab";
    struct outrider_writer *w = writer(0);
    pg_fixture_sql(0, "BEGIN");
    must(outrider_writer_put_many(w, a.events, WRITER_CASE_N, 0, a.ids, &err), &err);
    pg_fixture_sql(0, "COMMIT");
    outrider_writer_free(w);
    for (int i = 0; i < WRITER_CASE_N; i++) {
        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM outbox WHERE id = '%s' AND aggregate_id = '%d' AND "
                       "seq = %d",
                       a.ids[i], i, i + 1);
        assert_int_equal(pg_fixture_value(0, sql), 1);
    }
    assert_string_equal(a.ids[5], a.events[5].id);
}

static void of_an_array_with_a_bad_event_nothing_goes_in(void **state)
{
    static const char id[] = "0190a5b4-7e11-7abc-8def-0123456789ab";
    static const char zero[] = "\"a\0b\"";
    struct outrider_error err = {0};
    (void)state;
    for (int bad = 0; bad < 3; bad++) {
        struct writer_case_array a;
        writer_case_fill(&a);
        if (bad == 0)
            a.events[7].payload = "{", a.events[7].payload_len = 1;
        else if (bad == 1)
            a.events[7].id = a.events[9].id = id;
        else
            a.events[7].payload = zero, a.events[7].payload_len = sizeof zero - 1;
        (void)snprintf(a.ids[0], sizeof a.ids[0], "untouched");
        pg_fixture_sql(0, "BEGIN");
        assert_int_equal(outrider_enqueue_many_pg(pg_fixture_session(0), a.events, WRITER_CASE_N, 0,
                                                  a.ids, &err),
                         -1);
        if (strstr(err.message, "event 7:") == NULL)
            fail_msg("case %d: %s", bad, err.message);
        assert_string_equal(a.ids[0], "untouched");
        pg_fixture_sql(0, "ROLLBACK");
    }
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outbox"), 0);
}

/* DISCARD ALL, another column's type, and a reset, each behind a writer's back. */
static void a_writer_finds_its_feet_again(void **state)
{
    static const char *const behind[] = {
        "DISCARD ALL",
        "ALTER TABLE outbox ALTER payload TYPE text USING payload::text",
    };
    struct outrider_event e = writer_case_event("{}"), pair[2] = {e, e};
    struct outrider_error err = {0};
    struct outrider_writer *w = writer(0);
    (void)state;
    for (size_t i = 0; i <= sizeof behind / sizeof *behind; i++) {
        unsigned flags = OUTRIDER_ENQUEUE_AUTOCOMMIT;
        must(outrider_writer_put(w, &e, flags, NULL, &err), &err);
        must(outrider_writer_put_many(w, pair, 2, flags, NULL, &err), &err);
        if (i < sizeof behind / sizeof *behind)
            pg_fixture_sql(0, behind[i]);
        else
            PQreset(pg_fixture_session(0));
        (void)!outrider_writer_put(w, &e, flags, NULL, &err);
        (void)!outrider_writer_put_many(w, pair, 2, flags, NULL, &err);
        must(outrider_writer_put(w, &e, flags, NULL, &err), &err);
        must(outrider_writer_put_many(w, pair, 2, flags, NULL, &err), &err);
    }
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outbox WHERE payload <> '{}'"), 0);
    outrider_writer_free(w);
}

static void every_form_of_payload_takes_an_array(void **state)
{
    static const char *const forms[] = {"text", "json", "bytea", "varchar"};
    struct outrider_event e = writer_case_event("{\"a\":\"\xc3\xa4\"}"), pair[2] = {e, e};
    struct outrider_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char sql[200];
        (void)snprintf(sql, sizeof sql,
                       "TRUNCATE outbox; ALTER TABLE outbox ALTER payload TYPE %s USING NULL",
                       forms[i]);
        pg_fixture_sql(0, sql);
        PQreset(pg_fixture_session(0)); /* a session remembers the column's type */
        must(outrider_enqueue_many_pg(pg_fixture_session(0), pair, 2, OUTRIDER_ENQUEUE_AUTOCOMMIT,
                                      NULL, &err),
             &err);
        assert_int_equal(pg_fixture_value(0, "SELECT octet_length(max(payload::text)) FROM outbox"),
                         i == 2 ? 2 + 2 * 10 : 10);
    }
}

static void misuse_is_an_error_and_the_transaction_goes_on(void **state)
{
    struct outrider_event e = writer_case_event("{}");
    struct outrider_error err = {0};
    PGconn *c = pg_fixture_session(0);
    struct outrider_writer *w = writer(0);
    (void)state;
    pg_fixture_sql(0, "BEGIN");
    writer_case_misuse(w);
    assert_int_equal(PQtransactionStatus(c), PQTRANS_INTRANS);
    pg_fixture_sql(0, "COMMIT");
    assert_int_equal(outrider_writer_new_pg(NULL, 0, &w, NULL), -1);
    assert_int_equal(outrider_writer_new_pg(c, 0, NULL, NULL), -1);
    assert_int_equal(outrider_writer_new_pg(c, 8, &w, NULL), -1);
    assert_int_equal(outrider_writer_put_many(w, &e, 1, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    assert_int_equal(PQenterPipelineMode(c), 1);
    assert_int_equal(outrider_writer_put(w, &e, OUTRIDER_ENQUEUE_AUTOCOMMIT, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_INVALID);
    assert_int_equal(PQexitPipelineMode(c), 1);
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outbox"), 0);
    outrider_writer_free(w);
}

static void ten_mebibytes_are_taken_and_come_back(void **state)
{
    struct outrider_event events[2] = {writer_case_event("{}"), writer_case_event("{}")};
    struct outrider_error err = {0};
    struct outrider_writer *w = writer(0);
    (void)state;
    char *big = writer_case_big(&events[1]);
    pg_fixture_sql(0, "BEGIN");
    must(outrider_writer_put(w, &events[1], 0, NULL, &err), &err);
    must(outrider_writer_put_many(w, events, 2, 0, NULL, &err), &err);
    pg_fixture_sql(0, "COMMIT");
    assert_int_equal(pg_fixture_value(0, "SELECT sum(octet_length(payload::text)) FROM outbox"),
                     2 * WRITER_CASE_BIG + 2);
    outrider_writer_free(w);
    free(big);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_writer_prepares_once_and_takes_it_back),
        T(one_shot_calls_and_unprepared_writers_leave_nothing_behind),
        T(two_writers_on_one_connection_do_not_meet),
        T(an_array_writes_what_single_events_write),
        T(an_array_goes_in_in_its_order_with_its_ids),
        T(of_an_array_with_a_bad_event_nothing_goes_in),
        T(a_writer_finds_its_feet_again),
        T(every_form_of_payload_takes_an_array),
        T(misuse_is_an_error_and_the_transaction_goes_on),
        T(ten_mebibytes_are_taken_and_come_back),
    };
    if (!pg_server_start()) {
        (void)fprintf(stderr, "no PostgreSQL server programs: skipped\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
