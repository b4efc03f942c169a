/* SPDX-License-Identifier: MIT */
/* outrider/hybrid.h inside one process; several processes: tests/torture/test_hybrid.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <libpq-fe.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "outrider/hybrid.h"
#include "outrider/sqlite.h"
#include "support/pg_server.h"

#define PATIENCE 15000 /* of 2 ms */
#define THREADS 4
#define PER_THREAD 50

struct place {
    char url[256], dir[64];
    PGconn *pg;
    struct outrider_hybrid *hybrid;
    struct outrider_session *session;
};

static long value(struct place *p, const char *text)
{
    PGresult *r = PQexec(p->pg, text);
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    long n = strtol(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return n;
}

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void run(const char *format, ...)
{
    char command[600];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static struct outrider_hybrid *start(struct place *p, const char *option, const char *set_to)
{
    struct outrider_hybrid *h = NULL;
    struct outrider_error err = {0};
    char sink[96];
    (void)snprintf(sink, sizeof sink, "file:%s/events", p->dir);
    if (outrider_hybrid_new(NULL, &h, &err) < 0 ||
        outrider_hybrid_set(h, "source.url", p->url, &err) < 0 ||
        outrider_hybrid_set(h, "sink.url", sink, &err) < 0 ||
        /* Counts are exact as long as no claim runs out, however busy the machine is. */
        outrider_hybrid_set(h, "hybrid.lease", "1m", &err) < 0 ||
        (option != NULL && outrider_hybrid_set(h, option, set_to, &err) < 0) ||
        outrider_hybrid_start(h, &err) < 0)
        fail_msg("%s", err.message);
    return h;
}

static struct outrider_hybrid_stats stats_of(struct outrider_hybrid *h)
{
    struct outrider_hybrid_stats s = OUTRIDER_HYBRID_STATS_INIT;
    assert_int_equal(outrider_hybrid_stats(h, &s, NULL), 0);
    return s;
}

static void commit(struct outrider_session *s, const char *key, const char *type, int n)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    struct outrider_error err = {0};
    e.aggregate_type = "order";
    e.aggregate_id = key;
    e.event_type = type != NULL ? type : "Created";
    e.payload = "{}";
    e.payload_len = 2;
    int r = outrider_session_begin(s, &err);
    for (int i = 0; r == 0 && i < n; i++)
        r = outrider_session_enqueue(s, &e, NULL, &err);
    if (r < 0 || outrider_session_commit(s, &err) < 0)
        fail_msg("%s", err.message);
}

/* The publisher connects by itself: until then everything is left to the relay. */
static void until_claimed(struct place *p)
{
    for (int i = 0; stats_of(p->hybrid).claimed == 0; i++) {
        char key[32];
        assert_true(i < PATIENCE);
        (void)snprintf(key, sizeof key, "first-%d", i);
        commit(p->session, key, NULL, 1);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static void until_settled(struct outrider_hybrid *h)
{
    for (int i = 0;; i++) {
        struct outrider_hybrid_stats s = stats_of(h);
        if (s.claimed == s.published + s.handed_over)
            return;
        assert_true(i < PATIENCE);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    if (!pg_server_start())
        skip();
    setenv("OUTRIDER_MODULE_PATH", BINARY_DIR "/modules", 1);
    pg_server_url("hybrid", true, p->url, sizeof p->url);
    run("'%s/outrider' init --layout status --db '%s' >/dev/null 2>&1", BINARY_DIR, p->url);
    (void)snprintf(p->dir, sizeof p->dir, "/tmp/outrider-hybrid-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    p->pg = PQconnectdb(p->url);
    assert_int_equal(PQstatus(p->pg), CONNECTION_OK);
    assert_int_equal(outrider_session_pg(p->pg, &p->session, NULL), 0);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    outrider_session_free(p->session);
    outrider_hybrid_free(p->hybrid);
    PQfinish(p->pg);
    run("rm -rf '%s'", p->dir);
    free(p);
    return 0;
}

static void attach(struct place *p, const char *option, const char *set_to)
{
    p->hybrid = start(p, option, set_to);
    assert_int_equal(outrider_hybrid_attach(p->hybrid, p->session, NULL), 0);
}

static void what_is_committed_is_published_and_marked(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    commit(p->session, "several", NULL, 5); /* of one key, in one transaction */
    until_settled(p->hybrid);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE aggregate_id = 'several' AND "
                              "status = 'PUBLISHED' AND published_at IS NOT NULL AND locked_by IS "
                              "NULL AND attempts = 0"),
                     5);
    assert_int_equal(stats_of(p->hybrid).handed_over, 0);
}

static void enqueue_with_headers(struct outrider_session *s, const char *key, const char *headers)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    struct outrider_error err = {0};
    e.aggregate_type = "order";
    e.aggregate_id = key;
    e.event_type = "Created";
    e.payload = "{}";
    e.payload_len = 2;
    e.headers = headers;
    if (outrider_session_enqueue(s, &e, NULL, &err) < 0)
        fail_msg("%s", err.message);
}

static void what_is_above_a_bound_is_left_to_the_relay(void **state)
{
    struct place *p = *state;
    attach(p, "source.max_headers", "20B");
    until_claimed(p);
    until_settled(p->hybrid);
    struct outrider_hybrid_stats before = stats_of(p->hybrid);
    assert_int_equal(outrider_session_begin(p->session, NULL), 0);
    enqueue_with_headers(p->session, "large", "{\"h\": \"0123456789abcdef\"}");
    enqueue_with_headers(p->session, "beside", NULL);
    assert_int_equal(outrider_session_commit(p->session, NULL), 0);
    assert_int_equal(stats_of(p->hybrid).unsuitable - before.unsuitable, 2);
    assert_int_equal(stats_of(p->hybrid).claimed, before.claimed);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE status = 'PENDING' AND "
                              "aggregate_id IN ('large', 'beside')"),
                     2);
}

/* Their slots are free, but not the memory for them. */
static void the_queue_has_a_bound_of_bytes(void **state)
{
    struct place *p = *state;
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    const size_t size = 30 << 20;
    char *payload = malloc(size);
    assert_non_null(payload);
    memset(payload, '1', size);
    payload[0] = payload[size - 1] = '"';
    attach(p, "source.max_payload", "64MiB");
    until_claimed(p);
    until_settled(p->hybrid);
    struct outrider_hybrid_stats before = stats_of(p->hybrid);
    e.aggregate_type = e.event_type = "x";
    e.payload = payload;
    e.payload_len = size;
    assert_int_equal(outrider_session_begin(p->session, NULL), 0);
    for (int i = 0; i < 3; i++) {
        e.aggregate_id = i == 0 ? "a" : i == 1 ? "b" : "c";
        assert_int_equal(outrider_session_enqueue(p->session, &e, NULL, NULL), 0);
    }
    assert_int_equal(outrider_session_commit(p->session, NULL), 0);
    free(payload);
    assert_int_equal(stats_of(p->hybrid).full - before.full, 3);
    commit(p->session, "small", NULL, 1);
    until_settled(p->hybrid);
    assert_int_equal(stats_of(p->hybrid).claimed - before.claimed, 1);
}

static void a_message_has_the_id_that_the_row_has(void **state)
{
    struct place *p = *state;
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    attach(p, NULL, NULL);
    until_claimed(p);
    e.id = "018F0000-0000-7000-8000-00000000ABCD";
    e.aggregate_type = "order";
    e.aggregate_id = "named";
    e.event_type = "Created";
    assert_int_equal(outrider_session_begin(p->session, NULL), 0);
    e.payload = "{}";
    e.payload_len = 2;
    assert_int_equal(outrider_session_enqueue(p->session, &e, NULL, NULL), 0);
    assert_int_equal(outrider_session_commit(p->session, NULL), 0);
    until_settled(p->hybrid);
    run("grep -rq 018f0000-0000-7000-8000-00000000abcd '%s'", p->dir);
}

static void what_is_rolled_back_is_never_sent(void **state)
{
    struct place *p = *state;
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    attach(p, NULL, NULL);
    until_claimed(p);
    e.aggregate_type = "order";
    e.aggregate_id = "undone";
    e.event_type = "Created";
    e.payload = "no json"; /* fails in the database, behind the claim */
    e.payload_len = 7;
    assert_int_equal(outrider_session_begin(p->session, NULL), 0);
    assert_int_equal(outrider_session_enqueue(p->session, &e, NULL, NULL), 0);
    assert_int_equal(outrider_session_commit(p->session, NULL), -1);
    commit(p->session, "done", NULL, 1);
    outrider_hybrid_free(p->hybrid);
    p->hybrid = NULL;
    run("! grep -rq undone '%s' && grep -rq done '%s'", p->dir, p->dir);
    commit(p->session, "after", NULL, 1); /* the session outlives its publisher */
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE aggregate_id = 'after' AND status "
                              "= 'PENDING'"),
                     1);
}

static void a_key_with_an_unsettled_event_is_left_to_the_relay(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    PQclear(PQexec(p->pg, "INSERT INTO outbox (aggregate_type, aggregate_id, partition_key, "
                          "event_type, payload) VALUES ('order', 'x', 'taken', 'Created', '{}')"));
    commit(p->session, "taken", NULL, 2);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE aggregate_id = 'taken' AND status "
                              "= 'PENDING'"),
                     2);
    assert_true(stats_of(p->hybrid).busy >= 2);
}

static long claims_of(struct place *p, const char *key)
{
    uint64_t before = stats_of(p->hybrid).claimed;
    commit(p->session, key, NULL, 1);
    return (long)(stats_of(p->hybrid).claimed - before);
}

/* In a row an empty key is a key like any other, as the relay reads it. */
static void a_row_with_an_empty_key_holds_up_no_other_key(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    PQclear(PQexec(p->pg, "INSERT INTO outbox (aggregate_type, aggregate_id, partition_key, "
                          "event_type, payload) VALUES ('order', 'x', '', 'Created', '{}')"));
    assert_int_equal(claims_of(p, "x"), 1);
    PQclear(PQexec(p->pg, "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, "
                          "status, partition_key) VALUES ('order', 'y', 'Created', '{}', "
                          "'DEAD_LETTER', '')"));
    PQclear(PQexec(p->pg, "INSERT INTO outrider_cursor (pipeline, outbox, on_dead) VALUES "
                          "('other', 'public.outbox', 'block')"));
    assert_int_equal(claims_of(p, "y"), 1);
}

/* Of keys that begin so, parked.h (4) holds the hex form. */
static void a_parked_key_that_looks_like_bytes_is_found(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    PQclear(PQexec(p->pg, "INSERT INTO outrider_cursor (pipeline, outbox) VALUES "
                          "('other', 'public.outbox')"));
    PQclear(PQexec(p->pg, "INSERT INTO outrider_parked (pipeline, outbox, lane, state, seq) VALUES "
                          "('other', 'public.outbox', '\\x5c783431', 'parked', 1), "
                          "('other', 'public.outbox', '\\x42', 'parked', 2)"));
    assert_int_equal(claims_of(p, "\\x41"), 0);
    assert_int_equal(claims_of(p, "\\x42"), 1);
}

static void of_a_transaction_that_does_not_fit_nothing_is_claimed(void **state)
{
    struct place *p = *state;
    attach(p, "hybrid.queue", "3");
    until_claimed(p);
    until_settled(p->hybrid);
    commit(p->session, "large", NULL, 4);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE aggregate_id = 'large' AND status "
                              "= 'PENDING'"),
                     4);
}

static void what_can_never_be_sent_is_handed_to_the_relay(void **state)
{
    struct place *p = *state;
    attach(p, "route.by_type", "{Lost: '${header:none}'}");
    until_claimed(p);
    commit(p->session, "bad", "Lost", 1);
    until_settled(p->hybrid);
    assert_int_equal(stats_of(p->hybrid).handed_over, 1);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE aggregate_id = 'bad' AND status = "
                              "'PENDING' AND locked_by IS NULL AND attempts = 0"),
                     1);
}

static void what_is_published_can_be_deleted(void **state)
{
    struct place *p = *state;
    attach(p, "source.after_publish", "delete");
    until_claimed(p);
    commit(p->session, "gone", NULL, 3);
    until_settled(p->hybrid);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE aggregate_id = 'gone'"), 0);
}

struct worker {
    struct place *place;
    int number;
};

static void *work(void *ctx)
{
    struct worker *w = ctx;
    struct outrider_session *s = NULL;
    PGconn *pg = PQconnectdb(w->place->url);
    assert_int_equal(outrider_session_pg(pg, &s, NULL), 0);
    assert_int_equal(outrider_hybrid_attach(w->place->hybrid, s, NULL), 0);
    for (int i = 0; i < PER_THREAD; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "%d-%d", w->number, i);
        commit(s, i % 5 == 0 ? "hot" : key, NULL, 1);
    }
    outrider_session_free(s);
    PQfinish(pg);
    return NULL;
}

static void run_threads(struct place *p, void *(*body)(void *ctx))
{
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){p, i};
        assert_int_equal(pthread_create(&threads[i], NULL, body, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void many_sessions_share_a_publisher(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    run_threads(p, work);
    until_settled(p->hybrid);
    struct outrider_hybrid_stats s = stats_of(p->hybrid);
    assert_true(s.claimed >= THREADS * PER_THREAD * 4 / 5);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE status = 'PUBLISHED'"),
                     s.published);
}

static void do_sql(PGconn *pg, const char *text)
{
    PGresult *r = PQexec(pg, text);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(pg));
    PQclear(r);
}

static void every_event_of_a_committed_transaction_is_counted_once(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    until_settled(p->hybrid);
    struct outrider_hybrid_stats before = stats_of(p->hybrid);
    assert_int_equal(before.queued, 0);
    /* Marking waits for a lock that the test holds, so what is sent stays queued. */
    do_sql(p->pg, "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM "
                  "pg_advisory_xact_lock(42); RETURN new; END$$; CREATE TRIGGER wait BEFORE UPDATE "
                  "ON outbox FOR EACH ROW EXECUTE FUNCTION wait()");
    PGconn *holder = PQconnectdb(p->url);
    do_sql(holder, "SELECT pg_advisory_lock(42)");
    commit(p->session, "held", NULL, 3);
    commit(p->session, "held", NULL, 2);
    struct outrider_hybrid_stats now = stats_of(p->hybrid);
    assert_int_equal(now.claimed - before.claimed, 3);
    assert_int_equal(now.queued, 3);
    assert_int_equal(now.published, before.published);
    assert_int_equal(now.busy - before.busy, 2);
    PQfinish(holder);
    until_settled(p->hybrid);
    now = stats_of(p->hybrid);
    assert_int_equal(now.queued, 0);
    assert_int_equal(now.published - before.published, 3);
    assert_int_equal(now.failed, 0);
}

static void what_is_rolled_back_counts_nowhere(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    do_sql(p->pg, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE "
                  "check_violation; END$$; CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON outbox "
                  "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()");
    until_settled(p->hybrid);
    struct outrider_hybrid_stats before = stats_of(p->hybrid);
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = "order";
    e.aggregate_id = "undone";
    e.event_type = "Created";
    assert_int_equal(outrider_session_begin(p->session, NULL), 0);
    assert_int_equal(outrider_session_enqueue(p->session, &e, NULL, NULL), 0);
    assert_int_equal(outrider_session_commit(p->session, NULL), -1); /* at COMMIT itself */
    struct outrider_hybrid_stats after = stats_of(p->hybrid);
    assert_memory_equal(&after, &before, sizeof after);
}

static void a_shorter_struct_of_an_older_program_is_filled_as_far_as_it_goes(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    struct outrider_hybrid_stats s;
    memset(&s, 0x55, sizeof s);
    s.size = offsetof(struct outrider_hybrid_stats, queued);
    assert_int_equal(outrider_hybrid_stats(p->hybrid, &s, NULL), 0);
    assert_int_equal(s.size, offsetof(struct outrider_hybrid_stats, queued));
    assert_true(s.claimed > 0 && s.claimed < 1000000);
    assert_int_equal(s.queued, 0x5555555555555555);
    assert_int_equal(s.failed, 0x5555555555555555);
}

static void until_told(struct place *p, long before)
{
    long goal = before + (long)stats_of(p->hybrid).published;
    static const char told[] = "SELECT delivered_total * (settled_at IS NOT NULL)::integer FROM "
                               "outrider_cursor WHERE pipeline = 'default'";
    for (int i = 0; value(p, told) != goal; i++) {
        assert_true(i < PATIENCE);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static void what_is_published_counts_in_the_pipelines_totals(void **state)
{
    struct place *p = *state;
    /* As a relay that ran before has left it. */
    do_sql(p->pg, "INSERT INTO outrider_cursor (pipeline, outbox, delivered_total) VALUES "
                  "('default', 'public.outbox', 7), ('other', 'public.outbox', 1)");
    attach(p, NULL, NULL);
    until_claimed(p);
    PGconn *relay = PQconnectdb(p->url);
    do_sql(relay, "BEGIN; UPDATE outrider_cursor SET epoch = epoch + 1");
    commit(p->session, "totals", NULL, 4);
    until_settled(p->hybrid); /* which a locked row does not hold up */
    do_sql(relay, "COMMIT");
    PQfinish(relay);
    until_told(p, 7);
    /* One after the other, so that some are settled while others are being counted. */
    for (int i = 0; i < 100; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "burst-%d", i);
        commit(p->session, key, NULL, 1);
    }
    until_settled(p->hybrid);
    until_told(p, 7);
    assert_int_equal(
        value(p, "SELECT delivered_total FROM outrider_cursor WHERE pipeline = 'other'"), 1);
}

struct watcher {
    pthread_mutex_t mutex;
    int connected, ended, delivered;
    char why[512];
};

static void on_note(void *ctx, enum outrider_relay_note note, uint64_t count,
                    const struct outrider_error *why)
{
    struct watcher *w = ctx;
    (void)count;
    pthread_mutex_lock(&w->mutex);
    w->connected += note == OUTRIDER_NOTE_SOURCE_CONNECTED;
    w->ended += note == OUTRIDER_NOTE_STOPPED;
    if (why != NULL)
        (void)snprintf(w->why, sizeof w->why, "%s", why->message);
    pthread_mutex_unlock(&w->mutex);
}

static void on_event(void *ctx, const struct outrider_relay_event *event)
{
    struct watcher *w = ctx;
    pthread_mutex_lock(&w->mutex);
    w->delivered += strcmp(event->outcome, "delivered") == 0;
    pthread_mutex_unlock(&w->mutex);
}

static void an_observer_is_told_what_the_publisher_does_and_why_it_ends(void **state)
{
    struct place *p = *state;
    struct watcher w = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct outrider_relay_observer o = OUTRIDER_RELAY_OBSERVER_INIT;
    struct outrider_hybrid *h = NULL;
    o.ctx = &w;
    o.note = on_note;
    o.event = on_event;
    o.wants_delivered = 1;
    assert_int_equal(outrider_hybrid_new(NULL, &h, NULL), 0);
    assert_int_equal(outrider_hybrid_observe(h, NULL, NULL), -1);
    assert_int_equal(outrider_hybrid_observe(NULL, &o, NULL), -1);
    assert_int_equal(outrider_hybrid_observe(h, &(struct outrider_relay_observer){0}, NULL), -1);
    assert_int_equal(outrider_hybrid_observe(h, &o, NULL), 0);
    assert_int_equal(outrider_hybrid_set(h, "source.url", p->url, NULL), 0);
    assert_int_equal(outrider_hybrid_set(h, "sink.url", "null:", NULL), 0);
    assert_int_equal(outrider_hybrid_start(h, NULL), 0);
    assert_int_equal(outrider_hybrid_observe(h, &o, NULL), -1);
    p->hybrid = h;
    assert_int_equal(outrider_hybrid_attach(h, p->session, NULL), 0);
    until_claimed(p);
    until_settled(h);
    int published = (int)stats_of(h).published;
    outrider_hybrid_free(h);
    assert_int_equal(w.connected, 1);
    assert_int_equal(w.delivered, published);
    assert_int_equal(w.ended, 1);
    assert_string_equal(w.why, "");

    /* A database that is not there: nothing but the observer says so. */
    p->hybrid = NULL;
    char url[300];
    (void)snprintf(url, sizeof url, "%s", p->url);
    *strstr(url, "hybrid") = 'x';
    assert_int_equal(outrider_hybrid_new(NULL, &h, NULL), 0);
    assert_int_equal(outrider_hybrid_observe(h, &o, NULL), 0);
    assert_int_equal(outrider_hybrid_set(h, "source.url", url, NULL), 0);
    assert_int_equal(outrider_hybrid_set(h, "sink.url", "null:", NULL), 0);
    assert_int_equal(outrider_hybrid_start(h, NULL), 0);
    for (int i = 0, told = 0; !told; i++) {
        assert_true(i < PATIENCE);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        pthread_mutex_lock(&w.mutex);
        told = strstr(w.why, "does not exist") != NULL;
        pthread_mutex_unlock(&w.mutex);
    }
    outrider_hybrid_free(h);
}

static const char exact_here[] =
    "INSERT INTO outrider_intent (pipeline, outbox, tables, identity) VALUES ('exact', "
    "'public.first', '{public.first,public.outbox}', 'postgresql:1/a/b/exact')";

static void an_outbox_that_is_relayed_exactly_once_is_refused(void **state)
{
    struct place *p = *state;
    struct outrider_error err = {0};
    /* Of another outbox: no matter. */
    do_sql(p->pg, "CREATE TABLE other (id integer); INSERT INTO outrider_cursor (pipeline, outbox) "
                  "VALUES ('elsewhere', 'public.other'); INSERT INTO outrider_intent (pipeline, "
                  "outbox, tables, identity) VALUES ('elsewhere', 'public.other', "
                  "'{public.other}', 'postgresql:1/a/b/elsewhere'), ('exact', 'public.other', "
                  "'{public.other}', 'postgresql:1/a/b/exact'); INSERT INTO outrider_cursor "
                  "(pipeline, outbox) VALUES ('exact', 'public.outbox')");
    attach(p, NULL, NULL);
    until_claimed(p);
    /* A relay that begins with it while the session is attached. */
    do_sql(p->pg, exact_here);
    struct outrider_hybrid_stats before = stats_of(p->hybrid);
    commit(p->session, "plain", NULL, 2);
    assert_int_equal(stats_of(p->hybrid).unsuitable - before.unsuitable, 2);
    assert_int_equal(stats_of(p->hybrid).claimed, before.claimed);
    outrider_session_free(p->session);
    assert_int_equal(outrider_session_pg(p->pg, &p->session, NULL), 0);
    assert_int_equal(outrider_hybrid_attach(p->hybrid, p->session, &err), -1);
    assert_int_equal(err.code, OUTRIDER_CONFIG);
    assert_non_null(strstr(err.message, "pipeline 'exact'"));
    assert_non_null(strstr(err.message, "exactly_once"));
    commit(p->session, "after", NULL, 1); /* the session is as good as before */
    do_sql(p->pg, "UPDATE outrider_intent SET identity = ''"); /* it went on without */
    assert_int_equal(outrider_hybrid_attach(p->hybrid, p->session, &err), 0);
}

static void *commit_hot(void *ctx)
{
    struct place *p = ctx;
    commit(p->session, "hot", NULL, 1);
    return NULL;
}

/* As a writer in another process does it; and as if its snapshot were the older one,
 * our session must see what that one inserted. */
static void a_writer_of_the_same_key_is_waited_for_and_seen(void **state)
{
    struct place *p = *state;
    pthread_t thread;
    attach(p, NULL, NULL);
    until_claimed(p);
    PGconn *other = PQconnectdb(p->url), *watcher = PQconnectdb(p->url);
    PQclear(PQexec(other, "BEGIN"));
    PQclear(PQexec(other, "SELECT pg_advisory_xact_lock(hashtextextended('outrider:' || "
                          "'outbox'::regclass::oid || ':hot', 0))"));
    assert_int_equal(pthread_create(&thread, NULL, commit_hot, p), 0);
    for (int i = 0, waits = 0; !waits; i++) {
        PGresult *r =
            PQexec(watcher, "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
        waits = PQntuples(r);
        PQclear(r);
        assert_true(i < PATIENCE);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    PQclear(PQexec(other, "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, "
                          "status, locked_by, locked_until) VALUES ('order', 'hot', 'Created', "
                          "'{}', 'PROCESSING', 'hybrid:other', now() + interval '1 hour')"));
    PQclear(PQexec(other, "COMMIT"));
    pthread_join(thread, NULL);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE aggregate_id = 'hot' AND status = "
                              "'PENDING' AND locked_by IS NULL"),
                     1);
    PQfinish(other);
    PQfinish(watcher);
}

static void *cross(void *ctx)
{
    struct worker *w = ctx;
    static const char *const keys[] = {"a", "b", "c"};
    struct outrider_session *s = NULL;
    struct outrider_error err = {0};
    PGconn *pg = PQconnectdb(w->place->url);
    assert_int_equal(outrider_session_pg(pg, &s, NULL), 0);
    assert_int_equal(outrider_hybrid_attach(w->place->hybrid, s, NULL), 0);
    for (int i = 0; i < PER_THREAD; i++) {
        int r = outrider_session_begin(s, &err);
        for (int k = 0; r == 0 && k < 3; k++) {
            struct outrider_event e = OUTRIDER_EVENT_INIT;
            e.aggregate_type = "order";
            e.aggregate_id = keys[(w->number % 2 != 0 ? k : 2 - k)];
            e.event_type = "Crossed";
            e.payload = "{}";
            e.payload_len = 2;
            r = outrider_session_enqueue(s, &e, NULL, &err);
        }
        if (r < 0 || outrider_session_commit(s, &err) < 0)
            fail_msg("%s", err.message);
    }
    outrider_session_free(s);
    PQfinish(pg);
    return NULL;
}

static void transactions_with_the_same_keys_in_any_order_do_not_deadlock(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    run_threads(p, cross);
    until_settled(p->hybrid);
    assert_int_equal(value(p, "SELECT count(*) FROM outbox WHERE event_type = 'Crossed'"),
                     (long)THREADS * PER_THREAD * 3);
}

static void a_lost_connection_of_the_publisher_is_made_anew(void **state)
{
    struct place *p = *state;
    attach(p, NULL, NULL);
    until_claimed(p);
    until_settled(p->hybrid);
    value(p, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
             "application_name LIKE 'outrider:%'");
    uint64_t before = stats_of(p->hybrid).claimed;
    for (int i = 0; stats_of(p->hybrid).published <= before; i++) {
        char key[32];
        assert_true(i < PATIENCE);
        (void)snprintf(key, sizeof key, "again-%d", i);
        commit(p->session, key, NULL, 1);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct place *p = *state;
    struct outrider_hybrid *h = NULL;
    struct outrider_session *other = NULL;
    struct outrider_hybrid_stats none = {0};
    struct outrider_error err = {0};
    sqlite3 *db = NULL;
    attach(p, NULL, NULL);
    assert_int_equal(outrider_hybrid_attach(p->hybrid, p->session, &err), -1); /* twice */
    assert_int_equal(outrider_hybrid_start(p->hybrid, &err), -1);
    assert_int_equal(outrider_hybrid_set(p->hybrid, "hybrid.lease", "1s", &err), -1);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(outrider_session_sqlite(db, &other, NULL), 0);
    assert_int_equal(outrider_hybrid_attach(p->hybrid, other, &err), -1);
    assert_int_equal(err.code, OUTRIDER_UNSUPPORTED);
    outrider_session_free(other);
    sqlite3_close(db);
    assert_int_equal(outrider_hybrid_new("no/name", &h, &err), -1);
    assert_int_equal(outrider_hybrid_new(NULL, NULL, &err), -1);
    assert_int_equal(outrider_hybrid_new(NULL, &h, &err), 0);
    assert_int_equal(outrider_hybrid_start(h, &err), -1); /* no URLs */
    assert_int_equal(outrider_hybrid_set(h, NULL, "", &err), -1);
    assert_int_equal(outrider_hybrid_set(h, "source.url", "sqlite:x.db", &err), 0);
    assert_int_equal(outrider_hybrid_set(h, "sink.url", "null:", &err), 0);
    assert_int_equal(outrider_hybrid_start(h, &err), -1);
    assert_int_equal(err.code, OUTRIDER_UNSUPPORTED);
    assert_int_equal(outrider_hybrid_set(h, "source.url", p->url, &err), 0);
    assert_int_equal(outrider_hybrid_set(h, "sink.url", "kafka://127.0.0.1:1", &err), 0);
    assert_int_equal(outrider_hybrid_set(h, "exactly_once", "true", &err), 0);
    assert_int_equal(outrider_hybrid_start(h, &err), -1);
    assert_non_null(strstr(err.message, "exactly_once"));
    assert_int_equal(outrider_hybrid_stats(h, &none, &err), -1);
    assert_int_equal(outrider_hybrid_stats(NULL, &none, &err), -1);
    assert_int_equal(outrider_hybrid_attach(NULL, p->session, &err), -1);
    assert_int_equal(outrider_hybrid_attach(h, NULL, &err), -1);
    outrider_hybrid_free(h);
    outrider_hybrid_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_committed_is_published_and_marked),
        TEST(what_is_above_a_bound_is_left_to_the_relay),
        TEST(the_queue_has_a_bound_of_bytes),
        TEST(a_message_has_the_id_that_the_row_has),
        TEST(what_is_rolled_back_is_never_sent),
        TEST(a_key_with_an_unsettled_event_is_left_to_the_relay),
        TEST(a_row_with_an_empty_key_holds_up_no_other_key),
        TEST(a_parked_key_that_looks_like_bytes_is_found),
        TEST(of_a_transaction_that_does_not_fit_nothing_is_claimed),
        TEST(what_can_never_be_sent_is_handed_to_the_relay),
        TEST(what_is_published_can_be_deleted),
        TEST(many_sessions_share_a_publisher),
        TEST(every_event_of_a_committed_transaction_is_counted_once),
        TEST(what_is_rolled_back_counts_nowhere),
        TEST(a_shorter_struct_of_an_older_program_is_filled_as_far_as_it_goes),
        TEST(what_is_published_counts_in_the_pipelines_totals),
        TEST(an_observer_is_told_what_the_publisher_does_and_why_it_ends),
        TEST(an_outbox_that_is_relayed_exactly_once_is_refused),
        TEST(a_writer_of_the_same_key_is_waited_for_and_seen),
        TEST(transactions_with_the_same_keys_in_any_order_do_not_deadlock),
        TEST(a_lost_connection_of_the_publisher_is_made_anew),
        TEST(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
