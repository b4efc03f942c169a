/* SPDX-License-Identifier: MIT */
/* What becomes of a pipeline's row of intents: common/intent_state.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/intent_state.h"

static struct pipeline_config config = {.name = "shop"};
static const struct cursor_place place = {&config, "shop.db", NULL};

/* (1) */
static void with_exactly_once_the_row_is_taken(void **state)
{
    struct intent_found found = {.has_row = true, .is_open = true};
    enum intent_start start;
    struct source s = {0};
    (void)state;
    config.exactly_once = true;
    assert_int_equal(outrider__intent_start(&place, &found, &start, NULL), 0);
    assert_int_equal(start, INTENT_START_TAKE);
    found = (struct intent_found){0};
    assert_int_equal(outrider__intent_start(&place, &found, &start, NULL), 0);
    assert_int_equal(start, INTENT_START_TAKE);
    intent_taken(&s, 7, 9, true);
    assert_int_equal(s.saved.no, 7);
    assert_int_equal(s.saved.stamp, 9);
    assert_true(s.has_intent);
}

static void without_exactly_once_an_open_intent_stops_the_relay(void **state)
{
    struct intent_found found = {.has_row = true, .is_open = true, .is_in_use = true};
    struct outrider_error err = {0};
    enum intent_start start;
    (void)state;
    config.exactly_once = false;
    assert_int_equal(outrider__intent_start(&place, &found, &start, &err), -1);
    assert_int_equal(err.code, OUTRIDER_CONFIG);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
    assert_non_null(strstr(err.message, "'shop' of shop.db"));
    assert_non_null(strstr(err.message, "once more with exactly_once"));
    assert_non_null(strstr(err.message, "run: outrider resync --forget-intent --name shop"));
    assert_null(strstr(err.message, "--table"));
    found.table = "public.outbox";
    assert_int_equal(outrider__intent_start(&place, &found, &start, &err), -1);
    assert_non_null(strstr(err.message, "--forget-intent --name shop --table 'public.outbox'"));
}

static void without_exactly_once_a_row_in_use_is_left(void **state)
{
    struct intent_found found = {.has_row = true, .is_in_use = true};
    enum intent_start start;
    (void)state;
    config.exactly_once = false;
    assert_int_equal(outrider__intent_start(&place, &found, &start, NULL), 0);
    assert_int_equal(start, INTENT_START_LEAVE);
    found.is_in_use = false;
    assert_int_equal(outrider__intent_start(&place, &found, &start, NULL), 0);
    assert_int_equal(start, INTENT_START_NONE);
    found = (struct intent_found){.is_in_use = true};
    assert_int_equal(outrider__intent_start(&place, &found, &start, NULL), 0);
    assert_int_equal(start, INTENT_START_NONE);
}

static struct event events[] = {{.id = {"a", 1}, .seq = 3, .outcome = OUTCOME_DELIVERED}};
static struct batch batch = {.events = events, .n = 1, .n_settle = 1, .capacity = 1};
static const struct commit_mark old = {4, 40}, new = {5, 50};

static struct source_op intent_of(struct batch *settled, struct batch *intent)
{
    return (struct source_op){
        .kind = SOURCE_INTENT, .batch = settled, .intent = intent, .progress = new};
}

static struct source_op recall_of(enum recall_verdict verdict, struct commit_mark found)
{
    return (struct source_op){.kind = SOURCE_RECALL, .verdict = verdict, .progress = found};
}

/* (2), (3) */
static void each_operation_asks_for_its_work(void **state)
{
    struct source_op op = intent_of(&batch, &batch);
    (void)state;
    assert_int_equal(outrider__intent_work(&op), INTENT_WORK_SETTLE);
    op = intent_of(&batch, NULL);
    assert_int_equal(outrider__intent_work(&op), INTENT_WORK_SETTLE);
    op = intent_of(NULL, &batch);
    assert_int_equal(outrider__intent_work(&op), INTENT_WORK_WRITE);
    op = recall_of(RECALL_CAME_TRUE, old);
    assert_int_equal(outrider__intent_work(&op), INTENT_WORK_RECALL);
    op = recall_of(RECALL_NEVER_WAS, old);
    assert_int_equal(outrider__intent_work(&op), INTENT_WORK_WRITE);
    op = recall_of(RECALL_AGREES, old);
    assert_int_equal(outrider__intent_work(&op), INTENT_WORK_PROVE);
    op = recall_of(RECALL_DISAGREES, old);
    assert_int_equal(outrider__intent_work(&op), INTENT_WORK_PROVE);
}

static struct intent_row row_of(const struct source *s, const struct source_op *op,
                                struct strbuf *body)
{
    struct intent_row row;
    outrider__strbuf_init(body, INTENT_BODY_MAX);
    assert_int_equal(outrider__intent_row(s, op, 0, BYTES_LIT("own"), body, &row, NULL), 0);
    return row;
}

static void an_intent_is_written_with_its_mark_and_can_be_read_back(void **state)
{
    struct source s = {.saved = old, .has_intent = true};
    struct source_op op = intent_of(&batch, &batch);
    struct strbuf body;
    struct batch again;
    struct bytes own;
    (void)state;
    struct intent_row row = row_of(&s, &op, &body);
    assert_true(progress_is(row.mark, new));
    assert_int_equal(outrider__intent_read(row.body, &again, &own, NULL), 0);
    assert_int_equal(again.n, 1);
    assert_int_equal(again.events[0].seq, 3);
    assert_true(bytes_eq_str(own, "own"));
    outrider__batch_release(&again);
    outrider__strbuf_release(&body);
    assert_true(progress_is(s.saved, old)); /* (4) */
    outrider__intent_done(&s, &op);
    assert_true(progress_is(s.saved, new));
    assert_true(s.has_intent);
}

static void the_last_intent_is_closed_under_its_own_mark(void **state)
{
    struct source s = {.saved = old, .has_intent = true};
    struct source_op op = intent_of(&batch, NULL);
    struct strbuf body;
    (void)state;
    struct intent_row row = row_of(&s, &op, &body);
    assert_true(progress_is(row.mark, old));
    assert_true(bytes_is_null(row.body));
    outrider__intent_done(&s, &op);
    assert_true(progress_is(s.saved, old));
    assert_false(s.has_intent);
    outrider__strbuf_release(&body);
}

static void a_recall_closes_the_intent_under_the_mark_of_the_sink(void **state)
{
    struct source s = {.saved = new, .has_intent = true};
    struct source_op op = recall_of(RECALL_NEVER_WAS, old);
    struct strbuf body;
    (void)state;
    struct intent_row row = row_of(&s, &op, &body);
    assert_true(progress_is(row.mark, old));
    assert_true(bytes_is_null(row.body));
    outrider__intent_done(&s, &op);
    assert_true(progress_is(s.saved, old));
    assert_false(s.has_intent);
    outrider__strbuf_release(&body);
}

static void a_recall_that_only_proves_changes_nothing(void **state)
{
    struct source s = {.saved = new, .has_intent = true};
    struct source_op op = recall_of(RECALL_DISAGREES, (struct commit_mark){90, 1});
    (void)state;
    outrider__intent_done(&s, &op);
    assert_true(progress_is(s.saved, new));
    assert_true(s.has_intent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_exactly_once_the_row_is_taken),
        cmocka_unit_test(without_exactly_once_an_open_intent_stops_the_relay),
        cmocka_unit_test(without_exactly_once_a_row_in_use_is_left),
        cmocka_unit_test(each_operation_asks_for_its_work),
        cmocka_unit_test(an_intent_is_written_with_its_mark_and_can_be_read_back),
        cmocka_unit_test(the_last_intent_is_closed_under_its_own_mark),
        cmocka_unit_test(a_recall_closes_the_intent_under_the_mark_of_the_sink),
        cmocka_unit_test(a_recall_that_only_proves_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
