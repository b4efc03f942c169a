/* SPDX-License-Identifier: MIT */
/*
 * After history was rewritten: sets a pipeline's cursor to what the table
 * still holds. Where it cannot be known whether an event was delivered, it is
 * delivered (again): a duplicate can be told by its id, a lost event cannot.
 * And clean-up, which rests on the same cursors.
 */
#include "postgres/table/table.h"
#include "postgres/shared/columns.h"
#include "postgres/store/store.h"

#include <inttypes.h>

static const char sql_read[] =
    "SELECT c.position, " PG_ANCHOR_OF("c.anchor_id") ", (SELECT " PG_ANCHOR_OF(
        "id") " FROM %s WHERE seq = c.position LIMIT 1), "
              "(SELECT seq FROM %s WHERE id::text = c.anchor_id LIMIT 1), (SELECT CASE WHEN "
              "is_called THEN "
              "last_value ELSE 0 END FROM %s), coalesce((SELECT max(seq) FROM %s WHERE seq <= "
              "c.position AND "
              "NOT c.gaps @> seq), 0), EXISTS (SELECT FROM %s WHERE seq <= c.position AND "
              "created_at > "
              "c.settled_at), (SELECT "
              "count(*) FROM %s), isempty(c.gaps) FROM %s c WHERE c.pipeline = $1 AND c.outbox = "
              "$2 FOR "
              "UPDATE";
/* The epoch moves on, so that a relay which is somehow still at it cannot save
 * over this. Gaps below the new position stay. */
static const char sql_write[] =
    "UPDATE %s SET position = $3, anchor_id = (SELECT id::text FROM %s WHERE seq = $3 LIMIT 1), "
    "gaps = gaps * int8multirange(int8range(NULL, $3)), epoch = epoch + 1 WHERE pipeline = $1 AND "
    "outbox = $2";

/* exactly_once: an intent that was not settled speaks of the history that is no more. */
static const char sql_forget[] = "UPDATE %s.outrider_intent SET body = NULL, epoch = epoch + 1 "
                                 "WHERE pipeline = $1 AND outbox = $2";

struct finding {
    int64_t old, new;
    bool is_intact;
    const char *why;
    int64_t held;
};

static struct finding decide(const PGresult *r)
{
    struct finding f = {.old = outrider__pg_get_int(r, 0, 0, 0),
                        .held = outrider__pg_get_int(r, 0, 7, 0)};
    int64_t sequence = outrider__pg_get_int(r, 0, 4, 0);
    bool is_same = !PQgetisnull(r, 0, 2) &&
                   bytes_eq(outrider__pg_get_bytes(r, 0, 1), outrider__pg_get_bytes(r, 0, 2));
    if (f.old == 0 || (sequence >= f.old && is_same)) {
        f.is_intact = true;
        f.new = f.old;
    } else if (sequence < f.old) {
        f.why = "the sequence was set back, so rows at low seqs may be new";
    } else if (!PQgetisnull(r, 0, 3) && !outrider__pg_get_bool(r, 0, 8)) {
        f.why = "the rows have other seqs now, and so have those that were still awaited";
    } else if (!PQgetisnull(r, 0, 3)) {
        f.new = outrider__pg_get_int(r, 0, 3, 0);
        f.why = "the row at the old position has another seq now; events behind it follow";
    } else if (!PQgetisnull(r, 0, 2)) {
        f.why = "the row at the position is another one now, so rows below it may be new";
    } else if (outrider__pg_get_bool(r, 0, 6)) {
        f.why = "rows below the position are newer than the last settle";
    } else {
        f.new = outrider__pg_get_int(r, 0, 5, 0);
        f.why = "the row at the position was removed; the rest of the history fits";
    }
    return f;
}

static void report(struct strbuf *out, const struct pg_store *s, const struct finding *f)
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

static int read_and_write(struct pg_store *s, struct finding *ret_finding,
                          struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args args;
    PGresult *r = NULL;
    const char *t = s->cat.table;
    outrider__strbuf_init(&sql, 8192);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, s->config->name);
    outrider__pg_arg_str(&args, t);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    outrider__strbuf_appendf(&sql, sql_read, t, t, s->cat.sequence, t, t, t, s->cat.cursor_table);
#pragma GCC diagnostic pop
    int rc =
        outrider__pg_store_query(s, strbuf_cstr(&sql), &args, "cannot read the cursor", &r, err);
    if (rc == 0 && PQntuples(r) != 1)
        rc = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                            "%s has no pipeline '%s'; `outrider status` lists those it has", t,
                            s->config->name);
    if (rc == 0)
        *ret_finding = decide(r);
    PQclear(r);
    if (rc == 0 && !ret_finding->is_intact) {
        outrider__pg_arg_int8(&args, ret_finding->new);
        outrider__strbuf_clear(&sql);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        outrider__strbuf_appendf(&sql, sql_write, s->cat.cursor_table, t);
#pragma GCC diagnostic pop
        rc = outrider__pg_store_query(s, strbuf_cstr(&sql), &args, "cannot save the position", NULL,
                                      err);
    }
    outrider__pg_args_release(&args);
    outrider__strbuf_release(&sql);
    return rc;
}

static int forget_intent(struct pg_store *s, struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args args;
    outrider__strbuf_init(&sql, 1024);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, s->config->name);
    outrider__pg_arg_str(&args, s->cat.table);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    outrider__strbuf_appendf(&sql, sql_forget, s->cat.companion_schema);
#pragma GCC diagnostic pop
    int rc =
        outrider__pg_store_query(s, strbuf_cstr(&sql), &args, "cannot drop the intent", NULL, err);
    outrider__pg_args_release(&args);
    outrider__strbuf_release(&sql);
    return rc;
}

int outrider__pg_store_resync(struct store *base, struct strbuf *ret_report,
                              struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct finding f = {0};
    if (outrider__pg_store_ready(s, err) < 0 ||
        outrider__pg_store_exec(s, "BEGIN", "cannot begin", err) < 0)
        return -1;
    size_t before = ret_report->len;
    int rc = outrider__pg_store_slot_resync(s, ret_report, err);
    bool adopts =
        outrider__pg_store_has_states(s); /* rows carry their state: there is no position */
    if (rc == 0 && !adopts)
        rc = read_and_write(s, &f, err);
    if (rc == 0 && (!f.is_intact || ret_report->len > before))
        rc = forget_intent(s, err);
    if (rc == 0)
        rc = outrider__pg_store_exec(s, "COMMIT", "cannot commit", err);
    if (rc < 0) {
        (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
        return -1;
    }
    if (!adopts)
        report(ret_report, s, &f);
    else if (ret_report->len == 0)
        outrider__strbuf_appendf(ret_report, "%s: its rows say what is published: nothing to do\n",
                                 s->cat.table);
    return 0;
}
