/* SPDX-License-Identifier: MIT */
/*
 * Our own log in mode cdc. What polling has not settled of the slot's snapshot is saved as
 * the sweep, in seqs; sweep.c reads it.
 */
#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"
#include "cdc.sql.h"

/* A column of the log's row j.o, in the form in which parked.h (4) stores it. */
static void own_append_stored(struct strbuf *q, const struct pg_catalog *cat, const char *name)
{
    bool is_bytes = outrider__pg_catalog_is_bytes(cat, name);
    struct strbuf value;
    outrider__strbuf_init(&value, 256);
    outrider__strbuf_appendf(&value, "(j.o->>'%s')", name);
    if (is_bytes)
        outrider__strbuf_appendf(q, "'\\x' || encode(%s::bytea, 'hex')", strbuf_cstr(&value));
    else if (strcmp(name, "id") == 0)
        strbuf_append_str(q, strbuf_cstr(&value));
    else
        outrider__pg_stored_sql(q, strbuf_cstr(&value));
    outrider__strbuf_appendf(q, " AS %s, ", name);
    q->failed |= value.failed;
    outrider__strbuf_release(&value);
}

/* Columns are read by name, through JSON: a column may have been dropped or renamed since
 * the statement was made. */
static void own_append_whole_row(struct strbuf *q, const struct pg_catalog *cat)
{
    static const char *const names[] = {"id",      "aggregate_type", "aggregate_id", "event_type",
                                        "headers", "topic",          "partition_key"};
    struct strbuf columns;
    outrider__strbuf_init(&columns, SQL_TEXT_CAP);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        own_append_stored(&columns, cat, names[i]);
    outrider__pg_bytea_sql(&columns, cat->payload_type, "o.payload");
    const struct sql_word words[] = {{"columns", strbuf_cstr(&columns)}, {"outbox", cat->table}};
    outrider__sql_append(q, sql_cdc_own_row, words, sizeof words / sizeof *words);
    q->failed |= columns.failed;
    outrider__strbuf_release(&columns);
}

static void own_append_oversize(struct strbuf *sql, const struct pg_source *s)
{
    own_append_whole_row(sql, &s->cat);
}

static const char *own_name(const struct pg_source *s, size_t i)
{
    (void)i;
    return s->cat.table;
}

static const struct pg_layout *own_poller(const struct pg_source *s)
{
    (void)s;
    return &outrider__pg_layout_log;
}

static int own_prepare(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_tables *t = &c->tables;
    t->outboxes[0] = outrider__cdc_own_outbox(s->cat.oid, s->cat.schema, s->cat.relname);
    if (outrider__pg_cleaner_init(&c->cleaner, &s->cat, err) < 0)
        return -1;
    if (s->config->source.after_publish == AFTER_PUBLISH_MARK)
        return outrider__cdc_refuse_mark(s->cat.table, err);
    if (s->config->source.after_publish != AFTER_PUBLISH_DELETE)
        return 0;
    return outrider__cdc_own_delete(s, &t->settle_own, err);
}

static int own_settle(struct pg_source *s, const struct event *events, size_t n, struct pg_args *a,
                      struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    size_t n_done = 0;
    if (t->settle_own.sql == NULL)
        return 0;
    outrider__pg_cursor_args(s, a);
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < n; i++)
        if (outrider__cdc_is_finished(s, &events[i]) && events[i].seq > 0) {
            outrider__pg_array_int8(a, events[i].seq);
            n_done++;
        }
    outrider__pg_array_end(a);
    return n_done > 0 ? outrider__pg_request_add(&s->conn, &t->settle_own, a, err) : 0;
}

static int own_on_cdc_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    (void)results;
    (void)n;
    int errno_value = FAILPOINT("cdc.plan_saved");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save the cursor");
    return outrider__cdc_restart(s, err);
}

/* With existing_rows: skip there is no plan: the pipeline takes over, and then saves. */
static int own_end_polling(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    outrider__cdc_arrive_end_polling(s);
    if (c->move.skips_rows)
        return outrider__cdc_take_over(s, err);
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, c->cursor.epoch);
    outrider__pg_arg_str(&c->args, c->maker.plan.ranges);
    outrider__pg_arg_str(&c->args, c->published);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_CDC], &c->args, own_on_cdc_saved, s, err);
}

static int own_tick(struct pg_source *s, struct outrider_error *err)
{
    if (cdc_of(s)->move.skips_rows)
        return outrider__cdc_snapshot_tick(s, err);
    outrider__cdc_sweep_tick(s);
    return 0;
}

/* Only with existing_rows: skip; otherwise CDC_SAVE_CDC has saved it. */
static int own_save_cdc(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, c->cursor.epoch);
    outrider__pg_arg_str(&c->args, c->published);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_SKIPPED], &c->args,
                                outrider__cdc_snapshot_on_saved, s, err);
}

static int own_cleanup(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    return outrider__pg_cleanup_start(s, &cdc_of(s)->cleaner, op, err);
}

const struct cdc_rows_ops outrider__cdc_rows_own = {
    .reads_in_snapshot = false,
    .has_seqs = true,
    .poller = own_poller,
    .prepare = own_prepare,
    .name = own_name,
    .append_oversize = own_append_oversize,
    .end_polling = own_end_polling,
    .fetch = outrider__cdc_sweep_fetch,
    .tick = own_tick,
    .save_cdc = own_save_cdc,
    .settle = own_settle,
    .cleanup = own_cleanup,
};
