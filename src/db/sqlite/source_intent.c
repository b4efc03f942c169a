/* SPDX-License-Identifier: MIT */
/*
 * Exactly once: the pipeline's row in outrider_intent. common/intent_state.h decides;
 * here the row is read and written. A change of the row and what it settles are one
 * transaction, which fails when the epoch of the cursor is not ours any more.
 */
#include "source.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "common/intent_state.h"
#include "schema_intent.sql.h"

/* Columns of intent_read. */
enum intent_column { INTENT_IDENTITY, INTENT_NO, INTENT_STAMP, INTENT_HAS_BODY };

static int sqlite_intent_bind(const struct sqlite_source *s, sqlite3_stmt *st)
{
    return sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
}

static int sqlite_intent_enrol(struct sqlite_source *s)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_INTENT_ENROL, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite_intent_bind(s, st);
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
    int rc = is_exact ? sqlite_intent_enrol(s) : SQLITE_OK;
    sqlite3_stmt *st = rc == SQLITE_OK ? outrider__sqlite_statement(s, ST_INTENT_READ, err) : NULL;
    if (st == NULL)
        return outrider__sqlite_stumble(s, sqlite3_extended_errcode(s->db),
                                        "cannot read outrider_intent", err);
    (void)sqlite_intent_bind(s, st);
    struct intent_found found = {.has_row = sqlite3_step(st) == SQLITE_ROW};
    base->has_intent = false;
    if (found.has_row) {
        intent_taken(base, (uint64_t)sqlite3_column_int64(st, INTENT_NO),
                     (uint64_t)sqlite3_column_int64(st, INTENT_STAMP),
                     sqlite3_column_int(st, INTENT_HAS_BODY) != 0);
        (void)snprintf(base->identity, sizeof base->identity, "sqlite:%s/%s",
                       (const char *)sqlite3_column_text(st, INTENT_IDENTITY), s->config->name);
    }
    found.is_open = base->has_intent;
    rc = sqlite3_reset(st);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read outrider_intent", err);
    struct cursor_place at = outrider__sqlite_place(s);
    enum intent_start start; /* nobody publishes beside this relay: there is nobody to tell */
    return outrider__intent_start(&at, &found, &start, err) < 0 ? STEP_FAILED : STEP_DONE;
}

static enum step sqlite_intent_fail_fenced(const struct sqlite_source *s,
                                           struct outrider_error *err)
{
    struct cursor_place at = outrider__sqlite_place(s);
    return (enum step)outrider__cursor_fail_fenced(&at, err);
}

static int sqlite_intent_write_row(struct sqlite_source *s, const struct intent_row *row)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_INTENT_SAVE, NULL);
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    (void)sqlite_intent_bind(s, st);
    (void)sqlite3_bind_int64(st, 2, s->epoch);
    (void)sqlite3_bind_int64(st, 3, (int64_t)row->mark.no);
    (void)sqlite3_bind_int64(st, 4, (int64_t)row->mark.stamp);
    if (!bytes_is_null(row->body))
        (void)sqlite3_bind_blob64(st, 5, row->body.data, row->body.len, SQLITE_STATIC);
    (void)sqlite3_step(st);
    return sqlite3_reset(st);
}

/* One transaction. The caller rolls it back if it does not come to its end. */
static enum step sqlite_intent_change(struct sqlite_source *s, struct batch *settled,
                                      const struct intent_row *row, int64_t now_us,
                                      struct outrider_error *err)
{
    int rc = outrider__sqlite_run(s, ST_BEGIN_IMMEDIATE);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot save an intent", err);
    if (settled != NULL) {
        enum step step = outrider__sqlite_settle_batch(s, settled, now_us, err);
        if (step != STEP_DONE)
            return step;
    }
    rc = sqlite_intent_write_row(s, row);
    if (rc == SQLITE_OK && sqlite3_changes(s->db) != 1)
        return sqlite_intent_fail_fenced(s, err);
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

static enum step sqlite_intent_read_body(struct sqlite_source *s, struct batch *ret_batch,
                                         struct outrider_error *err)
{
    struct bytes own;
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_INTENT_BODY, err);
    if (st == NULL)
        return STEP_FAILED;
    (void)sqlite_intent_bind(s, st);
    int rc = sqlite3_step(st);
    if (rc != SQLITE_ROW)
        return outrider__sqlite_stumble(s, rc, "cannot read the intent", err);
    const char *data = sqlite3_column_blob(st, 0);
    struct bytes body = bytes_of(data != NULL ? data : "", (size_t)sqlite3_column_bytes(st, 0));
    int r = outrider__intent_read(body, ret_batch, &own, err);
    (void)sqlite3_reset(st);
    return r < 0 ? STEP_FAILED : STEP_DONE;
}

static enum step sqlite_intent_prove_leader(struct sqlite_source *s, struct outrider_error *err)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_INTENT_EPOCH, err);
    if (st == NULL)
        return STEP_FAILED;
    (void)sqlite_intent_bind(s, st);
    bool is_ours = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 0) == s->epoch;
    int rc = sqlite3_reset(st);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read the cursor", err);
    return is_ours ? STEP_DONE : sqlite_intent_fail_fenced(s, err);
}

/* Settles `settled` (NULL: nothing) and writes what the operation makes of the row. */
static enum step sqlite_intent_settle_and_write(struct sqlite_source *s, struct source_op *op,
                                                struct batch *settled, struct outrider_error *err)
{
    struct strbuf body;
    struct intent_row row;
    outrider__strbuf_init(&body, INTENT_BODY_MAX);
    enum step step = STEP_FAILED;
    if (outrider__intent_row(&s->base, op, 0, BYTES_NULL, &body, &row, err) == 0)
        step = sqlite_intent_change(s, settled, &row, op->now_wall_us, err);
    outrider__strbuf_release(&body);
    if (step != STEP_DONE) {
        outrider__sqlite_rollback(s);
        return step;
    }
    outrider__intent_done(&s->base, op);
    return STEP_DONE;
}

static enum step sqlite_intent_recall(struct sqlite_source *s, struct source_op *op,
                                      struct outrider_error *err)
{
    struct batch b = {0};
    enum step step = sqlite_intent_read_body(s, &b, err);
    if (step != STEP_DONE)
        return step;
    step = sqlite_intent_settle_and_write(s, op, &b, err);
    outrider__batch_release(&b);
    return step;
}

enum step outrider__sqlite_intent(struct sqlite_source *s, struct source_op *op,
                                  struct outrider_error *err)
{
    enum step step = STEP_FAILED;
    switch (outrider__intent_work(op)) {
    case INTENT_WORK_RECALL:
        return sqlite_intent_recall(s, op, err);
    case INTENT_WORK_PROVE:
        return sqlite_intent_prove_leader(s, err);
    case INTENT_WORK_SETTLE:
        step = sqlite_intent_settle_and_write(s, op, op->batch, err);
        if (step == STEP_DONE && !op->batch->is_parked)
            s->position = op->batch->events[op->batch->n - 1].seq;
        break;
    case INTENT_WORK_WRITE:
        step = sqlite_intent_settle_and_write(s, op, NULL, err);
        break;
    }
    if (step != STEP_DONE)
        return step;
    /* The sink is about to commit: the intent must be there after a power cut. */
    bool opens = op->kind == SOURCE_INTENT && op->intent != NULL;
    return opens && outrider__sqlite_sync(s, err) < 0 ? STEP_FAILED : STEP_DONE;
}
