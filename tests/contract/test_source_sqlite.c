/* SPDX-License-Identifier: MIT */
/* The source's contract over SQLite. */
#include "contract/source_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "outrider/sqlite.h"
#include "sqlite/sqlite.h"
#include "support/sqlite_fixture.h"

static struct sqlite_fixture f;

static void set_up(char *ret_url, size_t size)
{
    sqlite_fixture_init(&f);
    (void)snprintf(ret_url, size, "%s", f.url);
}

static void tear_down(void)
{
    sqlite_fixture_remove(&f);
}

static void insert(const struct outrider_event *events, size_t n)
{
    struct outrider_error err = {0};
    if (sqlite3_get_autocommit(f.db))
        sqlite_must(f.db, "BEGIN IMMEDIATE");
    for (size_t i = 0; i < n; i++)
        if (outrider_enqueue_sqlite(f.db, &events[i], 0, NULL, &err) < 0)
            fail_msg("enqueue: %s", err.message);
}

static void finish(bool commit)
{
    sqlite_must(f.db, commit ? "COMMIT" : "ROLLBACK");
}

static int64_t count_outbox(void)
{
    return sqlite_value(f.db, "SELECT count(*) FROM outbox");
}

static int64_t count_parked(const char *state)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM outrider_parked WHERE %s%s%s",
                   state != NULL ? "state = '" : "1", state != NULL ? state : "",
                   state != NULL ? "'" : "");
    return sqlite_value(f.db, sql);
}

static void age_outbox(int64_t age_us)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "UPDATE outbox SET created_at = strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now', "
                   "'-%lld seconds')",
                   (long long)(age_us / 1000000));
    sqlite_must(f.db, sql);
}

static void take_over(const char *pipeline)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "UPDATE outrider_cursor SET epoch = epoch + 1 WHERE pipeline = '%s'", pipeline);
    sqlite_must(f.db, sql);
}

int main(void)
{
    const struct source_fixture fixture = {
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
    return source_contract_run("source_sqlite", &fixture);
}
