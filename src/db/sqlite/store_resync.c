/* SPDX-License-Identifier: MIT */
/*
 * After history was rewritten: sets a pipeline's cursor to what the table
 * still holds. Where it cannot be known whether an event was delivered, it is
 * delivered (again): a duplicate can be told by its id, a lost event cannot.
 */
#include "store.h"

#include "housekeeping.h"
#include "store.sql.h"

/* exactly_once: an intent that was not settled speaks of the history that is no more. */
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

struct finding {
    int64_t old, new;
    bool is_intact;
    const char *why;
    int64_t held;
};

static bool resync_column_is_null(sqlite3_stmt *st, int i)
{
    return sqlite3_column_type(st, i) == SQLITE_NULL;
}

static bool resync_same_text(sqlite3_stmt *st, int i, int k)
{
    return !resync_column_is_null(st, i) && !resync_column_is_null(st, k) &&
           strcmp((const char *)sqlite3_column_text(st, i),
                  (const char *)sqlite3_column_text(st, k)) == 0;
}

static struct finding resync_decide(sqlite3_stmt *st)
{
    struct finding f = {.old = sqlite3_column_int64(st, RESYNC_POSITION),
                        .held = sqlite3_column_int64(st, RESYNC_HELD)};
    int64_t sequence = sqlite3_column_int64(st, RESYNC_SEQUENCE);
    if (f.old == 0 || (sequence >= f.old && resync_same_text(st, RESYNC_ANCHOR, RESYNC_ROW_ID))) {
        f.is_intact = true;
        f.new = f.old;
    } else if (!resync_column_is_null(st, RESYNC_MOVED_SEQ)) {
        f.new = sqlite3_column_int64(st, RESYNC_MOVED_SEQ);
        f.why = "the row at the old position has another seq now; events behind it follow";
    } else if (sequence < f.old) {
        f.why = "the sequence was set back, so rows at low seqs may be new";
    } else if (!resync_column_is_null(st, RESYNC_ROW_ID)) {
        f.why = "the row at the position is another one now, so rows below it may be new";
    } else if (sqlite3_column_int(st, RESYNC_HAS_NEWER)) {
        f.why = "rows below the position are newer than the last settle";
    } else {
        f.new = sqlite3_column_int64(st, RESYNC_LAST_SEQ);
        f.why = "the row at the position was removed; the rest of the history fits";
    }
    return f;
}

static int resync_read_finding(struct sqlite_store *s, struct finding *ret_finding,
                               struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    if (outrider__sqlite_store_prepare(s, sql_resync_read, NULL, &st, err) < 0)
        return -1;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    int rc = sqlite3_step(st), result = 0;
    if (rc == SQLITE_ROW)
        *ret_finding = resync_decide(st);
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

static void resync_report(const struct sqlite_store *s, const struct finding *f,
                          struct strbuf *ret_report)
{
    if (f->is_intact) {
        outrider__strbuf_appendf(ret_report,
                                 "pipeline '%s': the history is intact, position %lld stays\n",
                                 s->config->name, (long long)f->old);
        return;
    }
    outrider__strbuf_appendf(ret_report, "pipeline '%s': position %lld -> %lld: %s\n",
                             s->config->name, (long long)f->old, (long long)f->new, f->why);
    if (f->new == 0)
        outrider__strbuf_appendf(ret_report,
                                 "all %lld events that the outbox holds will be delivered, some of "
                                 "them perhaps again\n",
                                 (long long)f->held);
    strbuf_append_str(ret_report, "what cannot be known: whether events were removed from the "
                                  "outbox before they were delivered\n");
}

static int resync_pipeline(struct sqlite_store *s, struct strbuf *ret_report,
                           struct outrider_error *err)
{
    struct finding f = {0};
    if (outrider__sqlite_store_begin(s, err) < 0)
        return -1;
    int result = resync_read_finding(s, &f, err);
    if (result == 0 && !f.is_intact)
        result = resync_write_position(s, f.new, err) < 0 ? -1 : resync_forget_intent(s, err);
    result = outrider__sqlite_store_end(s, result, err);
    if (result == 0)
        resync_report(s, &f, ret_report);
    return result;
}

int outrider__sqlite_resync(struct store *base, struct strbuf *ret_report,
                            struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    struct sqlite_lock lock = {.fd = -1};
    char holder[128];
    if (outrider__sqlite_store_ready(s, err) < 0)
        return -1;
    switch (outrider__sqlite_lock(&lock, s->real, s->config->name, holder, sizeof holder, err)) {
    case LOCK_FAILED:
        return -1;
    case LOCK_BUSY:
        return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_RETRY,
                              "pipeline '%s' of %s is active (%s); stop that relay first",
                              s->config->name, s->path, holder);
    case LOCK_HELD:
        break;
    }
    int result = resync_pipeline(s, ret_report, err);
    outrider__sqlite_unlock(&lock);
    return result;
}
