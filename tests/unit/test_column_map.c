/* SPDX-License-Identifier: MIT */
/* The column map: the tables of five documents, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/options.h"
#include "common/column_map.h"

static struct arena arena;
static struct pipeline_config config;

static int set_up(void **state)
{
    (void)state;
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

#define COLUMN(n, k, ...)                                                            \
    {                                                                                \
        .name = n, .quoted = n, .type = "text", .kind = k, .length = -1, __VA_ARGS__ \
    }
#define KEY .is_key = true, .is_unique = true, .is_indexed = true, .is_not_null = true

static const struct map_phrases phrases = {
    .add_unique = "ADD UNIQUE",
    .forbid_null = "FORBID NULL",
    .allow_null = "ALLOW NULL",
    .widen = "WIDEN",
    .wide_integer = "bigint",
    .join_relay = "JOIN",
};

#define TABLE(t, columns_of_it)                            \
    static struct map_table t = {.phrases = &phrases,      \
                                 .quoted = "public." #t,   \
                                 .name = #t,               \
                                 .columns = columns_of_it, \
                                 .n_key = 1,               \
                                 .n = sizeof columns_of_it / sizeof *columns_of_it}

static struct map_column columns_000[] = {
    COLUMN("id", KIND_INTEGER, KEY, .is_numbered = true),
    COLUMN("aggregate_type", KIND_TEXT),
    COLUMN("aggregate_id", KIND_TEXT),
    COLUMN("event_type", KIND_TEXT),
    COLUMN("payload", KIND_TEXT),
    COLUMN("created_at", KIND_TIME),
    COLUMN("processed_at", KIND_TIME),
    COLUMN("status", KIND_TEXT, .initial_value = "PENDING"),
};
TABLE(outbox, columns_000);

static struct map_column columns_001[] = {
    COLUMN("id", KIND_INTEGER, KEY, .is_numbered = true),
    COLUMN("created_at", KIND_TIME),
    COLUMN("updated_at", KIND_TIME),
    COLUMN("idempotency_key", KIND_TEXT, .is_unique = true),
    COLUMN("order_request_json", KIND_JSON),
    COLUMN("request_digest", KIND_TEXT),
    COLUMN("status", KIND_TEXT,
           .check = "CHECK ((status = ANY (ARRAY['pending'::text, 'sending'::text, "
                    "'succeeded'::text, 'failed'::text, 'aborted'::text])))"),
    COLUMN("attempts", KIND_INTEGER),
    COLUMN("last_error_code", KIND_TEXT),
    COLUMN("last_error_msg", KIND_TEXT),
    COLUMN("locked_by", KIND_TEXT),
    COLUMN("locked_at", KIND_TIME),
    COLUMN("expires_at", KIND_TIME),
};
TABLE(outbox_orders, columns_001);

static struct map_column columns_002[] = {
    COLUMN("id", KIND_UUID, KEY),    COLUMN("order_id", KIND_TEXT),
    COLUMN("event_type", KIND_TEXT), COLUMN("payload", KIND_JSON),
    COLUMN("created_at", KIND_TIME), COLUMN("published_at", KIND_TIME),
};
TABLE(order_outbox, columns_002);

static struct map_column columns_003[] = {
    COLUMN("id", KIND_UUID, KEY),        COLUMN("aggregate_id", KIND_TEXT),
    COLUMN("aggregate_type", KIND_TEXT), COLUMN("event_type", KIND_TEXT),
    COLUMN("topic", KIND_TEXT),          COLUMN("partition_key", KIND_TEXT),
    COLUMN("payload", KIND_TEXT),        COLUMN("headers", KIND_TEXT),
    COLUMN("status", KIND_TEXT),         COLUMN("retry_count", KIND_INTEGER),
    COLUMN("last_error", KIND_TEXT),     COLUMN("created_at", KIND_TIME),
    COLUMN("processed_at", KIND_TIME),   COLUMN("next_retry_at", KIND_TIME),
};
TABLE(event_outbox, columns_003);

static struct map_column columns_004[] = {
    COLUMN("id", KIND_INTEGER, KEY),      COLUMN("type", KIND_TEXT),
    COLUMN("aggregate_id", KIND_INTEGER), COLUMN("payload", KIND_TEXT),
    COLUMN("published", KIND_BOOLEAN),    COLUMN("created_at", KIND_TIME),
};
TABLE(outbox_event, columns_004);

static struct column_map inferred(const struct map_table *t)
{
    struct column_map m;
    struct outrider_error err = {0};
    if (outrider__map_infer(t, &config, &m, &err) < 0)
        fail_msg("%s", err.message);
    return m;
}

/* The error's text; fails if there is none. */
static const char *refused(const struct map_table *t)
{
    static struct outrider_error err;
    struct column_map m;
    err = (struct outrider_error){0};
    assert_int_equal(outrider__map_infer(t, &config, &m, &err), -1);
    return err.message;
}

static void is_column(const struct column_map *m, enum column_role role, const char *name)
{
    if (name == NULL) {
        assert_null(m->columns[role]);
        return;
    }
    assert_non_null(m->columns[role]);
    assert_string_equal(m->columns[role]->name, name);
}

static void a_table_with_three_states_knows_no_more_than_these(void **state)
{
    (void)state;
    struct column_map m = inferred(&outbox);
    is_column(&m, ROLE_ID, "id");
    is_column(&m, ROLE_SEQ, "id");
    is_column(&m, ROLE_PUBLISHED_AT, "processed_at");
    assert_int_equal(m.mark, MARK_STATUS);
    assert_true(m.is_ordered);
    assert_string_equal(m.values[STATE_PENDING], "PENDING");
    assert_string_equal(m.values[STATE_PUBLISHED], "PUBLISHED");
    assert_string_equal(m.values[STATE_FAILED], "FAILED");
    assert_string_equal(m.values[STATE_DEAD], "");
    assert_string_equal(m.values[STATE_PROCESSING], "");
    assert_false(outrider__map_keeps_retries(&m));
    assert_false(outrider__map_shows_claims(&m));
}

static void the_values_of_a_check_constraint_are_the_states(void **state)
{
    (void)state;
    struct column_map m = inferred(&outbox_orders);
    assert_string_equal(m.values[STATE_PENDING], "pending");
    assert_string_equal(m.values[STATE_PROCESSING], "sending");
    assert_string_equal(m.values[STATE_PUBLISHED], "succeeded");
    assert_string_equal(m.values[STATE_FAILED], "failed");
    assert_string_equal(m.values[STATE_DEAD], "aborted");
    assert_false(m.values_are_assumed);
}

static void the_only_json_column_is_the_payload_and_names_the_event(void **state)
{
    (void)state;
    struct column_map m = inferred(&outbox_orders);
    is_column(&m, ROLE_PAYLOAD, "order_request_json");
    assert_string_equal(m.event_type, "order_request");
    assert_string_equal(m.aggregate_type, "orders");
    is_column(&m, ROLE_AGGREGATE_ID, "idempotency_key");
    is_column(&m, ROLE_LAST_ERROR, "last_error_msg");
    is_column(&m, ROLE_LAST_ERROR_CODE, "last_error_code");
    assert_true(outrider__map_keeps_retries(&m));
    assert_true(outrider__map_can_compete(&m));
}

static void the_id_of_the_tables_own_thing_is_the_aggregate(void **state)
{
    (void)state;
    struct column_map m = inferred(&order_outbox);
    is_column(&m, ROLE_AGGREGATE_ID, "order_id");
    assert_string_equal(m.aggregate_type, "order");
    assert_int_equal(m.mark, MARK_TIME);
    is_column(&m, ROLE_SEQ, NULL);
    assert_false(m.is_ordered);
}

static void a_status_that_nothing_explains_is_not_guessed(void **state)
{
    (void)state;
    struct column_map m = inferred(&event_outbox);
    assert_true(m.waits_for_words);
    assert_string_equal(m.values[STATE_PENDING], "");
    assert_string_equal(m.values[STATE_PUBLISHED], "");
    is_column(&m, ROLE_ATTEMPTS, "retry_count");
    is_column(&m, ROLE_NEXT_ATTEMPT_AT, "next_retry_at");
    is_column(&m, ROLE_TOPIC, "topic");
    is_column(&m, ROLE_HEADERS, "headers");
    assert_false(outrider__map_can_compete(&m));
}

static void values_in_the_rows_tell_the_case(void **state)
{
    const char *found[] = {"pending"};
    (void)state;
    columns_003[8].all = (struct string_list){found, 1};
    struct column_map m = inferred(&event_outbox);
    columns_003[8].all = (struct string_list){NULL, 0};
    assert_string_equal(m.values[STATE_PUBLISHED], "published");
    assert_string_equal(m.values[STATE_DEAD], "dead_letter");
}

static void a_boolean_is_a_mark_and_an_id_without_a_sequence_no_order(void **state)
{
    (void)state;
    struct column_map m = inferred(&outbox_event);
    assert_int_equal(m.mark, MARK_BOOLEAN);
    is_column(&m, ROLE_EVENT_TYPE, "type");
    is_column(&m, ROLE_SEQ, NULL);
    assert_string_equal(m.aggregate_type, "event");
}

static void names_are_known_in_every_spelling(void **state)
{
    static struct map_column columns[] = {
        COLUMN("id", KIND_UUID, KEY),     COLUMN("aggregatetype", KIND_TEXT),
        COLUMN("aggregateId", KIND_TEXT), COLUMN("type", KIND_TEXT),
        COLUMN("Payload", KIND_JSON),     COLUMN("publishedAt", KIND_TIME),
    };
    TABLE(debezium, columns);
    (void)state;
    struct column_map m = inferred(&debezium);
    is_column(&m, ROLE_AGGREGATE_TYPE, "aggregatetype");
    is_column(&m, ROLE_AGGREGATE_ID, "aggregateId");
    is_column(&m, ROLE_EVENT_TYPE, "type");
    is_column(&m, ROLE_PAYLOAD, "Payload");
    is_column(&m, ROLE_PUBLISHED_AT, "publishedAt");
}

static void two_payloads_are_an_error_that_names_the_option(void **state)
{
    static struct map_column columns[] = {
        COLUMN("id", KIND_UUID, KEY),      COLUMN("aggregate_id", KIND_TEXT),
        COLUMN("payload", KIND_JSON),      COLUMN("body", KIND_TEXT),
        COLUMN("published", KIND_BOOLEAN),
    };
    TABLE(two, columns);
    (void)state;
    assert_non_null(strstr(refused(&two), "map.payload: payload"));
    given("map.payload", "body");
    struct column_map m = inferred(&two);
    is_column(&m, ROLE_PAYLOAD, "body");
}

static void two_values_for_one_state_are_an_error_that_names_the_option(void **state)
{
    static struct map_column columns[] = {
        COLUMN("id", KIND_UUID, KEY),
        COLUMN("aggregate_id", KIND_TEXT),
        COLUMN("payload", KIND_JSON),
        COLUMN("status", KIND_TEXT,
               .check = "CHECK ((status = ANY (ARRAY['NEW'::text, 'SENT'::text, 'DONE'::text])))"),
    };
    TABLE(unclear, columns);
    (void)state;
    assert_non_null(strstr(refused(&unclear), "map.status_values: {published: SENT"));
    given("map.status_values", "{pending: NEW, published: DONE}");
    struct column_map m = inferred(&unclear);
    assert_string_equal(m.values[STATE_PUBLISHED], "DONE");
    assert_string_equal(m.values[STATE_FAILED], "");
}

static void several_foreign_ids_are_no_aggregate(void **state)
{
    static struct map_column columns[] = {
        COLUMN("id", KIND_UUID, KEY),    COLUMN("customer_id", KIND_TEXT),
        COLUMN("invoice_id", KIND_TEXT), COLUMN("correlation_id", KIND_TEXT),
        COLUMN("payload", KIND_JSON),    COLUMN("published", KIND_BOOLEAN),
    };
    TABLE(messages, columns);
    (void)state;
    assert_non_null(strstr(refused(&messages), "map.aggregate_id: customer_id"));
}

static void a_table_without_mark_and_sequence_is_refused(void **state)
{
    static struct map_column columns[] = {
        COLUMN("id", KIND_UUID, KEY),
        COLUMN("aggregate_id", KIND_TEXT),
        COLUMN("payload", KIND_JSON),
    };
    TABLE(bare, columns);
    (void)state;
    assert_non_null(strstr(refused(&bare), "map.status"));
}

static void a_column_that_is_not_there_is_refused(void **state)
{
    (void)state;
    given("map.topic", "nowhere");
    assert_non_null(strstr(refused(&event_outbox), "map.topic"));
}

static void a_role_can_be_switched_off(void **state)
{
    (void)state;
    given("map.topic", "-");
    struct column_map m = inferred(&event_outbox);
    is_column(&m, ROLE_TOPIC, NULL);
}

static void numbers_as_states_must_be_explained(void **state)
{
    static struct map_column columns[] = {
        COLUMN("id", KIND_UUID, KEY),
        COLUMN("aggregate_id", KIND_TEXT),
        COLUMN("payload", KIND_JSON),
        COLUMN("status", KIND_INTEGER),
    };
    TABLE(numbers, columns);
    (void)state;
    assert_non_null(strstr(refused(&numbers), "map.status_values"));
    given("map.status_values", "{pending: 0, published: 1}");
    struct column_map m = inferred(&numbers);
    assert_string_equal(m.values[STATE_PUBLISHED], "1");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static void a_given_name_is_found_in_its_other_spelling_and_that_is_told(void **state)
{
    struct column_map m;
    (void)state;
    given("map.aggregate_type", "aggregatetype");
    given("map.aggregate_id", "aggregateid");
    assert_int_equal(outrider__map_infer(&outbox, &config, &m, NULL), 0);
    assert_string_equal(m.columns[ROLE_AGGREGATE_TYPE]->name, "aggregate_type");
    assert_string_equal(m.columns[ROLE_AGGREGATE_ID]->name, "aggregate_id");
    assert_string_equal(m.respelled,
                        "'aggregate_type' for 'aggregatetype', 'aggregate_id' for 'aggregateid'");
    given("map.aggregate_type", "aggregate_type");
    given("map.aggregate_id", "aggregate_id");
    assert_int_equal(outrider__map_infer(&outbox, &config, &m, NULL), 0);
    assert_string_equal(m.respelled, "");
}

static void columns_become_headers_and_a_missing_one_is_an_error_unless_told_otherwise(void **state)
{
    struct column_map m;
    struct outrider_error err = {0};
    (void)state;
    given("map.header_columns", "{eventType: event_type, tenant: tenant}");
    assert_int_equal(outrider__map_infer(&outbox, &config, &m, &err), -1);
    assert_non_null(strstr(err.message, "'tenant'"));
    given("map.missing_columns", "ignore");
    assert_int_equal(outrider__map_infer(&outbox, &config, &m, &err), 0);
    assert_int_equal(m.n_headers, 1);
    assert_string_equal(m.headers[0].name, "eventType");
    assert_string_equal(m.headers[0].column->name, "event_type");
}

static void a_name_with_a_question_mark_is_of_a_column_that_may_be_missing(void **state)
{
    static struct map_column columns[] = {
        COLUMN("id", KIND_INTEGER, KEY, .is_numbered = true), COLUMN("aggregate_id", KIND_TEXT),
        COLUMN("really?", KIND_TEXT), COLUMN("type", KIND_TEXT), COLUMN("payload", KIND_TEXT)};
    TABLE(t, columns);
    struct column_map m;
    struct outrider_error err = {0};
    (void)state;
    given("map.event_type", "kind");
    assert_int_equal(outrider__map_infer(&t, &config, &m, &err), -1);
    given("map.event_type", "kind?");
    given("map.partition", "part?");
    given("map.topic", "really?");
    assert_int_equal(outrider__map_infer(&t, &config, &m, &err), 0);
    assert_null(m.columns[ROLE_EVENT_TYPE]); /* not another one that has a usual name */
    assert_null(m.columns[ROLE_PARTITION]);
    assert_string_equal(m.columns[ROLE_TOPIC]->name, "really?");
    given("map.event_type", "type?");
    assert_int_equal(outrider__map_infer(&t, &config, &m, &err), 0);
    assert_string_equal(m.columns[ROLE_EVENT_TYPE]->name, "type");
    given("map.payload", "body?");
    assert_int_equal(outrider__map_infer(&t, &config, &m, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_name_with_a_question_mark_is_of_a_column_that_may_be_missing),
        TEST(a_table_with_three_states_knows_no_more_than_these),
        TEST(the_values_of_a_check_constraint_are_the_states),
        TEST(the_only_json_column_is_the_payload_and_names_the_event),
        TEST(the_id_of_the_tables_own_thing_is_the_aggregate),
        TEST(a_status_that_nothing_explains_is_not_guessed),
        TEST(values_in_the_rows_tell_the_case),
        TEST(a_boolean_is_a_mark_and_an_id_without_a_sequence_no_order),
        TEST(names_are_known_in_every_spelling),
        TEST(two_payloads_are_an_error_that_names_the_option),
        TEST(two_values_for_one_state_are_an_error_that_names_the_option),
        TEST(several_foreign_ids_are_no_aggregate),
        TEST(a_table_without_mark_and_sequence_is_refused),
        TEST(a_column_that_is_not_there_is_refused),
        TEST(a_role_can_be_switched_off),
        TEST(numbers_as_states_must_be_explained),
        TEST(a_given_name_is_found_in_its_other_spelling_and_that_is_told),
        TEST(columns_become_headers_and_a_missing_one_is_an_error_unless_told_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
