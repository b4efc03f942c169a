/* SPDX-License-Identifier: MIT */
/*
 * What an operator changes of a pipeline that stands still: the sink, and the number of the
 * last transaction of exactly_once. Both need the pipeline's lock: no relay is active.
 */
#include "store.h"

#include "common/pipeline.h"
#include "core/config.h"

#include "pipeline.sql.h"

enum pipeline_column { PIPELINE_SINK };

int outrider__sqlite_store_lock(struct sqlite_store *s, struct sqlite_lock *l,
                                struct outrider_error *err)
{
    char holder[128];
    switch (outrider__sqlite_lock(l, s->real, s->config->name, holder, sizeof holder, err)) {
    case LOCK_FAILED:
        return -1;
    case LOCK_BUSY:
        return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_RETRY,
                              "pipeline '%s' of %s is active (%s); stop that relay first",
                              s->config->name, s->path, holder);
    case LOCK_HELD:
        break;
    }
    return 0;
}

/* Prepares a statement whose first parameter is the pipeline. */
static sqlite3_stmt *pipeline_prepare(struct sqlite_store *s, const char *sql,
                                      struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_prepare(s, sql, NULL, &st, err) < 0)
        return NULL;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    return st;
}

static int pipeline_run(struct sqlite_store *s, sqlite3_stmt *st, const char *what,
                        struct outrider_error *err)
{
    if (st == NULL)
        return -1;
    (void)sqlite3_step(st);
    int rc = sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, what);
}

/* The report says what the sink was, so that a slip can be undone. */
static int pipeline_report_move(struct sqlite_store *s, struct strbuf *ret_report,
                                struct outrider_error *err)
{
    sqlite3_stmt *st = pipeline_prepare(s, sql_pipeline_read, err);
    if (st == NULL)
        return -1;
    int rc = sqlite3_step(st), result = 0;
    if (rc == SQLITE_ROW) {
        const char *sink = (const char *)sqlite3_column_text(st, PIPELINE_SINK);
        outrider__pipeline_move_report(ret_report, s->config->name, sink != NULL ? sink : "",
                                       s->config->sink_identity);
    } else if (rc == SQLITE_DONE) {
        result = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                                "%s has no pipeline '%s'; `outrider status` lists those it has",
                                s->path, s->config->name);
    } else {
        result = outrider__sqlite_fail(err, s->db, rc, "cannot read the cursor");
    }
    sqlite3_finalize(st);
    return result;
}

static int pipeline_move(struct sqlite_store *s, struct strbuf *ret_report,
                         struct outrider_error *err)
{
    if (outrider__sqlite_store_begin(s, err) < 0)
        return -1;
    int result = pipeline_report_move(s, ret_report, err);
    sqlite3_stmt *st = result == 0 ? pipeline_prepare(s, sql_pipeline_move, err) : NULL;
    if (st != NULL)
        (void)sqlite3_bind_text(st, 2, s->config->sink_identity, -1, SQLITE_STATIC);
    if (result == 0)
        result = pipeline_run(s, st, "cannot write the cursor", err);
    return outrider__sqlite_store_end(s, result, err);
}

int outrider__sqlite_move(struct store *base, struct strbuf *ret_report, struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    struct sqlite_lock lock = {.fd = -1};
    if (outrider__sqlite_store_ready(s, err) < 0 || outrider__sqlite_store_lock(s, &lock, err) < 0)
        return -1;
    int result = pipeline_move(s, ret_report, err);
    outrider__sqlite_unlock(&lock);
    return result;
}

static int pipeline_intent_write(struct sqlite_store *s, const struct commit_mark *progress,
                                 struct outrider_error *err)
{
    sqlite3_stmt *st = pipeline_prepare(s, sql_intent_reset, err);
    if (st != NULL && progress != NULL) {
        (void)sqlite3_bind_int64(st, 2, (int64_t)progress->no);
        (void)sqlite3_bind_int64(st, 3, (int64_t)progress->stamp);
    }
    if (pipeline_run(s, st, "cannot change the intent", err) < 0)
        return -1;
    if (sqlite3_changes(s->db) == 1)
        return 0;
    return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                          "pipeline '%s' of %s has not run with exactly_once", s->config->name,
                          s->path);
}

static int pipeline_intent_reset(struct sqlite_store *s, const struct commit_mark *progress,
                                 struct outrider_error *err)
{
    if (!outrider__sqlite_has_table(s->db, "outrider_intent"))
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "no pipeline of %s has run with exactly_once", s->path);
    if (outrider__sqlite_store_begin(s, err) < 0)
        return -1;
    int result = pipeline_intent_write(s, progress, err);
    if (result == 0)
        result = pipeline_run(s, pipeline_prepare(s, sql_intent_reset_epoch, err),
                              "cannot write the cursor", err);
    return outrider__sqlite_store_end(s, result, err);
}

int outrider__sqlite_reset_intent(struct store *base, const struct commit_mark *progress,
                                  struct strbuf *ret_report, struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    struct sqlite_lock lock = {.fd = -1};
    if (outrider__sqlite_store_ready(s, err) < 0 || outrider__sqlite_store_lock(s, &lock, err) < 0)
        return -1;
    int result = pipeline_intent_reset(s, progress, err);
    outrider__sqlite_unlock(&lock);
    if (result == 0)
        outrider__intent_reset_report(ret_report, s->config->name, progress);
    return result;
}
