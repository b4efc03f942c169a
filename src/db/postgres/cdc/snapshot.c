/* SPDX-License-Identifier: MIT */
/*
 * The rows from before the slot, of tables that are read by a map. Such a table need not
 * have a sequence, so its rows are read in the slot's own snapshot, on the connection that
 * made the slot. When that connection is lost, nobody knows any more which rows were in the
 * snapshot: the slot is dropped, and the move begins again.
 */
#include <inttypes.h>

#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"

/* Large rows are read one by one, so that the memory for a result is bounded. */
#define ROWS_AT_ONCE 1000

/* The server may end a transaction that is idle for long. This transaction is idle while the
 * sink is down. */
static const char sql_patience[] = "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL "
                                   "statement_timeout = 0; ";

static struct cdc_table *snapshot_table(struct cdc_source *c)
{
    return &c->tables.items[c->snapshot.at];
}

static int snapshot_ask(struct cdc_source *c, struct strbuf *sql, enum snapshot_question what,
                        struct outrider_error *err)
{
    int rc = sql->failed ? outrider__fail_nomem(err)
                         : outrider__cdc_link_ask(&c->maker.link, strbuf_cstr(sql),
                                                  "cannot read the outbox", err);
    outrider__strbuf_release(sql);
    c->snapshot.asked = what;
    return rc;
}

static int snapshot_ask_rows(struct pg_source *s, const struct batch *b, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_snapshot *k = &c->snapshot;
    struct strbuf sql;
    outrider__strbuf_init(&sql, CDC_SQL_CAP);
    k->limit = b->capacity < ROWS_AT_ONCE ? (int)b->capacity : ROWS_AT_ONCE;
    if (!k->is_declared) {
        strbuf_append_str(&sql, k->at == 0 ? sql_patience : "CLOSE outrider_sweep; ");
        outrider__strbuf_appendf(&sql, "%s; ", snapshot_table(c)->snapshot_sql);
    }
    k->is_declared = true;
    outrider__strbuf_appendf(&sql, "FETCH %d FROM outrider_sweep", k->limit);
    return snapshot_ask(c, &sql, SNAPSHOT_ROWS, err);
}

static int snapshot_ask_large(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_snapshot *k = &c->snapshot;
    const struct outbox_table *a = &snapshot_table(c)->a;
    struct bytes id = outrider__pg_get_bytes(k->rows, k->row, EV_ID);
    struct pg_bounds bounds = outrider__pg_bounds_fixed(s->config, true);
    struct strbuf sql;
    char *literal = PQescapeLiteral(c->maker.link.pg, id.data, id.len);
    if (literal == NULL)
        return outrider__fail_nomem(err);
    outrider__strbuf_init(&sql, CDC_SQL_CAP);
    strbuf_append_str(&sql, "DECLARE outrider_large BINARY NO SCROLL CURSOR FOR SELECT ");
    outrider__pg_sql_event(&sql, a, "o.", &bounds);
    outrider__strbuf_appendf(&sql, " FROM %s o WHERE ", a->outbox);
    outrider__sql_column(&sql, a, ROLE_ID, "o.");
    outrider__strbuf_appendf(&sql, " = %s::%s; FETCH 1 FROM outrider_large; CLOSE outrider_large",
                             literal, a->map.columns[ROLE_ID]->type);
    PQfreemem(literal);
    return snapshot_ask(c, &sql, SNAPSHOT_LARGE_ROW, err);
}

/* Takes one row into the batch, unless polling has just settled it. */
static int snapshot_take_row(struct pg_source *s, struct batch *b, const PGresult *r, int row,
                             struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const struct outbox_table *a = &snapshot_table(c)->a;
    struct event_bounds max = outrider__event_bounds(s->config);
    max.id = EVENT_ANY_SIZE;
    struct event *e = outrider__pg_row(b, r, row, 0, &max);
    if (e == NULL)
        return outrider__fail_nomem(err);
    outrider__table_complete(a, e);
    e->seq = a->id; /* tables.h (1) */
    if (outrider__late_ids_has(&c->stream.polled.late, cdc_event_table(e), e->id))
        b->n--;
    return 0;
}

static int snapshot_fill(struct pg_source *s, struct batch *b, struct outrider_error *err)
{
    struct cdc_snapshot *k = &cdc_of(s)->snapshot;
    for (; k->row < PQntuples(k->rows) && !batch_is_full(b); k->row++) {
        if (outrider__pg_row_is_large(k->rows, k->row, 0))
            return 0;
        if (snapshot_take_row(s, b, k->rows, k->row, err) < 0)
            return -1;
    }
    if (k->row < PQntuples(k->rows))
        return 0;
    if (PQntuples(k->rows) < k->limit) {
        k->at++;
        k->is_declared = false;
    }
    PQclear(k->rows);
    k->rows = NULL;
    return 0;
}

static int snapshot_take_answer(struct pg_source *s, struct batch *b, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_snapshot *k = &c->snapshot;
    PGresult *r = c->maker.link.result;
    c->maker.link.result = NULL;
    enum snapshot_question asked = k->asked;
    k->asked = SNAPSHOT_NOTHING;
    if (asked == SNAPSHOT_ROWS) {
        k->rows = r;
        k->row = 0;
        return r == NULL ? outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY, "unexpected answer")
                         : 0;
    }
    int rc = PQntuples(r) > 0 ? snapshot_take_row(s, b, r, 0, err) : 0;
    k->row++;
    PQclear(r);
    return rc;
}

/* Goes on until the batch has rows, an answer is awaited, or there are no more rows. */
static int snapshot_advance(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_snapshot *k = &c->snapshot;
    struct batch *b = c->fetch_op->op->batch;
    for (;;) {
        if (outrider__cdc_link_poll(&c->maker.link, s->now, err) < 0)
            return -1;
        if (k->asked != SNAPSHOT_NOTHING && c->maker.link.state != LINK_ANSWERED)
            return 0;
        if (k->asked != SNAPSHOT_NOTHING && snapshot_take_answer(s, b, err) < 0)
            return -1;
        if (k->rows != NULL && snapshot_fill(s, b, err) < 0)
            return -1;
        if (b->n > 0 || k->at == c->tables.n)
            break;
        if (k->rows != NULL ? snapshot_ask_large(s, err) < 0 : snapshot_ask_rows(s, b, err) < 0)
            return -1;
    }
    s->base.ready = k->at < c->tables.n;
    return outrider__cdc_finish_fetch(s, c->fetch_op, err);
}

int outrider__cdc_snapshot_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    int errno_value = FAILPOINT("cdc.sweep");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the outbox");
    cdc_of(s)->fetch_op = op;
    return snapshot_advance(s, err);
}

int outrider__cdc_snapshot_on_saved(void *ctx, PGresult **results, int n,
                                    struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)results;
    (void)n;
    int errno_value = FAILPOINT("cdc.plan_saved");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save the cursor");
    c->move.mode = CURSOR_CDC;
    c->move.phase = MOVE_STREAM;
    s->base.wake_us = s->now.mono_us;
    return 0;
}

int outrider__cdc_snapshot_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->snapshot.is_over)
        return 0;
    if (c->fetch_op != NULL)
        return c->snapshot.asked != SNAPSHOT_NOTHING ? snapshot_advance(s, err) : 0;
    if (outrider__cdc_link_poll(&c->maker.link, s->now, err) < 0)
        return -1;
    if (c->snapshot.at < c->tables.n || s->n_live > 0)
        return 0;
    /* All rows from before the slot are settled: the stream follows. */
    c->snapshot.is_over = true;
    outrider__cdc_link_close(&c->maker.link);
    return c->tables.rows->save_cdc(s, err);
}
