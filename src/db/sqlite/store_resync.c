/* SPDX-License-Identifier: MIT */
/*
 * After history was rewritten: sets a pipeline's cursor to what the table still
 * holds. common/resync.h judges.
 */
#include "store.h"

#include "common/resync.h"
#include "housekeeping.h"
#include "store.sql.h"

/* exactly_once: an intent that was not settled describes the history before. */
static const char sql_forget[] = "UPDATE outrider_intent SET body = NULL WHERE pipeline = ?1";

/* Columns of resync_read. */
enum resync_column {
    RESYNC_POSITION,
    RESYNC_ANCHOR,
    RESYNC_ROW_ID,    /* of the row at the position; NULL: there is none */
    RESYNC_MOVED_SEQ, /* where the anchor's row is now; NULL: nowhere */
    RESYNC_SEQUENCE,
    RESYNC_LAST_SEQ,  /* the highest one up to the position */
    RESYNC_HAS_NEWER, /* rows below the position, from after the last settle */
    RESYNC_HELD
};

static struct bytes resync_text(sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);
    return text != NULL ? bytes_of(text, (size_t)sqlite3_column_bytes(st, i)) : BYTES_NULL;
}

static struct resync_verdict resync_judge(sqlite3_stmt *st)
{
    struct resync_facts f = {
        .anchor = {.position = sqlite3_column_int64(st, RESYNC_POSITION),
                   .sequence = sqlite3_column_int64(st, RESYNC_SEQUENCE),
                   .stored = resync_text(st, RESYNC_ANCHOR),
                   .found = resync_text(st, RESYNC_ROW_ID)},
        .has_moved = sqlite3_column_type(st, RESYNC_MOVED_SEQ) != SQLITE_NULL,
        .moved_to = sqlite3_column_int64(st, RESYNC_MOVED_SEQ),
        .is_order_kept = true, /* one writer at a time: rows follow each other */
        .has_newer = sqlite3_column_int(st, RESYNC_HAS_NEWER) != 0,
        .last_settled = sqlite3_column_int64(st, RESYNC_LAST_SEQ),
        .held = sqlite3_column_int64(st, RESYNC_HELD),
    };
    return outrider__resync_judge(&f);
}

static int resync_read(struct sqlite_store *s, struct resync_verdict *ret_verdict,
                       struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_prepare(s, sql_resync_read, NULL, &st, err) < 0)
        return -1;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    int rc = sqlite3_step(st), result = 0;
    if (rc == SQLITE_ROW)
        *ret_verdict = resync_judge(st);
    else if (rc == SQLITE_DONE)
        result = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                                "%s has no pipeline '%s'; `outrider status` lists those it has",
                                s->path, s->config->name);
    else
        result = outrider__sqlite_fail(err, s->db, rc, "cannot read the cursor");
    sqlite3_finalize(st);
    return result;
}

static int resync_write_position(struct sqlite_store *s, int64_t position,
                                 struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_prepare(s, sql_resync_write, NULL, &st, err) < 0)
        return -1;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 2, position);
    (void)sqlite3_step(st);
    int rc = sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot write the cursor");
}

static int resync_forget_intent(struct sqlite_store *s, struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    if (!outrider__sqlite_has_table(s->db, "outrider_intent"))
        return 0;
    if (outrider__sqlite_store_prepare(s, sql_forget, NULL, &st, err) < 0)
        return -1;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    (void)sqlite3_step(st);
    int rc = sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot drop the intent");
}

static int resync_pipeline(struct sqlite_store *s, struct strbuf *ret_report,
                           struct outrider_error *err)
{
    struct resync_verdict v = {0};
    if (outrider__sqlite_store_begin(s, err) < 0)
        return -1;
    int result = resync_read(s, &v, err);
    if (result == 0 && !v.is_intact)
        result =
            resync_write_position(s, v.new_position, err) < 0 ? -1 : resync_forget_intent(s, err);
    result = outrider__sqlite_store_end(s, result, err);
    if (result == 0)
        outrider__resync_report(&v, s->config->name, ret_report);
    return result;
}

int outrider__sqlite_resync(struct store *base, struct strbuf *ret_report,
                            struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    struct sqlite_lock lock = {.fd = -1};
    if (outrider__sqlite_store_ready(s, err) < 0 || outrider__sqlite_store_lock(s, &lock, err) < 0)
        return -1;
    int result = resync_pipeline(s, ret_report, err);
    outrider__sqlite_unlock(&lock);
    return result;
}
