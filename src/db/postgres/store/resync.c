/* SPDX-License-Identifier: MIT */
/*
 * After history was rewritten: sets a pipeline's cursor to what the table
 * still holds. Where it cannot be known whether an event was delivered, it is
 * delivered (again): a duplicate can be told by its id, a lost event cannot.
 * And clean-up, which rests on the same cursors.
 */
#include "postgres/table/table.h"
#include "postgres/store/store.h"

#include <inttypes.h>

#include "store.sql.h"

static const struct pg_block resync_read = {sql_resync_read, "cannot read the cursor", PG_READS};
static const struct pg_block resync_write = {sql_resync_write, "cannot save the position",
                                             PG_READS};
static const struct pg_block resync_forget = {sql_resync_forget, "cannot drop the intent",
                                              PG_READS};

/* Columns of resync_read. */
enum resync_column {
    RESYNC_POSITION,
    RESYNC_ANCHOR,
    RESYNC_ROW_ID,    /* of the row at the position; NULL: there is none */
    RESYNC_MOVED_SEQ, /* where the anchor's row is now; NULL: nowhere */
    RESYNC_LAST_VALUE,
    RESYNC_LAST_SETTLED, /* the highest seq of a row that was settled */
    RESYNC_HAS_NEWER,    /* rows below the position, from after the last settle */
    RESYNC_HELD,
    RESYNC_HAS_NO_GAPS
};

struct resync_finding {
    int64_t old, new;
    bool is_intact;
    const char *why;
    int64_t held;
};

static struct resync_finding resync_decide(const PGresult *r)
{
    struct resync_finding f = {.old = outrider__pg_get_int(r, 0, RESYNC_POSITION, 0),
                               .held = outrider__pg_get_int(r, 0, RESYNC_HELD, 0)};
    int64_t sequence = outrider__pg_get_int(r, 0, RESYNC_LAST_VALUE, 0);
    bool has_row = !PQgetisnull(r, 0, RESYNC_ROW_ID);
    bool has_moved = !PQgetisnull(r, 0, RESYNC_MOVED_SEQ);
    bool is_same = has_row && bytes_eq(outrider__pg_get_bytes(r, 0, RESYNC_ANCHOR),
                                       outrider__pg_get_bytes(r, 0, RESYNC_ROW_ID));
    if (f.old == 0 || (sequence >= f.old && is_same)) {
        f.is_intact = true;
        f.new = f.old;
    } else if (sequence < f.old) {
        f.why = "the sequence was set back, so rows at low seqs may be new";
    } else if (has_moved && !outrider__pg_get_bool(r, 0, RESYNC_HAS_NO_GAPS)) {
        f.why = "the rows have other seqs now, and so have those that were still awaited";
    } else if (has_moved) {
        f.new = outrider__pg_get_int(r, 0, RESYNC_MOVED_SEQ, 0);
        f.why = "the row at the old position has another seq now; events behind it follow";
    } else if (has_row) {
        f.why = "the row at the position is another one now, so rows below it may be new";
    } else if (outrider__pg_get_bool(r, 0, RESYNC_HAS_NEWER)) {
        f.why = "rows below the position are newer than the last settle";
    } else {
        f.new = outrider__pg_get_int(r, 0, RESYNC_LAST_SETTLED, 0);
        f.why = "the row at the position was removed; the rest of the history fits";
    }
    return f;
}

static void resync_report(struct strbuf *out, const struct pg_store *s,
                          const struct resync_finding *f)
{
    if (f->is_intact) {
        outrider__strbuf_appendf(out, "pipeline '%s': history fits, position stays %" PRId64 "\n",
                                 s->config->name, f->new);
        return;
    }
    outrider__strbuf_appendf(out,
                             "pipeline '%s': position %" PRId64 " becomes %" PRId64 ": %s\n"
                             "The table holds %" PRId64 " events; those behind the position are "
                             "delivered (again).\nWhat was in the table and is gone cannot be "
                             "known: compare with the receiver.\n",
                             s->config->name, f->old, f->new, f->why, f->held);
}

static void resync_cursor_args(const struct pg_store *s, struct pg_args *args)
{
    outrider__pg_args_init(args);
    outrider__pg_arg_str(args, s->config->name);
    outrider__pg_arg_str(args, s->cat.table);
}

static int resync_read_and_write(struct pg_store *s, struct resync_finding *ret_finding,
                                 struct outrider_error *err)
{
    struct pg_args args;
    PGresult *r = NULL;
    resync_cursor_args(s, &args);
    int rc = outrider__pg_store_run(s, &resync_read, NULL, &args, &r, err);
    if (rc == 0 && PQntuples(r) != 1)
        rc = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                            "%s has no pipeline '%s'; `outrider status` lists those it has",
                            s->cat.table, s->config->name);
    if (rc == 0)
        *ret_finding = resync_decide(r);
    PQclear(r);
    if (rc == 0 && !ret_finding->is_intact) {
        outrider__pg_arg_int8(&args, ret_finding->new);
        rc = outrider__pg_store_run(s, &resync_write, NULL, &args, NULL, err);
    }
    outrider__pg_args_release(&args);
    return rc;
}

static int resync_forget_intent(struct pg_store *s, struct outrider_error *err)
{
    struct pg_args args;
    resync_cursor_args(s, &args);
    int rc = outrider__pg_store_run(s, &resync_forget, NULL, &args, NULL, err);
    outrider__pg_args_release(&args);
    return rc;
}

int outrider__pg_store_resync(struct store *base, struct strbuf *ret_report,
                              struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct resync_finding f = {0};
    if (outrider__pg_store_ready(s, err) < 0 ||
        outrider__pg_store_exec(s, "BEGIN", "cannot begin", err) < 0)
        return -1;
    size_t before = ret_report->len;
    int rc = outrider__pg_store_slot_resync(s, ret_report, err);
    bool adopts =
        outrider__pg_store_has_states(s); /* rows carry their state: there is no position */
    if (rc == 0 && !adopts)
        rc = resync_read_and_write(s, &f, err);
    if (rc == 0 && (!f.is_intact || ret_report->len > before))
        rc = resync_forget_intent(s, err);
    if (rc == 0)
        rc = outrider__pg_store_exec(s, "COMMIT", "cannot commit", err);
    if (rc < 0) {
        (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
        return -1;
    }
    if (!adopts)
        resync_report(ret_report, s, &f);
    else if (ret_report->len == 0)
        outrider__strbuf_appendf(ret_report, "%s: its rows say what is published: nothing to do\n",
                                 s->cat.table);
    return 0;
}
