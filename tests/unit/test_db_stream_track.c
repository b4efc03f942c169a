/* SPDX-License-Identifier: MIT */
/* The bookkeeping of a stream: common/stream_track.h, over positions that are numbers in text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/late_ids.h"
#include "common/seq_ranges.h"
#include "common/stream_track.h"

#define POSITION_MAX 24

/* As opaque as can be: decimal digits without leading zeros. */
struct place {
    char text[POSITION_MAX];
};

static struct place place_of(int64_t n)
{
    struct place p;
    (void)snprintf(p.text, sizeof p.text, "%lld", (long long)n);
    return p;
}

#define AT(n) bytes_str(place_of(n).text)

static int64_t number_of(struct bytes b)
{
    char text[POSITION_MAX + 1] = {0};
    assert_true(b.len <= POSITION_MAX);
    if (b.len > 0)
        memcpy(text, b.data, b.len);
    return b.len == 0 ? 0 : strtoll(text, NULL, 10);
}

static int compare(struct bytes a, struct bytes b)
{
    int64_t x = number_of(a), y = number_of(b);
    return x < y ? -1 : x > y;
}

static int64_t confirmable(const struct stream_track *t)
{
    return number_of(track_bytes(t->confirmable));
}

static int setup(void **state)
{
    static struct stream_track t;
    assert_int_equal(outrider__track_init(&t, compare, POSITION_MAX, NULL), 0);
    *state = &t;
    return 0;
}

static int teardown(void **state)
{
    outrider__track_release(*state);
    return 0;
}

static void take(struct stream_track *t, int n)
{
    for (int i = 0; i < n; i++) {
        track_hold(t);
        track_take(t);
    }
}

/* (5) */
static void a_commit_is_confirmed_when_its_events_are_settled(void **state)
{
    struct stream_track *t = *state;
    outrider__track_begin(t, AT(10));
    take(t, 2);
    track_hand_out(t);
    assert_false(track_is_all_settled(t));
    outrider__track_settle(t, 2);
    assert_int_equal(confirmable(t), 0); /* inside the transaction */
    track_hold(t);
    track_take(t);
    outrider__track_commit(t, AT(11));
    assert_int_equal(confirmable(t), 0);
    track_hand_out(t);
    outrider__track_settle(t, 1);
    assert_int_equal(confirmable(t), 11);
    assert_true(track_is_all_settled(t));
}

static void transactions_without_events_are_confirmed_at_once_unless_something_is_open(void **state)
{
    struct stream_track *t = *state;
    outrider__track_begin(t, AT(10));
    outrider__track_commit(t, AT(11));
    assert_int_equal(confirmable(t), 11);
    outrider__track_begin(t, AT(20));
    take(t, 1);
    outrider__track_commit(t, AT(21));
    outrider__track_begin(t, AT(30));
    outrider__track_commit(t, AT(31));
    outrider__track_heartbeat(t, AT(40));
    assert_int_equal(confirmable(t), 11);
    track_hand_out(t);
    outrider__track_settle(t, 1);
    assert_int_equal(confirmable(t), 40); /* (7) */
}

static void a_held_event_keeps_a_heartbeat_from_being_confirmed(void **state)
{
    struct stream_track *t = *state;
    outrider__track_begin(t, AT(10));
    track_hold(t);
    outrider__track_heartbeat(t, AT(12)); /* inside a transaction it says nothing */
    assert_int_equal(confirmable(t), 0);
    assert_false(outrider__track_has_passed(t, AT(9)));
    track_drop(t);
    outrider__track_commit(t, AT(11));
    assert_int_equal(confirmable(t), 11);
    assert_true(outrider__track_has_passed(t, AT(11)));
    assert_false(outrider__track_has_passed(t, AT(12)));
}

/* (2) */
static void what_was_settled_before_is_known_by_its_place(void **state)
{
    struct stream_track *t = *state;
    outrider__track_resume(t, AT(20), 2);
    outrider__track_begin(t, AT(9));
    assert_true(track_is_settled(t, 1) && track_is_settled(t, 99));
    outrider__track_commit(t, AT(11));
    outrider__track_begin(t, AT(20));
    assert_true(track_is_settled(t, 1) && track_is_settled(t, 2));
    assert_false(track_is_settled(t, 3));
    outrider__track_commit(t, AT(21));
    outrider__track_begin(t, AT(100)); /* behind 20 as a number, before it as text */
    assert_false(track_is_settled(t, 1));
    outrider__track_commit(t, AT(101));
}

/* (9) */
static void transactions_before_the_end_of_polling_are_told_apart(void **state)
{
    struct stream_track *t = *state;
    outrider__track_begin(t, AT(5));
    assert_false(track_is_before_polled_end(t));
    outrider__track_commit(t, AT(6));
    outrider__track_polled_until(t, AT(20));
    outrider__track_begin(t, AT(19));
    assert_true(track_is_before_polled_end(t));
    outrider__track_commit(t, AT(21));
    outrider__track_begin(t, AT(20));
    assert_false(track_is_before_polled_end(t));
}

/* (8) */
static void a_stream_stops_before_a_transaction_or_at_a_heartbeat(void **state)
{
    struct stream_track *t = *state;
    outrider__track_stop_at(t, AT(50));
    outrider__track_begin(t, AT(40));
    take(t, 1);
    outrider__track_commit(t, AT(41));
    assert_false(track_has_stopped(t));
    outrider__track_begin(t, AT(50));
    assert_true(track_has_stopped(t));
    assert_false(track_is_in_transaction(t));
    track_hand_out(t);
    outrider__track_settle(t, 1);
    assert_int_equal(confirmable(t), 41);
}

static void a_stop_that_was_passed_already_stops_at_once_but_not_inside_a_transaction(void **state)
{
    struct stream_track *t = *state;
    outrider__track_begin(t, AT(40));
    outrider__track_stop_at(t, AT(41));
    assert_false(track_has_stopped(t));
    outrider__track_commit(t, AT(41));
    assert_true(track_has_stopped(t));
    outrider__track_begin(t, AT(60));
    outrider__track_commit(t, AT(61));
    assert_int_equal(confirmable(t), 41);
}

static void a_stop_at_a_heartbeat(void **state)
{
    struct stream_track *t = *state;
    outrider__track_heartbeat(t, AT(30));
    outrider__track_stop_at(t, AT(31));
    assert_false(track_has_stopped(t));
    outrider__track_heartbeat(t, AT(31));
    assert_true(track_has_stopped(t));
}

/* (6) */
static void many_commits_take_few_entries_and_none_is_confirmed_early(void **state)
{
    struct stream_track *t = *state;
    for (int i = 1; i <= 1000; i++) {
        outrider__track_begin(t, AT(10 * i));
        take(t, 1);
        outrider__track_commit(t, AT(10 * i + 1));
        if (i % 10 == 0)
            track_hand_out(t);
    }
    assert_true(t->n_commits <= TRACK_COMMITS_MAX);
    for (int i = 10; i <= 1000; i += 10) {
        outrider__track_settle(t, 10);
        assert_true(confirmable(t) <= 10 * i + 1);
    }
    assert_int_equal(confirmable(t), 10001);
}

/*
 * A random history: transactions with events, some of them empty, heartbeats between them.
 * A relay reads it through a tracker, in batches of random size, settles them in order but
 * as late as it likes, and dies at any time. What it saved is the place of the last settled
 * event, and the server has what was confirmed. The next relay goes on from there.
 */
#define TRANSACTIONS 40
#define EVENTS_MAX 6
#define BATCHES_MAX 4

struct history {
    struct { /* by transaction */
        int64_t commit, end;
        int n_events;
        bool settled[EVENTS_MAX + 1]; /* by number, from 1 */
    } tx[TRANSACTIONS];
    int64_t saved_commit, saved_number; /* the place of the last settled event */
    int64_t server;                     /* confirmed there */
};

struct relay {
    struct stream_track t;
    int tx, number; /* what is read next; number 0: the transaction's begin */
    struct {        /* events that were taken and are not settled */
        int tx, number;
    } taken[TRANSACTIONS * EVENTS_MAX];
    size_t n_taken, n_batched;
    size_t batches[BATCHES_MAX], n_batches;
};

static void make_history(struct history *h)
{
    int64_t at = 1 + rand() % 100;
    *h = (struct history){0};
    for (int i = 0; i < TRANSACTIONS; i++) {
        h->tx[i].commit = at += 1 + rand() % 50;
        h->tx[i].end = at += 1 + rand() % 9;
        h->tx[i].n_events = rand() % 3 == 0 ? 0 : rand() % (EVENTS_MAX + 1);
    }
}

static void relay_start(struct relay *r, const struct history *h)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(outrider__track_init(&r->t, compare, POSITION_MAX, NULL), 0);
    if (h->saved_commit > 0)
        outrider__track_resume(&r->t, AT(h->saved_commit), h->saved_number);
    while (r->tx < TRANSACTIONS && h->tx[r->tx].end <= h->server)
        r->tx++; /* the server sends what is committed behind what was confirmed */
}

static void hand_out(struct relay *r)
{
    if (r->n_batches == BATCHES_MAX || r->n_taken == r->n_batched)
        return;
    r->batches[r->n_batches++] = r->n_taken - r->n_batched;
    r->n_batched = r->n_taken;
    track_hand_out(&r->t);
}

/* Reads the next message. */
static void read_on(struct relay *r, struct history *h)
{
    if (r->tx == TRANSACTIONS) {
        outrider__track_heartbeat(&r->t, AT(h->tx[TRANSACTIONS - 1].end + 7));
        return;
    }
    if (r->number == 0) {
        if (rand() % 4 == 0)
            outrider__track_heartbeat(&r->t, AT(h->tx[r->tx].commit - 1));
        outrider__track_begin(&r->t, AT(h->tx[r->tx].commit));
        r->number = 1;
    } else if (r->number > h->tx[r->tx].n_events) {
        outrider__track_commit(&r->t, AT(h->tx[r->tx].end));
        r->tx++;
        r->number = 0;
    } else {
        bool is_settled = track_is_settled(&r->t, r->number);
        assert_int_equal(is_settled, h->tx[r->tx].settled[r->number]);
        if (!is_settled) {
            track_hold(&r->t);
            assert_false(track_is_all_settled(&r->t));
            r->taken[r->n_taken].tx = r->tx;
            r->taken[r->n_taken++].number = r->number;
            track_take(&r->t);
        }
        r->number++;
    }
}

/* Settles the first batch, as a whole or (at an end) a part of it. */
static void settle(struct relay *r, struct history *h, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int tx = r->taken[i].tx, number = r->taken[i].number;
        assert_false(h->tx[tx].settled[number]);
        h->tx[tx].settled[number] = true;
        h->saved_commit = h->tx[tx].commit;
        h->saved_number = number;
    }
    memmove(r->taken, r->taken + n, (r->n_taken - n) * sizeof *r->taken);
    r->n_taken -= n;
    r->n_batched -= n;
    memmove(r->batches, r->batches + 1, (BATCHES_MAX - 1) * sizeof *r->batches);
    r->n_batches--;
    outrider__track_settle(&r->t, (int64_t)n);
}

static void check(struct relay *r, struct history *h)
{
    int64_t at = confirmable(&r->t);
    assert_true(at >= h->server || at == 0); /* (5): never back */
    for (int i = 0; i < TRANSACTIONS; i++) {
        /* Never inside a transaction: a server would leave it out as a whole. */
        assert_false(at >= h->tx[i].commit && at < h->tx[i].end);
        for (int k = 1; at >= h->tx[i].end && k <= h->tx[i].n_events; k++)
            assert_true(h->tx[i].settled[k]);
    }
    if (r->n_taken == 0 && r->number == 0)
        assert_true(at == number_of(track_bytes(r->t.received))); /* (7) */
    if (at > 0 && rand() % 3 == 0)
        h->server = at;
}

static bool is_over(const struct history *h)
{
    for (int i = 0; i < TRANSACTIONS; i++)
        for (int k = 1; k <= h->tx[i].n_events; k++)
            if (!h->tx[i].settled[k])
                return false;
    return true;
}

static void run_relay(struct history *h, int steps)
{
    static struct relay r;
    relay_start(&r, h);
    for (int i = 0; i < steps; i++) {
        int what = rand() % 10;
        if (what < 6)
            read_on(&r, h);
        else if (what < 8)
            hand_out(&r);
        else if (r.n_batches > 0)
            settle(&r, h, r.batches[0]);
        check(&r, h);
    }
    if (r.n_batches > 0 && rand() % 2 == 0) {
        settle(&r, h, (size_t)rand() % (r.batches[0] + 1));
        check(&r, h);
    }
    outrider__track_release(&r.t);
}

static void any_history_is_delivered_once_and_never_confirmed_early(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 1500; seed++) {
        static struct history h;
        srand(seed);
        make_history(&h);
        for (int run = 0; !is_over(&h); run++) {
            assert_in_range(run, 0, 1000);
            run_relay(&h, 1 + rand() % 300);
        }
        /* At the end a relay that reads everything finds nothing, and confirms all. */
        h.server = h.server > 0 ? h.server : 0;
        static struct relay r;
        relay_start(&r, &h);
        while (r.tx < TRANSACTIONS)
            read_on(&r, &h);
        assert_int_equal(r.n_taken, 0);
        read_on(&r, &h);
        assert_int_equal(confirmable(&r.t), h.tx[TRANSACTIONS - 1].end + 7);
        outrider__track_release(&r.t);
    }
}

static void late_ids_are_known_by_table_and_id(void **state)
{
    struct late_ids l = {0};
    (void)state;
    for (int i = 0; i < 3000; i++)
        assert_int_equal(outrider__late_ids_note(&l, i % 2, AT(i), 1000 * i), 0);
    outrider__late_ids_freeze(&l);
    assert_true(outrider__late_ids_has(&l, 1, AT(2999)));
    assert_false(outrider__late_ids_has(&l, 0, AT(2999)));
    assert_false(outrider__late_ids_has(&l, 0, AT(0))); /* forgotten: settled long before */
    for (int i = 2000; i < 3000; i++)
        assert_true(outrider__late_ids_has(&l, i % 2, AT(i))); /* the last second: (1) */
    outrider__late_ids_release(&l);
}

static void ranges_hold_their_ends_and_what_is_between(void **state)
{
    struct seq_range items[] = {{1, 1}, {5, 9}, {11, INT64_MAX}};
    struct seq_ranges r = {items, 3};
    static const struct {
        int64_t seq;
        bool is_held;
    } cases[] = {{0, false}, {1, true},   {2, false}, {4, false},       {5, true},
                 {9, true},  {10, false}, {11, true}, {INT64_MAX, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(outrider__seq_ranges_hold(&r, cases[i].seq), cases[i].is_held);
    assert_false(outrider__seq_ranges_hold(&(struct seq_ranges){0}, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_commit_is_confirmed_when_its_events_are_settled),
        TEST(transactions_without_events_are_confirmed_at_once_unless_something_is_open),
        TEST(a_held_event_keeps_a_heartbeat_from_being_confirmed),
        TEST(what_was_settled_before_is_known_by_its_place),
        TEST(transactions_before_the_end_of_polling_are_told_apart),
        TEST(a_stream_stops_before_a_transaction_or_at_a_heartbeat),
        TEST(a_stop_that_was_passed_already_stops_at_once_but_not_inside_a_transaction),
        TEST(a_stop_at_a_heartbeat),
        TEST(many_commits_take_few_entries_and_none_is_confirmed_early),
        cmocka_unit_test(any_history_is_delivered_once_and_never_confirmed_early),
        cmocka_unit_test(late_ids_are_known_by_table_and_id),
        cmocka_unit_test(ranges_hold_their_ends_and_what_is_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
