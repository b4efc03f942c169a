/* SPDX-License-Identifier: MIT */
/*
 * How a source becomes active. Its clock stands still in these tests: what
 * happens, happens because something came, and not because a second was over.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "postgres/cdc/cdc.h"
#include "postgres/shared/source.h"
#include "support/pg_fixture.h"
#include "support/pg_server.h"

#include <cmocka.h>

#define DEADLINE_MS 5000 /* less than a session may be idle */
#define MOMENT_MS 300
#define SLOT " FROM pg_replication_slots WHERE slot_name = 'outrider_default'"

static const char no_reader[] = "SELECT count(*) = 0" SLOT " AND active";
static const char has_stream[] = "SELECT (SELECT count(*) = 1 FROM outrider_cursor WHERE mode = "
                                 "'cdc') AND (SELECT count(*) = 1" SLOT " AND active)";
static const char all_is_sent[] =
    "SELECT count(*) = 0 FROM pg_stat_replication WHERE sent_lsn < pg_current_wal_lsn()";
static const char waits_for_intents[] = "SELECT count(*) = 1 FROM pg_locks WHERE relation = "
                                        "'outrider_intent'::regclass AND NOT granted";

static bool is_true(const char *sql)
{
    char number[512];
    (void)snprintf(number, sizeof number, "SELECT (%s)::int", sql);
    return pg_fixture_value(1, number) == 1;
}

static void wait_for(const char *sql)
{
    for (int i = 0; !is_true(sql); i++) {
        assert_in_range(i, 0, DEADLINE_MS);
        (void)poll(NULL, 0, 1);
    }
}

static int set_up(void **state)
{
    struct harness *h = calloc(1, sizeof *h);
    harness_init(h, &pg_fixture);
    *state = h;
    return 0;
}

static bool is_streaming(const struct source *s)
{
    (void)s;
    return is_true(has_stream);
}

/* A pipeline that has left polling behind, and whose relay is gone. */
static int set_up_cdc(void **state)
{
    (void)set_up(state);
    struct harness *h = *state;
    h->config.source.mode = MODE_CDC;
    harness_activate(h);
    harness_wait(h, is_streaming);
    harness_close(h);
    wait_for(no_reader);
    return 0;
}

static int tear_down(void **state)
{
    struct harness *h = *state;
    harness_close(h);
    wait_for(no_reader);
    pg_fixture_sql(1, "SELECT pg_drop_replication_slot(slot_name)" SLOT);
    harness_release(h);
    free(h);
    return 0;
}

static struct instant open_frozen(struct harness *h)
{
    struct outrider_error err = {0};
    if (harness_open(h, &err) < 0)
        fail_msg("open: %s", err.message);
    return outrider__clock_now();
}

static void step(struct harness *h, struct instant frozen)
{
    struct outrider_error err = {0};
    struct source_op *done = NULL;
    if (h->source->ops->poll(h->source, frozen, &done, &err) < 0)
        fail_msg("poll: %s", err.message);
    assert_null(done);
}

/* Waits as the engine would; false: nothing came. */
static bool is_woken(struct harness *h, struct instant frozen, int ms)
{
    struct pollfd fds[4];
    int n = h->source->ops->fds(h->source, fds, 4);
    return h->source->wake_us <= frozen.mono_us || poll(fds, (nfds_t)n, ms) > 0;
}

static void step_when_woken(struct harness *h, struct instant frozen)
{
    if (!is_woken(h, frozen, DEADLINE_MS))
        fail_msg("the source waits for its clock");
    step(h, frozen);
}

/* What the server shows may show a while after the source came to rest. */
static void step_until(struct harness *h, struct instant frozen, const char *sql)
{
    for (int i = 0; !is_true(sql); i++) {
        assert_in_range(i, 0, DEADLINE_MS);
        if (is_woken(h, frozen, 1))
            step(h, frozen);
    }
}

static void it_is_active_as_soon_as_the_server_has_answered(void **state)
{
    struct harness *h = *state;
    struct instant frozen = open_frozen(h);
    while (!h->source->active)
        step_when_woken(h, frozen);
}

static void the_slot_is_made_and_the_stream_follows(void **state)
{
    struct harness *h = *state;
    h->config.source.mode = MODE_CDC;
    step_until(h, open_frozen(h), has_stream);
}

static bool is_planning(const struct source *s)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    return c != NULL && c->maker.state == MAKER_PLANNING;
}

/* The place up to which the stream is read is known, and the mark lies behind it. */
static void a_mark_behind_the_end_of_the_stream_is_reached_by_polling(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    h->config.source.mode = MODE_POLL;
    harness_activate(h);
    harness_wait(h, is_planning);
    harness_insert(h, "a");
    struct source_op mark = {.kind = SOURCE_MARK},
                     fetch = {.kind = SOURCE_FETCH, .batch = &h->batch};
    assert_int_equal(h->source->ops->start(h->source, &mark, &err), 0);
    bool is_marked = false, is_fetching = false;
    size_t n = 0;
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (!is_marked || is_fetching || !h->source->mark_reached) {
        assert_true(outrider__clock_now().mono_us < deadline);
        struct source_op *done = harness_poll(h);
        is_marked |= done == &mark;
        if (done == &fetch) {
            is_fetching = false;
            n += h->batch.n;
            if (h->batch.n > 0)
                harness_settle(h, &h->batch, OUTCOME_DELIVERED);
        }
        if (is_marked && !is_fetching && h->source->ready && h->source->active) {
            outrider__batch_reset(&h->batch);
            assert_int_equal(h->source->ops->start(h->source, &fetch, &err), 0);
            is_fetching = true;
        }
        harness_pause(h);
    }
    assert_int_equal(n, 1);
}

static void while_it_waits_for_its_intents_it_rests(void **state)
{
    struct harness *h = *state;
    pg_fixture_sql(2, "BEGIN; LOCK TABLE outrider_intent");
    struct instant frozen = open_frozen(h);
    step_until(h, frozen, waits_for_intents);
    harness_insert(h, "a"); /* of a stream that nobody reads yet */
    wait_for(all_is_sent);
    for (int i = 0; is_woken(h, frozen, MOMENT_MS); i++) {
        assert_in_range(i, 0, 100);
        step(h, frozen);
    }
    pg_fixture_sql(2, "COMMIT");
    while (!h->source->active)
        step_when_woken(h, frozen);
    assert_int_equal(harness_fetch(h), 1);
    assert_int_equal(harness_number(&h->batch.events[0]), 0);
    harness_settle(h, &h->batch, OUTCOME_DELIVERED);
}

static void one_operation_too_many_is_not_taken_for_a_standby(void **state)
{
    struct harness *h = *state;
    struct outrider_error err = {0};
    struct source_op ops[OP_QUEUE_MAX + 1];
    harness_activate(h);
    for (int i = 0; i <= OP_QUEUE_MAX; i++) {
        ops[i] = (struct source_op){.kind = SOURCE_MARK};
        assert_int_equal(h->source->ops->start(h->source, &ops[i], &err),
                         i < OP_QUEUE_MAX ? 0 : -1);
    }
    assert_int_equal(err.code, OUTRIDER_INVALID);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
    assert_true(h->source->active);
}

#define POLL(name)                                      \
    {                                                   \
#name "_polling", name, set_up, tear_down, NULL \
    }
#define CDC(name)                                               \
    {                                                           \
#name "_in_mode_cdc", name, set_up_cdc, tear_down, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        POLL(it_is_active_as_soon_as_the_server_has_answered),
        POLL(while_it_waits_for_its_intents_it_rests),
        POLL(one_operation_too_many_is_not_taken_for_a_standby),
        POLL(the_slot_is_made_and_the_stream_follows),
        CDC(it_is_active_as_soon_as_the_server_has_answered),
        CDC(while_it_waits_for_its_intents_it_rests),
        CDC(a_mark_behind_the_end_of_the_stream_is_reached_by_polling),
    };
    if (!pg_server_start()) {
        (void)fprintf(stderr, "no PostgreSQL server programs: skipped\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
