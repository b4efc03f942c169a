/* SPDX-License-Identifier: MIT */
#include "support/sqlite_fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "outrider/sqlite.h"

void sqlite_fixture_make(struct sqlite_fixture *f)
{
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/outrider-sqlite-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof f->path, "%s/shop.db", f->dir);
    (void)snprintf(f->url, sizeof f->url, "sqlite:%s", f->path);
    assert_int_equal(sqlite3_open(f->path, &f->db), SQLITE_OK);
    (void)sqlite3_busy_timeout(f->db, 20000);
}

void sqlite_fixture_init(struct sqlite_fixture *f)
{
    struct outrider_error err = {0};
    sqlite_fixture_make(f);
    if (outrider_init_sqlite(f->db, &err) < 0)
        fail_msg("init: %s", err.message);
}

void sqlite_fixture_remove(struct sqlite_fixture *f)
{
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    DIR *dir = opendir(f->dir);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    (void)closedir(dir);
    (void)rmdir(f->dir);
}

void sqlite_must(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

const char *sqlite_text(sqlite3 *db, const char *sql)
{
    static char text[4096];
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    const char *value = (const char *)sqlite3_column_text(st, 0);
    (void)snprintf(text, sizeof text, "%s", value != NULL ? value : "");
    sqlite3_finalize(st);
    return text;
}

int64_t sqlite_value(sqlite3 *db, const char *sql)
{
    return strtoll(sqlite_text(db, sql), NULL, 10);
}
