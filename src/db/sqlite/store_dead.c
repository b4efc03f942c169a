/* SPDX-License-Identifier: MIT */
/* The SQLite store: status, and dead letters. */
#include "store.h"

#include <stdio.h>

#include "housekeeping.h"

#define COUNT_PARKED(condition) \
    "(SELECT count(*) FROM outrider_parked p WHERE p.pipeline = c.pipeline" condition "), "
#define N_PARKED COUNT_PARKED(" AND p.state = 'parked'")
#define N_LIVE COUNT_PARKED(" AND p.state <> 'dead'")
#define N_ALL COUNT_PARKED("")
#define STATUS_COLUMNS                                                                  \
    "SELECT c.pipeline, c.sink, c.position, ifnull((SELECT max(seq) FROM outbox), 0), " \
    "(SELECT count(*) FROM outbox WHERE seq > c.position), " N_PARKED N_LIVE N_ALL      \
    "(SELECT created_at FROM outbox WHERE seq > c.position ORDER BY seq LIMIT 1), "     \
    "c.delivered_total, c.expired_total, c.skipped_total, c.dead_total, c.settled_at FROM "

static const char sql_status[] = STATUS_COLUMNS "outrider_cursor c ORDER BY c.pipeline";
/* Before any relay has run: everything is pending for the pipeline that was named. */
static const char sql_status_new[] =
    STATUS_COLUMNS "(SELECT ?1 AS pipeline, '' AS sink, 0 AS position, 0 AS delivered_total, "
                   "0 AS expired_total, 0 AS skipped_total, 0 AS dead_total, NULL AS settled_at) c";

static const char sql_count_failed[] =
    "SELECT count(*) FILTER (WHERE state <> 'dead'), count(*) FILTER (WHERE state = 'dead') FROM "
    "outrider_parked WHERE pipeline = ?1";

#define DEAD_FILTER                                                \
    "(?1 IS NULL OR pipeline = ?1) AND "                           \
    "(?2 IS NULL OR id IN (SELECT value FROM json_each(?2))) AND " \
    "(?3 IS NULL OR event_type = ?3) AND updated_at >= ?4 AND (state = 'dead' OR ?5)"
static const char sql_dead_list[] =
    "SELECT " EVENT_COLUMNS ", arrival, attempts, pipeline, state, error_code, error_message, "
    "parked_at, next_attempt_at, updated_at FROM outrider_parked WHERE " DEAD_FILTER
    " ORDER BY arrival";
/* mend_lanes() then makes the first of each lane due. */
static const char sql_dead_retry[] =
    "UPDATE outrider_parked SET state = 'queued', next_attempt_at = NULL, attempts = 0, "
    "updated_at = ?6 WHERE " DEAD_FILTER;
static const char sql_dead_discard[] = "DELETE FROM outrider_parked WHERE " DEAD_FILTER;
static const char sql_pipelines[] =
    "SELECT DISTINCT p.pipeline, c.on_dead = 'block' FROM outrider_parked p LEFT JOIN "
    "outrider_cursor c ON c.pipeline = p.pipeline";

static const char *column_str(sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);
    return text != NULL ? text : "";
}

static void read_status(struct sqlite_store *s, sqlite3_stmt *st, struct store_status *ret_status)
{
    char holder[128];
    struct store_status status = {
        .position = sqlite3_column_int64(st, 2),
        .head = sqlite3_column_int64(st, 3),
        .pending = (uint64_t)sqlite3_column_int64(st, 4),
        .parked = (uint64_t)sqlite3_column_int64(st, 5),
        .queued = (uint64_t)(sqlite3_column_int64(st, 6) - sqlite3_column_int64(st, 5)),
        .dead = (uint64_t)(sqlite3_column_int64(st, 7) - sqlite3_column_int64(st, 6)),
        .delivered_total = (uint64_t)sqlite3_column_int64(st, 9),
        .expired_total = (uint64_t)sqlite3_column_int64(st, 10),
        .skipped_total = (uint64_t)sqlite3_column_int64(st, 11),
        .dead_total = (uint64_t)sqlite3_column_int64(st, 12),
        .settled_at_us = sqlite3_column_int64(st, 13),
    };
    (void)snprintf(status.pipeline, sizeof status.pipeline, "%s", column_str(st, 0));
    (void)snprintf(status.sink, sizeof status.sink, "%s", column_str(st, 1));
    (void)outrider__clock_parse(bytes_str(column_str(st, 8)), &status.oldest_pending_us);
    status.relay_active =
        outrider__sqlite_lock_is_held(s->real, column_str(st, 0), holder, sizeof holder);
    *ret_status = status;
}

static int list_status(struct sqlite_store *s, const char *sql,
                       void (*row)(void *, const struct store_status *), void *ctx, int *ret_n,
                       struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    struct store_status status;
    if (outrider__sqlite_store_prepare(s, sql, &st, err) < 0)
        return -1;
    if (sqlite3_bind_parameter_count(st) > 0)
        (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    while (sqlite3_step(st) == SQLITE_ROW) {
        read_status(s, st, &status);
        row(ctx, &status);
        ++*ret_n;
    }
    int rc = sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot read the status");
}

int outrider__sqlite_status(struct store *base, void (*row)(void *, const struct store_status *),
                            void *ctx, struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    int n = 0;
    if (outrider__sqlite_store_ready(s, err) < 0 ||
        list_status(s, sql_status, row, ctx, &n, err) < 0)
        return -1;
    return n > 0 ? 0 : list_status(s, sql_status_new, row, ctx, &n, err);
}

int outrider__sqlite_count_failed(struct store *base, uint64_t *ret_parked, uint64_t *ret_dead,
                                  struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_ready(s, err) < 0 ||
        outrider__sqlite_store_prepare(s, sql_count_failed, &st, err) < 0)
        return -1;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    if (sqlite3_step(st) == SQLITE_ROW) {
        *ret_parked = (uint64_t)sqlite3_column_int64(st, 0);
        *ret_dead = (uint64_t)sqlite3_column_int64(st, 1);
    }
    int rc = sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot count failures");
}

static int bind_filter(sqlite3_stmt *st, const struct dead_filter *f, struct outrider_error *err)
{
    if (f->pipeline != NULL)
        (void)sqlite3_bind_text(st, 1, f->pipeline, -1, SQLITE_TRANSIENT);
    if (f->n_ids > 0) {
        struct strbuf ids;
        outrider__strbuf_init(&ids, 64 << 20);
        for (size_t i = 0; i < f->n_ids; i++) {
            strbuf_append_str(&ids, i == 0 ? "[" : ",");
            outrider__strbuf_append_json(&ids, bytes_str(f->ids[i]));
        }
        strbuf_append_str(&ids, "]");
        bool failed = ids.failed || sqlite3_bind_text64(st, 2, strbuf_cstr(&ids), ids.len,
                                                        SQLITE_TRANSIENT, SQLITE_UTF8) != SQLITE_OK;
        outrider__strbuf_release(&ids);
        if (failed)
            return outrider__fail_nomem(err);
    }
    if (f->event_type != NULL)
        (void)sqlite3_bind_text(st, 3, f->event_type, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(st, 4, f->since_us);
    (void)sqlite3_bind_int(st, 5, f->with_parked);
    return 0;
}

static int tell_row(sqlite3_stmt *st, struct batch *b, struct row_clock *clock,
                    void (*row)(void *, const struct dead_row *), void *ctx,
                    struct outrider_error *err)
{
    enum {
        ARRIVAL = EVENT_COLUMN_COUNT,
        ATTEMPTS,
        PIPELINE,
        STATE,
        CODE,
        MESSAGE,
        PARKED_AT,
        NEXT,
        UPDATED_AT
    };
    struct dead_row r;
    outrider__batch_reset(b);
    if (outrider__sqlite_row_of(st, b, &EVENT_UNBOUNDED, clock, &r.event, err) < 0)
        return -1;
    r.event->is_parked = true;
    r.event->arrival = sqlite3_column_int64(st, ARRIVAL);
    r.event->attempts = (uint32_t)sqlite3_column_int64(st, ATTEMPTS);
    r.pipeline = column_str(st, PIPELINE);
    r.state = column_str(st, STATE);
    r.error_code = column_str(st, CODE);
    r.error_message = column_str(st, MESSAGE);
    r.parked_at_us = sqlite3_column_int64(st, PARKED_AT);
    r.next_attempt_us = sqlite3_column_int64(st, NEXT);
    r.updated_at_us = sqlite3_column_int64(st, UPDATED_AT);
    row(ctx, &r);
    return 0;
}

int outrider__sqlite_dead_list(struct store *base, const struct dead_filter *f,
                               void (*row)(void *, const struct dead_row *), void *ctx,
                               struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    struct row_clock clock = {0};
    struct batch b;
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_ready(s, err) < 0 ||
        outrider__sqlite_store_prepare(s, sql_dead_list, &st, err) < 0)
        return -1;
    if (outrider__batch_init(&b, 1, SIZE_MAX, err) < 0) {
        sqlite3_finalize(st);
        return -1;
    }
    int result = bind_filter(st, f, err);
    while (result == 0 && sqlite3_step(st) == SQLITE_ROW)
        result = tell_row(st, &b, &clock, row, ctx, err);
    int rc = sqlite3_finalize(st);
    outrider__batch_release(&b);
    if (result == 0 && rc != SQLITE_OK)
        result = outrider__sqlite_fail(err, s->db, rc, "cannot list the parked events");
    return result;
}

/* Lanes are mended under each pipeline's own rule of whether a dead letter blocks. */
static int mend_all(struct sqlite_store *s, int64_t now_us, struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_prepare(s, sql_pipelines, &st, err) < 0)
        return -1;
    int rc = SQLITE_OK;
    while (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        rc = outrider__sqlite_mend_lanes(s->db, column_str(st, 0), sqlite3_column_int(st, 1) != 0,
                                         now_us);
    int finished = sqlite3_finalize(st);
    rc = rc == SQLITE_OK ? finished : rc;
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot mend the lanes");
}

static int change(struct sqlite_store *s, const char *sql, const struct dead_filter *f,
                  uint64_t *ret_n, struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    int64_t now_us = outrider__clock_now().wall_us;
    if (outrider__sqlite_store_prepare(s, sql, &st, err) < 0)
        return -1;
    int result = bind_filter(st, f, err);
    if (sqlite3_bind_parameter_count(st) >= 6)
        (void)sqlite3_bind_int64(st, 6, now_us);
    if (result == 0)
        (void)sqlite3_step(st);
    uint64_t n = (uint64_t)sqlite3_changes64(s->db);
    int rc = sqlite3_finalize(st);
    if (result == 0 && rc != SQLITE_OK)
        result = outrider__sqlite_fail(err, s->db, rc, "cannot change the parked events");
    if (result == 0)
        result = mend_all(s, now_us, err);
    if (result == 0)
        *ret_n = n;
    return result;
}

static int change_all(struct store *base, const char *sql, const struct dead_filter *f,
                      uint64_t *ret_n, struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    if (outrider__sqlite_store_ready(s, err) < 0 || outrider__sqlite_store_begin(s, err) < 0)
        return -1;
    return outrider__sqlite_store_end(s, change(s, sql, f, ret_n, err), err);
}

int outrider__sqlite_dead_retry(struct store *base, const struct dead_filter *f, uint64_t *ret_n,
                                struct outrider_error *err)
{
    return change_all(base, sql_dead_retry, f, ret_n, err);
}

int outrider__sqlite_dead_discard(struct store *base, const struct dead_filter *f, uint64_t *ret_n,
                                  struct outrider_error *err)
{
    return change_all(base, sql_dead_discard, f, ret_n, err);
}
