/* SPDX-License-Identifier: MIT */
/* Commands over PostgreSQL, and events on an application's own connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/options.h"
#include "core/store.h"
#include "outrider/postgres.h"
#include "postgres/postgres.h"
#include "support/pg_fixture.h"
#include "support/pg_server.h"

#include <cmocka.h>

struct fixture {
    struct harness h;
    struct arena arena;
    struct pipeline_config config;
    struct store *store;
};

static int set_up(void **state)
{
    struct outrider_error err;
    struct fixture *f = calloc(1, sizeof *f);
    harness_init(&f->h, &pg_fixture);
    outrider__arena_init(&f->arena, 4096);
    assert_int_equal(outrider__config_init(&f->config, &f->arena, "default", &err), 0);
    f->config.source.url = f->h.url;
    f->store = calloc(1, outrider__store_postgres.size);
    f->store->ops = &outrider__store_postgres;
    assert_int_equal(f->store->ops->open(f->store, &f->config, &err), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    f->store->ops->close(f->store);
    free(f->store);
    outrider__arena_release(&f->arena);
    harness_release(&f->h);
    free(f);
    return 0;
}

static struct outrider_event event(const char *payload)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = "order";
    e.aggregate_id = "1";
    e.event_type = "Created";
    e.payload = payload;
    e.payload_len = strlen(payload);
    return e;
}

static void init_with(struct fixture *f, const char *payload, const char *partition)
{
    struct outrider_error err = {0};
    struct init_options o = {.payload = payload, .partition = partition};
    pg_fixture_sql(0, "DROP TABLE outbox CASCADE; DROP FUNCTION outbox_enqueue");
    if (f->store->ops->init(f->store, &o, NULL, &err) < 0)
        fail_msg("%s", err.message);
}

static void an_event_needs_a_transaction(void **state)
{
    struct outrider_error err = {0};
    struct outrider_event e = event("{}");
    PGconn *c = pg_fixture_session(0);
    (void)state;
    assert_int_equal(outrider_enqueue_pg(c, &e, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    assert_int_equal(outrider_enqueue_pg(c, &e, OUTRIDER_ENQUEUE_AUTOCOMMIT, NULL, &err), 0);
    PQclear(PQexec(c, "BEGIN"));
    PQclear(PQexec(c, "SELECT 1/0"));
    assert_int_equal(outrider_enqueue_pg(c, &e, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    PQclear(PQexec(c, "ROLLBACK"));
    assert_int_equal(pg_fixture.count_outbox(), 1);
}

static void an_event_shares_the_fate_of_its_transaction(void **state)
{
    struct outrider_error err = {0};
    struct outrider_event e = event("{}");
    char id[OUTRIDER_ID_SIZE], sql[128];
    (void)state;
    pg_fixture_sql(0, "BEGIN");
    assert_int_equal(outrider_enqueue_pg(pg_fixture_session(0), &e, 0, NULL, &err), 0);
    pg_fixture_sql(0, "ROLLBACK");
    assert_int_equal(pg_fixture.count_outbox(), 0);
    pg_fixture_sql(0, "BEGIN");
    assert_int_equal(outrider_enqueue_pg(pg_fixture_session(0), &e, 0, id, &err), 0);
    pg_fixture_sql(0, "COMMIT");
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM outbox WHERE id = '%s'", id);
    assert_int_equal(pg_fixture_value(0, sql), 1);
}

static void every_form_of_payload_takes_its_bytes(void **state)
{
    static const char *const forms[] = {"jsonb", "text", "bytea"};
    for (size_t i = 0; i < 3; i++) {
        for (int partitioned = 0; partitioned < 2; partitioned++) {
            struct fixture *f = *state;
            struct outrider_error err = {0};
            struct outrider_event e = event("{\"a\": \"\xc3\xa4\\\\\"}");
            init_with(f, forms[i], partitioned ? "day" : NULL);
            PQfinish(PQconnectdb(f->h.url));
            pg_fixture.tear_down(); /* a session remembers the column's type */
            pg_fixture.insert(&e, 1);
            pg_fixture.finish(true);
            harness_activate(&f->h);
            assert_int_equal(harness_fetch(&f->h), 1);
            assert_true(bytes_eq_str(f->h.batch.events[0].payload, e.payload));
            harness_decide(&f->h.batch.events[0], OUTCOME_PARKED, 1);
            f->h.batch.n_settle = 1;
            harness_settle(&f->h, &f->h.batch, OUTCOME_PENDING);
            assert_int_equal(harness_fetch_parked(&f->h, 1), 1);
            assert_true(bytes_eq_str(f->h.parked.events[0].payload, e.payload));
            harness_settle(&f->h, &f->h.parked, OUTCOME_DELIVERED);
            harness_close(&f->h);
            pg_fixture_sql(0, "DELETE FROM outrider_cursor");
            (void)err;
        }
    }
}

static void a_payload_that_is_not_json_is_refused_where_json_is_asked_for(void **state)
{
    struct outrider_error err = {0};
    struct outrider_event e = event("{");
    init_with(*state, "jsonb", NULL);
    pg_fixture_sql(0, "BEGIN");
    assert_int_equal(outrider_enqueue_pg(pg_fixture_session(0), &e, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_JSON);
    assert_int_equal(err.disposition, OUTRIDER_DEAD);
    pg_fixture_sql(0, "ROLLBACK");
}

static void a_missing_outbox_is_told(void **state)
{
    struct outrider_error err = {0};
    struct outrider_event e = event("{}");
    (void)state;
    pg_fixture_sql(0, "DROP TABLE outbox CASCADE; BEGIN");
    assert_int_equal(outrider_enqueue_pg(pg_fixture_session(0), &e, 0, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_OUTBOX);
    pg_fixture_sql(0, "ROLLBACK");
}

static void a_dry_run_prints_and_makes_nothing(void **state)
{
    struct fixture *f = *state;
    struct outrider_error err = {0};
    struct init_options o = {.dry_run = true, .partition = "month"};
    struct strbuf sql;
    outrider__strbuf_init(&sql, 1 << 20);
    pg_fixture_sql(0, "DROP TABLE outbox CASCADE");
    assert_int_equal(f->store->ops->init(f->store, &o, &sql, &err), 0);
    assert_non_null(strstr(strbuf_cstr(&sql), "CREATE TABLE IF NOT EXISTS outbox"));
    assert_non_null(strstr(strbuf_cstr(&sql), "PARTITION BY RANGE"));
    assert_non_null(strstr(strbuf_cstr(&sql), "outrider_writer"));
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM pg_class WHERE relname = 'outbox'"),
                     0);
    outrider__strbuf_release(&sql);
}

static void init_can_be_run_twice(void **state)
{
    struct fixture *f = *state;
    struct outrider_error err = {0};
    struct init_options o = {0};
    for (int i = 0; i < 2; i++)
        if (f->store->ops->init(f->store, &o, NULL, &err) < 0)
            fail_msg("%s", err.message);
    assert_int_equal(pg_fixture_value(0, "SELECT count(*) FROM outrider_schema"), 1);
}

static void remember_status(void *ctx, const struct store_status *st)
{
    *(struct store_status *)ctx = *st;
}

static void status_counts_pending_late_parked_and_dead(void **state)
{
    struct fixture *f = *state;
    struct outrider_error err = {0};
    struct store_status st;
    uint64_t n;
    harness_activate(&f->h);
    pg_fixture_sql(3, "BEGIN; INSERT INTO outbox (aggregate_type, aggregate_id, event_type, "
                      "payload) VALUES ('t', 'late', 'E', '{}')");
    harness_insert(&f->h, "a");
    harness_insert(&f->h, "b");
    assert_int_equal(harness_fetch(&f->h), 2);
    harness_decide(&f->h.batch.events[0], OUTCOME_DEAD, 0);
    harness_decide(&f->h.batch.events[1], OUTCOME_PARKED, 5);
    f->h.batch.n_settle = 2;
    harness_settle(&f->h, &f->h.batch, OUTCOME_PENDING);
    pg_fixture_sql(3, "COMMIT");
    harness_insert(&f->h, "c");
    assert_int_equal(f->store->ops->status(f->store, remember_status, &st, &err), 0);
    assert_int_equal(st.pending, 2); /* the one in the gap, and the new one */
    assert_int_equal(st.parked, 1);
    assert_int_equal(st.dead, 1);
    assert_true(st.relay_active);
    struct dead_filter filter = {0};
    assert_int_equal(f->store->ops->dead_retry(f->store, &filter, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(harness_fetch_parked(&f->h, outrider__clock_now().wall_us), 2);
}

static void a_truncated_outbox_is_resynced(void **state)
{
    struct fixture *f = *state;
    struct outrider_error err = {0};
    struct strbuf report;
    harness_activate(&f->h);
    harness_insert(&f->h, "a");
    harness_insert(&f->h, "a");
    assert_int_equal(harness_fetch(&f->h), 2);
    harness_settle(&f->h, &f->h.batch, OUTCOME_DELIVERED);
    harness_close(&f->h);
    pg_fixture_sql(0, "TRUNCATE outbox RESTART IDENTITY");
    harness_insert(&f->h, "a");
    outrider__strbuf_init(&report, 65536);
    if (f->store->ops->resync(f->store, &report, &err) < 0)
        fail_msg("%s", err.message);
    assert_non_null(strstr(strbuf_cstr(&report), "becomes 0"));
    outrider__strbuf_release(&report);
    harness_activate(&f->h);
    assert_int_equal(harness_fetch(&f->h), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_event_needs_a_transaction),
        TEST(an_event_shares_the_fate_of_its_transaction),
        TEST(every_form_of_payload_takes_its_bytes),
        TEST(a_payload_that_is_not_json_is_refused_where_json_is_asked_for),
        TEST(a_missing_outbox_is_told),
        TEST(a_dry_run_prints_and_makes_nothing),
        TEST(init_can_be_run_twice),
        TEST(status_counts_pending_late_parked_and_dead),
        TEST(a_truncated_outbox_is_resynced),
    };
    if (!pg_server_start()) {
        (void)fprintf(stderr, "no PostgreSQL server programs: skipped\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
