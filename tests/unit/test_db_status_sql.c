/* SPDX-License-Identifier: MIT */
/* The statements of layout `status` in another dialect than PostgreSQL's: common/status_sql.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/status_sql.h"
#include "unit/question_dialect.h"

static void write_id(struct strbuf *q, const struct outbox_table *t, const char *alias)
{
    strbuf_append_str(q, "HEX(");
    outrider__sql_column(q, t, ROLE_ID, alias);
    strbuf_append_str(q, ")");
}

static void write_key(struct strbuf *q, const struct outbox_table *t, const char *alias)
{
    outrider__sql_column(q, t, ROLE_AGGREGATE_ID, alias);
}

static void write_lane(struct strbuf *q, const struct outbox_table *t, const char *lane)
{
    (void)t;
    strbuf_append_str(q, lane);
}

static void write_event(struct strbuf *q, const struct outbox_table *t, const char *alias,
                        int bounds)
{
    (void)t;
    if (bounds > 0)
        outrider__strbuf_appendf(q, "EVENT(%s, @%d:int8[1]@)", alias, bounds);
    else
        outrider__strbuf_appendf(q, "EVENT(%s)", alias);
}

static void write_order(struct strbuf *q, const struct outbox_table *t, const char *alias)
{
    strbuf_append_str(q, " ORDER BY ");
    outrider__sql_column(q, t, ROLE_CREATED_AT, alias);
}

static void write_value(struct strbuf *q, const struct outbox_table *t, enum column_role role,
                        const char *value)
{
    (void)t, (void)role;
    strbuf_append_str(q, value);
}

static void write_stored(struct strbuf *q, const char *value)
{
    strbuf_append_str(q, value);
}

static void write_payload(struct strbuf *q, const struct outbox_table *t, const char *value)
{
    (void)t;
    strbuf_append_str(q, value);
}

static const struct table_dialect question_table_dialect = {
    .sql = &question_dialect,
    .id = write_id,
    .key = write_key,
    .lane = write_lane,
    .event = write_event,
    .order = write_order,
    .time_of = write_value,
    .stamp = write_value,
    .of_text = write_value,
    .stored = write_stored,
    .payload = write_payload,
};

static const struct {
    enum column_role role;
    const char *name;
    enum map_kind kind;
} all_columns[] = {
    {ROLE_ID, "id", KIND_BYTES},
    {ROLE_AGGREGATE_ID, "order_id", KIND_TEXT},
    {ROLE_PAYLOAD, "payload", KIND_JSON},
    {ROLE_STATUS, "status", KIND_TEXT},
    {ROLE_CREATED_AT, "created_at", KIND_TIME},
    {ROLE_UPDATED_AT, "updated_at", KIND_TIME},
    {ROLE_ATTEMPTS, "retries", KIND_INTEGER},
    {ROLE_NEXT_ATTEMPT_AT, "next_at", KIND_TIME},
    {ROLE_LAST_ERROR, "error", KIND_TEXT},
    {ROLE_LOCKED_BY, "owner", KIND_TEXT},
    {ROLE_LOCKED_AT, "locked_at", KIND_TIME},
    {ROLE_CLAIM, "claim", KIND_INTEGER},
};
#define N_COLUMNS (sizeof all_columns / sizeof *all_columns)

static struct map_column columns[N_COLUMNS];
static struct outbox_table table;
static struct pipeline_config config;
static struct status_sql sql;

/* A table that has a place for everything, read by relays that compete. */
static int make_full(void **state)
{
    static const struct map_phrases no_messages;
    static const char *const words[STATE_COUNT] = {"NEW", "BUSY", "DONE", "FAILED", "DEAD", ""};
    (void)state;
    table = (struct outbox_table){.outbox = "shop.outbox",
                                  .cursor_table = "outrider_cursor",
                                  .parked_table = "outrider_parked"};
    for (size_t i = 0; i < N_COLUMNS; i++) {
        columns[i] = (struct map_column){
            .name = all_columns[i].name, .type = "text", .kind = all_columns[i].kind, .length = -1};
        table.map.columns[all_columns[i].role] = &columns[i];
    }
    table.table = (struct map_table){.phrases = &no_messages, .columns = columns, .n = N_COLUMNS};
    table.map.table = &table.table;
    table.map.mark = MARK_STATUS;
    for (int i = 0; i < STATE_COUNT; i++)
        (void)snprintf(table.map.values[i], MAP_VALUE_SIZE, "%s", words[i]);
    config = (struct pipeline_config){.name = "main"};
    config.source.lease_us = 30000000;
    config.retry.max_attempts = 3;
    sql = (struct status_sql){.dialect = &question_table_dialect,
                              .config = &config,
                              .table = &table,
                              .owner_prefix = "main.",
                              .claims = true,
                              .has_owner = true,
                              .competes = true};
    return 0;
}

/* A table with nothing but a boolean, read by one relay. */
static int make_bare(void **state)
{
    (void)make_full(state);
    for (size_t i = 3; i < N_COLUMNS; i++)
        if (all_columns[i].role != ROLE_CREATED_AT)
            table.map.columns[all_columns[i].role] = NULL;
    columns[3] = (struct map_column){
        .name = "sent", .type = "bool", .kind = KIND_BOOLEAN, .is_not_null = true, .length = -1};
    table.map.columns[ROLE_PUBLISHED] = &columns[3];
    table.map.mark = MARK_BOOLEAN;
    table.parks_retries = table.parks_dead = true;
    config.ordered = true;
    sql.claims = sql.has_owner = sql.competes = false;
    return 0;
}

static void no_statement_has_words_of_one_server_alone(void **state)
{
    (void)state;
    for (int i = 0; i < ST_WORDS; i++) {
        char *text = NULL;
        assert_int_equal(outrider__status_sql(&sql, (enum status_statement)i, &text, NULL, NULL),
                         0);
        const char *word = text != NULL ? question_foreign_word(text) : NULL;
        if (word != NULL)
            fail_msg("%s is in %s", word, text);
        free(text);
    }
}

static void check(enum status_statement which, const char *expected, const char *places)
{
    struct sql_params params = {0};
    char *text = NULL;
    assert_int_equal(outrider__status_sql(&sql, which, &text, &params, NULL), 0);
    if (expected == NULL) {
        assert_null(text);
        return;
    }
    assert_non_null(text);
    assert_string_equal(text, expected);
    assert_int_equal(params.n, strlen(places));
    for (size_t i = 0; i < params.n; i++)
        assert_int_equal(params.order[i], places[i] - '0');
    free(text);
}

static void without_returning_rows_are_locked_then_claimed(void **state)
{
    (void)state;
    check(ST_FETCH,
          "SELECT EVENT(o., CAST(JSON_EXTRACT(?, '$[0]') AS SIGNED)), CAST(o.\"retries\" AS "
          "SIGNED), CAST(coalesce(o.\"claim\", 0) + 1 AS SIGNED), false\n"
          "FROM shop.outbox o\n"
          "WHERE o.\"status\" IN ('NEW', 'BUSY', 'FAILED') AND ((o.\"status\" = 'NEW' AND "
          "(o.\"next_at\" IS NULL OR o.\"next_at\" <= NOW(6))) OR (o.\"status\" = 'FAILED' AND "
          "(o.\"next_at\" IS NULL OR o.\"next_at\" <= NOW(6))) OR o.\"status\" = 'BUSY') AND "
          "(o.\"owner\" IS NOT NULL AND o.\"locked_at\" > SYSDATE(6) + INTERVAL -30000000 "
          "MICROSECOND) IS NOT TRUE ORDER BY o.\"created_at\"\n"
          "LIMIT ? FOR UPDATE SKIP LOCKED\n",
          "21");
    check(ST_CLAIM,
          "UPDATE shop.outbox o SET o.\"status\" = 'BUSY', o.\"owner\" = ?, o.\"locked_at\" = "
          "SYSDATE(6), o.\"updated_at\" = NOW(6), o.\"claim\" = coalesce(o.\"claim\", 0) + 1 WHERE "
          "o.\"id\" IN (SELECT j.v FROM JSON_TABLE(?, '$[*]' COLUMNS (v LONGTEXT PATH '$')) AS j)",
          "21");
}

static void rows_are_marked_only_while_they_are_ours(void **state)
{
    (void)state;
    check(ST_PUBLISH,
          "UPDATE shop.outbox o, JSON_TABLE(?, '$[*]' COLUMNS (\"id\" LONGTEXT PATH '$[0]', "
          "\"claim\" BIGINT PATH '$[1]')) AS u SET o.\"status\" = 'DONE', o.\"next_at\" = NULL, "
          "o.\"error\" = NULL, o.\"owner\" = NULL, o.\"locked_at\" = NULL, o.\"updated_at\" = "
          "NOW(6) WHERE o.\"id\" = u.id AND o.\"status\" = 'BUSY' AND o.\"owner\" = ? AND "
          "o.\"claim\" = u.claim",
          "12");
    config.source.after_publish = AFTER_PUBLISH_DELETE;
    check(ST_PUBLISH,
          "DELETE o FROM shop.outbox o, JSON_TABLE(?, '$[*]' COLUMNS (\"id\" LONGTEXT PATH "
          "'$[0]', \"claim\" BIGINT PATH '$[1]')) AS u WHERE o.\"id\" = u.id AND o.\"status\" = "
          "'BUSY' AND o.\"owner\" = ? AND o.\"claim\" = u.claim",
          "12");
}

static void the_cursor_row_is_taken_and_then_read(void **state)
{
    (void)state;
    sql.competes = false;
    check(ST_TAKE,
          "INSERT INTO outrider_cursor (pipeline, outbox, sink, on_dead, words, epoch)\n"
          "VALUES ('main', 'shop.outbox', ?, ?, ?, 1) ON DUPLICATE KEY UPDATE \n"
          "epoch = epoch + CASE WHEN sink IN ('', VALUES(sink)) THEN 1 ELSE 0 END,\n"
          "sink = CASE WHEN sink = '' THEN VALUES(sink) ELSE sink END,\n"
          "on_dead = VALUES(on_dead), words = coalesce(VALUES(words), words)\n",
          "123");
    check(ST_TAKEN,
          "SELECT epoch, sink, mode FROM outrider_cursor WHERE pipeline = 'main' AND outbox = "
          "'shop.outbox'\n",
          "");
    check(ST_CURSOR,
          "UPDATE outrider_cursor c\n"
          "SET settled_at = NOW(6), delivered_total = delivered_total + ?,\n"
          "expired_total = expired_total + ?, skipped_total = skipped_total + ?,\n"
          "dead_total = dead_total + ?\n"
          "WHERE c.pipeline = 'main' AND c.outbox = 'shop.outbox' AND epoch = ?\n",
          "12345");
}

static void what_a_row_has_no_place_for_stands_in_outrider_parked(void **state)
{
    (void)state;
    check(ST_CLAIM, NULL, NULL);
    check(ST_CHANGE, NULL, NULL);
    check(ST_RENEW, NULL, NULL);
    check(ST_RELEASE, NULL, NULL);
    check(ST_RECLAIM, NULL, NULL);
    check(ST_UNPARK,
          "DELETE FROM outrider_parked WHERE pipeline = 'main' AND outbox = 'shop.outbox' AND id "
          "IN (SELECT j.v FROM JSON_TABLE(?, '$[*]' COLUMNS (v LONGTEXT PATH '$')) AS j)",
          "1");
    check(ST_FETCH,
          "SELECT EVENT(o., CAST(JSON_EXTRACT(?, '$[0]') AS SIGNED)), (SELECT p.attempts FROM "
          "outrider_parked p WHERE p.pipeline = 'main' AND p.outbox = 'shop.outbox' AND p.id = "
          "HEX(o.\"id\") ORDER BY p.arrival DESC LIMIT 1), CAST(0 AS SIGNED), EXISTS (SELECT 1 "
          "FROM outrider_parked p WHERE p.pipeline = 'main' AND p.outbox = 'shop.outbox' AND p.id "
          "= HEX(o.\"id\"))\n"
          "FROM shop.outbox o\n"
          "WHERE (NOT o.\"sent\") AND HEX(o.\"id\") NOT IN (SELECT p.id FROM outrider_parked p "
          "WHERE p.pipeline = 'main' AND p.outbox = 'shop.outbox' AND p.id IS NOT NULL AND "
          "(p.state = 'dead' OR p.next_attempt_at > NOW(6))) AND o.\"order_id\" NOT IN (SELECT "
          "p.lane FROM outrider_parked p WHERE p.pipeline = 'main' AND p.outbox = 'shop.outbox' "
          "AND (p.state <> 'dead' AND p.next_attempt_at > NOW(6))) AND (o.\"id\" IN (SELECT j.v "
          "FROM JSON_TABLE(?, '$[*]' COLUMNS (v LONGTEXT PATH '$')) AS j)) IS NOT TRUE ORDER BY "
          "o.\"created_at\"\n"
          "LIMIT ?\n",
          "231");
}

/* Without a column for the time of the next try, the time of the last change and the delay of
 * that attempt say when the row is due. */
static void a_delay_follows_from_the_attempts(void **state)
{
    char *text = NULL;
    (void)state;
    table.map.columns[ROLE_NEXT_ATTEMPT_AT] = NULL;
    config.retry.base_us = 1000000;
    config.retry.factor = 2;
    config.retry.max_us = 60000000;
    assert_int_equal(outrider__status_sql(&sql, ST_FETCH, &text, NULL, NULL), 0);
    assert_non_null(strstr(text,
                           "(o.\"updated_at\" + INTERVAL CASE WHEN coalesce(o.\"retries\", 0) "
                           "<= 1 THEN "));
    assert_non_null(strstr(text, " END MICROSECOND <= NOW(6)) IS NOT FALSE"));
    free(text);
    config.retry.max_attempts = 1;
    assert_int_equal(outrider__status_sql(&sql, ST_FETCH, &text, NULL, NULL), 0);
    assert_non_null(strstr(text, "(o.\"updated_at\" + INTERVAL 1000000 MICROSECOND <= NOW(6))"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_statement_has_words_of_one_server_alone, make_full),
        cmocka_unit_test_setup(no_statement_has_words_of_one_server_alone, make_bare),
        cmocka_unit_test_setup(without_returning_rows_are_locked_then_claimed, make_full),
        cmocka_unit_test_setup(rows_are_marked_only_while_they_are_ours, make_full),
        cmocka_unit_test_setup(the_cursor_row_is_taken_and_then_read, make_full),
        cmocka_unit_test_setup(what_a_row_has_no_place_for_stands_in_outrider_parked, make_bare),
        cmocka_unit_test_setup(a_delay_follows_from_the_attempts, make_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
