/* SPDX-License-Identifier: MIT */
#include "housekeeping.h"

#include "base/clock.h"

#define HAS_ONE_BEFORE                                                                       \
    "EXISTS (SELECT 1 FROM outrider_parked b WHERE b.pipeline = ?1 AND b.lane = p.lane AND " \
    "b.arrival < p.arrival AND (?2 OR b.state <> 'dead'))"

static const char *const sql_mend[] = {
    "UPDATE outrider_parked AS p SET state = 'queued', next_attempt_at = NULL, updated_at = ?3 "
    "WHERE pipeline = ?1 AND state = 'parked' AND " HAS_ONE_BEFORE,
    "UPDATE outrider_parked AS p SET state = 'parked', next_attempt_at = 0, updated_at = ?3 "
    "WHERE pipeline = ?1 AND state = 'queued' AND NOT " HAS_ONE_BEFORE,
};

/* One statement, so which rows are settled is asked in the transaction that
 * removes them. A window from the front, so that rows which are still young are
 * not all looked at each time. */
static const char sql_remove[] =
    "DELETE FROM outbox WHERE seq IN (SELECT seq FROM (SELECT seq, created_at FROM outbox WHERE "
    "seq <= (SELECT min(position) FROM outrider_cursor) ORDER BY seq LIMIT ?1 + 1000) "
    "WHERE julianday(created_at) < julianday(?2) AND seq NOT IN "
    "(SELECT position FROM outrider_cursor) LIMIT ?1)";

int outrider__sqlite_mend_lanes(sqlite3 *db, const char *pipeline, bool blocks, int64_t now_us)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof sql_mend / sizeof *sql_mend; i++) {
        sqlite3_stmt *st = NULL;
        rc = sqlite3_prepare_v2(db, sql_mend[i], -1, &st, NULL);
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
    int rc = sqlite3_prepare_v2(db, sql_remove, -1, &st, NULL);
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
