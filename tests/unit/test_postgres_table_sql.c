/* SPDX-License-Identifier: MIT */
/* SQL for the columns of an outbox table: times as numbers, and defaults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "postgres/table/table.h"

static struct map_column created;

static void make(void)
{
    created = (struct map_column){.name = "created_at", .quoted = "created_at", .kind = KIND_TIME};
}

static const char *sql_of(void (*write)(struct strbuf *, const struct outbox_table *), int epoch)
{
    static char text[256];
    struct outbox_table a = {0};
    struct strbuf sql;
    a.map.epoch = epoch;
    a.map.columns[ROLE_CREATED_AT] = a.map.columns[ROLE_NEXT_ATTEMPT_AT] = &created;
    a.map.columns[ROLE_LOCKED_AT] = &created;
    outrider__strbuf_init(&sql, sizeof text);
    write(&sql, &a);
    (void)snprintf(text, sizeof text, "%s", strbuf_cstr(&sql));
    outrider__strbuf_release(&sql);
    return text;
}

static void reads(struct strbuf *sql, const struct outbox_table *a)
{
    outrider__pg_sql_time(sql, a, ROLE_CREATED_AT, "o.");
}

static void stamps(struct strbuf *sql, const struct outbox_table *a)
{
    outrider__pg_sql_stamp(sql, a, ROLE_CREATED_AT, "now()");
}

static void empties_next(struct strbuf *sql, const struct outbox_table *a)
{
    outrider__sql_nothing(sql, &outrider__pg_table_dialect, a, ROLE_NEXT_ATTEMPT_AT);
}

static void empties_locked_at(struct strbuf *sql, const struct outbox_table *a)
{
    outrider__sql_nothing(sql, &outrider__pg_table_dialect, a, ROLE_LOCKED_AT);
}

static void a_time_is_read_and_written_in_its_form(void **state)
{
    (void)state;
    make();
    assert_string_equal(sql_of(reads, EPOCH_MS), "o.\"created_at\"::timestamptz");
    assert_string_equal(sql_of(stamps, EPOCH_MS), "now()");
    created.kind = KIND_INTEGER;
    assert_string_equal(sql_of(stamps, EPOCH_MS),
                        "floor(extract(epoch FROM (now())) * 1000)::int8");
    assert_non_null(strstr(sql_of(reads, EPOCH_S), "* interval '1 second')"));
    assert_non_null(strstr(sql_of(reads, EPOCH_NS), " / 1000 * interval '1 microsecond')"));
}

static void a_column_that_must_hold_something_gets_what_says_nothing(void **state)
{
    (void)state;
    make();
    assert_string_equal(sql_of(empties_next, EPOCH_NONE), "NULL");
    created.is_not_null = true;
    assert_string_equal(sql_of(empties_next, EPOCH_NONE), "now()");
    assert_string_equal(sql_of(empties_locked_at, EPOCH_NONE), "timestamptz 'epoch'");
}

static const char *value_of(const char *sql)
{
    static char text[64];
    struct arena arena;
    outrider__arena_init(&arena, 256);
    const char *value = outrider__pg_default_value(&arena, sql);
    if (value != NULL)
        (void)snprintf(text, sizeof text, "%s", value);
    outrider__arena_release(&arena);
    return value != NULL ? text : NULL;
}

static void a_default_that_is_one_literal_has_a_value(void **state)
{
    (void)state;
    assert_string_equal(value_of("'PENDING'::character varying"), "PENDING");
    assert_string_equal(value_of("'0'"), "0");
    assert_string_equal(value_of("'it''s'::text"), "it's");
    assert_string_equal(value_of("''::text"), "");
    assert_null(value_of(NULL));
    assert_null(value_of("now()"));
    assert_null(value_of("'a'::text || 'b'::text"));
    assert_null(value_of("'open"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_read_and_written_in_its_form),
        cmocka_unit_test(a_column_that_must_hold_something_gets_what_says_nothing),
        cmocka_unit_test(a_default_that_is_one_literal_has_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
