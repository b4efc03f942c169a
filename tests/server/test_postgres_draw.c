/* SPDX-License-Identifier: MIT */
/*
 * Drawing from the stream: a relay that is at work lets the server go on, so far
 * and no further, and finds everything in its place when it reads again.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "support/pg_fixture.h"
#include "support/pg_server.h"

#include <cmocka.h>

#define DEADLINE_MS 20000
#define EVENTS 40000 /* some 20 MB */
#define DRAWS 200    /* of a socket's content each: more than all of it */

static const char is_streaming[] =
    "SELECT count(*)::int8 FROM outrider_cursor, pg_stat_replication "
    "WHERE mode = 'cdc' AND state = 'streaming'";
static const char waits_for_room[] =
    "SELECT count(*)::int8 FROM pg_stat_activity WHERE backend_type "
    "= 'walsender' AND wait_event = 'WalSenderWriteData'";
static const char sent[] = "SELECT (sent_lsn - '0/0')::int8 FROM pg_stat_replication";
static const char written[] = "SELECT (pg_current_wal_lsn() - '0/0')::int8";

static void wait_for(struct harness *h, const char *sql)
{
    for (int i = 0; pg_fixture_value(1, sql) == 0; i++) {
        assert_in_range(i, 0, DEADLINE_MS);
        if (h != NULL)
            (void)harness_poll(h);
        (void)poll(NULL, 0, 1);
    }
}

static void fetch_next(struct harness *h, int64_t *seq)
{
    size_t n = harness_fetch(h);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(h->batch.events[i].seq, ++*seq);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
}

static void draw(struct harness *h)
{
    h->source->ops->draw(h->source);
}

static void write_events(void)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "DO $$ BEGIN FOR i IN 1..%d BY 100 LOOP INSERT INTO outbox (aggregate_type, "
                   "aggregate_id, event_type, payload) SELECT 'order', n::text, 'changed', "
                   "jsonb_build_object('filler', repeat('x', 300)) FROM generate_series(i, i + 99) "
                   "n; COMMIT; END LOOP; END $$",
                   EVENTS);
    pg_fixture_sql(1, sql);
}

static void the_server_goes_on_while_the_relay_is_at_work(void **state)
{
    struct harness h;
    int64_t seq = 0, begin, before;
    (void)state;
    harness_init(&h, &pg_fixture);
    h.config.source.mode = MODE_CDC;
    harness_activate(&h);
    wait_for(&h, is_streaming);
    begin = pg_fixture_value(1, written);
    write_events();
    while (seq == 0)
        fetch_next(&h, &seq);
    wait_for(NULL, waits_for_room);
    before = pg_fixture_value(1, sent);
    for (int i = 0; pg_fixture_value(1, sent) == before; i++) {
        assert_in_range(i, 0, DEADLINE_MS);
        draw(&h);
        (void)poll(NULL, 0, 1);
    }
    /* However often: there is an end to what is kept. */
    for (int i = 0; i < DRAWS; i++) {
        wait_for(NULL, waits_for_room);
        draw(&h);
    }
    assert_true(pg_fixture_value(1, sent) - begin < (pg_fixture_value(1, written) - begin) / 2);
    while (seq < EVENTS)
        fetch_next(&h, &seq);
    harness_close(&h);
    wait_for(NULL, "SELECT (count(*) = 0)::int::int8 FROM pg_stat_replication");
    pg_fixture_sql(1, "SELECT pg_drop_replication_slot('outrider_default')");
    harness_release(&h);
}

static void one_that_is_not_open_yet_draws_nothing(void **state)
{
    struct outrider_error err;
    struct harness h;
    (void)state;
    harness_init(&h, &pg_fixture);
    h.config.source.mode = MODE_CDC;
    assert_int_equal(harness_open(&h, &err), 0);
    draw(&h);
    harness_close(&h);
    harness_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_server_goes_on_while_the_relay_is_at_work),
        cmocka_unit_test(one_that_is_not_open_yet_draws_nothing),
    };
    if (!pg_server_start()) {
        (void)fprintf(stderr, "no PostgreSQL server programs: skipped\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
