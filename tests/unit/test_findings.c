/* SPDX-License-Identifier: MIT */
/* What doctor says of an outbox, from facts alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/findings.h"
#include "core/options.h"

static struct arena arena;
static struct pipeline_config config;
static struct outbox_table table;
static struct table_facts facts;
static char said[8192]; /* "level: what (advice)" a line */

static const struct map_phrases phrases = {.add_sequence = "ADD SEQUENCE",
                                           .order_without_sequence = "chance"};
static const struct map_column created = {.name = "created_at", .kind = KIND_TIME};
static const struct map_column status = {.name = "status", .kind = KIND_TEXT};
static const struct map_column seq = {.name = "seq", .kind = KIND_INTEGER};

static void found(void *ctx, enum finding_level level, const char *what, const char *advice)
{
    static const char *const levels[] = {"ok", "note", "warning", "problem"};
    size_t n = strlen(said);
    (void)ctx;
    (void)snprintf(said + n, sizeof said - n, "%s: %s (%s)\n", levels[level], what,
                   advice != NULL ? advice : "");
}

static const struct finder finder = {found, NULL};

/* A table with which nothing is wrong; tests spoil it. */
static int set_up(void **state)
{
    (void)state;
    said[0] = '\0';
    table = (struct outbox_table){.outbox = "public.mail", .table = {.phrases = &phrases}};
    table.map.mark = MARK_STATUS;
    table.map.is_ordered = true;
    table.map.columns[ROLE_STATUS] = &status;
    table.map.columns[ROLE_SEQ] = &seq;
    table.map.columns[ROLE_LOCKED_BY] = &status;
    table.map.columns[ROLE_LOCKED_AT] = &created;
    facts = (struct table_facts){.table = &table, .config = &config, .payload_size = 300};
    outrider__arena_init(&arena, 4096);
    if (outrider__config_init(&config, &arena, "default", NULL) < 0)
        return -1;
    config.cleanup.adopted = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    outrider__arena_release(&arena);
    return 0;
}

static void finds(const char *text)
{
    said[0] = '\0';
    outrider__find_table(&finder, &facts);
    if (strstr(said, text) == NULL)
        fail_msg("'%s' is not in: %s", text, said);
}

static void nothing_is_said_of_a_table_that_is_well(void **state)
{
    (void)state;
    outrider__find_table(&finder, &facts);
    assert_string_equal(said, "");
}

static void order_without_a_sequence_is_best_effort(void **state)
{
    (void)state;
    table.map.is_ordered = false;
    finds("warning: public.mail has no sequence: order is by chance (");
    table.map.columns[ROLE_CREATED_AT] = &created;
    finds("order is by created_at, then by chance (a transaction counts from its begin, not from "
          "its commit) (ADD SEQUENCE)");
}

static void rows_that_no_word_covers_are_counted(void **state)
{
    (void)state;
    facts.n_uncovered = 1;
    facts.uncovered = "'odd' (1)";
    finds("warning: 1 row of public.mail is in a state that no word covers, and nobody delivers "
          "them: 'odd' (1)");
    facts.n_uncovered = 2;
    finds("2 rows of public.mail are in a state");
    table.map.waits_for_words = true;
    finds("warning: public.mail: nothing tells yet which value of 'status' means pending");
    assert_null(strstr(said, "no word covers"));
}

static void words_that_nothing_confirms_are_told(void **state)
{
    (void)state;
    table.map.values_are_assumed = table.map.values_are_remembered = true;
    finds("ok: public.mail: the words of 'status' are those of an earlier start");
    finds("note: public.mail: some values of 'status' are the usual ones");
}

static void what_the_table_has_no_place_for_is_told(void **state)
{
    (void)state;
    table.parks_retries = true;
    table.map.columns[ROLE_LOCKED_BY] = NULL;
    finds("note: public.mail has no columns for attempts");
    finds("note: public.mail has no columns for a lock's owner");
}

static void a_missing_index_comes_with_the_statement_that_makes_it(void **state)
{
    (void)state;
    facts.lacks_index = true;
    facts.index_advice = "CREATE INDEX";
    finds("every look reads the whole table (CREATE INDEX)");
}

static void large_payloads_and_headers_are_told(void **state)
{
    (void)state;
    facts.payload_size = 100000;
    finds("warning: public.mail: large payloads, up to 100000 bytes");
    config.source.max_payload = 50000;
    config.source.max_headers = 10;
    facts.headers_size = 11;
    finds("a payload of 100000 bytes is above max_payload (50000): it becomes a dead letter");
    finds("headers of 11 bytes are above max_headers (10)");
}

static void rows_that_stay_for_ever_are_told(void **state)
{
    (void)state;
    config.cleanup.adopted = false;
    finds("warning: public.mail: no retention: published rows stay for ever (set cleanup.adopted");
    table.is_ours = true;
    config.cleanup.retention_us = 0;
    finds("stay for ever (set cleanup.retention)");
    config.source.after_publish = AFTER_PUBLISH_DELETE;
    said[0] = '\0';
    outrider__find_table(&finder, &facts);
    assert_string_equal(said, "");
}

static void a_pipeline_tells_what_waits_and_what_is_dead(void **state)
{
    struct store_status st = {.pipeline = "p", .pending = 3, .parked = 2, .dead = 1};
    (void)state;
    outrider__find_pipeline(&finder, &st);
    assert_non_null(
        strstr(said, "ok: pipeline 'p' to (no sink yet): 3 pending; no relay is active"));
    assert_non_null(strstr(said, "note: pipeline 'p': 2 wait for their next try"));
    assert_non_null(strstr(said, "warning: pipeline 'p': 1 dead letters"));
}

static void seqs_below_one_are_told(void **state)
{
    (void)state;
    outrider__find_below_first(&finder, "outbox", 0);
    assert_string_equal(said, "");
    outrider__find_below_first(&finder, "outbox", 2);
    outrider__find_below_first(&finder, NULL, 3);
    assert_non_null(strstr(said, "warning: 2 rows of outbox have a seq below 1"));
    assert_non_null(strstr(said, "warning: 3 rows have a seq below 1"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_said_of_a_table_that_is_well),
        TEST(order_without_a_sequence_is_best_effort),
        TEST(rows_that_no_word_covers_are_counted),
        TEST(words_that_nothing_confirms_are_told),
        TEST(what_the_table_has_no_place_for_is_told),
        TEST(a_missing_index_comes_with_the_statement_that_makes_it),
        TEST(large_payloads_and_headers_are_told),
        TEST(rows_that_stay_for_ever_are_told),
        TEST(a_pipeline_tells_what_waits_and_what_is_dead),
        TEST(seqs_below_one_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
