/* SPDX-License-Identifier: MIT */
/*
 * sink/common/order.h, with a broker and an engine that live in memory.
 *
 * The broker takes messages in batches, rejects a batch as a whole or a message alone,
 * answers lanes in any order, and disconnects. The engine submits the events of a lane in
 * their order and submits again what is not delivered. What the broker has taken is what
 * consumers see; the numbers in brackets are those of the contract.
 */
#include "sink/common/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LANES 5
#define PER_LANE 24
#define GROUPS 2
#define IN_FLIGHT_MAX 64

enum place { AT_ENGINE, AT_SINK, DONE, DEAD };

struct item {
    struct delivery d;
    enum place place;
    bool is_poison; /* the broker rejects every batch that holds it */
    unsigned n_reports, n_submits;
};

/* A message on the broker's side. */
struct flight {
    struct order_message *m;
    bool is_careful; /* went over the connection for careful groups */
};

struct world {
    uint64_t random;
    struct sink sink;
    struct order order;
    struct order_group groups[GROUPS];
    char keys[LANES][8];
    struct item items[LANES][PER_LANE];
    int visible[LANES]; /* the last event that consumers saw for the first time */
    struct flight flights[IN_FLIGHT_MAX];
    size_t n_flights, most_in_lane;
    bool is_gapless; /* nothing of the fast connection is taken behind a rejection */
    bool trusted[LANES];
    bool is_dead; /* the fast connection: all of it returns unsent */
    bool is_full; /* the client has no room */
    bool pauses, refuses, disconnects;
    bool may_report;
    size_t n_reported;
    const struct answer *answer; /* of the last report */
};

static unsigned chance(struct world *w, unsigned n)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (unsigned)(w->random >> 33) % n;
}

static struct item *item_of(const struct delivery *d)
{
    return (struct item *)((char *)d - offsetof(struct item, d));
}

static unsigned lane_of(const struct world *w, const struct delivery *d)
{
    return (unsigned)((item_of(d) - &w->items[0][0]) / PER_LANE);
}

static int number_of(const struct world *w, const struct delivery *d)
{
    return (int)((item_of(d) - &w->items[0][0]) % PER_LANE);
}

static void on_reported(void *ctx, struct delivery *d, const struct sink_report *report)
{
    struct world *w = ctx;
    enum sink_result result = report->result;
    struct item *i = item_of(d);
    assert_true(w->may_report); /* (3) */
    assert_int_equal(i->place, AT_SINK);
    assert_int_equal(++i->n_reports, i->n_submits); /* (5) */
    assert_true((report->why == NULL) == (result == SINK_DELIVERED));
    w->n_reported++;
    w->answer = report->answer;
    if (result == SINK_DEAD) {
        assert_true(i->is_poison); /* (7): nobody is blamed for another one's fault */
        i->place = DEAD;
    } else if (result == SINK_DELIVERED) {
        i->place = DONE;
    } else {
        i->place = AT_ENGINE;
    }
}

static size_t count_in_flight(const struct world *w, unsigned lane)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_flights; i++)
        n += lane_of(w, w->flights[i].m->d) == lane;
    return n;
}

static enum order_send broker_send(void *ctx, struct order_message *m,
                                   struct order_verdict *ret_verdict)
{
    struct world *w = ctx;
    unsigned lane = lane_of(w, m->d);
    for (size_t i = 0; i < w->n_flights; i++) /* (5) */
        if (lane_of(w, w->flights[i].m->d) == lane)
            assert_true(number_of(w, w->flights[i].m->d) < number_of(w, m->d));
    if (w->n_flights == IN_FLIGHT_MAX || (w->is_full && chance(w, 2) == 0) ||
        (w->is_dead && !m->group->is_careful))
        return ORDER_NOT_NOW;
    if (w->pauses && chance(w, 10) == 0)
        return ORDER_PAUSED;
    if (w->refuses && chance(w, 20) == 0) {
        *ret_verdict = (struct order_verdict){.result = SINK_RETRY};
        outrider__fail(&ret_verdict->why, OUTRIDER_REJECTED, OUTRIDER_RETRY, "not this one");
        return ORDER_REFUSED;
    }
    w->flights[w->n_flights++] = (struct flight){m, m->group->is_careful};
    size_t n = count_in_flight(w, lane);
    w->most_in_lane = n > w->most_in_lane ? n : w->most_in_lane;
    return ORDER_SENT;
}

static bool broker_may_follow(void *ctx, const struct order_lane *l)
{
    struct world *w = ctx;
    if (!w->is_gapless)
        return false;
    for (size_t i = 0; i < w->n_flights; i++)
        if (w->flights[i].m->lane == l)
            return w->trusted[lane_of(w, w->flights[i].m->d)];
    return false;
}

static const struct order_ops ops = {.send = broker_send, .may_follow = broker_may_follow};

static void start(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->random = seed * 0x9e3779b97f4a7c15ULL + 1;
    w->is_gapless = true;
    w->sink.reported = on_reported;
    w->sink.reported_ctx = w;
    outrider__order_init(&w->order, &w->sink, &ops, w, true);
    for (unsigned g = 0; g < GROUPS; g++) {
        w->groups[g].hash = g + 1;
        outrider__order_group_add(&w->order, &w->groups[g]);
    }
    for (unsigned l = 0; l < LANES; l++) {
        (void)snprintf(w->keys[l], sizeof w->keys[l], "k%u", l);
        w->visible[l] = -1;
        for (unsigned i = 0; i < PER_LANE; i++)
            w->items[l][i].d = (struct delivery){.key = bytes_str(w->keys[l]), .partition = -1};
    }
}

static void finish(struct world *w)
{
    outrider__order_release(&w->order);
}

static struct order_group *group_of(struct world *w, unsigned lane)
{
    return &w->groups[lane % GROUPS];
}

/* The engine: the first event of the lane that it has, if none behind that one is out. */
static bool submit_next(struct world *w, unsigned lane)
{
    for (unsigned i = 0; i < PER_LANE; i++) {
        struct item *it = &w->items[lane][i];
        if (it->place != AT_ENGINE)
            continue;
        it->place = AT_SINK;
        it->n_submits++;
        assert_int_equal(outrider__order_submit(&w->order, group_of(w, lane), &it->d), 0);
        return true;
    }
    return false;
}

/* Whether the engine may submit: what is at the sink of this lane comes before. */
static bool can_submit(const struct world *w, unsigned lane)
{
    bool has_first = false;
    for (unsigned i = 0; i < PER_LANE; i++) {
        enum place p = w->items[lane][i].place;
        if (has_first && p == AT_SINK)
            return false;
        has_first |= p == AT_ENGINE;
    }
    return has_first;
}

/* Consumers see the event. The first deliveries of a lane come in order. */
static void accept_at(struct world *w, const struct delivery *d)
{
    unsigned lane = lane_of(w, d);
    int n = number_of(w, d);
    if (n <= w->visible[lane])
        return; /* a duplicate, after a lost answer */
    for (int i = w->visible[lane] + 1; i < n; i++)
        if (w->items[lane][i].place != DEAD)
            fail_msg("event %d of lane %u overtakes event %d", n, lane, i);
    w->visible[lane] = n;
}

static struct order_message *take_flight(struct world *w, size_t at)
{
    struct order_message *m = w->flights[at].m;
    w->n_flights--;
    memmove(&w->flights[at], &w->flights[at + 1], (w->n_flights - at) * sizeof *w->flights);
    return m;
}

static void answer(struct world *w, struct order_message *m, enum sink_result result,
                   enum order_blame blame)
{
    struct order_verdict v = {.result = result, .blame = blame};
    unsigned lane = lane_of(w, m->d);
    outrider__fail(&v.why, OUTRIDER_REJECTED, OUTRIDER_RETRY, "as the broker says");
    w->may_report = true;
    if (result == SINK_DELIVERED)
        w->trusted[lane] = true;
    (void)outrider__order_returned(&w->order, m, result == SINK_DELIVERED ? NULL : &v);
    w->may_report = false;
}

/* The fast connection ends: what it holds was not taken, and nobody trusts a lane. */
static void kill_fast(struct world *w, enum sink_result result)
{
    w->is_dead = true;
    memset(w->trusted, 0, sizeof w->trusted);
    for (size_t i = 0; i < w->n_flights;) {
        if (w->flights[i].is_careful)
            i++;
        else
            answer(w, take_flight(w, i), result, ORDER_BLAME_MESSAGE);
    }
    memset(w->trusted, 0, sizeof w->trusted);
    w->is_dead = false;
}

/* The messages of one group and one connection that come first, up to n of them. */
static size_t gather(struct world *w, size_t n, struct order_message **ret_batch,
                     bool *ret_is_careful)
{
    size_t first = chance(w, (unsigned)w->n_flights), n_batch = 0;
    const struct order_group *g = w->flights[first].m->group;
    bool is_careful = w->flights[first].is_careful;
    for (size_t i = 0; i < w->n_flights && n_batch < n; i++)
        if (w->flights[i].m->group == g && w->flights[i].is_careful == is_careful)
            ret_batch[n_batch++] = w->flights[i].m;
    *ret_is_careful = is_careful;
    return n_batch;
}

static void drop_flight(struct world *w, const struct order_message *m)
{
    for (size_t i = 0; i < w->n_flights; i++) {
        if (w->flights[i].m == m) {
            (void)take_flight(w, i);
            return;
        }
    }
    fail();
}

/* The broker takes or rejects a batch, and answers. */
static void broker_step(struct world *w)
{
    struct order_message *batch[IN_FLIGHT_MAX];
    bool is_poisoned = false, is_careful;
    if (w->n_flights == 0)
        return;
    size_t n = gather(w, w->is_gapless ? 1 + chance(w, 6) : 1, batch, &is_careful);
    for (size_t i = 0; i < n; i++)
        is_poisoned |= item_of(batch[i]->d)->is_poison;
    for (size_t i = 0; i < n; i++) {
        if (!is_poisoned)
            accept_at(w, batch[i]->d);
        drop_flight(w, batch[i]);
    }
    enum order_blame blame = w->is_gapless ? ORDER_BLAME_BATCH : ORDER_BLAME_MESSAGE;
    bool ends = is_poisoned && w->is_gapless && !is_careful;
    w->is_dead = ends;
    for (size_t i = 0; i < n; i++)
        answer(w, batch[i], is_poisoned ? SINK_DEAD : SINK_DELIVERED, blame);
    if (ends)
        kill_fast(w, SINK_UNTRIED);
}

static void advance(struct world *w)
{
    w->order.now_us += 1000;
    w->may_report = true;
    outrider__order_advance(&w->order);
    w->may_report = false;
}

static void resume_all(struct world *w)
{
    for (unsigned g = 0; g < GROUPS; g++)
        if (w->groups[g].is_paused)
            outrider__order_resume(&w->order, &w->groups[g]);
}

static void step(struct world *w)
{
    unsigned lane = chance(w, LANES), what = chance(w, 100);
    if (what < 50) {
        if (can_submit(w, lane))
            (void)submit_next(w, lane);
    } else if (what < 80) {
        broker_step(w);
    } else if (what < 90) {
        advance(w);
    } else if (what < 94) {
        resume_all(w);
    } else if (what < 96 && w->disconnects) {
        kill_fast(w, SINK_DOWN);
    } else if (what < 97 && w->disconnects) {
        outrider__order_give_back(&w->order);
    } else if (what < 98 && w->pauses) {
        struct outrider_error why;
        outrider__fail(&why, OUTRIDER_NOT_FOUND, OUTRIDER_RETRY, "no such topic");
        for (unsigned g = 0; g < GROUPS; g++)
            if (w->groups[g].is_paused)
                outrider__order_refuse_waiting(&w->order, &w->groups[g], SINK_RETRY, &why);
    } else if (what == 98) {
        w->order.now_us += ORDER_CALM_US;
    }
}

/* No more trouble: all that is left goes through. */
static void run_out(struct world *w)
{
    w->pauses = w->refuses = w->disconnects = w->is_full = false;
    for (unsigned round = 0; round < 100000; round++) {
        bool has_any = w->order.n_messages > 0;
        for (unsigned l = 0; l < LANES; l++)
            if (can_submit(w, l))
                has_any |= submit_next(w, l);
        if (!has_any)
            return;
        broker_step(w);
        resume_all(w);
        advance(w);
    }
    fail_msg("something never comes back");
}

static void check_all(const struct world *w)
{
    assert_int_equal(w->n_flights, 0);
    assert_int_equal(w->order.n_bytes, 0);
    for (unsigned l = 0; l < LANES; l++) {
        for (unsigned i = 0; i < PER_LANE; i++) {
            const struct item *it = &w->items[l][i];
            assert_int_equal(it->place, it->is_poison ? DEAD : DONE);
            assert_int_equal(it->n_reports, it->n_submits);
        }
    }
    for (unsigned g = 0; g < GROUPS; g++) {
        assert_int_equal(w->groups[g].n, 0);
        assert_int_equal(w->groups[g].n_out, 0);
    }
}

static void run_history(uint64_t seed)
{
    struct world *w = malloc(sizeof *w);
    assert_non_null(w);
    start(w, seed);
    w->is_gapless = seed % 4 != 0;
    w->is_full = chance(w, 3) == 0;
    w->pauses = chance(w, 3) == 0;
    w->refuses = chance(w, 3) == 0;
    w->disconnects = chance(w, 3) == 0;
    unsigned poison = chance(w, 3) == 0 ? 0 : 1 + chance(w, 5);
    for (unsigned i = 0; i < poison; i++)
        w->items[chance(w, LANES)][chance(w, PER_LANE)].is_poison = true;
    unsigned n_steps = 50 + chance(w, 1500);
    for (unsigned i = 0; i < n_steps; i++)
        step(w);
    if (seed % 10 != 9) { /* else close in the middle: (8) */
        run_out(w);
        check_all(w);
    }
    finish(w);
    free(w);
}

static void random_histories_keep_every_lane_in_order_and_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        run_history(seed);
    }
}

static void a_trusted_lane_has_many_messages_in_flight(void **state)
{
    struct world *w = malloc(sizeof *w);
    (void)state;
    assert_non_null(w);
    start(w, 1);
    (void)submit_next(w, 0);
    (void)submit_next(w, 0);
    assert_int_equal(w->n_flights, 1);
    accept_at(w, w->flights[0].m->d);
    answer(w, take_flight(w, 0), SINK_DELIVERED, ORDER_BLAME_MESSAGE);
    while (submit_next(w, 0))
        continue;
    assert_int_equal(w->most_in_lane, PER_LANE - 1);
    run_out(w);
    check_all(w);
    finish(w);
    free(w);
}

static void without_a_broker_that_stops_behind_a_rejection_a_lane_has_one_in_flight(void **state)
{
    struct world *w = malloc(sizeof *w);
    (void)state;
    assert_non_null(w);
    start(w, 1);
    w->is_gapless = false;
    for (unsigned l = 0; l < LANES; l++)
        while (submit_next(w, l))
            continue;
    assert_int_equal(w->n_flights, LANES);
    run_out(w);
    assert_int_equal(w->most_in_lane, 1);
    check_all(w);
    finish(w);
    free(w);
}

static void the_culprit_of_a_rejected_batch_is_found_and_nobody_else_is_blamed(void **state)
{
    struct world *w = malloc(sizeof *w);
    (void)state;
    assert_non_null(w);
    start(w, 7);
    w->items[2][PER_LANE / 2].is_poison = true;
    for (unsigned l = 0; l < LANES; l++)
        while (submit_next(w, l))
            continue;
    run_out(w);
    check_all(w);
    assert_true(group_of(w, 2)->is_careful);
    /* A minute later the group is as fast as ever: (7). */
    w->order.now_us += ORDER_CALM_US;
    w->items[2][0].place = AT_ENGINE;
    (void)submit_next(w, 2);
    assert_false(group_of(w, 2)->is_careful);
    run_out(w);
    finish(w);
    free(w);
}

/* With one queue for all that cannot go at once, the third message would pass the second. */
static void
a_lane_that_holds_messages_stays_behind_them_when_its_group_becomes_careful(void **state)
{
    struct world *w = malloc(sizeof *w);
    struct order_verdict rejected = {.result = SINK_DEAD, .blame = ORDER_BLAME_BATCH};
    (void)state;
    assert_non_null(w);
    start(w, 3);
    outrider__fail(&rejected.why, OUTRIDER_REJECTED, OUTRIDER_DEAD, "the batch");
    (void)submit_next(w, 0); /* in flight */
    (void)submit_next(w, 0); /* held: the lane is not trusted */
    (void)submit_next(w, 2); /* in flight, of the same group */
    w->may_report = true;
    (void)outrider__order_returned(&w->order, take_flight(w, 1), &rejected);
    w->may_report = false;
    assert_true(group_of(w, 0)->is_careful);
    (void)submit_next(w, 0); /* must not pass the one that is held */
    run_out(w);
    check_all(w);
    finish(w);
    free(w);
}

static void an_answer_comes_with_a_decision_and_with_nothing_else(void **state)
{
    struct world *w = malloc(sizeof *w);
    const struct answer answer = {.status = 200};
    struct order_verdict v = {.result = SINK_DELIVERED, .answer = &answer};
    (void)state;
    assert_non_null(w);
    start(w, 1);
    w->is_gapless = false;
    outrider__fail(&v.why, OUTRIDER_REJECTED, OUTRIDER_RETRY, "as the broker says");
    w->may_report = true;
    (void)submit_next(w, 0);
    (void)outrider__order_returned(&w->order, take_flight(w, 0), &v);
    assert_ptr_equal(w->answer, &answer);
    v.result = SINK_DOWN;
    (void)submit_next(w, 0);
    (void)outrider__order_returned(&w->order, take_flight(w, 0), &v);
    assert_null(w->answer);
    v.result = SINK_RETRY;
    (void)submit_next(w, 0);
    (void)outrider__order_returned(&w->order, take_flight(w, 0), &v);
    assert_ptr_equal(w->answer, &answer);
    finish(w);
    free(w);
}

static void a_message_without_key_and_partition_is_in_no_lane(void **state)
{
    struct world *w = malloc(sizeof *w);
    (void)state;
    assert_non_null(w);
    start(w, 1);
    w->is_gapless = false;
    for (unsigned i = 0; i < PER_LANE; i++)
        w->items[0][i].d.key = (struct bytes){0};
    while (submit_next(w, 0))
        continue;
    assert_int_equal(w->n_flights, PER_LANE);
    for (unsigned i = PER_LANE; i-- > 0;)
        answer(w, take_flight(w, i), SINK_DELIVERED, ORDER_BLAME_MESSAGE);
    run_out(w);
    check_all(w);
    finish(w);
    free(w);
}

static void a_transaction_is_tried_one_by_one_until_the_culprit_is_found(void **state)
{
    struct world *w = malloc(sizeof *w);
    (void)state;
    assert_non_null(w);
    start(w, 1);
    w->order.is_atomic = true;
    group_of(w, 0)->is_careful = true;
    group_of(w, 0)->window = 1;
    group_of(w, 0)->calm_us = INT64_MAX;
    for (unsigned i = 0; i < 3; i++)
        (void)submit_next(w, 0);
    w->items[0][2].is_poison = true;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(w->n_flights, 1);
        answer(w, take_flight(w, 0), SINK_DELIVERED, ORDER_BLAME_MESSAGE);
        assert_int_equal(group_of(w, 0)->window, 1);
    }
    answer(w, take_flight(w, 0), SINK_DEAD, ORDER_BLAME_BATCH);
    assert_int_equal(w->items[0][2].place, DEAD);
    assert_false(group_of(w, 0)->is_careful);
    finish(w);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trusted_lane_has_many_messages_in_flight),
        cmocka_unit_test(without_a_broker_that_stops_behind_a_rejection_a_lane_has_one_in_flight),
        cmocka_unit_test(the_culprit_of_a_rejected_batch_is_found_and_nobody_else_is_blamed),
        cmocka_unit_test(
            a_lane_that_holds_messages_stays_behind_them_when_its_group_becomes_careful),
        cmocka_unit_test(an_answer_comes_with_a_decision_and_with_nothing_else),
        cmocka_unit_test(a_message_without_key_and_partition_is_in_no_lane),
        cmocka_unit_test(a_transaction_is_tried_one_by_one_until_the_culprit_is_found),
        cmocka_unit_test(random_histories_keep_every_lane_in_order_and_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
