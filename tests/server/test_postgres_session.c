/* SPDX-License-Identifier: MIT */
/* outrider/session.h, on SQLite and on PostgreSQL: every test runs on both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <libpq-fe.h>

#include "outrider/session.h"
#include "outrider/sqlite.h"
#include "support/pg_server.h"
#include "support/sqlite_fixture.h"

struct place {
    bool is_postgres;
    struct sqlite_fixture sqlite;
    char url[256];
    PGconn *pg;
    struct outrider_session *session;
    char log[256]; /* what was called back, one letter each */
    int refuses;   /* before_commit does */
    struct outrider_session_callbacks callbacks;
};

static void sql(struct place *p, const char *text)
{
    if (!p->is_postgres) {
        sqlite_must(p->sqlite.db, text);
        return;
    }
    PGresult *r = PQexec(p->pg, text);
    assert_true(PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK);
    PQclear(r);
}

static long value(struct place *p, const char *text)
{
    if (!p->is_postgres)
        return (long)sqlite_value(p->sqlite.db, text);
    PGresult *r = PQexec(p->pg, text);
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    long n = strtol(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return n;
}

static void note(struct place *p, const char *what)
{
    strncat(p->log, what, sizeof p->log - strlen(p->log) - 1);
}

static struct outrider_event event_of(const char *key)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = "order";
    e.aggregate_id = key;
    e.event_type = "Created";
    e.payload = "{}";
    e.payload_len = 2;
    return e;
}

static int before(void *ctx, struct outrider_session *s, struct outrider_error *err)
{
    struct place *p = ctx;
    struct outrider_event e = event_of("from-callback");
    note(p, "b");
    assert_int_equal(outrider_session_begin(s, NULL), -1);
    assert_int_equal(outrider_session_commit(s, NULL), -1);
    assert_int_equal(outrider_session_rollback(s, NULL), -1);
    if (p->refuses == 1)
        return -1;
    if (p->refuses == 2) {
        err->code = OUTRIDER_REJECTED;
        return -1;
    }
    return outrider_session_enqueue(s, &e, NULL, err);
}

static void committed(void *ctx, struct outrider_session *s)
{
    struct outrider_event e = event_of("late");
    note(ctx, "c");
    assert_int_equal(outrider_session_enqueue(s, &e, NULL, NULL), -1);
    assert_int_equal(outrider_session_add(s, &((struct place *)ctx)->callbacks, NULL), -1);
}

static void rolled_back(void *ctx, struct outrider_session *s)
{
    (void)s;
    note(ctx, "r");
}

static void completed(void *ctx, struct outrider_session *s, enum outrider_completion how)
{
    assert_int_equal(outrider_session_begin(s, NULL), -1);
    note(ctx, how == OUTRIDER_COMMITTED ? "C" : how == OUTRIDER_ROLLED_BACK ? "R" : "U");
}

static void enqueue(struct place *p, const char *key)
{
    struct outrider_event e = event_of(key);
    char id[OUTRIDER_ID_SIZE];
    assert_int_equal(outrider_session_enqueue(p->session, &e, id, NULL), 0);
    assert_int_equal(strlen(id), OUTRIDER_ID_SIZE - 1);
}

static void begin(struct place *p)
{
    struct outrider_error err = {0};
    if (outrider_session_begin(p->session, &err) < 0)
        fail_msg("%s", err.message);
}

static void make_postgres(struct place *p)
{
    char command[512];
    if (!pg_server_start())
        skip();
    pg_server_url("session", true, p->url, sizeof p->url);
    (void)snprintf(command, sizeof command, "'%s/outrider' init --db '%s' >/dev/null 2>&1",
                   BINARY_DIR, p->url);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own program */
    p->pg = PQconnectdb(p->url);
    assert_int_equal(PQstatus(p->pg), CONNECTION_OK);
}

static struct place *make(bool is_postgres)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->is_postgres = is_postgres;
    if (is_postgres) {
        make_postgres(p);
        assert_int_equal(outrider_session_pg(p->pg, &p->session, NULL), 0);
    } else {
        sqlite_fixture_init(&p->sqlite);
        assert_int_equal(outrider_session_sqlite(p->sqlite.db, &p->session, NULL), 0);
    }
    sql(p, "CREATE TABLE orders (id integer UNIQUE)");
    p->callbacks = (struct outrider_session_callbacks)OUTRIDER_SESSION_CALLBACKS_INIT;
    p->callbacks.ctx = p;
    p->callbacks.before_commit = before;
    p->callbacks.after_commit = committed;
    p->callbacks.after_rollback = rolled_back;
    p->callbacks.after_completion = completed;
    assert_int_equal(outrider_session_add(p->session, &p->callbacks, NULL), 0);
    return p;
}

static int set_up_sqlite(void **state)
{
    *state = make(false);
    return 0;
}

static int set_up_postgres(void **state)
{
    *state = make(true);
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    outrider_session_free(p->session);
    PQfinish(p->pg);
    if (!p->is_postgres)
        sqlite_fixture_remove(&p->sqlite);
    free(p);
    return 0;
}

static void a_commit_inserts_what_was_enqueued_as_its_last_act(void **state)
{
    struct place *p = *state;
    begin(p);
    enqueue(p, "1");
    sql(p, "INSERT INTO orders VALUES (1)");
    enqueue(p, "2");
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), 0);
    assert_int_equal(outrider_session_commit(p->session, NULL), 0);
    assert_string_equal(p->log, "bcC");
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), 3);
    assert_int_equal(value(p, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE (seq, aggregate_id) IN "
                              "((1, '1'), (2, '2'), (3, 'from-callback'))"),
                     3);
}

static void a_rollback_drops_what_was_enqueued(void **state)
{
    struct place *p = *state;
    begin(p);
    sql(p, "INSERT INTO orders VALUES (1)");
    enqueue(p, "dropped");
    assert_int_equal(outrider_session_rollback(p->session, NULL), 0);
    assert_string_equal(p->log, "rR");
    begin(p);
    enqueue(p, "kept");
    assert_int_equal(outrider_session_commit(p->session, NULL), 0);
    assert_string_equal(p->log, "rRbcC");
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), 2);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE aggregate_id = 'dropped'"), 0);
    assert_int_equal(value(p, "SELECT count(*) FROM orders"), 0);
    assert_int_equal(outrider_session_rollback(p->session, NULL), 0); /* nothing to do */
    assert_string_equal(p->log, "rRbcC");
}

static void a_callback_can_refuse_the_commit(void **state)
{
    struct place *p = *state;
    struct outrider_error err = {0};
    for (p->refuses = 1; p->refuses <= 2; p->refuses++) {
        begin(p);
        sql(p, "INSERT INTO orders VALUES (1)");
        enqueue(p, "1");
        assert_int_equal(outrider_session_commit(p->session, &err), -1);
        assert_int_equal(err.code, p->refuses == 1 ? OUTRIDER_CANCELLED : OUTRIDER_REJECTED);
    }
    assert_string_equal(p->log, "brRbrR");
    assert_int_equal(value(p, "SELECT count(*) FROM orders"), 0);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), 0);
}

static void an_event_that_the_database_refuses_takes_the_transaction_with_it(void **state)
{
    struct place *p = *state;
    struct outrider_event e = event_of("1");
    struct outrider_error err = {0};
    e.payload = "not json";
    e.payload_len = 8;
    begin(p);
    sql(p, "INSERT INTO orders VALUES (1)");
    assert_int_equal(outrider_session_enqueue(p->session, &e, NULL, NULL), 0);
    assert_int_equal(outrider_session_commit(p->session, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_JSON);
    assert_string_equal(p->log, "brR");
    assert_int_equal(value(p, "SELECT count(*) FROM orders"), 0);
    begin(p); /* the session goes on */
    assert_int_equal(outrider_session_commit(p->session, NULL), 0);
}

static void ended_by_other_means_nobody_claims_to_know(void **state)
{
    struct place *p = *state;
    struct outrider_error err = {0};
    begin(p);
    enqueue(p, "1");
    sql(p, "COMMIT");
    assert_int_equal(outrider_session_commit(p->session, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    assert_string_equal(p->log, "U");
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), 0);
    sql(p, "BEGIN");
    assert_int_equal(outrider_session_begin(p->session, &err), -1); /* not the session's */
    sql(p, "ROLLBACK");
}

static void freed_it_rolls_back(void **state)
{
    struct place *p = *state;
    begin(p);
    sql(p, "INSERT INTO orders VALUES (1)");
    enqueue(p, "1");
    outrider_session_free(p->session);
    p->session = NULL;
    assert_string_equal(p->log, "rR");
    assert_int_equal(value(p, "SELECT count(*) FROM orders"), 0);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct place *p = *state;
    struct outrider_event e = event_of("1"), bad = event_of("");
    struct outrider_session_callbacks none = {0};
    struct outrider_session *s = NULL;
    struct outrider_error err = {0};
    assert_int_equal(outrider_session_enqueue(p->session, &e, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    assert_int_equal(outrider_session_commit(p->session, &err), -1);
    assert_int_equal(outrider_session_add(p->session, &none, &err), -1);
    assert_int_equal(outrider_session_add(p->session, NULL, &err), -1);
    begin(p);
    assert_int_equal(outrider_session_begin(p->session, &err), -1);
    assert_int_equal(outrider_session_add(p->session, &p->callbacks, &err), -1);
    assert_int_equal(outrider_session_enqueue(p->session, &bad, NULL, &err), -1);
    assert_int_equal(outrider_session_enqueue(p->session, NULL, NULL, &err), -1);
    assert_int_equal(outrider_session_pg(NULL, &s, &err), -1);
    assert_int_equal(outrider_session_sqlite(NULL, &s, &err), -1);
    assert_int_equal(outrider_session_begin(NULL, &err), -1);
    assert_int_equal(outrider_session_enqueue(NULL, &e, NULL, &err), -1);
    assert_int_equal(outrider_session_commit(NULL, &err), -1);
    assert_int_equal(outrider_session_rollback(NULL, &err), -1);
    outrider_session_free(NULL);
}

static void a_failed_statement_fails_the_commit(void **state)
{
    struct place *p = *state;
    struct outrider_error err = {0};
    begin(p);
    enqueue(p, "1");
    PQclear(PQexec(p->pg, "SELECT 1/0"));
    assert_int_equal(outrider_session_commit(p->session, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_TRANSACTION);
    assert_string_equal(p->log, "rR");
    begin(p);
    sql(p, "CREATE TABLE late (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    sql(p, "INSERT INTO late VALUES (1), (1)"); /* fails at the commit itself */
    assert_int_equal(outrider_session_commit(p->session, &err), -1);
    assert_string_equal(p->log, "rRbrR");
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), 0);
}

static void a_connection_lost_before_the_commit_is_a_rollback(void **state)
{
    struct place *p = *state;
    struct outrider_error err = {0};
    char terminate[80];
    begin(p);
    enqueue(p, "1");
    (void)snprintf(terminate, sizeof terminate, "SELECT pg_terminate_backend(%d)",
                   PQbackendPID(p->pg));
    PQclear(PQexec(p->pg, terminate));
    assert_int_equal(outrider_session_commit(p->session, &err), -1);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    assert_string_equal(p->log, "rR");
}

#define BOTH(name)                                                    \
    {#name " (SQLite)", name, set_up_sqlite, tear_down, NULL},        \
    {                                                                 \
#name " (PostgreSQL)", name, set_up_postgres, tear_down, NULL \
    }
#define POSTGRES(name) cmocka_unit_test_setup_teardown(name, set_up_postgres, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_commit_inserts_what_was_enqueued_as_its_last_act),
        BOTH(a_rollback_drops_what_was_enqueued),
        BOTH(a_callback_can_refuse_the_commit),
        BOTH(an_event_that_the_database_refuses_takes_the_transaction_with_it),
        BOTH(ended_by_other_means_nobody_claims_to_know),
        BOTH(freed_it_rolls_back),
        BOTH(what_makes_no_sense_is_refused),
        POSTGRES(a_failed_statement_fails_the_commit),
        POSTGRES(a_connection_lost_before_the_commit_is_a_rollback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
