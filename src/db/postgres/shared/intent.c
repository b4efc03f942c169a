/* SPDX-License-Identifier: MIT */
#include "postgres/shared/intent.h"

#include <stdio.h>

#include "postgres/table/table.h"
#include "base/failpoint.h"
#include "common/intent_state.h"
#include "postgres/shared/cursor.h"
#include "postgres/wire/statements.h"
#include "shared.sql.h"

static const struct pg_block intent_blocks[INTENT_STATEMENTS] = {
    [INTENT_LOCK] = {sql_intent_lock, "cannot lock outrider_intent", PG_READS},
    [INTENT_OTHERS] = {sql_intent_others, "cannot read outrider_intent", PG_READS},
    [INTENT_TAKE] = {sql_intent_take, "cannot take over outrider_intent", PG_READS},
    [INTENT_PENDING] = {sql_intent_pending, "cannot read outrider_intent", PG_READS},
    [INTENT_LEAVE] = {sql_intent_leave, "cannot change outrider_intent", PG_READS},
    [INTENT_SAVE] = {sql_intent_save, "cannot save an intent", PG_SETTLES},
    [INTENT_BODY] = {sql_intent_body, "cannot read the intent", PG_READS},
    [INTENT_EPOCH] = {sql_intent_epoch, "cannot read outrider_intent", PG_READS},
};

/* Columns of intent_others, intent_take and intent_pending. */
enum intent_others_column { OTHERS_OUTBOX, OTHERS_HAS_BODY, OTHERS_TABLES };
enum intent_take_column {
    INTENT_TAKE_EPOCH,
    INTENT_TAKE_NO,
    INTENT_TAKE_STAMP,
    INTENT_TAKE_HAS_BODY
};
enum intent_pending_column { PENDING_OUTBOX, PENDING_HAS_BODY, PENDING_IS_NAMED };
/* The statements of the request that takes the row over. */
enum intent_take_step { INTENT_STEP_LOCK, INTENT_STEP_OTHERS, INTENT_STEP_TAKE };

static int pg_intent_prepare(struct pg_source *s, struct outrider_error *err)
{
    struct pg_intent *x = &s->intent;
    struct pg_words words;
    outrider__pg_args_init(&x->args);
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_words_add(&words, "mine", sql_intent_mine);
    return outrider__pg_statements_make(x->st, intent_blocks, INTENT_STATEMENTS, &words, err);
}

void outrider__pg_intent_release(struct pg_source *s)
{
    struct pg_intent *x = &s->intent;
    outrider__pg_statements_release(x->st, INTENT_STATEMENTS);
    if (x->is_asked)
        outrider__pg_args_release(&x->args);
    if (x->has_recalled)
        outrider__batch_release(&x->recalled);
    *x = (struct pg_intent){0};
}

static struct pg_args *pg_intent_args(struct pg_source *s)
{
    struct pg_args *a = &s->intent.args;
    outrider__pg_args_clear(a);
    outrider__pg_arg_str(a, s->config->name);
    outrider__pg_arg_str(a, s->cat.table);
    return a;
}

/* The pipeline, the outbox, and the names of all tables of the pipeline. */
static struct pg_args *pg_intent_args_with_tables(struct pg_source *s)
{
    const struct string_list *tables = &s->config->source.tables;
    struct pg_args *a = pg_intent_args(s);
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < tables->n; i++)
        outrider__pg_array_text(a, bytes_str(tables->items[i]));
    if (tables->n == 0)
        outrider__pg_array_text(a, bytes_str(s->cat.table));
    outrider__pg_array_end(a);
    return a;
}

static void pg_intent_name(struct pg_source *s)
{
    struct source *base = &s->base;
    (void)snprintf(base->identity, sizeof base->identity, "postgresql:%lld/%.63s/%s/%.63s",
                   (long long)s->cat.system_id, PQdb(s->conn.pg), s->cat.table, s->config->name);
}

static void pg_intent_taken(struct pg_source *s)
{
    s->intent.is_taken = true;
    s->base.active = true;
    s->base.wake_us = s->now.mono_us;
}

/* A row of an older schema names no table. */
static const char *pg_intent_table_of(const struct pg_source *s, const char *outbox)
{
    return *outbox != '\0' ? outbox : s->cat.table;
}

/* intent.h (3) */
static int pg_intent_fail_others(const struct pg_source *s, const PGresult *r,
                                 struct outrider_error *err)
{
    const char *outbox = outrider__pg_get_str(r, 0, OTHERS_OUTBOX), *name = s->config->name;
    const char *table = pg_intent_table_of(s, outbox);
    if (outrider__pg_get_bool(r, 0, OTHERS_HAS_BODY))
        return outrider__fail(
            err, OUTRIDER_CONFIG, OUTRIDER_STOP,
            "pipeline '%s' ran with exactly_once on the tables %s and was killed: whether its last "
            "transaction was committed is not known here; run it once more with these tables in "
            "this order, or, if events may be published twice, run: outrider resync "
            "--forget-intent --name %s --table '%s'",
            name, outrider__pg_get_str(r, 0, OTHERS_TABLES), name, table);
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "pipeline '%s' publishes the tables %s exactly once, %s first; name the "
                          "same tables with %s first, or give this pipeline another --name, or, if "
                          "no relay runs with these tables any more, run: outrider resync "
                          "--forget-intent --name %s --table '%s'",
                          name, outrider__pg_get_str(r, 0, OTHERS_TABLES), outbox, outbox, name,
                          table);
}

static int pg_intent_on_taken(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    const PGresult *r = results[INTENT_STEP_TAKE];
    (void)n;
    if (PQntuples(results[INTENT_STEP_OTHERS]) > 0)
        return pg_intent_fail_others(s, results[INTENT_STEP_OTHERS], err);
    s->intent.epoch = outrider__pg_get_int(r, 0, INTENT_TAKE_EPOCH, 0);
    intent_taken(&s->base, (uint64_t)outrider__pg_get_int(r, 0, INTENT_TAKE_NO, 0),
                 (uint64_t)outrider__pg_get_int(r, 0, INTENT_TAKE_STAMP, 0),
                 outrider__pg_get_bool(r, 0, INTENT_TAKE_HAS_BODY));
    pg_intent_taken(s);
    return 0;
}

static int pg_intent_on_left(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    (void)results;
    (void)n;
    (void)err;
    pg_intent_taken(ctx);
    return 0;
}

static int pg_intent_on_pending(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    const PGresult *r = results[0];
    struct cursor_place at = outrider__pg_cursor_place(s);
    struct intent_found found = {.has_row = PQntuples(r) == 1};
    enum intent_start start;
    (void)n;
    if (found.has_row) {
        found.is_open = outrider__pg_get_bool(r, 0, PENDING_HAS_BODY);
        found.is_in_use = outrider__pg_get_bool(r, 0, PENDING_IS_NAMED);
        found.table = pg_intent_table_of(s, outrider__pg_get_str(r, 0, PENDING_OUTBOX));
    }
    if (outrider__intent_start(&at, &found, &start, err) < 0)
        return -1;
    if (start == INTENT_START_LEAVE)
        return outrider__pg_request(&s->conn, &s->intent.st[INTENT_LEAVE],
                                    pg_intent_args_with_tables(s), pg_intent_on_left, s, err);
    pg_intent_taken(s);
    return 0;
}

static int pg_intent_ask(struct pg_source *s, struct outrider_error *err)
{
    struct pg_intent *x = &s->intent;
    if (!s->config->exactly_once)
        return outrider__pg_request(&s->conn, &x->st[INTENT_PENDING], pg_intent_args_with_tables(s),
                                    pg_intent_on_pending, s, err);
    pg_intent_name(s);
    outrider__pg_args_clear(&x->args);
    outrider__pg_arg_str(&x->args, s->config->name);
    if (outrider__pg_request_begin(&s->conn, pg_intent_on_taken, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &x->st[INTENT_LOCK], &x->args, err) < 0 ||
        outrider__pg_request_add(&s->conn, &x->st[INTENT_OTHERS], pg_intent_args_with_tables(s),
                                 err) < 0)
        return -1;
    struct pg_args *a = pg_intent_args_with_tables(s);
    outrider__pg_arg_str(a, s->base.identity);
    if (outrider__pg_request_add(&s->conn, &x->st[INTENT_TAKE], a, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

int outrider__pg_intent_take(struct pg_source *s, struct outrider_error *err)
{
    struct pg_intent *x = &s->intent;
    if (x->is_asked)
        return 0;
    if (s->layout->reads_only) {
        pg_intent_taken(s);
        return 0;
    }
    if (pg_intent_prepare(s, err) < 0)
        return -1;
    x->is_asked = true;
    return pg_intent_ask(s, err);
}

static int pg_intent_add_row(struct pg_source *s, const struct intent_row *row,
                             struct outrider_error *err)
{
    struct pg_args *a = pg_intent_args(s);
    outrider__pg_arg_int8(a, s->intent.epoch);
    outrider__pg_arg_int8(a, (int64_t)row->mark.no);
    outrider__pg_arg_int8(a, (int64_t)row->mark.stamp);
    if (bytes_is_null(row->body))
        outrider__pg_arg_null(a, PG_BYTEA);
    else
        outrider__pg_arg_bytea(a, row->body);
    return outrider__pg_request_add(&s->conn, &s->intent.st[INTENT_SAVE], a, err);
}

int outrider__pg_intent_add(struct pg_source *s, const struct pg_op *op, struct outrider_error *err)
{
    const struct source_op *o = op->op;
    struct strbuf own, body;
    struct intent_row row;
    if (o->kind != SOURCE_INTENT && o->kind != SOURCE_RECALL)
        return 0;
    outrider__strbuf_init(&own, INTENT_BODY_MAX);
    outrider__strbuf_init(&body, INTENT_BODY_MAX);
    /* Rows that are removed when they are published are named one by one. */
    bool removes = s->config->source.after_publish == AFTER_PUBLISH_DELETE;
    unsigned flags = s->layout->intent_flags | (removes ? INTENT_EACH : 0U);
    bool opens = o->kind == SOURCE_INTENT && o->intent != NULL;
    int r = opens ? s->layout->own_write(s, o->intent, &own, err) : 0;
    if (r == 0)
        r = outrider__intent_row(&s->base, o, flags, strbuf_bytes(&own), &body, &row, err);
    if (r == 0)
        r = pg_intent_add_row(s, &row, err);
    outrider__strbuf_release(&own);
    outrider__strbuf_release(&body);
    return r;
}

static int pg_intent_on_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    (void)results;
    (void)n;
    (void)err;
    pg_op_done(ctx);
    return 0;
}

/* There is no batch to settle: the request holds the row alone. */
static int pg_intent_save_row(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    if (outrider__pg_request_begin(&s->conn, pg_intent_on_saved, op, err) < 0 ||
        outrider__pg_intent_add(s, op, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int pg_intent_on_body(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct pg_source *s = op->source;
    struct pg_intent *x = &s->intent;
    struct bytes own;
    (void)n;
    struct cursor_place at = outrider__pg_cursor_place(s);
    if (PQntuples(results[0]) != 1)
        return outrider__cursor_fail_fenced(&at, err);
    if (outrider__intent_read(outrider__pg_get_bytes(results[0], 0, 0), &x->recalled, &own, err) <
        0)
        return -1;
    x->has_recalled = true;
    if (s->layout->own_read(s, &x->recalled, own, err) < 0)
        return -1;
    op->op->batch = &x->recalled;
    return s->layout->start(s, op, err);
}

int outrider__pg_intent_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct pg_intent *x = &s->intent;
    struct pg_args *a;
    int errno_value = FAILPOINT("intent.before_begin");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save an intent");
    switch (outrider__intent_work(op->op)) {
    case INTENT_WORK_SETTLE:
        return s->layout->start(s, op, err);
    case INTENT_WORK_WRITE:
        return pg_intent_save_row(s, op, err);
    case INTENT_WORK_RECALL:
        a = pg_intent_args(s);
        outrider__pg_arg_int8(a, x->epoch);
        return outrider__pg_request(&s->conn, &x->st[INTENT_BODY], a, pg_intent_on_body, op, err);
    case INTENT_WORK_PROVE:
        a = pg_intent_args(s);
        outrider__pg_arg_int8(a, x->epoch);
        return outrider__pg_request(&s->conn, &x->st[INTENT_EPOCH], a, pg_intent_on_saved, op, err);
    }
    return 0;
}

void outrider__pg_intent_done(struct pg_source *s, const struct pg_op *op)
{
    outrider__intent_done(&s->base, op->op);
}
