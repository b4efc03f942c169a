/* SPDX-License-Identifier: MIT */
/* The inbox on PostgreSQL: one effect for each event, also of two consumers at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outrider/postgres.h"
#include "support/inbox_cases.h"
#include "support/pg_fixture.h"
#include "support/pg_server.h"

#include <cmocka.h>

static struct harness h;

static int set_up(void **state)
{
    (void)state;
    harness_init(&h, &pg_fixture);
    for (int i = 0; i < 2; i++) /* the second finds it there */
        assert_int_equal(outrider_inbox_init_pg(pg_fixture_session(0), NULL), 0);
    pg_fixture_sql(0, "CREATE TABLE account (balance bigint); INSERT INTO account VALUES (0)");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    harness_release(&h);
    return 0;
}

static PGconn *conn(int i)
{
    return pg_fixture_session(i);
}

static void an_event_is_new_once_for_each_consumer(void **state)
{
    (void)state;
    pg_fixture_sql(0, "BEGIN");
    assert_int_equal(outrider_inbox_pg(conn(0), "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(outrider_inbox_pg(conn(0), "mail", "1", NULL), OUTRIDER_INBOX_SEEN);
    assert_int_equal(outrider_inbox_pg(conn(0), "bank", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(outrider_inbox_check_pg(conn(0), "bank", "2", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(outrider_inbox_check_pg(conn(1), "bank", "1", NULL), OUTRIDER_INBOX_NEW);
    pg_fixture_sql(0, "COMMIT");
    assert_int_equal(outrider_inbox_check_pg(conn(1), "bank", "1", NULL), OUTRIDER_INBOX_SEEN);
}

struct duplicate {
    PGconn *conn;
    int answer;
    struct outrider_error err;
};

static void *insert_first(void *arg)
{
    struct duplicate *d = arg;
    d->answer = outrider_inbox_pg(d->conn, "mail", "1", &d->err);
    return NULL;
}

static void *mark(void *arg)
{
    struct duplicate *d = arg;
    d->answer = outrider_inbox_mark_pg(d->conn, "mail", "1", &d->err);
    return NULL;
}

/* Starts the call on session 1, waits until the server says that it waits for
 * session 0, ends that one's transaction, and gives back what the call said. */
static struct duplicate behind_a_first(void *(*call)(void *), const char *end)
{
    struct duplicate d = {.conn = conn(1)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call, &d), 0);
    int64_t deadline_us = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (pg_fixture_value(2, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = "
                               "'Lock' AND query LIKE '%outrider_inbox%'") == 0)
        assert_true(outrider__clock_now().mono_us < deadline_us);
    pg_fixture_sql(0, end);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return d;
}

static void of_two_that_insert_first_at_once_the_later_one_waits_and_has_seen_it(void **state)
{
    (void)state;
    pg_fixture_sql(0, "BEGIN");
    pg_fixture_sql(1, "BEGIN");
    assert_int_equal(outrider_inbox_pg(conn(0), "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(behind_a_first(insert_first, "COMMIT").answer, OUTRIDER_INBOX_SEEN);
    pg_fixture_sql(1, "COMMIT");
}

static void if_the_first_rolls_back_the_one_that_waits_has_it_new(void **state)
{
    (void)state;
    pg_fixture_sql(0, "BEGIN");
    pg_fixture_sql(1, "BEGIN");
    assert_int_equal(outrider_inbox_pg(conn(0), "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(behind_a_first(insert_first, "ROLLBACK").answer, OUTRIDER_INBOX_NEW);
    pg_fixture_sql(1, "COMMIT");
}

static void under_repeatable_read_the_later_one_is_to_be_tried_again(void **state)
{
    (void)state;
    pg_fixture_sql(0, "BEGIN");
    pg_fixture_sql(1, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM account");
    assert_int_equal(outrider_inbox_pg(conn(0), "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    struct duplicate d = behind_a_first(insert_first, "COMMIT");
    assert_int_equal(d.answer, -1);
    assert_int_equal(d.err.code, OUTRIDER_DB_LOCKED);
    assert_int_equal(d.err.disposition, OUTRIDER_RETRY);
    pg_fixture_sql(1, "ROLLBACK");
}

static void of_two_that_check_and_then_mark_at_once_the_later_one_cannot_commit(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        pg_fixture_sql(i, "BEGIN");
        assert_int_equal(outrider_inbox_check_pg(conn(i), "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    }
    pg_fixture_sql(0, "UPDATE account SET balance = balance + 1");
    assert_int_equal(outrider_inbox_mark_pg(conn(0), "mail", "1", NULL), 0);
    struct duplicate d = behind_a_first(mark, "COMMIT");
    assert_int_equal(d.answer, -1);
    assert_int_equal(d.err.code, OUTRIDER_DUPLICATE);
    assert_int_equal(PQtransactionStatus(conn(1)), PQTRANS_INERROR);
    pg_fixture_sql(1, "ROLLBACK");
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outrider_inbox"), 1);
}

static void what_is_old_is_forgotten_in_portions(void **state)
{
    size_t n = 0;
    (void)state;
    pg_fixture_sql(0, "INSERT INTO outrider_inbox SELECT 'mail', i, to_timestamp(i) FROM "
                      "generate_series(1, 10) i");
    pg_fixture_sql(0, "INSERT INTO outrider_inbox VALUES ('bank', 'x', to_timestamp(1))");
    assert_int_equal(outrider_inbox_cleanup_pg(conn(0), "mail", 8000000, 5, &n, NULL), 0);
    assert_int_equal(n, 5);
    assert_int_equal(outrider_inbox_cleanup_pg(conn(0), "mail", 8000000, 5, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(outrider_inbox_cleanup_pg(conn(0), NULL, 8000000, 5, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outrider_inbox"), 3);
}

static int call_first_insert(void *c, const char *consumer, const char *id,
                             struct outrider_error *err)
{
    return outrider_inbox_pg(c, consumer, id, err);
}
static int call_check(void *c, const char *consumer, const char *id, struct outrider_error *err)
{
    return outrider_inbox_check_pg(c, consumer, id, err);
}
static int call_mark(void *c, const char *consumer, const char *id, struct outrider_error *err)
{
    return outrider_inbox_mark_pg(c, consumer, id, err);
}

static void misuse_is_an_error_and_never_a_crash(void **state)
{
    struct outrider_error err = {0};
    (void)state;
    pg_fixture_sql(0, "BEGIN");
    inbox_case_misuse(conn(0), call_first_insert);
    inbox_case_misuse(conn(0), call_check);
    inbox_case_misuse(conn(0), call_mark);
    assert_int_equal(PQtransactionStatus(conn(0)), PQTRANS_INTRANS);
    pg_fixture_sql(0, "COMMIT");
    assert_int_equal(outrider_inbox_init_pg(NULL, NULL), -1);
    assert_int_equal(outrider_inbox_cleanup_pg(NULL, NULL, 0, 1, NULL, NULL), -1);
    assert_int_equal(outrider_inbox_cleanup_pg(conn(0), "", 0, 1, NULL, NULL), -1);
    assert_int_equal(outrider_inbox_pg(conn(0), "mail", "1", &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    pg_fixture_sql(0, "DROP TABLE outrider_inbox; BEGIN");
    assert_int_equal(outrider_inbox_pg(conn(0), "mail", "1", &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_FOUND);
    assert_non_null(strstr(err.message, "init --inbox"));
    pg_fixture_sql(0, "ROLLBACK");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(an_event_is_new_once_for_each_consumer),
        T(of_two_that_insert_first_at_once_the_later_one_waits_and_has_seen_it),
        T(if_the_first_rolls_back_the_one_that_waits_has_it_new),
        T(under_repeatable_read_the_later_one_is_to_be_tried_again),
        T(of_two_that_check_and_then_mark_at_once_the_later_one_cannot_commit),
        T(what_is_old_is_forgotten_in_portions),
        T(misuse_is_an_error_and_never_a_crash),
    };
    if (!pg_server_start()) {
        (void)fprintf(stderr, "no PostgreSQL server programs: skipped\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
