/* SPDX-License-Identifier: MIT */
/* What an application can do wrong with sessions, publishers and connections: an
 * error each time, never a crash. Writers and inboxes have such tests of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <libpq-fe.h>
#include <time.h>

#include "outrider/hybrid.h"
#include "outrider/postgres.h"
#include "support/pg_server.h"
#include "support/writer_cases.h"

#define PATIENCE 15000 /* of 2 ms */

struct place {
    char url[256];
    PGconn *pg;
    struct outrider_hybrid *hybrid;
    struct outrider_session *plain, *attached; /* on one connection: used in turns */
};

static void make_publisher(struct place *p)
{
    struct outrider_error err = {0};
    if (outrider_hybrid_new(NULL, &p->hybrid, &err) < 0 ||
        outrider_hybrid_set(p->hybrid, "source.url", p->url, &err) < 0 ||
        outrider_hybrid_set(p->hybrid, "source.max_payload", "16MiB", &err) < 0 ||
        outrider_hybrid_set(p->hybrid, "sink.url", "null:", &err) < 0)
        fail_msg("%s", err.message);
}

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    char command[600];
    assert_non_null(p);
    setenv("OUTRIDER_MODULE_PATH", BINARY_DIR "/modules", 1);
    pg_server_url("misuse", true, p->url, sizeof p->url);
    (void)snprintf(command, sizeof command,
                   "'%s/outrider' init --layout status --inbox --db '%s' >/dev/null 2>&1",
                   BINARY_DIR, p->url);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
    p->pg = PQconnectdb(p->url);
    assert_int_equal(PQstatus(p->pg), CONNECTION_OK);
    make_publisher(p);
    assert_int_equal(outrider_session_pg(p->pg, &p->plain, NULL), 0);
    assert_int_equal(outrider_session_pg(p->pg, &p->attached, NULL), 0);
    assert_int_equal(outrider_hybrid_attach(p->hybrid, p->attached, NULL), 0);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    outrider_session_free(p->plain);
    outrider_session_free(p->attached);
    outrider_hybrid_free(p->hybrid);
    PQfinish(p->pg);
    free(p);
    return 0;
}

static void start(struct place *p)
{
    struct outrider_hybrid_stats s = OUTRIDER_HYBRID_STATS_INIT;
    assert_int_equal(outrider_hybrid_start(p->hybrid, NULL), 0);
    for (int i = 0; s.is_open == 0; i++) {
        assert_true(i < PATIENCE);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        assert_int_equal(outrider_hybrid_stats(p->hybrid, &s, NULL), 0);
    }
}

static long value(struct place *p, const char *text)
{
    PGresult *r = PQexec(p->pg, text);
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(p->pg));
    long n = strtol(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return n;
}

static void must_fail(int rc, struct outrider_error *err)
{
    assert_int_equal(rc, -1);
    assert_true(err->code != OUTRIDER_OK && err->message[0] != '\0');
    *err = (struct outrider_error){0};
}

static int commit_one(struct outrider_session *s, const struct outrider_event *e,
                      struct outrider_error *err)
{
    int r = outrider_session_begin(s, err);
    if (r == 0)
        r = outrider_session_enqueue(s, e, NULL, err);
    if (r == 0)
        return outrider_session_commit(s, err);
    (void)outrider_session_rollback(s, NULL);
    return r;
}

static void must_work(struct place *p)
{
    struct outrider_event e = writer_case_event("{}");
    struct outrider_error err = {0};
    if (commit_one(p->plain, &e, &err) < 0 || commit_one(p->attached, &e, &err) < 0)
        fail_msg("%s", err.message);
}

static void what_is_wrong_with_an_event_is_said_and_the_session_goes_on(void **state)
{
    struct place *p = *state;
    struct outrider_event bad[WRITER_CASE_BAD];
    struct outrider_error err = {0};
    size_t n = writer_case_spoil(bad, WRITER_CASE_BAD);
    start(p);
    struct outrider_session *sessions[] = {p->plain, p->attached};
    for (int s = 0; s < 2; s++) {
        assert_int_equal(outrider_session_begin(sessions[s], &err), 0);
        for (size_t i = 0; i < n; i++) {
            char id[OUTRIDER_ID_SIZE] = "untouched";
            must_fail(outrider_session_enqueue(sessions[s], &bad[i], id, &err), &err);
            assert_string_equal(id, "untouched");
            assert_int_equal(outrider_session_enqueue(sessions[s], &bad[i], NULL, NULL), -1);
        }
        assert_int_equal(outrider_session_commit(sessions[s], &err), 0);
    }
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), 0);
    must_work(p);
}

static void what_only_the_database_can_refuse_fails_the_commit(void **state)
{
    struct place *p = *state;
    struct outrider_error err = {0};
    static const char zero[] = "{\"a\": \"b\0c\"}";
    struct outrider_event bad[] = {writer_case_event("{\"a\": \"\\u0000\"}"),
                                   writer_case_event("{\"a\": \"\xff\"}"),
                                   writer_case_event("no json"), writer_case_event("")};
    struct outrider_event zeros = writer_case_event("{}");
    zeros.payload = zero;
    zeros.payload_len = sizeof zero - 1;
    start(p);
    struct outrider_session *sessions[] = {p->plain, p->attached};
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            must_fail(commit_one(sessions[s], &bad[i], &err), &err);
        must_fail(commit_one(sessions[s], &zeros, &err), &err);
    }
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), 0);
    must_work(p);
}

static void ten_mebibytes_go_through_a_session_and_a_publisher(void **state)
{
    struct place *p = *state;
    struct outrider_event e = writer_case_event("{}");
    struct outrider_error err = {0};
    struct outrider_hybrid_stats s = OUTRIDER_HYBRID_STATS_INIT;
    char *big = writer_case_big(&e);
    start(p);
    e.aggregate_id = "hybrid";
    if (commit_one(p->attached, &e, &err) < 0)
        fail_msg("%s", err.message);
    e.aggregate_id = "plain";
    if (commit_one(p->plain, &e, &err) < 0)
        fail_msg("%s", err.message);
    free(big);
    for (int i = 0; s.published == 0; i++) {
        assert_true(i < PATIENCE);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        assert_int_equal(outrider_hybrid_stats(p->hybrid, &s, NULL), 0);
    }
    assert_int_equal(value(p, "SELECT sum(octet_length(payload::text)) FROM outbox"),
                     2 * WRITER_CASE_BIG);
}

static void calls_in_the_wrong_order_are_refused(void **state)
{
    struct place *p = *state;
    struct outrider_event e = writer_case_event("{}");
    struct outrider_error err = {0};
    struct outrider_session *other = NULL;
    must_fail(outrider_session_commit(p->plain, &err), &err);
    assert_int_equal(outrider_session_rollback(p->plain, &err), 0); /* nothing to do */
    assert_int_equal(outrider_session_rollback(p->plain, &err), 0);
    assert_int_equal(outrider_session_begin(p->plain, &err), 0);
    must_fail(outrider_session_begin(p->plain, &err), &err);
    must_fail(outrider_session_begin(p->attached, &err), &err); /* not its transaction */
    must_fail(outrider_hybrid_attach(p->hybrid, p->plain, &err), &err);
    assert_int_equal(outrider_session_commit(p->plain, &err), 0);
    must_fail(outrider_session_commit(p->plain, &err), &err);
    must_fail(outrider_session_enqueue(p->plain, &e, NULL, &err), &err);
    must_fail(outrider_session_pg(p->pg, NULL, &err), &err);
    /* Attached to a publisher that was never started: all is the relay's. */
    assert_int_equal(commit_one(p->attached, &e, &err), 0);
    struct outrider_hybrid_stats s = OUTRIDER_HYBRID_STATS_INIT;
    assert_int_equal(outrider_hybrid_stats(p->hybrid, &s, &err), 0);
    assert_int_equal(s.full, 1);
    assert_int_equal(s.is_open, 0);
    /* Freed inside a transaction, and with its publisher gone before it. */
    assert_int_equal(outrider_session_pg(p->pg, &other, NULL), 0);
    assert_int_equal(outrider_hybrid_attach(p->hybrid, other, NULL), 0);
    assert_int_equal(outrider_session_begin(other, NULL), 0);
    assert_int_equal(outrider_session_enqueue(other, &e, NULL, NULL), 0);
    outrider_hybrid_free(p->hybrid);
    make_publisher(p);
    outrider_session_free(other);
    assert_int_equal(PQtransactionStatus(p->pg), PQTRANS_IDLE);
    must_work(p);
}

static void try_everything(PGconn *pg, struct outrider_writer *w)
{
    struct outrider_event e = writer_case_event("{}"), pair[2] = {e, e};
    struct outrider_error err = {0};
    unsigned flags = OUTRIDER_ENQUEUE_AUTOCOMMIT;
    size_t removed = 0;
    must_fail(outrider_enqueue_pg(pg, &e, flags, NULL, &err), &err);
    must_fail(outrider_enqueue_pg(pg, &e, 0, NULL, &err), &err);
    must_fail(outrider_enqueue_many_pg(pg, pair, 2, flags, NULL, &err), &err);
    if (w != NULL) {
        must_fail(outrider_writer_put(w, &e, flags, NULL, &err), &err);
        must_fail(outrider_writer_put_many(w, pair, 2, flags, NULL, &err), &err);
    }
    must_fail(outrider_inbox_pg(pg, "mail", "1", &err), &err);
    must_fail(outrider_inbox_check_pg(pg, "mail", "1", &err), &err);
    must_fail(outrider_inbox_mark_pg(pg, "mail", "1", &err), &err);
    must_fail(outrider_inbox_init_pg(pg, &err), &err);
    must_fail(outrider_inbox_cleanup_pg(pg, "mail", 1, 1, &removed, &err), &err);
}

static void lose(struct place *p)
{
    char terminate[80];
    (void)snprintf(terminate, sizeof terminate, "SELECT pg_terminate_backend(%d)",
                   PQbackendPID(p->pg));
    PQclear(PQexec(p->pg, terminate));
    assert_int_equal(PQstatus(p->pg), CONNECTION_BAD);
}

static void after_a_lost_connection_every_call_fails_until_there_is_one_again(void **state)
{
    struct place *p = *state;
    struct outrider_event e = writer_case_event("{}");
    struct outrider_error err = {0};
    struct outrider_writer *w = NULL;
    struct outrider_session *other = NULL;
    start(p);
    must_work(p);
    long n = value(p, "SELECT count(*) FROM outbox");
    assert_int_equal(outrider_writer_new_pg(p->pg, 0, &w, NULL), 0);
    assert_int_equal(outrider_writer_put(w, &e, OUTRIDER_ENQUEUE_AUTOCOMMIT, NULL, NULL), 0);
    /* In the middle of a transaction of either session. */
    struct outrider_session *sessions[] = {p->plain, p->attached};
    for (int s = 0; s < 2; s++) {
        assert_int_equal(outrider_session_begin(sessions[s], NULL), 0);
        assert_int_equal(outrider_session_enqueue(sessions[s], &e, NULL, NULL), 0);
        lose(p);
        must_fail(outrider_session_commit(sessions[s], &err), &err);
        must_fail(outrider_session_commit(sessions[s], &err), &err);
        assert_int_equal(outrider_session_rollback(sessions[s], &err), 0);
        must_fail(outrider_session_begin(sessions[s], &err), &err);
        try_everything(p->pg, w);
        PQreset(p->pg);
    }
    lose(p);
    assert_int_equal(outrider_session_pg(p->pg, &other, &err), 0);
    must_fail(outrider_hybrid_attach(p->hybrid, other, &err), &err);
    outrider_session_free(other);
    PQreset(p->pg);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox"), n + 1);
    must_work(p);
    outrider_writer_free(w);
}

static void a_connection_that_never_was_is_an_error(void **state)
{
    struct place *p = *state;
    struct outrider_session *s = NULL;
    struct outrider_writer *w = NULL;
    struct outrider_error err = {0};
    PGconn *none = PQconnectdb("host=/nonexistent");
    assert_int_equal(PQstatus(none), CONNECTION_BAD);
    try_everything(none, NULL);
    try_everything(NULL, NULL);
    if (outrider_writer_new_pg(none, 0, &w, &err) == 0)
        try_everything(none, w);
    outrider_writer_free(w);
    assert_int_equal(outrider_session_pg(none, &s, &err), 0);
    must_fail(outrider_session_begin(s, &err), &err);
    must_fail(outrider_hybrid_attach(p->hybrid, s, &err), &err);
    outrider_session_free(s);
    PQfinish(none);
}

static void a_connection_in_pipeline_mode_is_refused_and_left_in_it(void **state)
{
    struct place *p = *state;
    struct outrider_error err = {0};
    start(p);
    assert_int_equal(PQenterPipelineMode(p->pg), 1);
    try_everything(p->pg, NULL);
    must_fail(outrider_session_begin(p->plain, &err), &err);
    must_fail(outrider_session_begin(p->attached, &err), &err);
    assert_int_equal(PQpipelineStatus(p->pg), PQ_PIPELINE_ON);
    assert_int_equal(PQexitPipelineMode(p->pg), 1);
    must_work(p);
}

static void names_and_options_may_be_anything(void **state)
{
    struct outrider_hybrid *h = NULL;
    struct outrider_relay *r = NULL;
    struct outrider_error err = {0};
    char *big = malloc(WRITER_CASE_BIG + 1);
    (void)state;
    assert_non_null(big);
    memset(big, 'x', WRITER_CASE_BIG);
    big[WRITER_CASE_BIG] = '\0';
    const char *const odd[] = {"", "\xff", "a\nb", "%s%n", big};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        must_fail(outrider_relay_new(odd[i], &r, &err), &err);
        must_fail(outrider_hybrid_new(odd[i], &h, &err), &err);
        assert_int_equal(outrider_relay_new(NULL, &r, NULL), 0);
        assert_int_equal(outrider_hybrid_new(NULL, &h, NULL), 0);
        must_fail(outrider_relay_set(r, odd[i], "1", &err), &err);
        must_fail(outrider_hybrid_set(h, odd[i], "1", &err), &err);
        must_fail(outrider_relay_set(r, "source.batch", odd[i], &err), &err);
        must_fail(outrider_hybrid_set(h, "hybrid.lease", odd[i], &err), &err);
        /* What is only a text until the start. */
        (void)!outrider_relay_set(r, "source.url", odd[i], &err);
        (void)!outrider_relay_set(r, "sink.url", odd[i], &err);
        (void)!outrider_relay_set(r, "route.topic", odd[i], &err);
        must_fail(outrider_relay_start(r, 0, &err), &err);
        assert_int_equal(outrider_relay_wait(r, 0, &err), -1);
        (void)!outrider_hybrid_set(h, "source.url", odd[i], &err);
        (void)!outrider_hybrid_set(h, "sink.url", odd[i], &err);
        must_fail(outrider_hybrid_start(h, &err), &err);
        outrider_relay_free(r);
        outrider_hybrid_free(h);
    }
    free(big);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_wrong_with_an_event_is_said_and_the_session_goes_on),
        TEST(what_only_the_database_can_refuse_fails_the_commit),
        TEST(ten_mebibytes_go_through_a_session_and_a_publisher),
        TEST(calls_in_the_wrong_order_are_refused),
        TEST(after_a_lost_connection_every_call_fails_until_there_is_one_again),
        TEST(a_connection_that_never_was_is_an_error),
        TEST(a_connection_in_pipeline_mode_is_refused_and_left_in_it),
        cmocka_unit_test(names_and_options_may_be_anything),
    };
    if (!pg_server_start()) {
        (void)fprintf(stderr, "no PostgreSQL server programs: skipped\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
