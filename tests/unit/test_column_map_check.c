/* SPDX-License-Identifier: MIT */
/* What a table must allow before a relay begins: types, an id, rights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/options.h"
#include "common/column_map.h"

static struct arena arena;
static struct pipeline_config config;
static struct outrider_error err;

static int set_up(void **state)
{
    (void)state;
    err = (struct outrider_error){0};
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

#define COLUMN(n, k, t, ...)                                                                   \
    {                                                                                          \
        .name = n, .quoted = n, .type = t, .kind = KIND_##k, .length = -1, .can_select = true, \
        .can_update = true, __VA_ARGS__                                                        \
    }

static const struct map_phrases phrases = {
    .row_place = "place, writer",
    .add_unique = "ADD UNIQUE @table@ (@column@)",
    .forbid_null = "FORBID NULL @table@.@column@ @type@",
    .allow_null = "ALLOW NULL @table@.@column@",
    .widen = "WIDEN @table@.@column@",
    .wide_integer = "bigint",
    .join_relay = "JOIN @role@",
};

enum {
    ID,
    AGGREGATE,
    PAYLOAD,
    STATUS,
    CREATED,
    PUBLISHED,
    NEXT,
    ATTEMPTS,
    OWNER,
    UNTIL,
    SECRET,
    N
};

static struct map_column columns[N];
static struct map_table table;

/* A table to which nothing is wrong; tests spoil it. */
static void make(void)
{
    static const struct map_column good[N] = {
        [ID] = COLUMN("id", UUID, "uuid", .is_key = true, .is_unique = true, .is_not_null = true),
        [AGGREGATE] = COLUMN("aggregate_id", TEXT, "text"),
        [PAYLOAD] = COLUMN("payload", JSON, "jsonb"),
        [STATUS] = COLUMN("status", TEXT, "text", .initial = "'PENDING'",
                          .initial_value = "PENDING", .is_not_null = true),
        [CREATED] = COLUMN("created_at", TIME, "timestamp with time zone"),
        [PUBLISHED] = COLUMN("published_at", TIME, "timestamp with time zone"),
        [NEXT] = COLUMN("next_retry_at", TIME, "timestamp with time zone"),
        [ATTEMPTS] = COLUMN("attempts", INTEGER, "integer", .width = 4),
        [OWNER] = COLUMN("locked_by", UUID, "uuid"),
        [UNTIL] = COLUMN("locked_until", TIME, "timestamp with time zone"),
        [SECRET] = COLUMN("secret", TEXT, "text"),
    };
    memcpy(columns, good, sizeof columns);
    table = (struct map_table){.phrases = &phrases,
                               .name = "mail",
                               .quoted = "public.mail",
                               .columns = columns,
                               .n = N,
                               .n_key = 1,
                               .role = "relay",
                               .can_delete = true,
                               .can_see_place = true};
}

static struct column_map mapped(void)
{
    struct column_map m;
    if (outrider__map_infer(&table, &config, &m, &err) < 0)
        fail_msg("%s", err.message);
    return m;
}

static void refuses(const char *text)
{
    struct column_map m;
    err = (struct outrider_error){0};
    assert_int_equal(outrider__map_infer(&table, &config, &m, &err), -1);
    if (strstr(err.message, text) == NULL)
        fail_msg("'%s' is not in: %s", text, err.message);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
}

static void lacks_as(const char *text, bool reads_only)
{
    struct column_map m = mapped();
    struct map_needs needs;
    if (reads_only)
        outrider__map_needs_read(&m, &config, &needs);
    else
        outrider__map_needs(&m, &config, &needs);
    err = (struct outrider_error){0};
    int rc = outrider__map_check_needs(&m, &needs, &err);
    if (text == NULL && rc < 0)
        fail_msg("%s", err.message);
    if (text == NULL)
        return;
    assert_int_equal(rc, -1);
    if (strstr(err.message, text) == NULL)
        fail_msg("'%s' is not in: %s", text, err.message);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
}

static void lacks(const char *text)
{
    lacks_as(text, false);
}

static void a_good_table_is_taken(void **state)
{
    (void)state;
    make();
    lacks(NULL);
}

static void an_integer_is_a_time_only_with_its_unit(void **state)
{
    (void)state;
    make();
    columns[NEXT] = (struct map_column)COLUMN("next_retry_at", INTEGER, "bigint", .width = 8);
    refuses("map.epoch: s, ms, us or ns");
    given("map.epoch", "ns");
    assert_string_equal(mapped().columns[ROLE_NEXT_ATTEMPT_AT]->name, "next_retry_at");
    given("map.epoch", "none");
    given("map.next_attempt_at", "-");
    assert_null(mapped().columns[ROLE_NEXT_ATTEMPT_AT]);
}

static void an_integer_of_four_bytes_has_room_for_seconds_alone(void **state)
{
    (void)state;
    make();
    columns[NEXT] = (struct map_column)COLUMN("next_retry_at", INTEGER, "integer", .width = 4);
    given("map.epoch", "s");
    (void)mapped();
    given("map.epoch", "ms");
    refuses("; WIDEN public.mail.next_retry_at, or");
}

static void a_time_is_preferred_to_a_number(void **state)
{
    (void)state;
    make();
    columns[SECRET] = (struct map_column)COLUMN("created", INTEGER, "bigint", .width = 8);
    assert_string_equal(mapped().columns[ROLE_CREATED_AT]->name, "created_at");
}

static void an_id_must_be_unique_and_not_null(void **state)
{
    (void)state;
    make();
    columns[ID].is_unique = false;
    refuses("; ADD UNIQUE public.mail (id); or");
    columns[ID].is_unique = true;
    columns[ID].is_not_null = false;
    refuses("; FORBID NULL public.mail.id uuid; or");
}

static void a_partitioned_table_has_an_id_that_is_never_given_twice(void **state)
{
    (void)state;
    make();
    columns[ID].is_unique = false;
    columns[ID].is_unique_in_parts = true;
    table.is_partitioned = true;
    (void)mapped();
    columns[ID].kind = KIND_TEXT;
    refuses("partitioned table");
}

static void the_stream_alone_needs_no_unique_id(void **state)
{
    (void)state;
    make();
    columns[ID].is_unique = false;
    given("source.mode", "cdc");
    given("map.status", "-");
    given("map.published_at", "-");
    (void)mapped();
    given("source.after_publish", "delete");
    refuses("unique");
}

static void the_rights_that_are_missing_are_one_statement(void **state)
{
    (void)state;
    make();
    lacks(NULL);
    columns[STATUS].can_update = columns[NEXT].can_update = columns[PAYLOAD].can_select = false;
    columns[SECRET].can_select = columns[SECRET].can_update = false;
    columns[CREATED].can_update = columns[ID].can_update = false;
    table.can_delete = false;
    lacks("runs: GRANT SELECT (payload), UPDATE (status, next_retry_at) ON public.mail TO relay");
    given("source.after_publish", "delete");
    lacks("UPDATE (status, next_retry_at), DELETE ON public.mail TO relay");
    make(); /* without a sequence, the place of a row says its order */
    table.can_see_place = false;
    lacks("runs: GRANT SELECT (place, writer) ON public.mail TO relay");
}

static void rights_that_no_message_has_room_for_come_with_the_role(void **state)
{
    static char long_name[300];
    (void)state;
    make();
    memset(long_name, 'x', sizeof long_name - 1);
    columns[PAYLOAD].quoted = long_name;
    columns[PAYLOAD].can_select = columns[STATUS].can_update = columns[NEXT].can_update = false;
    lacks("its owner runs: JOIN relay");
}

static void a_database_without_places_needs_no_right_to_read_them(void **state)
{
    struct map_phrases other = phrases;
    (void)state;
    make();
    other.row_place = NULL;
    table.phrases = &other;
    table.can_see_place = false;
    lacks(NULL);
}

static void a_replay_reads_only(void **state)
{
    (void)state;
    make();
    for (int i = 0; i < N; i++)
        columns[i].can_update = false;
    table.can_delete = false;
    lacks_as(NULL, true);
}

static void what_is_granted_to_a_role_is_what_is_needed(void **state)
{
    struct map_needs needs;
    struct strbuf sql;
    (void)state;
    make();
    struct column_map m = mapped();
    outrider__map_needs(&m, &config, &needs);
    outrider__strbuf_init(&sql, 4096);
    outrider__map_grant(&m, &needs, "outrider_relay", &sql);
    assert_string_equal(
        strbuf_cstr(&sql),
        "GRANT SELECT (id, aggregate_id, payload, status, created_at, "
        "published_at, next_retry_at, attempts, locked_by, locked_until, place, "
        "writer), UPDATE (status, published_at, next_retry_at, attempts, locked_by, "
        "locked_until) ON public.mail TO outrider_relay");
    outrider__strbuf_release(&sql);
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    make();
    columns[OWNER].is_not_null = true;
    lacks("; ALLOW NULL public.mail.locked_by, or");
    columns[OWNER].initial = "gen_random_uuid()";
    lacks(NULL);
    table.hides_update = "swallows UPDATE; MEND IT";
    lacks("table public.mail swallows UPDATE; MEND IT, or name another table");
    table.hides_update = NULL;
    given("map.published_at", "published_at");
    columns[PUBLISHED].is_fixed = true;
    lacks("GENERATED ALWAYS");
    given("map.published_at", "");
    assert_null(mapped().columns[ROLE_PUBLISHED_AT]);
}

static void a_mark_that_is_never_null_is_refused(void **state)
{
    (void)state;
    make();
    given("map.status", "-");
    (void)mapped();
    columns[PUBLISHED].is_not_null = true;
    refuses("; ALLOW NULL public.mail.published_at, or");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_good_table_is_taken),
        TEST(an_integer_is_a_time_only_with_its_unit),
        TEST(an_integer_of_four_bytes_has_room_for_seconds_alone),
        TEST(a_time_is_preferred_to_a_number),
        TEST(an_id_must_be_unique_and_not_null),
        TEST(a_partitioned_table_has_an_id_that_is_never_given_twice),
        TEST(the_stream_alone_needs_no_unique_id),
        TEST(the_rights_that_are_missing_are_one_statement),
        TEST(rights_that_no_message_has_room_for_come_with_the_role),
        TEST(a_database_without_places_needs_no_right_to_read_them),
        TEST(a_replay_reads_only),
        TEST(what_is_granted_to_a_role_is_what_is_needed),
        TEST(what_cannot_be_written_is_refused),
        TEST(a_mark_that_is_never_null_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
