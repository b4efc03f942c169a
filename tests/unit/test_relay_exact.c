/* SPDX-License-Identifier: MIT */
/* Exactly once, when what is read joins a transaction: against a source that has as many
 * events as it is told, a sink that commits when it is told, and a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "core/intent.h"
#include "support/fake_ends.h"

#define REST 2000

static int available, fetches;    /* the source's */
static size_t n_taken, n_sent;    /* the sink's: of this transaction, and of the last */
static bool is_asked, may_commit; /* to commit */
static struct delivery *taken[FAKE_BATCH * EXACT_BATCH];
static struct commit_mark sealed;

struct fake_source {
    struct source base;
    struct source_op *first;
};

static int source_open(struct source *s, const struct pipeline_config *config, struct instant now,
                       struct outrider_error *err)
{
    s->ready = true;
    (void)snprintf(s->identity, sizeof s->identity, "fake");
    return fake_source_open(s, config, now, err);
}

static void fetch(struct batch *b)
{
    fetches++;
    for (; available > 0 && !batch_is_full(b); available--) {
        struct event *e = outrider__batch_slot(b);
        e->batch = b;
        e->id = e->aggregate_type = e->event_type = e->aggregate_id = BYTES_LIT("x");
        e->payload = BYTES_LIT("{}");
        b->n++;
    }
}

static int source_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    struct source_op **end = &((struct fake_source *)s)->first;
    (void)err;
    if (op->kind == SOURCE_FETCH)
        fetch(op->batch);
    while (*end != NULL)
        end = &(*end)->next;
    op->next = NULL;
    *end = op;
    return 0;
}

static int source_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct fake_source *me = (struct fake_source *)s;
    (void)now;
    (void)err;
    *ret_done = me->first;
    if (me->first != NULL)
        me->first = me->first->next;
    s->ready = available > 0;
    return 0;
}

static const struct source_ops source_ops = {.scheme = "fake",
                                             .size = sizeof(struct fake_source),
                                             .keeps_intents = true,
                                             .open = source_open,
                                             .start = source_start,
                                             .poll = source_poll,
                                             .fds = fake_source_fds,
                                             .close = fake_source_close};

static int sink_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                     struct outrider_error *err)
{
    s->rest_us = REST;
    return fake_sink_open(s, config, now, err);
}

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
    n_sent += n_taken;
    for (size_t i = 0; i < n_taken; i++)
        sink_report(s, taken[i], SINK_DELIVERED, NULL);
    n_taken = 0;
    if (is_asked && may_commit) {
        is_asked = s->is_busy = false;
        s->progress = sealed;
    }
    return 0;
}

static void sink_seal(struct sink *s, struct commit_mark progress, struct instant now)
{
    (void)s;
    (void)now;
    sealed = progress;
}

static void sink_commit(struct sink *s, struct instant now)
{
    (void)now;
    is_asked = s->is_busy = true;
}

static void sink_abort(struct sink *s, struct instant now)
{
    (void)s;
    (void)now;
    fail_msg("nothing failed");
}

static const struct sink_ops sink_ops = {.scheme = "fake",
                                         .size = sizeof(struct sink),
                                         .open = sink_open,
                                         .submit = sink_submit,
                                         .flush = fake_sink_flush,
                                         .poll = sink_poll,
                                         .fds = fake_sink_fds,
                                         .close = fake_sink_close,
                                         .seal = sink_seal,
                                         .commit = sink_commit,
                                         .abort = sink_abort};

static int setup(void **state)
{
    static struct pipeline_config config;
    struct outrider_error err;
    struct relay *r;
    config = fake_config();
    config.exactly_once = true;
    struct relay_setup setup = {
        .config = &config, .source_ops = &source_ops, .sink_ops = &sink_ops};
    available = fetches = 0;
    n_taken = n_sent = 0;
    is_asked = may_commit = false;
    assert_int_equal(outrider__relay_new(&setup, &r, &err), 0);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    outrider__relay_free(*state);
    return 0;
}

static int64_t step(struct relay *r, int64_t at_us)
{
    return fake_step(r, (struct instant){.mono_us = at_us});
}

/* The transaction that is under way is committed; events come to be read before it is. */
static int64_t commit_with(struct relay *r, int more, int64_t at_us)
{
    assert_true(is_asked);
    available = more;
    n_sent = 0;
    may_commit = true;
    int64_t wake_us = step(r, at_us);
    may_commit = false;
    return wake_us;
}

static void what_comes_while_a_small_one_is_under_way_joins_the_very_next(void **state)
{
    available = 1;
    (void)step(*state, 1);
    assert_int_equal(n_sent, 1);
    assert_true(is_asked);
    int before = fetches;
    available = 1;
    (void)step(*state, 1000);
    available++;
    (void)step(*state, 2000);
    assert_int_equal(fetches, before);
    (void)commit_with(*state, 3, 3000);
    (void)step(*state, 3000 + REST);
    assert_int_equal(n_sent, 3);
    assert_true(is_asked);
}

static void a_small_one_is_given_time_to_end(void **state)
{
    available = 1;
    (void)step(*state, 1);
    assert_int_equal(commit_with(*state, 1, 3000), 3000 + REST);
    (void)step(*state, 3000 + REST - 1);
    assert_int_equal(n_sent, 0);
    available = 2;
    (void)step(*state, 3000 + REST);
    assert_int_equal(n_sent, 2);
}

static void after_a_pause_nothing_waits(void **state)
{
    available = 1;
    (void)step(*state, 1);
    (void)commit_with(*state, 0, 3000);
    (void)step(*state, 3000 + REST);
    available = 1;
    (void)step(*state, 3000 + REST + 1);
    assert_int_equal(n_sent, 1);
}

static void while_a_large_one_is_under_way_the_next_is_read_and_goes_at_once(void **state)
{
    available = FAKE_BATCH;
    (void)step(*state, 1);
    assert_int_equal(n_sent, FAKE_BATCH);
    assert_true(is_asked);
    available = 3;
    (void)step(*state, 1000);
    assert_int_equal(available, 0);
    (void)commit_with(*state, 0, 3000);
    assert_int_equal(n_sent, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_comes_while_a_small_one_is_under_way_joins_the_very_next, setup, teardown),
        cmocka_unit_test_setup_teardown(a_small_one_is_given_time_to_end, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_pause_nothing_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(
            while_a_large_one_is_under_way_the_next_is_read_and_goes_at_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
