/* SPDX-License-Identifier: MIT */
/*
 * The rows from before the slot, of tables that are read by a map: such a table
 * need not have a number to go by, so its rows are read in the slot's own
 * snapshot, on the connection that made the slot and holds that snapshot. Should
 * it be lost, nobody knows any more which rows are in it: the slot is dropped,
 * and all of this begins anew.
 */
#include <inttypes.h>

#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"

/* Large rows are read one by one, so that the memory for a result is bounded. */
#define ROWS_AT_ONCE 1000
#define SQL_CAP 131072

/* The server ends a transaction that is idle for long; this one may be, behind a
 * sink that is down. */
static const char sql_patience[] = "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL "
                                   "statement_timeout = 0; ";

static struct cdc_table *table_of(struct cdc_source *c)
{
    return &c->tables.items[c->snapshot.at];
}

static int ask(struct cdc_source *c, struct strbuf *sql, struct outrider_error *err)
{
    int rc = sql->failed ? outrider__fail_nomem(err)
                         : outrider__cdc_link_ask(&c->maker, strbuf_cstr(sql),
                                                  "cannot read the outbox", err);
    outrider__strbuf_release(sql);
    c->snapshot.is_asking = rc == 0;
    return rc;
}

static int ask_rows(struct pg_source *s, const struct batch *b, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_snapshot *k = &c->snapshot;
    struct strbuf sql;
    outrider__strbuf_init(&sql, SQL_CAP);
    k->limit = b->capacity < ROWS_AT_ONCE ? (int)b->capacity : ROWS_AT_ONCE;
    if (!k->is_declared) {
        strbuf_append_str(&sql, k->at == 0 ? sql_patience : "CLOSE outrider_sweep; ");
        outrider__strbuf_appendf(&sql, "%s; ", table_of(c)->snapshot_sql);
    }
    k->is_declared = true;
    outrider__strbuf_appendf(&sql, "FETCH %d FROM outrider_sweep", k->limit);
    return ask(c, &sql, err);
}

static int ask_large(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_snapshot *k = &c->snapshot;
    const struct outbox_table *a = &table_of(c)->a;
    struct bytes id = outrider__pg_get_bytes(k->rows, k->row, EV_ID);
    struct pg_bounds bounds = outrider__pg_bounds_fixed(s->config, true);
    struct strbuf sql;
    char *literal = PQescapeLiteral(c->maker.pg, id.data, id.len);
    if (literal == NULL)
        return outrider__fail_nomem(err);
    outrider__strbuf_init(&sql, SQL_CAP);
    strbuf_append_str(&sql, "DECLARE outrider_large BINARY NO SCROLL CURSOR FOR SELECT ");
    outrider__pg_sql_event(&sql, a, "o.", &bounds);
    outrider__strbuf_appendf(&sql, " FROM %s o WHERE ", a->outbox);
    outrider__pg_sql_column(&sql, a, ROLE_ID, "o.");
    outrider__strbuf_appendf(&sql, " = %s::%s; FETCH 1 FROM outrider_large; CLOSE outrider_large",
                             literal, a->map.columns[ROLE_ID]->type);
    PQfreemem(literal);
    k->is_asking_large = true;
    return ask(c, &sql, err);
}

/* One row into the batch, unless polling has just settled it. */
static int take_row(struct pg_source *s, struct batch *b, const PGresult *r, int row,
                    struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const struct outbox_table *a = &table_of(c)->a;
    struct event_bounds max = outrider__event_bounds(s->config);
    max.id = EVENT_ANY_SIZE;
    struct event *e = outrider__pg_row(b, r, row, 0, &max);
    if (e == NULL)
        return outrider__fail_nomem(err);
    outrider__pg_table_complete(a, e);
    e->seq = a->id;
    if (outrider__cdc_late_has(&c->late, e->seq, e->id))
        b->n--;
    return 0;
}

static int fill(struct pg_source *s, struct batch *b, struct outrider_error *err)
{
    struct cdc_snapshot *k = &cdc_of(s)->snapshot;
    for (; k->row < PQntuples(k->rows) && !batch_is_full(b); k->row++) {
        if (outrider__pg_row_is_large(k->rows, k->row, 0))
            return 0;
        if (take_row(s, b, k->rows, k->row, err) < 0)
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

static int take_answer(struct pg_source *s, struct batch *b, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_snapshot *k = &c->snapshot;
    PGresult *r = c->maker.result;
    c->maker.result = NULL;
    k->is_asking = false;
    if (!k->is_asking_large) {
        k->rows = r;
        k->row = 0;
        return r == NULL ? outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY, "unexpected answer")
                         : 0;
    }
    k->is_asking_large = false;
    int rc = PQntuples(r) > 0 ? take_row(s, b, r, 0, err) : 0;
    k->row++;
    PQclear(r);
    return rc;
}

/* Until the batch has something, the answer to a question is awaited, or there is no more. */
static int advance(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_snapshot *k = &c->snapshot;
    struct batch *b = c->fetch_op->op->batch;
    for (;;) {
        if (outrider__cdc_link_poll(&c->maker, s->now, err) < 0)
            return -1;
        if (k->is_asking && c->maker.state != LINK_ANSWERED)
            return 0;
        if (k->is_asking && take_answer(s, b, err) < 0)
            return -1;
        if (k->rows != NULL && fill(s, b, err) < 0)
            return -1;
        if (b->n > 0 || k->at == c->tables.n)
            break;
        if (k->rows != NULL ? ask_large(s, err) < 0 : ask_rows(s, b, err) < 0)
            return -1;
    }
    s->base.ready = k->at < c->tables.n;
    return outrider__cdc_hand_on(s, c->fetch_op, err);
}

int outrider__cdc_snapshot_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    int errno_value = FAILPOINT("cdc.sweep");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the outbox");
    cdc_of(s)->fetch_op = op;
    return advance(s, err);
}

static int on_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)results;
    (void)n;
    int errno_value = FAILPOINT("cdc.plan_saved");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save the cursor");
    c->is_saving = false;
    (void)snprintf(c->mode, sizeof c->mode, "cdc");
    c->phase = CDC_STREAM;
    s->base.wake_us = s->now.mono_us;
    return 0;
}

/* All rows from before the slot are settled: the stream follows. */
static int finish(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const char *sink = s->config->sink_identity;
    c->is_saving = true;
    outrider__cdc_link_close(&c->maker);
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, c->cursor.epoch);
    if (!c->tables.is_mapped) {
        outrider__pg_arg_str(&c->args, c->published);
        return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_SKIPPED], &c->args, on_saved, s, err);
    }
    outrider__cdc_tables_names(s, &c->args);
    outrider__pg_arg_str(&c->args, sink != NULL ? sink : "");
    outrider__pg_arg_str(&c->args, c->published);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_MAPPED], &c->args, on_saved, s, err);
}

int outrider__cdc_snapshot_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->is_saving)
        return 0;
    if (c->fetch_op != NULL)
        return c->snapshot.is_asking ? advance(s, err) : 0;
    if (outrider__cdc_link_poll(&c->maker, s->now, err) < 0)
        return -1;
    if (c->snapshot.at == c->tables.n && s->n_live == 0)
        return finish(s, err);
    return 0;
}
