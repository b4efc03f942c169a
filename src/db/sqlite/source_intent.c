/* SPDX-License-Identifier: MIT */
/*
 * Exactly once: the pipeline's row in outrider_intent (core/progress.h). Each
 * change of it stands in one transaction with what it settles, which fails when
 * the epoch of the cursor is not ours any more.
 */
#include "source.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "core/intent.h"
#include "schema_intent.sql.h"

#define BODY_MAX ((size_t)1 << 30)

/* Columns of intent_read. */
enum intent_column { INTENT_IDENTITY, INTENT_NO, INTENT_STAMP, INTENT_HAS_BODY };

static int bind_name(const struct sqlite_source *s, sqlite3_stmt *st)
{
    return sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
}

static int enrol(struct sqlite_source *s)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_INTENT_ENROL, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)bind_name(s, st);
    (void)sqlite3_step(st);
    return sqlite3_reset(st);
}

/* Within the transaction that takes the pipeline over. */
enum step outrider__sqlite_intent_take(struct sqlite_source *s, struct outrider_error *err)
{
    struct source *base = &s->base;
    bool is_exact = s->config->exactly_once;
    if (is_exact && sqlite3_exec(s->db, sql_schema_intent, NULL, NULL, NULL) != SQLITE_OK)
        return outrider__sqlite_stumble(s, sqlite3_extended_errcode(s->db),
                                        "cannot make outrider_intent", err);
    if (!is_exact && !outrider__sqlite_has_table(s->db, "outrider_intent"))
        return STEP_DONE;
    int rc = is_exact ? enrol(s) : SQLITE_OK;
    sqlite3_stmt *st = rc == SQLITE_OK ? outrider__sqlite_statement(s, ST_INTENT_READ, err) : NULL;
    if (st == NULL)
        return outrider__sqlite_stumble(s, sqlite3_extended_errcode(s->db),
                                        "cannot read outrider_intent", err);
    (void)bind_name(s, st);
    base->has_intent = false;
    if (sqlite3_step(st) == SQLITE_ROW) {
        base->saved =
            (struct commit_mark){.no = (uint64_t)sqlite3_column_int64(st, INTENT_NO),
                                 .stamp = (uint64_t)sqlite3_column_int64(st, INTENT_STAMP)};
        base->has_intent = sqlite3_column_int(st, INTENT_HAS_BODY) != 0;
        (void)snprintf(base->identity, sizeof base->identity, "sqlite:%s/%s",
                       (const char *)sqlite3_column_text(st, INTENT_IDENTITY), s->config->name);
        (void)snprintf(base->intent_row, sizeof base->intent_row, "pipeline = '%s'",
                       s->config->name);
    }
    rc = sqlite3_reset(st);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read outrider_intent", err);
    if (is_exact || !base->has_intent)
        return STEP_DONE;
    return (enum step)outrider__fail(
        err, OUTRIDER_CONFIG, OUTRIDER_STOP,
        "pipeline '%s' of %s ran with exactly_once and was killed: whether its last transaction "
        "was committed is not known here; run it once more with exactly_once, or, if events may be "
        "published twice: UPDATE outrider_intent SET body = NULL WHERE pipeline = '%s'",
        s->config->name, s->path, s->config->name);
}

static enum step fail_fenced(const struct sqlite_source *s, struct outrider_error *err)
{
    return (enum step)outrider__fail(err, OUTRIDER_FENCED, OUTRIDER_RETRY,
                                     "another relay took over pipeline '%s' of %s", s->config->name,
                                     s->path);
}

static int write_row(struct sqlite_source *s, struct commit_mark p, struct bytes body)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_INTENT_SAVE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)bind_name(s, st);
    (void)sqlite3_bind_int64(st, 2, s->epoch);
    (void)sqlite3_bind_int64(st, 3, (int64_t)p.no);
    (void)sqlite3_bind_int64(st, 4, (int64_t)p.stamp);
    if (!bytes_is_null(body))
        (void)sqlite3_bind_blob64(st, 5, body.data, body.len, SQLITE_STATIC);
    (void)sqlite3_step(st);
    return sqlite3_reset(st);
}

/* One transaction; it is rolled back by the caller if it does not come to its end. */
static enum step change(struct sqlite_source *s, struct batch *settled, struct commit_mark p,
                        struct bytes body, int64_t now_us, struct outrider_error *err)
{
    int rc = outrider__sqlite_run(s, ST_BEGIN_IMMEDIATE);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot save an intent", err);
    if (settled != NULL) {
        enum step step = outrider__sqlite_settle_batch(s, settled, now_us, err);
        if (step != STEP_DONE)
            return step;
    }
    rc = write_row(s, p, body);
    if (rc == SQLITE_OK && sqlite3_changes(s->db) != 1)
        return fail_fenced(s, err);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_read_due(s);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot save an intent", err);
    int errno_value = FAILPOINT("intent.before_commit");
    if (errno_value != 0)
        return (enum step)outrider__fail_errno(err, errno_value, "cannot save an intent");
    rc = outrider__sqlite_run(s, ST_COMMIT);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot save an intent", err);
    errno_value = FAILPOINT("intent.after_commit");
    if (errno_value != 0)
        return (enum step)outrider__fail_errno(err, errno_value, "cannot save an intent");
    return STEP_DONE;
}

enum step outrider__sqlite_intent(struct sqlite_source *s, struct source_op *op,
                                  struct outrider_error *err)
{
    struct source *base = &s->base;
    struct strbuf body;
    struct commit_mark p = op->intent != NULL ? op->progress : base->saved;
    outrider__strbuf_init(&body, BODY_MAX);
    enum step step = STEP_DONE;
    if (op->intent != NULL && outrider__intent_write(op->intent, 0, BYTES_NULL, &body, err) < 0)
        step = STEP_FAILED;
    if (step == STEP_DONE)
        step = change(s, op->batch, p, op->intent != NULL ? strbuf_bytes(&body) : BYTES_NULL,
                      op->now_wall_us, err);
    outrider__strbuf_release(&body);
    if (step != STEP_DONE) {
        outrider__sqlite_rollback(s);
        return step;
    }
    if (op->batch != NULL && !op->batch->is_parked)
        s->position = op->batch->events[op->batch->n - 1].seq;
    base->saved = p;
    base->has_intent = op->intent != NULL;
    /* The sink is about to commit: this must be there after a power cut. */
    if (op->intent != NULL && outrider__sqlite_sync(s, err) < 0)
        return STEP_FAILED;
    return STEP_DONE;
}

static enum step read_body(struct sqlite_source *s, struct batch *ret_batch,
                           struct outrider_error *err)
{
    struct bytes own;
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_INTENT_BODY, err);
    if (st == NULL)
        return STEP_FAILED;
    (void)bind_name(s, st);
    int rc = sqlite3_step(st);
    if (rc != SQLITE_ROW)
        return outrider__sqlite_stumble(s, rc, "cannot read the intent", err);
    const char *data = sqlite3_column_blob(st, 0);
    struct bytes body = bytes_of(data != NULL ? data : "", (size_t)sqlite3_column_bytes(st, 0));
    int r = outrider__intent_read(body, ret_batch, &own, err);
    (void)sqlite3_reset(st);
    return r < 0 ? STEP_FAILED : STEP_DONE;
}

static enum step prove_leader(struct sqlite_source *s, struct outrider_error *err)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_INTENT_EPOCH, err);
    if (st == NULL)
        return STEP_FAILED;
    (void)bind_name(s, st);
    bool is_ours = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 0) == s->epoch;
    int rc = sqlite3_reset(st);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read the cursor", err);
    return is_ours ? STEP_DONE : fail_fenced(s, err);
}

enum step outrider__sqlite_recall(struct sqlite_source *s, struct source_op *op,
                                  struct outrider_error *err)
{
    struct source *base = &s->base;
    bool applies = op->verdict == RECALL_CAME_TRUE;
    struct batch b = {0};
    enum step step = applies ? read_body(s, &b, err) : STEP_DONE;
    if (step != STEP_DONE)
        return step;
    if (!applies && op->verdict != RECALL_NEVER_WAS)
        return prove_leader(s, err);
    step = change(s, applies ? &b : NULL, op->progress, BYTES_NULL, op->now_wall_us, err);
    if (step != STEP_DONE)
        outrider__sqlite_rollback(s);
    else
        base->has_intent = false;
    if (applies)
        outrider__batch_release(&b);
    if (step == STEP_DONE)
        base->saved = op->progress;
    return step;
}
