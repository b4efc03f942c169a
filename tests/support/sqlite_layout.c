/* SPDX-License-Identifier: MIT */
#include "support/sqlite_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "outrider/sqlite.h"
#include "sqlite/sqlite.h"

struct sqlite_fixture sqlite_shop;

static void set_up(char *ret_url, size_t size)
{
    sqlite_fixture_init(&sqlite_shop);
    (void)snprintf(ret_url, size, "%s", sqlite_shop.url);
}

static void tear_down(void)
{
    sqlite_fixture_remove(&sqlite_shop);
}

static void insert(const struct outrider_event *events, size_t n)
{
    struct outrider_error err = {0};
    if (sqlite3_get_autocommit(sqlite_shop.db))
        sqlite_must(sqlite_shop.db, "BEGIN IMMEDIATE");
    for (size_t i = 0; i < n; i++)
        if (outrider_enqueue_sqlite(sqlite_shop.db, &events[i], 0, NULL, &err) < 0)
            fail_msg("enqueue: %s", err.message);
}

static void finish(bool commit)
{
    sqlite_must(sqlite_shop.db, commit ? "COMMIT" : "ROLLBACK");
}

static int64_t count_outbox(void)
{
    return sqlite_value(sqlite_shop.db, "SELECT count(*) FROM outbox");
}

static int64_t count_parked(const char *state)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM outrider_parked WHERE %s%s%s",
                   state != NULL ? "state = '" : "1", state != NULL ? state : "",
                   state != NULL ? "'" : "");
    return sqlite_value(sqlite_shop.db, sql);
}

static void age_outbox(int64_t age_us)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "UPDATE outbox SET created_at = strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now', "
                   "'-%lld seconds')",
                   (long long)(age_us / 1000000));
    sqlite_must(sqlite_shop.db, sql);
}

static void take_over(const char *pipeline)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "UPDATE outrider_cursor SET epoch = epoch + 1 WHERE pipeline = '%s'", pipeline);
    sqlite_must(sqlite_shop.db, sql);
}

const struct source_fixture sqlite_log = {
    .ops = &outrider__source_sqlite,
    .set_up = set_up,
    .tear_down = tear_down,
    .insert = insert,
    .finish = finish,
    .count_outbox = count_outbox,
    .count_parked = count_parked,
    .age_outbox = age_outbox,
    .take_over = take_over,
    .bad_url = "sqlite:/nonexistent/shop.db",
};
