/* SPDX-License-Identifier: MIT */
/* What the engine does when events are published and cannot be settled: against a source that
 * gives the same events whenever it is opened, a sink that counts, and a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "support/fake_ends.h"

#define SECOND INT64_C(1000000)
#define EVENTS 2

static struct outrider_error settle_fails, fetch_fails, cleanup_fails; /* OUTRIDER_OK: works */
static bool is_settled, is_empty_first;
static bool fails_second; /* the read behind the one that found events */
static int published, opens, cleanups;

struct fake_source {
    struct source base;
    struct source_op *first;
    bool is_read, was_asked;
};

static int source_open(struct source *s, const struct pipeline_config *config, struct instant now,
                       struct outrider_error *err)
{
    opens++;
    s->ready = s->reads_ahead = true;
    return fake_source_open(s, config, now, err);
}

static void fetch(struct fake_source *me, struct batch *b)
{
    bool is_first = !me->was_asked;
    me->was_asked = true;
    if (me->is_read || is_settled || (is_empty_first && is_first))
        return;
    for (int i = 0; i < EVENTS; i++) {
        struct event *e = outrider__batch_slot(b);
        e->batch = b;
        e->id = e->aggregate_type = e->event_type = e->aggregate_id = BYTES_LIT("x");
        e->payload = BYTES_LIT("{}");
        b->n++;
    }
    me->is_read = true;
}

static int source_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    struct source_op **end = &((struct fake_source *)s)->first;
    (void)err;
    while (*end != NULL)
        end = &(*end)->next;
    op->next = NULL;
    *end = op;
    return 0;
}

static int run(struct fake_source *me, struct source_op *op, struct outrider_error *err)
{
    const struct outrider_error *why = op->kind == SOURCE_SETTLE    ? &settle_fails
                                       : op->kind == SOURCE_FETCH   ? &fetch_fails
                                       : op->kind == SOURCE_CLEANUP ? &cleanup_fails
                                                                    : NULL;
    cleanups += op->kind == SOURCE_CLEANUP;
    if (op->kind == SOURCE_FETCH && fails_second && !me->is_read)
        why = NULL;
    if (why != NULL && why->code != OUTRIDER_OK) {
        *err = *why;
        me->base.lost_in_cleanup = op->kind == SOURCE_CLEANUP;
        return -1;
    }
    if (op->kind == SOURCE_FETCH)
        fetch(me, op->batch);
    is_settled |= op->kind == SOURCE_SETTLE;
    return 0;
}

static int source_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct fake_source *me = (struct fake_source *)s;
    (void)now;
    *ret_done = me->first;
    if (me->first == NULL)
        return 0;
    if (run(me, me->first, err) < 0)
        return -1;
    me->first = me->first->next;
    s->ready = fails_second || (!me->is_read && !is_settled);
    s->mark_reached = me->is_read || is_settled;
    return 0;
}

static const struct source_ops source_ops = {.scheme = "fake",
                                             .size = sizeof(struct fake_source),
                                             .open = source_open,
                                             .start = source_start,
                                             .poll = source_poll,
                                             .fds = fake_source_fds,
                                             .close = fake_source_close};

static struct delivery *taken[FAKE_BATCH];
static size_t n_taken;

static size_t sink_submit(struct sink *s, struct delivery **d, size_t n, struct instant now)
{
    (void)s;
    (void)now;
    for (size_t i = 0; i < n; i++)
        taken[n_taken++] = d[i];
    return n;
}

static int sink_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    (void)now;
    (void)err;
    for (size_t i = 0; i < n_taken; i++)
        sink_report(s, taken[i], SINK_DELIVERED, NULL);
    published += (int)n_taken;
    n_taken = 0;
    return 0;
}

static const struct sink_ops sink_ops = {.scheme = "fake",
                                         .size = sizeof(struct sink),
                                         .open = fake_sink_open,
                                         .submit = sink_submit,
                                         .flush = fake_sink_flush,
                                         .poll = sink_poll,
                                         .fds = fake_sink_fds,
                                         .close = fake_sink_close};

struct fixture {
    struct pipeline_config config;
    struct relay *relay;
    int64_t now_us;
    struct outrider_error why;
};

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){.config = fake_config(), .now_us = 1};
    f.config.source.connect_timeout_us = 10 * SECOND;
    settle_fails = fetch_fails = cleanup_fails = (struct outrider_error){.code = OUTRIDER_OK};
    is_settled = is_empty_first = fails_second = false;
    published = opens = cleanups = 0;
    n_taken = 0;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    outrider__relay_free(f->relay);
    return 0;
}

static void fails(struct outrider_error *what, enum outrider_code code,
                  enum outrider_disposition disposition)
{
    outrider__fail(what, code, disposition, "simulated");
}

/* Steps whenever there is something to do, until it ends or so much time has passed. */
static enum relay_state run_for(struct fixture *f, int64_t us)
{
    int64_t end_us = f->now_us + us, wake_us = 0;
    enum relay_state state = RELAY_RUNNING;
    if (f->relay == NULL) {
        struct relay_setup setup = {
            .config = &f->config, .source_ops = &source_ops, .sink_ops = &sink_ops};
        assert_int_equal(outrider__relay_new(&setup, &f->relay, &f->why), 0);
    }
    while (state == RELAY_RUNNING && f->now_us < end_us) {
        struct instant now = {.mono_us = f->now_us, .wall_us = f->now_us};
        state = outrider__relay_step(f->relay, now, &wake_us, &f->why);
        if (wake_us > f->now_us)
            f->now_us = wake_us < end_us ? wake_us : end_us;
    }
    return state;
}

static void a_settle_that_can_never_succeed_is_tried_once(void **state)
{
    struct fixture *f = *state;
    fails(&settle_fails, OUTRIDER_INVALID, OUTRIDER_STOP);
    assert_int_equal(run_for(f, 60 * SECOND), RELAY_FAILED);
    assert_int_equal(f->why.code, OUTRIDER_INVALID);
    assert_int_equal(published, EVENTS);
    assert_int_equal(opens, 1);
}

static void an_error_that_opening_again_does_not_mend_ends_it_at_the_second_time(void **state)
{
    static const enum outrider_code codes[] = {OUTRIDER_AUTH, OUTRIDER_NO_OUTBOX,
                                               OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_DB};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct fixture *f;
        (void)setup(state);
        f = *state;
        fails(&settle_fails, codes[i], OUTRIDER_RETRY);
        assert_int_equal(run_for(f, 60 * SECOND), RELAY_FAILED);
        assert_int_equal(f->why.code, codes[i]);
        assert_int_equal(published, 2 * EVENTS);
        (void)teardown(state);
        f->relay = NULL;
    }
}

static void so_does_a_read_that_fails_while_others_are_on_their_way(void **state)
{
    struct fixture *f = *state;
    fails(&fetch_fails, OUTRIDER_DB, OUTRIDER_RETRY);
    fails_second = true;
    assert_int_equal(run_for(f, 60 * SECOND), RELAY_FAILED);
    assert_int_equal(published, 2 * EVENTS);
}

/* New events are in the outbox. */
static void have_more(struct fixture *f)
{
    struct source *s = (struct source *)outrider__relay_source(f->relay);
    is_settled = false;
    if (s == NULL)
        return;
    ((struct fake_source *)s)->is_read = false;
    s->ready = true;
}

/* Until events were published so often. */
static void run_until_published(struct fixture *f, int times)
{
    while (published < times * EVENTS)
        assert_int_equal(run_for(f, 1000), RELAY_RUNNING);
}

static void one_that_was_mended_meanwhile_is_forgotten(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 5; i++) {
        fails(&settle_fails, OUTRIDER_AUTH, OUTRIDER_RETRY);
        run_until_published(f, 2 * i + 1);
        settle_fails.code = OUTRIDER_OK;
        while (!is_settled)
            assert_int_equal(run_for(f, 1000), RELAY_RUNNING);
        assert_int_equal(published, (2 * i + 2) * EVENTS);
        have_more(f);
    }
}

static void what_a_lock_keeps_from_being_settled_comes_again_at_growing_distances(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct fixture *f;
        (void)setup(state);
        f = *state;
        is_empty_first = i == 1; /* an empty read proves nothing */
        fails(&settle_fails, OUTRIDER_DB_LOCKED, OUTRIDER_RETRY);
        assert_int_equal(run_for(f, 300 * SECOND), RELAY_RUNNING);
        assert_in_range(published / EVENTS, 8, 30);
        int before = published;
        assert_int_equal(run_for(f, 300 * SECOND), RELAY_RUNNING);
        assert_in_range((published - before) / EVENTS, 8, 22);
        settle_fails.code = OUTRIDER_OK;
        assert_int_equal(run_for(f, 31 * SECOND), RELAY_RUNNING);
        assert_true(is_settled);
        (void)teardown(state);
        f->relay = NULL;
    }
}

static void after_one_settle_the_next_wait_is_short_again(void **state)
{
    struct fixture *f = *state;
    fails(&settle_fails, OUTRIDER_DB_LOCKED, OUTRIDER_RETRY);
    assert_int_equal(run_for(f, 300 * SECOND), RELAY_RUNNING);
    settle_fails.code = OUTRIDER_OK;
    assert_int_equal(run_for(f, 31 * SECOND), RELAY_RUNNING);
    assert_true(is_settled);
    fails(&settle_fails, OUTRIDER_DB_LOCKED, OUTRIDER_RETRY);
    have_more(f);
    int before = published;
    assert_int_equal(run_for(f, SECOND), RELAY_RUNNING);
    assert_true(published - before >= 3 * EVENTS);
}

static void once_ends_where_events_cannot_be_settled(void **state)
{
    struct fixture *f = *state;
    f->config.once = true;
    fails(&settle_fails, OUTRIDER_DB_LOCKED, OUTRIDER_RETRY);
    assert_int_equal(run_for(f, 60 * SECOND), RELAY_FAILED);
    assert_int_equal(f->why.code, OUTRIDER_DB_LOCKED);
    assert_true(f->now_us <= 20 * SECOND);
}

static void once_ends_where_events_cannot_be_read(void **state)
{
    struct fixture *f = *state;
    f->config.once = true;
    fails(&fetch_fails, OUTRIDER_DB, OUTRIDER_RETRY);
    assert_int_equal(run_for(f, 60 * SECOND), RELAY_FAILED);
    assert_int_equal(f->why.code, OUTRIDER_DB);
    assert_true(f->now_us <= 20 * SECOND);
    assert_int_equal(published, 0);
}

static void a_clean_up_that_fails_waits_for_its_next_time_and_delivery_goes_on(void **state)
{
    static const enum outrider_disposition all[] = {OUTRIDER_RETRY, OUTRIDER_STOP};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct fixture *f;
        (void)setup(state);
        f = *state;
        f->config.cleanup.retention_us = f->config.cleanup.every_us = 3600 * SECOND;
        fails(&cleanup_fails, OUTRIDER_INVALID, all[i]);
        assert_int_equal(run_for(f, 1800 * SECOND), RELAY_RUNNING);
        assert_true(is_settled);
        assert_int_equal(cleanups, 1);
        assert_int_equal(run_for(f, 3600 * SECOND), RELAY_RUNNING);
        assert_int_equal(cleanups, 2);
        assert_in_range(published, EVENTS, 2 * EVENTS);
        (void)teardown(state);
        f->relay = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_settle_that_can_never_succeed_is_tried_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            an_error_that_opening_again_does_not_mend_ends_it_at_the_second_time, setup, teardown),
        cmocka_unit_test_setup_teardown(so_does_a_read_that_fails_while_others_are_on_their_way,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_mended_meanwhile_is_forgotten, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            what_a_lock_keeps_from_being_settled_comes_again_at_growing_distances, setup, teardown),
        cmocka_unit_test_setup_teardown(after_one_settle_the_next_wait_is_short_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(once_ends_where_events_cannot_be_settled, setup, teardown),
        cmocka_unit_test_setup_teardown(once_ends_where_events_cannot_be_read, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_clean_up_that_fails_waits_for_its_next_time_and_delivery_goes_on, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
