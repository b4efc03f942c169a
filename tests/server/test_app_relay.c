/* SPDX-License-Identifier: MIT */
/* outrider/relay.h: a relay inside the application's process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "outrider/relay.h"
#include "outrider/sqlite.h"
#include "support/sqlite_fixture.h"

#define PATIENCE_MS 30000

static int set_up(void **state)
{
    struct sqlite_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    setenv("OUTRIDER_MODULE_PATH", BINARY_DIR "/modules", 1);
    sqlite_fixture_init(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    sqlite_fixture_remove(*state);
    free(*state);
    return 0;
}

static void put(struct sqlite_fixture *f, int n)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = "order";
    e.event_type = "Created";
    e.payload = "{}";
    e.payload_len = 2;
    sqlite_must(f->db, "BEGIN");
    for (int i = 0; i < n; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i % 5);
        e.aggregate_id = key;
        assert_int_equal(outrider_enqueue_sqlite(f->db, &e, 0, NULL, NULL), 0);
    }
    sqlite_must(f->db, "COMMIT");
}

/* A relay from the fixture's database into DIR/name. */
static struct outrider_relay *make(struct sqlite_fixture *f, const char *pipeline, const char *name)
{
    struct outrider_relay *r = NULL;
    struct outrider_error err = {0};
    char sink[160];
    (void)snprintf(sink, sizeof sink, "file:%s/%s", f->dir, name);
    if (outrider_relay_new(pipeline, &r, &err) < 0 ||
        outrider_relay_set(r, "source.url", f->url, &err) < 0 ||
        outrider_relay_set(r, "sink.url", sink, &err) < 0)
        fail_msg("%s", err.message);
    return r;
}

static void start(struct outrider_relay *r, unsigned flags)
{
    struct outrider_error err = {0};
    if (outrider_relay_start(r, flags, &err) < 0)
        fail_msg("%s", err.message);
}

static void must_end(struct outrider_relay *r)
{
    struct outrider_error err = {0};
    if (outrider_relay_wait(r, PATIENCE_MS, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(outrider_relay_state(r), OUTRIDER_RELAY_STOPPED);
}

static uint64_t delivered(struct outrider_relay *r)
{
    struct outrider_relay_stats s = OUTRIDER_RELAY_STATS_INIT;
    assert_int_equal(outrider_relay_stats(r, &s, NULL), 0);
    return s.delivered;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void until_delivered(struct outrider_relay *r, uint64_t n)
{
    for (int i = 0; delivered(r) < n; i++) {
        assert_true(i < PATIENCE_MS / 2);
        pause_briefly();
    }
}

static void until_state(struct outrider_relay *r, enum outrider_relay_state s)
{
    for (int i = 0; outrider_relay_state(r) != s; i++) {
        assert_true(i < PATIENCE_MS / 2);
        pause_briefly();
    }
}

static int lines_in(struct sqlite_fixture *f, const char *name)
{
    char command[256], line[4096];
    int n = 0;
    (void)snprintf(command, sizeof command, "cat %s/%s/*/*.jsonl 2>/dev/null", f->dir, name);
    FILE *p = popen(command, "r"); /* NOLINT(cert-env33-c): our own command */
    assert_non_null(p);
    while (fgets(line, sizeof line, p) != NULL)
        n++;
    (void)pclose(p);
    return n;
}

static void events_are_relayed_until_it_is_stopped(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *r = make(f, NULL, "events");
    assert_int_equal(outrider_relay_state(r), OUTRIDER_RELAY_NEW);
    put(f, 20);
    start(r, 0);
    until_delivered(r, 20);
    put(f, 5);
    until_delivered(r, 25);
    struct outrider_error err = {0};
    assert_int_equal(outrider_relay_wait(r, 0, &err), -1);
    assert_int_equal(err.code, OUTRIDER_TIMEOUT);
    outrider_relay_stop(r);
    must_end(r);
    must_end(r);
    assert_int_equal(lines_in(f, "events"), 25);
    outrider_relay_free(r);
}

static void once_ends_by_itself(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *r = make(f, NULL, "events");
    put(f, 7);
    start(r, OUTRIDER_RELAY_ONCE);
    must_end(r);
    assert_int_equal(delivered(r), 7);
    outrider_relay_free(r);
}

static void two_pipelines_run_in_one_process(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *a = make(f, "first", "a"), *b = make(f, "second", "b");
    start(a, 0);
    start(b, 0);
    put(f, 30);
    until_delivered(a, 30);
    until_delivered(b, 30);
    outrider_relay_free(a);
    put(f, 1);
    until_delivered(b, 31);
    outrider_relay_free(b);
    assert_int_equal(lines_in(f, "a"), 30);
    assert_int_equal(lines_in(f, "b"), 31);
}

static void of_one_pipeline_the_second_stands_by(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *a = make(f, NULL, "events"), *b = make(f, NULL, "events");
    start(a, 0);
    until_state(a, OUTRIDER_RELAY_ACTIVE);
    start(b, 0);
    put(f, 3);
    until_delivered(a, 3);
    assert_int_equal(outrider_relay_state(b), OUTRIDER_RELAY_STARTING);
    outrider_relay_free(a);
    until_state(b, OUTRIDER_RELAY_ACTIVE);
    put(f, 2);
    until_delivered(b, 2);
    outrider_relay_free(b);
    assert_int_equal(lines_in(f, "events"), 5);
}

static void a_standby_can_be_stopped(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *a = make(f, NULL, "events"), *b = make(f, NULL, "events");
    start(a, 0);
    until_state(a, OUTRIDER_RELAY_ACTIVE);
    start(b, 0);
    outrider_relay_stop(b);
    must_end(b);
    assert_int_equal(outrider_relay_state(a), OUTRIDER_RELAY_ACTIVE);
    outrider_relay_free(b);
    outrider_relay_free(a);
}

static void stopped_before_its_start_it_ends_at_once(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *r = make(f, NULL, "events");
    outrider_relay_stop(r);
    assert_int_equal(outrider_relay_wait(r, 0, NULL), -1);
    put(f, 3);
    start(r, 0);
    must_end(r);
    outrider_relay_stop(r);
    outrider_relay_free(r);
    outrider_relay_free(make(f, NULL, "events")); /* never started */
}

/* Stopped after whatever part of the work the moment happens to find it at. */
static void a_stop_at_any_moment_loses_nothing(void **state)
{
    struct sqlite_fixture *f = *state;
    for (int round = 0; round < 20; round++) {
        struct outrider_relay *r = make(f, NULL, "events");
        put(f, 40);
        start(r, 0);
        for (int spin = 0; spin < round * round * 500; spin++)
            (void)outrider_relay_state(r);
        outrider_relay_stop(r);
        must_end(r);
        outrider_relay_free(r);
    }
    struct outrider_relay *last = make(f, NULL, "events");
    start(last, OUTRIDER_RELAY_ONCE);
    must_end(last);
    outrider_relay_free(last);
    assert_int_equal(lines_in(f, "events"), 20 * 40);
}

static void while_its_source_is_away_it_can_be_stopped(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *r = make(f, NULL, "events");
    char url[192];
    (void)snprintf(url, sizeof url, "%s-absent", f->url);
    assert_int_equal(outrider_relay_set(r, "source.url", url, NULL), 0);
    start(r, 0);
    outrider_relay_free(r);
}

struct seen {
    struct outrider_relay *relay;
    atomic_int notes, events, wait_result, is_blocked;
};

static void see_note(void *ctx, enum outrider_relay_note note, uint64_t count,
                     const struct outrider_error *why)
{
    struct seen *s = ctx;
    sigset_t set;
    (void)count;
    (void)why;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    s->is_blocked = sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1);
    if (note == OUTRIDER_NOTE_STOPPED)
        s->notes++;
}

static void see_event(void *ctx, const struct outrider_relay_event *e)
{
    struct seen *s = ctx;
    assert_true(e->topic.len == strlen("order.Created") && e->reason == NULL);
    s->wait_result = outrider_relay_wait(s->relay, -1, NULL);
    s->events += strcmp(e->outcome, "delivered") == 0;
    outrider_relay_stop(s->relay);
}

static void an_observer_is_told_and_may_stop_it(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *r = make(f, NULL, "events");
    struct seen seen = {.relay = r};
    struct outrider_relay_observer o = OUTRIDER_RELAY_OBSERVER_INIT;
    struct sigaction before, after;
    o.ctx = &seen;
    o.note = see_note;
    o.event = see_event;
    o.wants_delivered = 1;
    sigaction(SIGTERM, NULL, &before);
    assert_int_equal(outrider_relay_observe(r, &o, NULL), 0);
    put(f, 1);
    start(r, 0);
    must_end(r);
    sigaction(SIGTERM, NULL, &after);
    assert_int_equal(seen.events, 1);
    assert_int_equal(seen.notes, 1);
    assert_int_equal(seen.wait_result, -1);
    assert_true(seen.is_blocked);
    assert_true(before.sa_handler == after.sa_handler);
    outrider_relay_free(r);
}

static void a_failure_is_told_by_wait(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *r = make(f, NULL, "events");
    struct outrider_error err = {0};
    start(r, OUTRIDER_RELAY_ONCE);
    must_end(r);
    outrider_relay_free(r);
    r = make(f, NULL, "elsewhere"); /* the cursor knows another sink */
    start(r, 0);
    assert_int_equal(outrider_relay_wait(r, PATIENCE_MS, &err), -1);
    assert_int_equal(err.code, OUTRIDER_SINK_MISMATCH);
    assert_int_equal(outrider_relay_state(r), OUTRIDER_RELAY_FAILED);
    outrider_relay_free(r);
}

static void *stop_and_look(void *ctx)
{
    int last = -1;
    for (int i = 0; i < 200; i++) {
        (void)outrider_relay_state(ctx);
        (void)delivered(ctx);
        last = outrider_relay_wait(ctx, 0, NULL);
    }
    outrider_relay_stop(ctx);
    assert_true(last == -1 || last == 0);
    assert_int_equal(outrider_relay_wait(ctx, PATIENCE_MS, NULL), 0);
    return NULL;
}

static void many_threads_may_look_and_stop(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *r = make(f, NULL, "events");
    pthread_t threads[4];
    put(f, 50);
    start(r, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stop_and_look, r), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    outrider_relay_free(r);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct sqlite_fixture *f = *state;
    struct outrider_relay *r = NULL;
    struct outrider_error err = {0};
    struct outrider_relay_observer o = {0};
    struct outrider_relay_stats stats = {0};
    assert_int_equal(outrider_relay_new(NULL, NULL, &err), -1);
    assert_int_equal(outrider_relay_new("no name/", &r, &err), -1);
    assert_int_equal(err.code, OUTRIDER_CONFIG);
    assert_int_equal(outrider_relay_new("x", &r, NULL), 0);
    assert_int_equal(outrider_relay_start(r, 0, &err), -1); /* no URLs */
    assert_int_equal(outrider_relay_set(r, "sink.urk", "file:x", &err), -1);
    assert_non_null(strstr(err.message, "sink.url"));
    assert_int_equal(outrider_relay_set(r, NULL, "1", &err), -1);
    assert_int_equal(outrider_relay_set(r, "batch", NULL, &err), -1);
    assert_int_equal(outrider_relay_observe(r, NULL, &err), -1);
    assert_int_equal(outrider_relay_observe(r, &o, &err), -1);
    assert_int_equal(outrider_relay_stats(r, &stats, &err), -1);
    assert_int_equal(outrider_relay_stats(r, NULL, &err), -1);
    outrider_relay_free(r);
    r = make(f, NULL, "events");
    assert_int_equal(outrider_relay_start(r, 64, &err), -1);
    start(r, 0);
    assert_int_equal(outrider_relay_start(r, 0, &err), -1);
    assert_int_equal(outrider_relay_set(r, "source.batch", "5", &err), -1);
    outrider_relay_free(r);
    assert_int_equal(outrider_relay_set(NULL, "a", "b", NULL), -1);
    assert_int_equal(outrider_relay_start(NULL, 0, NULL), -1);
    assert_int_equal(outrider_relay_wait(NULL, 0, NULL), -1);
    assert_int_equal(outrider_relay_state(NULL), OUTRIDER_RELAY_NEW);
    outrider_relay_stop(NULL);
    outrider_relay_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_are_relayed_until_it_is_stopped),
        TEST(once_ends_by_itself),
        TEST(two_pipelines_run_in_one_process),
        TEST(of_one_pipeline_the_second_stands_by),
        TEST(a_standby_can_be_stopped),
        TEST(stopped_before_its_start_it_ends_at_once),
        TEST(a_stop_at_any_moment_loses_nothing),
        TEST(while_its_source_is_away_it_can_be_stopped),
        TEST(an_observer_is_told_and_may_stop_it),
        TEST(a_failure_is_told_by_wait),
        TEST(many_threads_may_look_and_stop),
        TEST(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
