/* SPDX-License-Identifier: MIT */
/* What an application may do with outrider/sqlite.h, and what it may do wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/uuid.h"
#include "outrider/sqlite.h"
#include "support/sqlite_fixture.h"

static int set_up(void **state)
{
    static struct sqlite_fixture f;
    sqlite_fixture_init(&f);
    *state = &f;
    return 0;
}

static int set_up_empty(void **state)
{
    static struct sqlite_fixture f;
    sqlite_fixture_make(&f);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    sqlite_fixture_remove(*state);
    return 0;
}

static struct outrider_event good_event(void)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = "order";
    e.aggregate_id = "42";
    e.event_type = "OrderCreated";
    e.payload = "{\"total\": 9.90}";
    e.payload_len = strlen(e.payload);
    return e;
}

static void a_rollback_takes_the_event_with_it(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_event e = good_event();
    sqlite_must(f->db, "CREATE TABLE orders (id INTEGER); BEGIN; INSERT INTO orders VALUES (42)");
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, NULL), 0);
    sqlite_must(f->db, "ROLLBACK");
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 0);
}

static void a_commit_keeps_event_and_data(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_event e = good_event();
    char id[OUTRIDER_ID_SIZE];
    sqlite_must(f->db, "CREATE TABLE orders (id INTEGER); BEGIN; INSERT INTO orders VALUES (42)");
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, id, NULL), 0);
    sqlite_must(f->db, "COMMIT");
    assert_true(outrider__uuid_is_valid(bytes_str(id)));
    assert_int_equal(id[14], '7');
    assert_string_equal(sqlite_text(f->db, "SELECT id FROM outbox"), id);
    assert_string_equal(sqlite_text(f->db, "SELECT payload FROM outbox"), e.payload);
    assert_string_equal(sqlite_text(f->db, "SELECT typeof(payload) FROM outbox"), "text");
}

static void without_a_transaction_an_event_is_refused(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_event e = good_event();
    struct outrider_error err = {0};
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 0);
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, OUTRIDER_ENQUEUE_AUTOCOMMIT, NULL, &err),
                     0);
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 1);
}

static void without_an_outbox_the_error_says_how_to_get_one(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_event e = good_event();
    struct outrider_error err = {0};
    sqlite_must(f->db, "BEGIN");
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_OUTBOX);
    assert_non_null(strstr(err.message, "outrider_init_sqlite"));
    sqlite_must(f->db, "ROLLBACK");
}

/* One wrong thing each, made by changing a good event. */
static void wrong_size(struct outrider_event *e)
{
    e->size = 0;
}
static void no_aggregate_type(struct outrider_event *e)
{
    e->aggregate_type = NULL;
}
static void empty_aggregate_id(struct outrider_event *e)
{
    e->aggregate_id = "";
}
static void no_event_type(struct outrider_event *e)
{
    e->event_type = NULL;
}
static void latin1_type(struct outrider_event *e)
{
    e->event_type = "\xe4nderung";
}
static void latin1_topic(struct outrider_event *e)
{
    e->topic = "\xff";
}
static void id_no_uuid(struct outrider_event *e)
{
    e->id = "42";
}
static void payload_not_json(struct outrider_event *e)
{
    e->payload = "{\"a\":";
    e->payload_len = 5;
}
static void payload_empty(struct outrider_event *e)
{
    e->payload = NULL;
    e->payload_len = 0;
}
static void payload_latin1(struct outrider_event *e)
{
    e->payload = "\"\xe4\"";
    e->payload_len = 3;
}
static void payload_with_zero(struct outrider_event *e)
{
    e->payload = "1\0"
                 "2";
    e->payload_len = 3;
}
static void payload_null_with_length(struct outrider_event *e)
{
    e->payload = NULL;
}
static char long_text[OUTRIDER_TEXT_MAX + 2];
static void key_too_long(struct outrider_event *e)
{
    memset(long_text, 'k', OUTRIDER_TEXT_MAX + 1);
    e->aggregate_id = long_text;
}
static void topic_too_long(struct outrider_event *e)
{
    memset(long_text, 'k', OUTRIDER_TEXT_MAX + 1);
    e->topic = long_text;
}
static void headers_a_list(struct outrider_event *e)
{
    e->headers = "[1]";
}
static void headers_broken(struct outrider_event *e)
{
    e->headers = "{\"a\":\"b\"";
}
static void header_a_number(struct outrider_event *e)
{
    e->headers = "{\"a\":\"b\",\"c\":1}";
}

static void what_is_wrong_with_an_event_is_said_and_the_transaction_goes_on(void **state)
{
    static const struct {
        void (*spoil)(struct outrider_event *e);
        enum outrider_code code;
        const char *word;
    } cases[] = {
        {wrong_size, OUTRIDER_INVALID, "OUTRIDER_EVENT_INIT"},
        {no_aggregate_type, OUTRIDER_INVALID, "aggregate_type"},
        {empty_aggregate_id, OUTRIDER_INVALID, "aggregate_id"},
        {no_event_type, OUTRIDER_INVALID, "event_type"},
        {latin1_type, OUTRIDER_INVALID, "UTF-8"},
        {latin1_topic, OUTRIDER_INVALID, "topic"},
        {id_no_uuid, OUTRIDER_INVALID, "UUID"},
        {payload_not_json, OUTRIDER_NOT_JSON, "payload"},
        {payload_empty, OUTRIDER_NOT_JSON, "payload"},
        {payload_latin1, OUTRIDER_INVALID, "payload"},
        {payload_with_zero, OUTRIDER_INVALID, "payload"},
        {payload_null_with_length, OUTRIDER_INVALID, "payload"},
        {key_too_long, OUTRIDER_TOO_LARGE, "aggregate_id of 16385 bytes"},
        {topic_too_long, OUTRIDER_TOO_LARGE, "topic of 16385 bytes"},
        {headers_a_list, OUTRIDER_NOT_JSON, "headers"},
        {headers_broken, OUTRIDER_NOT_JSON, "headers"},
        {header_a_number, OUTRIDER_INVALID, "'c'"},
    };
    struct sqlite_fixture *f = *state;
    sqlite_must(f->db, "CREATE TABLE orders (id INTEGER); BEGIN; INSERT INTO orders VALUES (1)");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outrider_event e = good_event();
        struct outrider_error err = {0};
        char id[OUTRIDER_ID_SIZE] = "untouched";
        cases[i].spoil(&e);
        assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, id, &err), -1);
        if (err.code != cases[i].code || strstr(err.message, cases[i].word) == NULL)
            fail_msg("case %zu: %s: %s", i, outrider_code_name(err.code), err.message);
        assert_string_equal(id, "untouched");
        assert_false(sqlite3_get_autocommit(f->db));
    }
    struct outrider_event e = good_event();
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, NULL), 0);
    sqlite_must(f->db, "COMMIT");
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox"), 1);
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM orders"), 1);
}

static void null_arguments_are_refused(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_event e = good_event();
    struct outrider_error err = {0};
    assert_int_equal(outrider_enqueue_sqlite(NULL, &e, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_INVALID);
    assert_int_equal(outrider_enqueue_sqlite(f->db, NULL, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_INVALID);
    assert_int_equal(outrider_init_sqlite(NULL, NULL), -1);
}

static void an_id_is_taken_once(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_event e = good_event();
    struct outrider_error err = {0};
    e.id = "0190a5b4-7e11-7abc-8def-0123456789ab";
    sqlite_must(f->db, "BEGIN");
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, &err), 0);
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_INVALID);
    assert_non_null(strstr(err.message, "id"));
    sqlite_must(f->db, "COMMIT");
}

static void the_connection_is_left_as_it_was(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_event e = good_event();
    sqlite_must(f->db, "CREATE TABLE orders (id INTEGER PRIMARY KEY); BEGIN;"
                       "INSERT INTO orders VALUES (4711)");
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, NULL), 0);
    assert_int_equal(sqlite3_last_insert_rowid(f->db), 4711);
    assert_null(sqlite3_next_stmt(f->db, NULL));
    e.payload_len = 3;
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, NULL), -1);
    assert_null(sqlite3_next_stmt(f->db, NULL));
    assert_false(sqlite3_get_autocommit(f->db));
    sqlite_must(f->db, "COMMIT");
}

static void plain_sql_is_enough(void **state)
{
    struct sqlite_fixture *f = *state;
    sqlite_must(f->db, "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                       "VALUES ('order', 1, 'OrderCreated', '{}'), ('order', 2, 'X', '[]')");
    const char *id = sqlite_text(f->db, "SELECT id FROM outbox ORDER BY seq LIMIT 1");
    assert_true(outrider__uuid_is_valid(bytes_str(id)));
    assert_int_equal(id[14], '4');
    assert_non_null(strchr("89ab", id[19]));
    assert_int_equal(sqlite_value(f->db, "SELECT count(DISTINCT id) FROM outbox"), 2);
    assert_int_equal(strlen(sqlite_text(f->db, "SELECT created_at FROM outbox")), 24);
    assert_int_equal(sqlite3_exec(f->db,
                                  "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, "
                                  "payload) VALUES ('order', 1, 'X', 'no json')",
                                  NULL, NULL, NULL),
                     SQLITE_CONSTRAINT);
}

static void init_may_run_at_every_start(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_error err = {0};
    sqlite_must(f->db, "PRAGMA user_version = 7");
    for (int i = 0; i < 3; i++)
        assert_int_equal(outrider_init_sqlite(f->db, &err), 0);
    assert_string_equal(sqlite_text(f->db, "PRAGMA journal_mode"), "wal");
    assert_int_equal(sqlite_value(f->db, "SELECT version FROM outrider_schema"), 1);
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outrider_schema"), 1);
    assert_int_equal(sqlite_value(f->db, "PRAGMA user_version"), 7);
}

static void init_inside_a_transaction_is_refused(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_error err = {0};
    sqlite_must(f->db, "BEGIN");
    assert_int_equal(outrider_init_sqlite(f->db, &err), -1);
    assert_int_equal(err.code, OUTRIDER_INVALID);
    assert_false(sqlite3_get_autocommit(f->db));
    sqlite_must(f->db, "ROLLBACK");
}

static void an_outbox_can_live_in_memory(void **state)
{
    (void)state;
    sqlite3 *db;
    struct outrider_event e = good_event();
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(outrider_init_sqlite(db, NULL), 0);
    assert_int_equal(outrider_enqueue_sqlite(db, &e, OUTRIDER_ENQUEUE_AUTOCOMMIT, NULL, NULL), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Version 0: a table that the application made by itself. */
static void an_older_outbox_is_brought_up_to_date_with_its_rows(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_error err = {0};
    struct outrider_event e = good_event();
    sqlite_must(f->db,
                "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, "
                "aggregate_type TEXT, aggregate_id TEXT, event_type TEXT, payload TEXT, "
                "topic TEXT, created_at TEXT DEFAULT CURRENT_TIMESTAMP);"
                "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, topic) "
                "VALUES ('old', 'order', '1', 'OrderCreated', '{}', 't')");
    if (outrider_init_sqlite(f->db, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outbox WHERE id = 'old' AND "
                                         "headers IS NULL AND partition_key IS NULL AND "
                                         "partition IS NULL AND occurred_at IS NULL AND "
                                         "expires_at IS NULL AND topic = 't'"),
                     1);
    assert_int_equal(sqlite_value(f->db, "SELECT version FROM outrider_schema"), 1);
    assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM outrider_cursor"), 0);
    assert_int_equal(outrider_enqueue_sqlite(f->db, &e, OUTRIDER_ENQUEUE_AUTOCOMMIT, NULL, &err),
                     0);
}

static void a_newer_schema_is_refused_and_left_alone(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_error err = {0};
    sqlite_must(f->db, "UPDATE outrider_schema SET version = 2");
    assert_int_equal(outrider_init_sqlite(f->db, &err), -1);
    assert_int_equal(err.code, OUTRIDER_SCHEMA_NEWER);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
    assert_non_null(strstr(err.message, "upgrade this program"));
    assert_int_equal(sqlite_value(f->db, "SELECT version FROM outrider_schema"), 2);
}

static void an_outbox_that_would_lose_events_is_refused_and_left_alone(void **state)
{
    static const char *const tables[] = {
        /* A plain rowid is reused. */
        "CREATE TABLE outbox (seq INTEGER PRIMARY KEY, id TEXT, aggregate_type TEXT, aggregate_id "
        "TEXT, event_type TEXT, payload TEXT, created_at TEXT /* AUTOINCREMENT */)",
        "CREATE TABLE outbox (id TEXT PRIMARY KEY, payload TEXT)",
    };
    struct sqlite_fixture *f = *state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct outrider_error err = {0};
        sqlite_must(f->db, tables[i]);
        assert_int_equal(outrider_init_sqlite(f->db, &err), -1);
        assert_int_equal(err.code, OUTRIDER_SCHEMA_UNSUITABLE);
        assert_true(sqlite3_get_autocommit(f->db));
        assert_int_equal(sqlite_value(f->db, "SELECT count(*) FROM sqlite_master WHERE name LIKE "
                                             "'outrider%'"),
                         0);
        sqlite_must(f->db, "DROP TABLE outbox");
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define T_EMPTY(test) cmocka_unit_test_setup_teardown(test, set_up_empty, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_rollback_takes_the_event_with_it),
        T(a_commit_keeps_event_and_data),
        T(without_a_transaction_an_event_is_refused),
        T_EMPTY(without_an_outbox_the_error_says_how_to_get_one),
        T(what_is_wrong_with_an_event_is_said_and_the_transaction_goes_on),
        T(null_arguments_are_refused),
        T(an_id_is_taken_once),
        T(the_connection_is_left_as_it_was),
        T(plain_sql_is_enough),
        T_EMPTY(init_may_run_at_every_start),
        T(init_inside_a_transaction_is_refused),
        cmocka_unit_test(an_outbox_can_live_in_memory),
        T_EMPTY(an_older_outbox_is_brought_up_to_date_with_its_rows),
        T(a_newer_schema_is_refused_and_left_alone),
        T_EMPTY(an_outbox_that_would_lose_events_is_refused_and_left_alone),
    };
    return cmocka_run_group_tests_name("sqlite_client", tests, NULL, NULL);
}
