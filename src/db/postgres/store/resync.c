/* SPDX-License-Identifier: MIT */
/*
 * After history was rewritten: sets a pipeline's cursor to what the table still
 * holds. common/resync.h judges.
 */
#include "common/resync.h"
#include "postgres/table/table.h"
#include "postgres/store/store.h"

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

static struct resync_verdict resync_judge(const PGresult *r)
{
    struct resync_facts f = {
        .anchor = {.position = outrider__pg_get_int(r, 0, RESYNC_POSITION, 0),
                   .sequence = outrider__pg_get_int(r, 0, RESYNC_LAST_VALUE, 0),
                   .stored = outrider__pg_get_bytes(r, 0, RESYNC_ANCHOR),
                   .found = outrider__pg_get_bytes(r, 0, RESYNC_ROW_ID)},
        .has_moved = !PQgetisnull(r, 0, RESYNC_MOVED_SEQ),
        .moved_to = outrider__pg_get_int(r, 0, RESYNC_MOVED_SEQ, 0),
        .has_newer = outrider__pg_get_bool(r, 0, RESYNC_HAS_NEWER),
        .last_settled = outrider__pg_get_int(r, 0, RESYNC_LAST_SETTLED, 0),
        .held = outrider__pg_get_int(r, 0, RESYNC_HELD, 0),
    };
    /* Several transactions write at once: numbers that a sequence gives out anew mix
     * with old ones, and a gap may be filled at any place. */
    f.is_order_kept =
        outrider__pg_get_bool(r, 0, RESYNC_HAS_NO_GAPS) && f.anchor.sequence >= f.anchor.position;
    return outrider__resync_judge(&f);
}

static void resync_cursor_args(const struct pg_store *s, struct pg_args *args)
{
    outrider__pg_args_init(args);
    outrider__pg_arg_str(args, s->config->name);
    outrider__pg_arg_str(args, s->cat.table);
}

static int resync_read_and_write(struct pg_store *s, struct resync_verdict *ret_verdict,
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
        *ret_verdict = resync_judge(r);
    PQclear(r);
    if (rc == 0 && !ret_verdict->is_intact) {
        outrider__pg_arg_int8(&args, ret_verdict->new_position);
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
    struct resync_verdict v = {0};
    if (outrider__pg_store_ready(s, err) < 0 ||
        outrider__pg_store_exec(s, "BEGIN", "cannot begin", err) < 0)
        return -1;
    size_t before = ret_report->len;
    int rc = outrider__pg_store_slot_resync(s, ret_report, err);
    bool adopts =
        outrider__pg_store_has_states(s); /* rows carry their state: there is no position */
    if (rc == 0 && !adopts)
        rc = resync_read_and_write(s, &v, err);
    if (rc == 0 && (!v.is_intact || ret_report->len > before))
        rc = resync_forget_intent(s, err);
    if (rc == 0)
        rc = outrider__pg_store_exec(s, "COMMIT", "cannot commit", err);
    if (rc < 0) {
        (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
        return -1;
    }
    if (!adopts)
        outrider__resync_report(&v, s->config->name, ret_report);
    else if (ret_report->len == 0)
        outrider__strbuf_appendf(ret_report, "%s: its rows say what is published: nothing to do\n",
                                 s->cat.table);
    return 0;
}
