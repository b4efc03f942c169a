/* SPDX-License-Identifier: MIT */
/* The way of a receiver's answer, from the sink's report to SETTLE: sink.h (13), source.h (19). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "core/answer.h"
#include "support/fake_ends.h"

#define EVENTS 4

/* What the sink reports of event i, and what SETTLE was given of it. */
static struct {
    enum sink_result result;
    const struct answer *answer;
} plan[EVENTS];
static struct settled {
    enum outcome outcome;
    bool has_answer;
    int32_t status;
    bool is_cut;
    size_t len;
    char body[ANSWER_MAX];
} settled[EVENTS];
static size_t n_settled, n_letters;
static bool has_parked;               /* the source returns its events as parked rows */
static bool holds_settle, holds_sink; /* these do not come to an end */

struct fake_source {
    struct source base;
    struct source_op *first;
    bool is_read;
};

static int source_open(struct source *s, const struct pipeline_config *config, struct instant now,
                       struct outrider_error *err)
{
    int rc = fake_source_open(s, config, now, err);
    s->ready = !has_parked;
    s->parked_due_us = has_parked ? 0 : CLOCK_NEVER;
    return rc;
}

static int source_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    (void)err;
    op->next = NULL;
    ((struct fake_source *)s)->first = op;
    return 0;
}

static void fetch(struct batch *b)
{
    static const char *const keys[EVENTS] = {"a", "b", "c", "d"};
    for (int i = 0; i < EVENTS; i++) {
        struct event *e = outrider__batch_slot(b);
        e->seq = i + 1;
        e->is_parked = b->is_parked;
        e->id = e->aggregate_type = e->event_type = BYTES_LIT("x");
        e->aggregate_id = bytes_str(keys[i]);
        e->payload = BYTES_LIT("{}");
        b->n++;
    }
}

static void settle(const struct batch *b)
{
    for (size_t i = 0; i < b->n_settle; i++) {
        const struct event *e = &b->events[i];
        struct settled *s = &settled[n_settled++];
        *s = (struct settled){.outcome = e->outcome, .has_answer = e->answer != NULL};
        if (e->answer == NULL)
            continue;
        s->status = e->answer->status;
        s->is_cut = e->answer->is_cut;
        s->len = e->answer->body.len;
        if (s->len > 0)
            memcpy(s->body, e->answer->body.data, s->len);
    }
}

static int source_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct fake_source *me = (struct fake_source *)s;
    (void)now;
    (void)err;
    *ret_done = me->first;
    if (me->first == NULL)
        return 0;
    if (me->first->kind == SOURCE_SETTLE && holds_settle) {
        *ret_done = NULL;
        return 0;
    }
    if (me->first->kind == (has_parked ? SOURCE_FETCH_PARKED : SOURCE_FETCH) && !me->is_read)
        fetch(me->first->batch);
    s->parked_due_us = CLOCK_NEVER;
    if (me->first->kind == SOURCE_SETTLE)
        settle(me->first->batch);
    me->is_read = true;
    s->ready = false;
    me->first = NULL;
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

/* The answer is lent: it is overwritten as soon as reported() has returned. */
static void report(struct sink *s, struct delivery *d)
{
    struct outrider_error why;
    size_t i = (size_t)event_of(d)->seq - 1;
    bool is_letter = bytes_eq_str(d->topic, "dead");
    n_letters += is_letter;
    outrider__fail(&why, OUTRIDER_REJECTED, OUTRIDER_RETRY, "no");
    struct answer letters = {.status = 999, .body = BYTES_LIT("the dead letter's")};
    const struct answer *lent = is_letter ? &letters : plan[i].answer;
    struct sink_report told = {.result = is_letter ? SINK_DELIVERED : plan[i].result};
    told.why = told.result != SINK_DELIVERED ? &why : NULL;
    char body[2 * ANSWER_MAX];
    struct answer answer;
    if (lent != NULL) {
        assert_true(lent->body.len <= sizeof body);
        answer = *lent;
        if (answer.body.len > 0)
            memcpy(body, lent->body.data, lent->body.len);
        answer.body = bytes_is_null(lent->body) ? BYTES_NULL : bytes_of(body, lent->body.len);
        told.answer = &answer;
    }
    s->reported(s->reported_ctx, d, &told);
    memset(body, '?', sizeof body);
}

static int sink_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    size_t n = holds_sink ? 0 : n_taken;
    struct delivery *held[FAKE_BATCH];
    (void)now;
    (void)err;
    memcpy(held, taken, sizeof held);
    n_taken -= n;
    for (size_t i = 0; i < n; i++)
        report(s, held[i]);
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

static uint64_t told_outcomes[2][OUTCOME_COUNT];

static void on_counted(void *ctx, struct instant now, const struct batch_counts *counts)
{
    uint64_t *outcomes = ctx;
    (void)now;
    assert_int_equal(counts->n_kinds, 1);
    assert_true(bytes_eq_str(counts->kinds[0].event_type, "x"));
    for (int i = 0; i < OUTCOME_COUNT; i++)
        outcomes[i] += counts->kinds[0].outcomes[i];
}

static void run(struct pipeline_config config)
{
    struct relay_observer second = {.ctx = told_outcomes[1], .counted = on_counted};
    struct relay_observer first = {.next = &second, .ctx = told_outcomes[0], .counted = on_counted};
    struct relay *relay = NULL;
    struct outrider_error err = {0};
    struct relay_setup setup = {
        .config = &config, .source_ops = &source_ops, .sink_ops = &sink_ops, .observers = &first};
    memset(told_outcomes, 0, sizeof told_outcomes);
    n_settled = n_taken = n_letters = 0;
    assert_int_equal(outrider__relay_new(&setup, &relay, &err), 0);
    for (int64_t us = 1; us < 10 && n_settled < EVENTS; us++)
        (void)fake_step(relay, (struct instant){.mono_us = us, .wall_us = us});
    outrider__relay_free(relay);
    assert_int_equal(n_settled, EVENTS);
}

static void assert_answer(size_t i, enum outcome outcome, int32_t status, const char *body)
{
    assert_int_equal(settled[i].outcome, outcome);
    assert_true(settled[i].has_answer);
    assert_int_equal(settled[i].status, status);
    assert_int_equal(settled[i].len, strlen(body));
    assert_memory_equal(settled[i].body, body, strlen(body));
    assert_false(settled[i].is_cut);
}

static const struct answer ok = {.status = 200, .body = BYTES_LIT("taken")};
static const struct answer busy = {.status = 503, .body = BYTES_LIT("later")};
static const struct answer no = {.status = 422, .body = BYTES_LIT("no such account")};

static void an_answer_reaches_settle_with_each_outcome(void **state)
{
    (void)state;
    struct pipeline_config config = fake_config();
    config.retry.max_attempts = 2;
    plan[0].result = SINK_DELIVERED, plan[0].answer = &ok;
    plan[1].result = SINK_RETRY, plan[1].answer = &busy;
    plan[2].result = SINK_DEAD, plan[2].answer = &no;
    plan[3].result = SINK_DELIVERED, plan[3].answer = NULL;
    run(config);
    assert_answer(0, OUTCOME_DELIVERED, 200, "taken");
    assert_answer(1, OUTCOME_PARKED, 503, "later");
    assert_answer(2, OUTCOME_DEAD, 422, "no such account");
    assert_int_equal(settled[3].outcome, OUTCOME_DELIVERED);
    assert_false(settled[3].has_answer);
    for (int i = 0; i < 2; i++) { /* each observer is told the counts of the batch */
        assert_int_equal(told_outcomes[i][OUTCOME_DELIVERED], 2);
        assert_int_equal(told_outcomes[i][OUTCOME_PARKED], 1);
        assert_int_equal(told_outcomes[i][OUTCOME_DEAD], 1);
    }
}

static void the_answer_to_a_dead_letter_is_not_the_events(void **state)
{
    (void)state;
    struct pipeline_config config = fake_config();
    config.dead_letter.topic = "dead";
    for (size_t i = 0; i < EVENTS; i++)
        plan[i].result = SINK_DEAD, plan[i].answer = i % 2 == 0 ? &no : NULL;
    run(config);
    assert_int_equal(n_letters, EVENTS);
    assert_answer(0, OUTCOME_DEAD, 422, "no such account");
    assert_false(settled[1].has_answer);
}

static void a_long_answer_is_cut(void **state)
{
    (void)state;
    static char text[2 * ANSWER_MAX];
    memset(text, 'x', sizeof text);
    struct answer exact = {.status = 200, .body = bytes_of(text, ANSWER_MAX)};
    struct answer longer = {.status = 200, .body = bytes_of(text, ANSWER_MAX + 1)};
    struct answer empty = {.status = 204, .body = BYTES_NULL};
    plan[0].result = SINK_DELIVERED, plan[0].answer = &exact;
    plan[1].result = SINK_DELIVERED, plan[1].answer = &longer;
    plan[2].result = SINK_DELIVERED, plan[2].answer = &empty;
    plan[3].result = SINK_DELIVERED, plan[3].answer = &ok;
    run(fake_config());
    assert_int_equal(settled[0].len, ANSWER_MAX);
    assert_false(settled[0].is_cut);
    assert_int_equal(settled[1].len, ANSWER_MAX);
    assert_true(settled[1].is_cut);
    assert_int_equal(settled[2].status, 204);
    assert_int_equal(settled[2].len, 0);
    assert_false(settled[2].is_cut);
    assert_answer(3, OUTCOME_DELIVERED, 200, "taken");
}

/* shutdown_timeout has expired, and the batch is being settled as it was then. */
static void a_report_that_comes_too_late_changes_nothing(void **state)
{
    (void)state;
    struct pipeline_config config = fake_config();
    struct outrider_error err = {0};
    struct relay *relay = NULL;
    struct relay_setup setup = {
        .config = &config, .source_ops = &source_ops, .sink_ops = &sink_ops};
    struct instant now = {.mono_us = 1, .wall_us = 1};
    int64_t wake_us;
    config.shutdown_timeout_us = 1000;
    config.dead_letter.topic = "dead";
    has_parked = holds_settle = holds_sink = true;
    n_settled = n_taken = n_letters = 0;
    for (size_t i = 0; i < EVENTS; i++)
        plan[i].result = i == 0 ? SINK_DELIVERED : SINK_RETRY, plan[i].answer = &busy;
    assert_int_equal(outrider__relay_new(&setup, &relay, &err), 0);
    (void)fake_step(relay, now);
    assert_int_equal(n_taken, EVENTS);
    outrider__relay_stop(relay, now);
    now.mono_us += 2000;
    assert_int_equal(outrider__relay_step(relay, now, &wake_us, &err), RELAY_RUNNING);
    holds_sink = false;
    assert_int_equal(outrider__relay_step(relay, now, &wake_us, &err), RELAY_RUNNING);
    assert_int_equal(n_taken, 0);
    holds_settle = false;
    assert_int_equal(outrider__relay_step(relay, now, &wake_us, &err), RELAY_DONE);
    outrider__relay_free(relay);
    has_parked = false;
    assert_int_equal(n_settled, EVENTS);
    for (size_t i = 0; i < EVENTS; i++) {
        assert_int_equal(settled[i].outcome, OUTCOME_RELEASED);
        assert_false(settled[i].has_answer);
    }
}

/* answer.h (2): the bodies of a batch stay within the bytes of a batch. */
static void answers_without_room_keep_their_status(void **state)
{
    (void)state;
    static char text[ANSWER_MAX];
    struct batch b;
    struct answer large = {.status = 500, .body = bytes_of(text, sizeof text)};
    assert_int_equal(outrider__batch_init(&b, EVENTS, 2 * ANSWER_MAX, NULL), 0);
    for (b.n = 0; b.n < EVENTS; b.n++)
        assert_non_null(outrider__batch_slot(&b));
    for (int i = 0; i < EVENTS; i++) {
        struct event *e = &b.events[i];
        outrider__answer_keep(e, &large);
        assert_int_equal(e->answer->status, 500);
        assert_int_equal(e->answer->body.len, i < 2 ? ANSWER_MAX : 0);
        assert_int_equal(e->answer->is_cut, i >= 2);
    }
    outrider__batch_release(&b);
}

/* Exactly once an event is answered in every try of its transaction. */
static void answering_again_takes_no_more_memory(void **state)
{
    (void)state;
    struct batch b;
    assert_int_equal(outrider__batch_init(&b, 1, 1 << 20, NULL), 0);
    struct event *e = outrider__batch_slot(&b);
    b.n++;
    outrider__answer_keep(e, &no);
    size_t used = b.arena.used;
    for (int i = 0; i < 100; i++) {
        outrider__answer_keep(e, i % 2 == 0 ? &busy : &no);
        outrider__answer_keep(e, NULL);
        assert_null(e->answer);
    }
    outrider__answer_keep(e, &busy);
    assert_true(bytes_eq_str(e->answer->body, "later"));
    assert_int_equal(b.arena.used, used);
    outrider__batch_reset(&b);
    assert_int_equal(b.answer_bytes, 0);
    outrider__batch_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_reaches_settle_with_each_outcome),
        cmocka_unit_test(the_answer_to_a_dead_letter_is_not_the_events),
        cmocka_unit_test(a_long_answer_is_cut),
        cmocka_unit_test(a_report_that_comes_too_late_changes_nothing),
        cmocka_unit_test(answers_without_room_keep_their_status),
        cmocka_unit_test(answering_again_takes_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
