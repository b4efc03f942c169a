/* SPDX-License-Identifier: MIT */
/* The SQLite store: status, and dead letters. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/dead.h"
#include "dialect.h"
#include "housekeeping.h"
#include "source.sql.h"
#include "store.sql.h"

/* Columns of status and dead_pipelines. */
enum status_column {
    STATUS_PIPELINE,
    STATUS_SINK,
    STATUS_POSITION,
    STATUS_HEAD,
    STATUS_PENDING,
    STATUS_PARKED,
    STATUS_LIVE, /* parked and queued */
    STATUS_ALL,  /* and dead */
    STATUS_OLDEST_PENDING,
    STATUS_DELIVERED,
    STATUS_EXPIRED,
    STATUS_SKIPPED,
    STATUS_DEAD,
    STATUS_SETTLED_AT
};
enum pipelines_column { PIPELINES_NAME, PIPELINES_BLOCKS };

static const char *dead_column_str(sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);
    return text != NULL ? text : "";
}

static void dead_status_read(struct sqlite_store *s, sqlite3_stmt *st,
                             struct store_status *ret_status)
{
    char holder[128];
    struct store_status status = {
        .position = sqlite3_column_int64(st, STATUS_POSITION),
        .head = sqlite3_column_int64(st, STATUS_HEAD),
        .pending = (uint64_t)sqlite3_column_int64(st, STATUS_PENDING),
        .parked = (uint64_t)sqlite3_column_int64(st, STATUS_PARKED),
        .queued = (uint64_t)(sqlite3_column_int64(st, STATUS_LIVE) -
                             sqlite3_column_int64(st, STATUS_PARKED)),
        .dead = (uint64_t)(sqlite3_column_int64(st, STATUS_ALL) -
                           sqlite3_column_int64(st, STATUS_LIVE)),
        .delivered_total = (uint64_t)sqlite3_column_int64(st, STATUS_DELIVERED),
        .expired_total = (uint64_t)sqlite3_column_int64(st, STATUS_EXPIRED),
        .skipped_total = (uint64_t)sqlite3_column_int64(st, STATUS_SKIPPED),
        .dead_total = (uint64_t)sqlite3_column_int64(st, STATUS_DEAD),
        .settled_at_us = sqlite3_column_int64(st, STATUS_SETTLED_AT),
    };
    (void)snprintf(status.pipeline, sizeof status.pipeline, "%s",
                   dead_column_str(st, STATUS_PIPELINE));
    (void)snprintf(status.sink, sizeof status.sink, "%s", dead_column_str(st, STATUS_SINK));
    (void)outrider__clock_parse(bytes_str(dead_column_str(st, STATUS_OLDEST_PENDING)),
                                &status.oldest_pending_us);
    status.relay_active = outrider__sqlite_lock_is_held(
        s->real, dead_column_str(st, STATUS_PIPELINE), holder, sizeof holder);
    *ret_status = status;
}

static int dead_status_list(struct sqlite_store *s, bool is_new,
                            void (*row)(void *, const struct store_status *), void *ctx, int *ret_n,
                            struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    struct store_status status;
    const struct sqlite_words words = {.is_new = is_new};
    if (outrider__sqlite_store_prepare(s, sql_status, &words, &st, err) < 0)
        return -1;
    if (sqlite3_bind_parameter_count(st) > 0)
        (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    while (sqlite3_step(st) == SQLITE_ROW) {
        dead_status_read(s, st, &status);
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
        dead_status_list(s, false, row, ctx, &n, err) < 0)
        return -1;
    return n > 0 ? 0 : dead_status_list(s, true, row, ctx, &n, err);
}

static int dead_prepare(struct sqlite_store *s, enum dead_statement which, sqlite3_stmt **ret_st,
                        struct outrider_error *err)
{
    const struct dead_names names = {
        .parked = "outrider_parked", .cursor = "outrider_cursor", .event = sql_event_columns};
    char *sql = outrider__dead_sql(&outrider__sqlite_dialect, &names, which, NULL, err);
    if (sql == NULL)
        return -1;
    int rc = outrider__sqlite_store_prepare(s, sql, NULL, ret_st, err);
    free(sql);
    return rc;
}

int outrider__sqlite_count_failed(struct store *base, uint64_t *ret_parked, uint64_t *ret_dead,
                                  struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_ready(s, err) < 0 || dead_prepare(s, DEAD_FAILED, &st, err) < 0)
        return -1;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    if (sqlite3_step(st) == SQLITE_ROW) {
        *ret_parked = (uint64_t)sqlite3_column_int64(st, FAILED_LIVE);
        *ret_dead = (uint64_t)sqlite3_column_int64(st, FAILED_DEAD);
    }
    int rc = sqlite3_finalize(st);
    return rc == SQLITE_OK
               ? 0
               : outrider__sqlite_fail(err, s->db, rc, outrider__dead_purpose(DEAD_FAILED));
}

static int dead_bind_filter(sqlite3_stmt *st, const struct dead_filter *f,
                            struct outrider_error *err)
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

static int dead_tell_row(sqlite3_stmt *st, struct batch *b, struct row_clock *clock,
                         void (*row)(void *, const struct dead_row *), void *ctx,
                         struct outrider_error *err)
{
    struct dead_row r;
    outrider__batch_reset(b);
    if (outrider__sqlite_row_of(st, b, &EVENT_UNBOUNDED, clock, &r.event, err) < 0)
        return -1;
    r.event->is_parked = true;
    r.event->arrival = sqlite3_column_int64(st, EVENT_COLUMN_COUNT + DEAD_ARRIVAL);
    r.event->attempts = (uint32_t)sqlite3_column_int64(st, EVENT_COLUMN_COUNT + DEAD_ATTEMPTS);
    r.pipeline = dead_column_str(st, EVENT_COLUMN_COUNT + DEAD_PIPELINE);
    r.state = dead_column_str(st, EVENT_COLUMN_COUNT + DEAD_STATE);
    r.error_code = dead_column_str(st, EVENT_COLUMN_COUNT + DEAD_CODE);
    r.error_message = dead_column_str(st, EVENT_COLUMN_COUNT + DEAD_MESSAGE);
    r.parked_at_us = sqlite3_column_int64(st, EVENT_COLUMN_COUNT + DEAD_PARKED_AT);
    r.next_attempt_us = sqlite3_column_int64(st, EVENT_COLUMN_COUNT + DEAD_NEXT);
    r.updated_at_us = sqlite3_column_int64(st, EVENT_COLUMN_COUNT + DEAD_UPDATED_AT);
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
    if (outrider__sqlite_store_ready(s, err) < 0 || dead_prepare(s, DEAD_LIST, &st, err) < 0)
        return -1;
    if (outrider__batch_init(&b, 1, SIZE_MAX, err) < 0) {
        sqlite3_finalize(st);
        return -1;
    }
    int result = dead_bind_filter(st, f, err);
    while (result == 0 && sqlite3_step(st) == SQLITE_ROW)
        result = dead_tell_row(st, &b, &clock, row, ctx, err);
    int rc = sqlite3_finalize(st);
    outrider__batch_release(&b);
    if (result == 0 && rc != SQLITE_OK)
        result = outrider__sqlite_fail(err, s->db, rc, outrider__dead_purpose(DEAD_LIST));
    return result;
}

/* Lanes are mended under each pipeline's own rule of whether a dead letter blocks. */
static int dead_mend_all(struct sqlite_store *s, int64_t now_us, struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_prepare(s, sql_dead_pipelines, NULL, &st, err) < 0)
        return -1;
    int rc = SQLITE_OK;
    while (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        rc = outrider__sqlite_mend_lanes(s->db, dead_column_str(st, PIPELINES_NAME),
                                         sqlite3_column_int(st, PIPELINES_BLOCKS) != 0, now_us);
    int finished = sqlite3_finalize(st);
    rc = rc == SQLITE_OK ? finished : rc;
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot mend the lanes");
}

static int dead_change(struct sqlite_store *s, enum dead_statement which,
                       const struct dead_filter *f, uint64_t *ret_n, struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    int64_t now_us = outrider__clock_now().wall_us;
    if (dead_prepare(s, which, &st, err) < 0)
        return -1;
    int result = dead_bind_filter(st, f, err);
    if (sqlite3_bind_parameter_count(st) >= 6)
        (void)sqlite3_bind_int64(st, 6, now_us);
    if (result == 0)
        (void)sqlite3_step(st);
    uint64_t n = (uint64_t)sqlite3_changes64(s->db);
    int rc = sqlite3_finalize(st);
    if (result == 0 && rc != SQLITE_OK)
        result = outrider__sqlite_fail(err, s->db, rc, outrider__dead_purpose(which));
    if (result == 0)
        result = dead_mend_all(s, now_us, err);
    if (result == 0)
        *ret_n = n;
    return result;
}

static int dead_change_all(struct store *base, enum dead_statement which,
                           const struct dead_filter *f, uint64_t *ret_n, struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    if (outrider__sqlite_store_ready(s, err) < 0 || outrider__sqlite_store_begin(s, err) < 0)
        return -1;
    return outrider__sqlite_store_end(s, dead_change(s, which, f, ret_n, err), err);
}

int outrider__sqlite_dead_retry(struct store *base, const struct dead_filter *f, uint64_t *ret_n,
                                struct outrider_error *err)
{
    return dead_change_all(base, DEAD_RETRY, f, ret_n, err);
}

int outrider__sqlite_dead_discard(struct store *base, const struct dead_filter *f, uint64_t *ret_n,
                                  struct outrider_error *err)
{
    return dead_change_all(base, DEAD_DISCARD, f, ret_n, err);
}
