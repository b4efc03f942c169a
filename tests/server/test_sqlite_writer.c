/* SPDX-License-Identifier: MIT */
/* The writer on SQLite: events one by one and in arrays, and its misuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "outrider/sqlite.h"
#include "support/sqlite_fixture.h"
#include "support/writer_cases.h"

static int set_up(void **state)
{
    static struct sqlite_fixture f;
    sqlite_fixture_init(&f);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    sqlite_fixture_remove(*state);
    return 0;
}

static struct outrider_writer *writer(struct sqlite_fixture *f)
{
    struct outrider_writer *w = NULL;
    assert_int_equal(outrider_writer_new_sqlite(f->db, 0, &w, NULL), 0);
    return w;
}

static void a_writer_keeps_one_statement_and_gives_it_back(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_writer *w = writer(f);
    struct outrider_event e = writer_case_event("{}");
    char id[OUTRIDER_ID_SIZE];
    assert_null(sqlite3_next_stmt(f->db, NULL));
    sqlite_must(f->db, "CREATE TABLE orders (id INTEGER PRIMARY KEY); BEGIN;"
                       "INSERT INTO orders VALUES (4711)");
    for (int i = 0; i < 3; i++)
        assert_int_equal(outrider_writer_put(w, &e, 0, id, NULL), 0);
    assert_int_equal(sqlite3_last_insert_rowid(f->db), 4711);
    sqlite3_stmt *kept = sqlite3_next_stmt(f->db, NULL);
    assert_non_null(kept);
    assert_null(sqlite3_next_stmt(f->db, kept));
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 3);
    assert_string_equal(sqlite_text(f->db, "SELECT id FROM outbox ORDER BY seq DESC LIMIT 1"), id);
    outrider_writer_free(w);
    assert_null(sqlite3_next_stmt(f->db, NULL));
}

static void an_array_goes_in_in_its_order(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_writer *w = writer(f);
    struct writer_case_array a;
    writer_case_fill(&a);
    sqlite_must(f->db, "BEGIN");
    assert_int_equal(outrider_writer_put_many(w, a.events, WRITER_CASE_N, 0, a.ids, NULL), 0);
    sqlite_must(f->db, "COMMIT");
    for (int i = 0; i < WRITER_CASE_N; i++) {
        char sql[160];
        (void)snprintf(sql, sizeof sql,
                       "SELECT id FROM outbox WHERE aggregate_id = '%d' AND "
                       "seq = %d",
                       i, i + 1);
        assert_string_equal(sqlite_text(f->db, sql), a.ids[i]);
    }
    outrider_writer_free(w);
}

static void of_an_array_with_a_bad_event_nothing_goes_in(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_writer *w = writer(f);
    struct outrider_error err = {0};
    struct writer_case_array a;
    writer_case_fill(&a);
    a.events[7].payload = "{"; /* the database refuses it, not the check */
    a.events[7].payload_len = 1;
    (void)snprintf(a.ids[0], sizeof a.ids[0], "untouched");
    sqlite_must(f->db, "CREATE TABLE orders (id INTEGER); BEGIN; INSERT INTO orders VALUES (1)");
    assert_int_equal(outrider_writer_put_many(w, a.events, WRITER_CASE_N, 0, a.ids, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_JSON);
    assert_non_null(strstr(err.message, "event 7:"));
    assert_string_equal(a.ids[0], "untouched");
    assert_false(sqlite3_get_autocommit(f->db));
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 0);
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM orders"), 1);
    outrider_writer_free(w);
}

static void an_array_outside_a_transaction_is_committed_as_a_whole_where_allowed(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_error err = {0};
    struct writer_case_array a;
    writer_case_fill(&a);
    assert_int_equal(outrider_enqueue_many_sqlite(f->db, a.events, WRITER_CASE_N, 0, NULL, &err),
                     -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    assert_int_equal(outrider_enqueue_many_sqlite(f->db, a.events, WRITER_CASE_N,
                                                  OUTRIDER_ENQUEUE_AUTOCOMMIT, NULL, &err),
                     0);
    assert_true(sqlite3_get_autocommit(f->db));
    a.events[WRITER_CASE_N - 1].id = a.events[0].id = "0190a5b4-7e11-7abc-8def-0123456789ab";
    assert_int_equal(outrider_enqueue_many_sqlite(f->db, a.events, WRITER_CASE_N,
                                                  OUTRIDER_ENQUEUE_AUTOCOMMIT, NULL, &err),
                     -1);
    assert_true(sqlite3_get_autocommit(f->db));
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), WRITER_CASE_N);
    assert_null(sqlite3_next_stmt(f->db, NULL));
}

static void misuse_is_an_error_and_never_a_crash(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_writer *w = writer(f);
    sqlite_must(f->db, "BEGIN");
    writer_case_misuse(w);
    assert_int_equal(outrider_writer_new_sqlite(NULL, 0, &w, NULL), -1);
    assert_int_equal(outrider_writer_new_sqlite(f->db, 0, NULL, NULL), -1);
    assert_int_equal(outrider_writer_new_sqlite(f->db, 8, &w, NULL), -1);
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 0);
    outrider_writer_free(w);
    outrider_writer_free(NULL);
}

static void ten_mebibytes_are_taken_and_come_back(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_writer *w = writer(f);
    struct outrider_event events[2] = {writer_case_event("{}"), writer_case_event("{}")};
    char *big = writer_case_big(&events[1]);
    sqlite_must(f->db, "BEGIN");
    assert_int_equal(outrider_writer_put(w, &events[1], 0, NULL, NULL), 0);
    assert_int_equal(outrider_writer_put_many(w, events, 2, 0, NULL, NULL), 0);
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(sqlite_value(f->db, "SELECT sum(length(payload)) FROM outbox"),
                     2 * WRITER_CASE_BIG + 2);
    outrider_writer_free(w);
    free(big);
}

/* As `outrider init` makes them, in short. */
static void make_outbox(struct sqlite_fixture *f, const char *payload)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "DROP TABLE outbox; CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, "
                   "id TEXT UNIQUE, aggregate_type TEXT, aggregate_id TEXT, event_type TEXT, "
                   "payload %s, headers TEXT, topic TEXT, partition_key TEXT, partition INTEGER, "
                   "occurred_at TEXT, expires_at TEXT)",
                   payload);
    sqlite_must(f->db, sql);
}

static void a_writer_notices_that_the_table_is_another_one(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_writer *w = writer(f);
    struct outrider_event e = writer_case_event("{}");
    static const struct {
        const char *column, *type;
    } cases[] = {{"TEXT", "text"},
                 {"BLOB", "blob"},
                 {"TEXT CHECK (typeof(payload) = 'text')", "text"},
                 {"BLOB CHECK (typeof(payload) = 'blob')", "blob"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_outbox(f, cases[i].column);
        sqlite_must(f->db, "BEGIN");
        for (int k = 0; k < 2; k++)
            assert_int_equal(outrider_writer_put(w, &e, 0, NULL, NULL), 0);
        sqlite_must(f->db, "COMMIT");
        assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 2);
        assert_string_equal(
            sqlite_text(f->db, "SELECT group_concat(DISTINCT typeof(payload)) FROM outbox"),
            cases[i].type);
    }
    /* No text, and the last table that it knows asks for text: it looks before it refuses. */
    make_outbox(f, "TEXT");
    sqlite_must(f->db, "BEGIN");
    assert_int_equal(outrider_writer_put(w, &e, 0, NULL, NULL), 0);
    make_outbox(f, "BLOB");
    e.payload = "\xff";
    e.payload_len = 1;
    assert_int_equal(outrider_writer_put(w, &e, 0, NULL, NULL), 0);
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 1);
    outrider_writer_free(w);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_writer_keeps_one_statement_and_gives_it_back),
        T(an_array_goes_in_in_its_order),
        T(of_an_array_with_a_bad_event_nothing_goes_in),
        T(an_array_outside_a_transaction_is_committed_as_a_whole_where_allowed),
        T(misuse_is_an_error_and_never_a_crash),
        T(ten_mebibytes_are_taken_and_come_back),
        T(a_writer_notices_that_the_table_is_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
