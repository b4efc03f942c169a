/* SPDX-License-Identifier: MIT */
/* A study of a table: what it asks for, in which order, and what it concludes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/table_study.h"
#include "core/options.h"

enum { ID, AGGREGATE, PAYLOAD, STATUS, ATTEMPTS, UPDATED, N };

static struct arena arena;
static struct pipeline_config config;
static struct outrider_error err;
static struct map_column columns[N];
static struct outbox_table table;
static struct table_study study;

static const struct map_phrases phrases = {
    .add_unique = "ADD UNIQUE",
    .forbid_null = "FORBID NULL",
    .allow_null = "ALLOW NULL",
    .widen = "WIDEN",
    .wide_integer = "bigint",
    .join_relay = "JOIN",
};

#define COLUMN(n, k, ...)                                                                    \
    {                                                                                        \
        .name = n, .quoted = n, .type = "type", .kind = k, .length = -1, .can_select = true, \
        .can_update = true, __VA_ARGS__                                                      \
    }

static int set_up(void **state)
{
    static const struct map_column good[N] = {
        [ID] = COLUMN("id", KIND_UUID, .is_key = true, .is_unique = true, .is_not_null = true),
        [AGGREGATE] = COLUMN("aggregate_id", KIND_TEXT),
        [PAYLOAD] = COLUMN("payload", KIND_JSON),
        [STATUS] = COLUMN("status", KIND_TEXT),
        [ATTEMPTS] = COLUMN("attempts", KIND_INTEGER, .width = 4),
        [UPDATED] = COLUMN("updated_at", KIND_TIME),
    };
    (void)state;
    err = (struct outrider_error){0};
    memcpy(columns, good, sizeof columns);
    table = (struct outbox_table){.outbox = "public.mail",
                                  .table = {.phrases = &phrases,
                                            .name = "mail",
                                            .quoted = "public.mail",
                                            .columns = columns,
                                            .n = N,
                                            .n_key = 1,
                                            .role = "relay",
                                            .can_delete = true}};
    outrider__arena_init(&arena, 4096);
    return outrider__config_init(&config, &arena, "default", NULL);
}

static int tear_down(void **state)
{
    (void)state;
    outrider__arena_release(&arena);
    return 0;
}

static void given(const char *name, const char *value)
{
    assert_int_equal(outrider__config_set(&config, bytes_str(name), bytes_str(value), NULL), 0);
}

static void begin(enum study_purpose purpose)
{
    outrider__study_begin(&study, &config, purpose, &table);
    assert_int_equal(study.need, STUDY_NEEDS_COLUMNS);
}

static void succeeds(int rc)
{
    if (rc < 0)
        fail_msg("%s", err.message);
}

static void says(const char *text)
{
    if (strstr(err.message, text) == NULL)
        fail_msg("'%s' is not in: %s", text, err.message);
}

static struct study_words words_of(const char **words, size_t n)
{
    return (struct study_words){.rows = {.items = words, .n = n}};
}

static void a_relation_must_be_a_table_with_columns(void **state)
{
    (void)state;
    assert_int_equal(outrider__study_relation(&(struct table_relation){.asked = "mail"}, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NO_OUTBOX);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    assert_int_equal(
        outrider__study_relation(&(struct table_relation){"mail", MAP_COLUMNS_MAX + 1, NULL}, &err),
        -1);
    says("hardly an outbox");
    assert_int_equal(outrider__study_relation(&(struct table_relation){"mail", 3, "a view"}, &err),
                     -1);
    says("mail is a view");
    succeeds(outrider__study_relation(&(struct table_relation){"mail", 3, NULL}, &err));
}

static void a_table_without_a_name_is_called_outbox(void **state)
{
    (void)state;
    assert_int_equal(outrider__study_count(&config, &err), 1);
    assert_string_equal(outrider__study_name(&config, 0), "outbox");
    given("source.tables", "[a, b]");
    assert_int_equal(outrider__study_count(&config, &err), 2);
    assert_string_equal(outrider__study_name(&config, 1), "b");
}

static void a_status_column_asks_for_its_words(void **state)
{
    const char *found[] = {"PENDING", "PUBLISHED"};
    struct study_words words = words_of(found, 2);
    (void)state;
    begin(STUDY_FOR_RELAY);
    succeeds(outrider__study_columns(&study, &err));
    assert_int_equal(study.need, STUDY_NEEDS_WORDS);
    assert_ptr_equal(outrider__study_status(&table, &config), &columns[STATUS]);
    succeeds(outrider__study_words(&study, &words, &err));
    assert_int_equal(study.need, STUDY_IS_DONE);
    assert_string_equal(table.map.values[STATE_PENDING], "PENDING");
    assert_true(table.can_be_polled);
}

static void nobody_asks_for_words_that_are_given_or_ours(void **state)
{
    (void)state;
    given("map.status_values", "{pending: NEW, published: SENT}");
    begin(STUDY_FOR_RELAY);
    succeeds(outrider__study_columns(&study, &err));
    assert_int_equal(study.need, STUDY_IS_DONE);
    given("map.status_values", "{}");
    table.is_ours = true;
    assert_null(outrider__study_status(&table, &config));
    table.is_ours = false;
    columns[STATUS].kind = KIND_INTEGER;
    assert_null(outrider__study_status(&table, &config));
}

static void remembered_words_are_taken_and_the_labels_of_an_enum_stay(void **state)
{
    const char *labels[] = {"fresh", "gone"};
    struct study_words words = {.remembered = "{\"pending\":\"fresh\",\"published\":\"gone\"}"};
    (void)state;
    columns[STATUS].kind = KIND_ENUM;
    columns[STATUS].all = (struct string_list){.items = labels, .n = 2};
    begin(STUDY_FOR_RELAY);
    succeeds(outrider__study_columns(&study, &err));
    succeeds(outrider__study_words(&study, &words, &err));
    assert_true(table.map.values_are_remembered);
    assert_string_equal(table.map.values[STATE_PUBLISHED], "gone");
    assert_int_equal(columns[STATUS].all.n, 2);
}

static void what_the_row_has_no_place_for_is_parked(void **state)
{
    (void)state;
    given("map.status_values", "{pending: NEW, published: SENT, failed: BAD, dead: DEAD}");
    begin(STUDY_FOR_RELAY);
    succeeds(outrider__study_columns(&study, &err));
    assert_false(table.parks_retries);
    assert_false(table.parks_dead);
    given("map.status_values", "{pending: NEW, published: SENT, failed: BAD}");
    begin(STUDY_FOR_RELAY);
    succeeds(outrider__study_columns(&study, &err));
    assert_false(table.parks_retries);
    assert_true(table.parks_dead);
    given("map.attempts", "-");
    begin(STUDY_FOR_RELAY);
    succeeds(outrider__study_columns(&study, &err));
    assert_true(table.parks_retries);
    assert_true(table.parks_dead);
}

static void a_relay_needs_all_rights_before_words_are_read_and_a_command_only_reads(void **state)
{
    (void)state;
    columns[STATUS].can_update = false;
    begin(STUDY_FOR_RELAY);
    assert_int_equal(outrider__study_columns(&study, &err), -1);
    says("UPDATE (status)");
    begin(STUDY_FOR_COMMAND);
    succeeds(outrider__study_columns(&study, &err));
    columns[PAYLOAD].can_select = false;
    begin(STUDY_FOR_COMMAND);
    assert_int_equal(outrider__study_columns(&study, &err), -1);
    says("SELECT (payload)");
    begin(STUDY_FOR_RIGHTS);
    succeeds(outrider__study_columns(&study, &err));
    assert_int_equal(study.need, STUDY_IS_DONE);
}

static void the_stream_reads_a_table_that_cannot_be_marked(void **state)
{
    (void)state;
    given("source.mode", "cdc");
    given("map.status_values", "{pending: NEW, published: SENT}");
    columns[STATUS].can_update = false;
    begin(STUDY_FOR_RELAY);
    succeeds(outrider__study_columns(&study, &err));
    assert_false(table.can_be_polled);
    given("source.after_publish", "mark");
    begin(STUDY_FOR_RELAY);
    assert_int_equal(outrider__study_columns(&study, &err), -1);
}

static void a_table_learns_words_later_and_forgets_nothing_when_they_do_not_fit(void **state)
{
    const char *first[] = {"PENDING"}, *odd[] = {"odd"};
    struct study_words nothing = {0}, words = words_of(first, 1), unknown = words_of(odd, 1);
    struct strbuf text;
    (void)state;
    begin(STUDY_FOR_RELAY);
    succeeds(outrider__study_columns(&study, &err));
    succeeds(outrider__study_words(&study, &nothing, &err));
    assert_true(table.map.waits_for_words);
    outrider__strbuf_init(&text, 1024);
    assert_false(outrider__study_remembers(&table, &text));
    assert_int_equal(outrider__study_learn(&table, &config, &unknown, &err), -1);
    assert_true(table.map.waits_for_words);
    succeeds(outrider__study_learn(&table, &config, &words, &err));
    assert_false(table.map.waits_for_words);
    assert_true(outrider__study_remembers(&table, &text));
    assert_non_null(strstr(strbuf_cstr(&text), "\"pending\":\"PENDING\""));
    outrider__strbuf_release(&text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_relation_must_be_a_table_with_columns),
        TEST(a_table_without_a_name_is_called_outbox),
        TEST(a_status_column_asks_for_its_words),
        TEST(nobody_asks_for_words_that_are_given_or_ours),
        TEST(remembered_words_are_taken_and_the_labels_of_an_enum_stay),
        TEST(what_the_row_has_no_place_for_is_parked),
        TEST(a_relay_needs_all_rights_before_words_are_read_and_a_command_only_reads),
        TEST(the_stream_reads_a_table_that_cannot_be_marked),
        TEST(a_table_learns_words_later_and_forgets_nothing_when_they_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
