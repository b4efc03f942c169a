/* SPDX-License-Identifier: MIT */
/* The inbox on SQLite: one effect for each event, also of two consumers at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "outrider/sqlite.h"
#include "support/inbox_cases.h"
#include "support/sqlite_fixture.h"

static sqlite3 *other;

static int set_up(void **state)
{
    static struct sqlite_fixture f;
    sqlite_fixture_make(&f);
    sqlite_must(f.db, "PRAGMA journal_mode = WAL; CREATE TABLE account (balance INTEGER);"
                      "INSERT INTO account VALUES (0)");
    assert_int_equal(outrider_inbox_init_sqlite(f.db, NULL), 0);
    assert_int_equal(sqlite3_open(f.path, &other), SQLITE_OK);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    sqlite_fixture_remove(*state);
    return 0;
}

static void an_event_is_new_once_for_each_consumer(void **state)
{
    struct sqlite_fixture *f = *state;
    sqlite_must(f->db, "BEGIN");
    assert_int_equal(outrider_inbox_sqlite(f->db, "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(outrider_inbox_sqlite(f->db, "mail", "1", NULL), OUTRIDER_INBOX_SEEN);
    assert_int_equal(outrider_inbox_sqlite(f->db, "bank", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(outrider_inbox_check_sqlite(f->db, "bank", "2", NULL), OUTRIDER_INBOX_NEW);
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(outrider_inbox_check_sqlite(f->db, "bank", "1", NULL), OUTRIDER_INBOX_SEEN);
    assert_null(sqlite3_next_stmt(f->db, NULL));
}

static void a_rollback_makes_it_new_again(void **state)
{
    struct sqlite_fixture *f = *state;
    sqlite_must(f->db, "BEGIN");
    assert_int_equal(outrider_inbox_sqlite(f->db, "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    sqlite_must(f->db, "ROLLBACK; BEGIN");
    assert_int_equal(outrider_inbox_sqlite(f->db, "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    sqlite_must(f->db, "COMMIT");
}

static void of_two_that_insert_first_at_once_one_is_told_to_wait(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_error err = {0};
    sqlite_must(f->db, "BEGIN");
    sqlite_must(other, "BEGIN");
    assert_int_equal(outrider_inbox_sqlite(f->db, "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(outrider_inbox_sqlite(other, "mail", "1", &err), -1);
    assert_int_equal(err.code, OUTRIDER_DB_LOCKED);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(outrider_inbox_sqlite(other, "mail", "1", &err), OUTRIDER_INBOX_SEEN);
    sqlite_must(other, "COMMIT");
}

static void of_two_that_check_and_then_mark_at_once_one_fails(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_error err = {0};
    sqlite_must(f->db, "BEGIN");
    sqlite_must(other, "BEGIN");
    assert_int_equal(outrider_inbox_check_sqlite(f->db, "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(outrider_inbox_check_sqlite(other, "mail", "1", NULL), OUTRIDER_INBOX_NEW);
    assert_int_equal(outrider_inbox_mark_sqlite(f->db, "mail", "1", NULL), 0);
    sqlite_must(f->db, "UPDATE account SET balance = balance + 1; COMMIT");
    assert_int_equal(outrider_inbox_mark_sqlite(other, "mail", "1", &err), -1);
    assert_int_equal(err.code, OUTRIDER_DB_LOCKED); /* it read before the other wrote */
    sqlite_must(other, "ROLLBACK; BEGIN IMMEDIATE");
    assert_int_equal(outrider_inbox_mark_sqlite(other, "mail", "1", &err), -1);
    assert_int_equal(err.code, OUTRIDER_DUPLICATE);
    sqlite_must(other, "ROLLBACK");
    assert_int_equal(sqlite_value(f->db, "SELECT balance FROM account"), 1);
}

static void what_is_old_is_forgotten_in_portions(void **state)
{
    struct sqlite_fixture *f = *state;
    size_t n = 0;
    sqlite_must(f->db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
                       "i < 10) INSERT INTO outrider_inbox SELECT 'mail', i, i * 1000000 FROM n");
    sqlite_must(f->db, "INSERT INTO outrider_inbox VALUES ('bank', 'x', 1)");
    assert_int_equal(outrider_inbox_cleanup_sqlite(f->db, "mail", 8000000, 5, &n, NULL), 0);
    assert_int_equal(n, 5);
    assert_int_equal(outrider_inbox_cleanup_sqlite(f->db, "mail", 8000000, 5, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(outrider_inbox_cleanup_sqlite(f->db, NULL, 8000000, 5, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outrider_inbox"), 3);
}

static int first_insert(void *conn, const char *consumer, const char *id,
                        struct outrider_error *err)
{
    return outrider_inbox_sqlite(conn, consumer, id, err);
}
static int check(void *conn, const char *consumer, const char *id, struct outrider_error *err)
{
    return outrider_inbox_check_sqlite(conn, consumer, id, err);
}
static int mark(void *conn, const char *consumer, const char *id, struct outrider_error *err)
{
    return outrider_inbox_mark_sqlite(conn, consumer, id, err);
}

static void misuse_is_an_error_and_never_a_crash(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_error err = {0};
    sqlite_must(f->db, "BEGIN");
    inbox_case_misuse(f->db, first_insert);
    inbox_case_misuse(f->db, check);
    inbox_case_misuse(f->db, mark);
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(outrider_inbox_init_sqlite(NULL, NULL), -1);
    assert_int_equal(outrider_inbox_cleanup_sqlite(NULL, NULL, 0, 1, NULL, NULL), -1);
    assert_int_equal(outrider_inbox_cleanup_sqlite(f->db, "", 0, 1, NULL, NULL), -1);
    assert_int_equal(outrider_inbox_sqlite(f->db, "mail", "1", &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    sqlite_must(f->db, "DROP TABLE outrider_inbox; BEGIN");
    assert_int_equal(outrider_inbox_sqlite(f->db, "mail", "1", &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_FOUND);
    assert_non_null(strstr(err.message, "init --inbox"));
    sqlite_must(f->db, "COMMIT");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(an_event_is_new_once_for_each_consumer),
        T(a_rollback_makes_it_new_again),
        T(of_two_that_insert_first_at_once_one_is_told_to_wait),
        T(of_two_that_check_and_then_mark_at_once_one_fails),
        T(what_is_old_is_forgotten_in_portions),
        T(misuse_is_an_error_and_never_a_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
