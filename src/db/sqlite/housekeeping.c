/* SPDX-License-Identifier: MIT */
#include "housekeeping.h"

#include "base/clock.h"
#include "conn.h"
#include "store.sql.h"

static const char *const mend_blocks[] = {sql_mend_queue, sql_mend_park};

int outrider__sqlite_mend_lanes(sqlite3 *db, const char *pipeline, bool blocks, int64_t now_us)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof mend_blocks / sizeof *mend_blocks; i++) {
        sqlite3_stmt *st = NULL;
        rc = outrider__sqlite_prepare(db, mend_blocks[i], NULL, 0, &st);
        if (rc == SQLITE_OK) {
            (void)sqlite3_bind_text(st, 1, pipeline, -1, SQLITE_STATIC);
            (void)sqlite3_bind_int(st, 2, blocks);
            (void)sqlite3_bind_int64(st, 3, now_us);
            (void)sqlite3_step(st);
        }
        int finished = sqlite3_finalize(st);
        rc = rc == SQLITE_OK ? finished : rc;
    }
    return rc;
}

int outrider__sqlite_remove_settled(sqlite3 *db, int64_t older_than_us, int64_t limit,
                                    uint64_t *ret_removed)
{
    char cutoff[CLOCK_TEXT_SIZE];
    sqlite3_stmt *st = NULL;
    int rc = outrider__sqlite_prepare(db, sql_remove_settled, NULL, 0, &st);
    if (rc != SQLITE_OK)
        return rc;
    outrider__clock_format(older_than_us, cutoff);
    (void)sqlite3_bind_int64(st, 1, limit);
    (void)sqlite3_bind_text(st, 2, cutoff, -1, SQLITE_STATIC);
    (void)sqlite3_step(st);
    uint64_t removed = (uint64_t)sqlite3_changes64(db);
    rc = sqlite3_finalize(st);
    if (rc == SQLITE_OK)
        *ret_removed = removed;
    return rc;
}
