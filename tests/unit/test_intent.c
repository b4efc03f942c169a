/* SPDX-License-Identifier: MIT */
#include "core/intent.h"

#include "core/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define N 9

static struct batch batch;

static int set_up(void **state)
{
    (void)state;
    static const enum outcome outcomes[N] = {
        OUTCOME_DELIVERED, OUTCOME_DELIVERED, OUTCOME_PARKED,  OUTCOME_QUEUED,   OUTCOME_SKIPPED,
        OUTCOME_DELIVERED, OUTCOME_DEAD,      OUTCOME_EXPIRED, OUTCOME_DELIVERED};
    assert_int_equal(outrider__batch_init(&batch, N, 1 << 20, NULL), 0);
    for (int i = 0; i < N; i++) {
        struct event *e = outrider__batch_slot(&batch);
        e->seq = 100 + i;
        e->arrival = -i;
        e->id = BYTES_LIT("some-id");
        e->aggregate_type = BYTES_LIT("order");
        e->aggregate_id = i == 3 ? BYTES_LIT("") : BYTES_LIT("42");
        e->event_type = BYTES_LIT("Made");
        e->payload = i == 6 ? BYTES_NULL : BYTES_LIT("\0\1\xff payload");
        e->outcome = outcomes[i];
        e->is_oversize = i == 3;
        e->attempts = (uint32_t)i;
        e->next_attempt_us = i == 2 ? 4711 : 0;
        e->occurred_at_us = -5;
        if (i == 2 || i == 6) {
            e->failure = outrider__arena_alloc(&batch.arena, sizeof *e->failure);
            assert_non_null(e->failure);
            outrider__fail(e->failure, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD, "no");
            outrider__error_origin(e->failure, "E1");
        }
        batch.n++;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    outrider__batch_release(&batch);
    return 0;
}

static void write_it(unsigned flags, struct strbuf *out)
{
    outrider__strbuf_init(out, 1 << 20);
    assert_int_equal(outrider__intent_write(&batch, flags, BYTES_LIT("own bytes"), out, NULL), 0);
}

static void assert_same(struct bytes a, struct bytes b)
{
    assert_int_equal(bytes_is_null(a), bytes_is_null(b));
    assert_true(bytes_eq(a, b));
}

static void what_is_read_has_the_outcomes_that_were_written(void **state)
{
    (void)state;
    static const unsigned flags[] = {0, INTENT_EACH, INTENT_VALUES, INTENT_EACH | INTENT_VALUES};
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
        struct strbuf out;
        struct batch back;
        struct bytes own;
        write_it(flags[f], &out);
        assert_int_equal(outrider__intent_read(strbuf_bytes(&out), &back, &own, NULL), 0);
        assert_true(bytes_eq_str(own, "own bytes"));
        assert_int_equal(back.n, N);
        assert_int_equal(back.n_settle, N);
        for (int i = 0; i < N; i++) {
            const struct event *a = &batch.events[i], *b = &back.events[i];
            bool is_kept = i == 2 || i == 3 || i == 6;
            assert_int_equal(a->outcome, b->outcome);
            if (!is_kept && i != N - 1 && (flags[f] & INTENT_EACH) == 0)
                continue;
            assert_int_equal(a->seq, b->seq);
            assert_int_equal(a->arrival, b->arrival);
            assert_int_equal(a->attempts, b->attempts);
            /* Or it died of that, which is all that an older version noted. */
            assert_int_equal(a->is_oversize || a->failure != NULL, b->is_oversize);
            assert_same(a->id, b->id);
            assert_same(a->aggregate_id, b->aggregate_id);
            assert_same(a->partition_key, b->partition_key);
            if (is_kept && (flags[f] & INTENT_VALUES) != 0)
                assert_same(a->payload, b->payload);
        }
        assert_int_equal(back.events[2].next_attempt_us, 4711);
        assert_int_equal(back.events[6].failure->code, OUTRIDER_TOO_LARGE);
        assert_string_equal(back.events[6].failure->message, "no");
        assert_string_equal(back.events[6].failure->origin, "E1");
        outrider__batch_release(&back);
        outrider__strbuf_release(&out);
    }
}

static void events_that_are_over_take_no_room(void **state)
{
    (void)state;
    struct strbuf brief, each;
    write_it(0, &brief);
    write_it(INTENT_EACH, &each);
    assert_true(brief.len < each.len / 2 + 200);
    outrider__strbuf_release(&brief);
    outrider__strbuf_release(&each);
}

/* One event that is over, one that was parked, and a dead one. */
static void give_answers(void)
{
    outrider__answer_keep(&batch.events[1], &(struct answer){.status = 204});
    outrider__answer_keep(&batch.events[2],
                          &(struct answer){.status = 503, .body = BYTES_LIT("\0later")});
    outrider__answer_keep(&batch.events[6],
                          &(struct answer){.status = -1, .body = BYTES_LIT(""), .is_cut = true});
}

static void answers_come_back_with_their_events(void **state)
{
    (void)state;
    struct strbuf out;
    struct batch back;
    struct bytes own;
    give_answers();
    write_it(0, &out);
    assert_memory_equal(out.data, "OI2", 3);
    assert_int_equal(outrider__intent_read(strbuf_bytes(&out), &back, &own, NULL), 0);
    for (int i = 0; i < N; i++) {
        const struct answer *a = batch.events[i].answer, *b = back.events[i].answer;
        assert_int_equal(a == NULL, b == NULL);
        if (a == NULL)
            continue;
        assert_int_equal(a->status, b->status);
        assert_int_equal(a->is_cut, b->is_cut);
        assert_same(a->body, b->body);
        assert_int_equal(back.events[i].outcome, batch.events[i].outcome);
    }
    outrider__batch_release(&back);
    outrider__strbuf_release(&out);
}

/* Relays of two versions may take turns: contract (3). */
static void without_answers_the_form_is_the_old_one(void **state)
{
    (void)state;
    struct strbuf out;
    struct batch back;
    struct bytes own;
    write_it(INTENT_VALUES, &out);
    assert_memory_equal(out.data, "OI1", 3);
    out.data[2] = '2'; /* a form with answers may have none */
    assert_int_equal(outrider__intent_read(strbuf_bytes(&out), &back, &own, NULL), 0);
    outrider__batch_release(&back);
    out.data[2] = '3';
    assert_int_equal(outrider__intent_read(strbuf_bytes(&out), &back, &own, NULL), -1);
    outrider__strbuf_release(&out);
}

static void an_answer_that_is_too_long_is_refused(void **state)
{
    (void)state;
    static char text[ANSWER_MAX + 1];
    struct answer longer = {.body = bytes_of(text, sizeof text)};
    struct strbuf out;
    struct batch back;
    struct bytes own;
    batch.events[0].answer = &longer;
    write_it(0, &out);
    assert_int_equal(outrider__intent_read(strbuf_bytes(&out), &back, &own, NULL), -1);
    outrider__strbuf_release(&out);
}

static void whatever_is_cut_off_is_refused(void **state)
{
    (void)state;
    struct strbuf out;
    give_answers();
    write_it(INTENT_VALUES, &out);
    for (size_t n = 0; n < out.len; n++) {
        struct outrider_error err = {0};
        struct batch back;
        struct bytes own;
        assert_int_equal(outrider__intent_read(bytes_of(out.data, n), &back, &own, &err), -1);
        assert_int_equal(err.disposition, OUTRIDER_STOP);
    }
    outrider__strbuf_release(&out);
}

static void whatever_is_changed_is_refused_or_read_as_far_as_it_makes_sense(void **state)
{
    (void)state;
    struct strbuf out;
    give_answers();
    write_it(INTENT_VALUES, &out);
    for (size_t i = 0; i < out.len; i++) {
        for (int change = 1; change < 256; change *= 3) {
            struct batch back;
            struct bytes own;
            char was = out.data[i];
            out.data[i] = (char)(was ^ change);
            if (outrider__intent_read(strbuf_bytes(&out), &back, &own, NULL) == 0) {
                for (size_t k = 0; k < back.n; k++)
                    assert_true((unsigned)back.events[k].outcome < OUTCOME_COUNT);
                outrider__batch_release(&back);
            }
            out.data[i] = was;
        }
    }
    outrider__strbuf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_read_has_the_outcomes_that_were_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(events_that_are_over_take_no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_come_back_with_their_events, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_answers_the_form_is_the_old_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_that_is_too_long_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whatever_is_cut_off_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            whatever_is_changed_is_refused_or_read_as_far_as_it_makes_sense, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
