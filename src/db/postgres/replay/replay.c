/* SPDX-License-Identifier: MIT */
#include "postgres/replay/replay.h"

#include <stdlib.h>

#include "postgres/wire/statements.h"

#include "poll_log.sql.h"
#include "replay.sql.h"
#include "shared.sql.h"

struct replay_source {
    struct pg_source *s;
    bool is_log;
    struct arena arena;
    struct pg_args args;
    struct replay_table *tables;
    size_t n_tables, next_table;
    struct table_reader reader;
    struct pg_statement st_plans, st_flush, st_last;
    bool is_marked;
    int64_t mark; /* of the log: the sequence at the mark */
    /* The fetch under way. */
    struct pg_op *op;
    struct replay_table *table;
    size_t n_tried; /* tables that this fetch found empty */
};

static struct replay_source *replay_of(struct pg_source *s)
{
    return s->layout_data[PG_LAYOUT_REPLAY];
}

static bool replay_is_finished(const struct replay_source *d)
{
    for (size_t i = 0; i < d->n_tables; i++)
        if (!d->tables[i].is_exhausted)
            return false;
    return true;
}

static void replay_finish(struct replay_source *d)
{
    struct source *base = &d->s->base;
    struct pg_op *op = d->op;
    bool is_finished = replay_is_finished(d);
    d->op = NULL;
    base->ready = !is_finished;
    base->mark_reached = d->is_marked && is_finished;
    pg_op_done(op);
}

static int replay_ask(struct replay_source *d, struct outrider_error *err);

/* The table had nothing: the next one, or the end of this fetch. */
static int replay_was_empty(struct replay_source *d, struct outrider_error *err)
{
    if (++d->n_tried < d->n_tables)
        return replay_ask(d, err);
    replay_finish(d);
    return 0;
}

/* Where the next page begins. */
static int replay_note_place(struct replay_table *t, const struct event *last,
                             struct outrider_error *err)
{
    bool has_created = t->a.map.columns[ROLE_CREATED_AT] != NULL;
    t->is_begun = true;
    t->seq = last->seq;
    t->time_us = has_created ? last->created_at_us : last->occurred_at_us;
    outrider__strbuf_clear(&t->id);
    outrider__strbuf_append(&t->id, last->id);
    return t->id.failed ? outrider__fail_nomem(err) : 0;
}

static int replay_take_rows(struct replay_source *d, const PGresult *r, struct outrider_error *err)
{
    struct batch *b = d->op->op->batch;
    struct replay_table *t = d->table;
    struct event_bounds max = outrider__event_bounds(d->s->config);
    int i = 0;
    if (!d->is_log)
        max.id = EVENT_ANY_SIZE; /* the next page begins behind it */
    for (; i < PQntuples(r) && !batch_is_full(b); i++) {
        if (outrider__read_ends_at(&t->read, outrider__pg_row_is_large(r, i, 0)))
            break;
        struct event *e = outrider__pg_row(b, r, i, 0, &max);
        if (e == NULL)
            return outrider__fail_nomem(err);
        if (!d->is_log)
            outrider__table_complete(&t->a, e);
    }
    outrider__read_end(&t->read, b, i);
    return b->n > 0 ? replay_note_place(t, &b->events[b->n - 1], err) : 0;
}

static int replay_on_page(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct replay_source *d = ctx;
    struct replay_table *t = d->table;
    const struct batch *b = d->op->op->batch;
    int n_rows = PQntuples(results[0]);
    (void)n;
    if (replay_take_rows(d, results[0], err) < 0)
        return -1;
    t->is_exhausted = n_rows < t->read.limit && b->n == (size_t)n_rows;
    if (outrider__read_is_repeated(&t->read, b)) {
        d->next_table = (size_t)(t - d->tables); /* the page begins with a large row: again */
        return replay_ask(d, err);
    }
    if (b->n == 0)
        return replay_was_empty(d, err);
    replay_finish(d);
    return 0;
}

static void replay_log_args(struct replay_source *d, const struct replay_table *t)
{
    const struct pipeline_config *c = d->s->config;
    int64_t from = c->replay_from_seq > 0 ? c->replay_from_seq - 1 : 0;
    outrider__pg_arg_int8(&d->args, t->is_begun ? t->seq : from);
    if (c->replay_since_us > 0)
        outrider__pg_arg_time(&d->args, c->replay_since_us);
    else
        outrider__pg_arg_null(&d->args, PG_TIMESTAMPTZ);
    if (d->is_marked)
        outrider__pg_arg_int8(&d->args, d->mark);
    else
        outrider__pg_arg_null(&d->args, PG_INT8);
}

/* Asks for a page of the table whose turn it is. */
static int replay_ask(struct replay_source *d, struct outrider_error *err)
{
    struct replay_table *t = &d->tables[d->next_table];
    struct pg_conn *c = &d->s->conn;
    d->next_table = (d->next_table + 1) % d->n_tables;
    d->table = t;
    if (t->a.map.waits_for_words) { /* which rows are published is not known */
        t->is_exhausted = true;
        return replay_was_empty(d, err);
    }
    outrider__read_begin(&t->read, d->s->config, d->op->op->batch);
    outrider__pg_args_clear(&d->args);
    outrider__pg_arg_int8(&d->args, t->read.limit);
    outrider__pg_arg_bounds(&d->args, d->s->config, t->read.is_large);
    if (d->is_log)
        replay_log_args(d, t);
    else
        outrider__pg_replay_args(&d->args, t, d->s->config);
    if (outrider__pg_request_begin(c, replay_on_page, d, err) < 0 ||
        outrider__pg_request_add(c, &t->st_read, &d->args, err) < 0 ||
        outrider__pg_request_add(c, &d->st_flush, NULL, err) < 0)
        return -1;
    return outrider__pg_request_end(c, err);
}

static void replay_marked(struct replay_source *d, struct pg_op *op)
{
    d->is_marked = true;
    for (size_t i = 0; i < d->n_tables; i++)
        d->tables[i].is_exhausted = false;
    d->s->base.mark_reached = false;
    d->s->base.ready = true;
    pg_op_done(op);
}

static int replay_on_last(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct replay_source *d = replay_of(op->source);
    (void)n;
    (void)err;
    d->mark = outrider__pg_get_int(results[0], 0, 0, 0);
    replay_marked(d, op);
    return 0;
}

static int replay_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct replay_source *d = replay_of(s);
    if (op->op->kind == SOURCE_FETCH) {
        d->op = op;
        d->n_tried = 0;
        return replay_ask(d, err);
    }
    if (op->op->kind != SOURCE_MARK)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "a reader reads, and does nothing else");
    if (d->is_log)
        return outrider__pg_request(&s->conn, &d->st_last, NULL, replay_on_last, op, err);
    replay_marked(d, op);
    return 0;
}

static int replay_tick(struct pg_source *s, struct instant now, struct outrider_error *err)
{
    (void)now;
    (void)err;
    s->base.wake_us = CLOCK_NEVER;
    return 0;
}

static int replay_new(struct pg_source *s, bool is_log, int n_tables, struct outrider_error *err)
{
    struct replay_source *d = calloc(1, sizeof *d);
    if (d == NULL)
        return outrider__fail_nomem(err);
    s->layout_data[PG_LAYOUT_REPLAY] = d;
    d->s = s;
    d->is_log = is_log;
    outrider__arena_init(&d->arena, 16384);
    outrider__pg_args_init(&d->args);
    d->st_plans =
        (struct pg_statement){.sql = sql_session_plans, .what = "cannot set the session up"};
    d->st_flush = (struct pg_statement){.sql = sql_flush_log, .what = "cannot flush the log"};
    d->tables = calloc((size_t)n_tables, sizeof *d->tables);
    if (d->tables == NULL)
        return outrider__fail_nomem(err);
    d->n_tables = (size_t)n_tables;
    for (size_t i = 0; i < d->n_tables; i++)
        outrider__strbuf_init(&d->tables[i].id, 1 << 20);
    return 0;
}

static void replay_close(struct pg_source *s)
{
    struct replay_source *d = replay_of(s);
    if (d == NULL)
        return;
    for (size_t i = 0; i < d->n_tables; i++) {
        outrider__pg_statements_release(&d->tables[i].st_read, 1);
        outrider__strbuf_release(&d->tables[i].id);
    }
    free(d->tables);
    outrider__pg_statements_release(&d->st_last, 1);
    outrider__pg_table_reader_release(&d->reader);
    outrider__pg_args_release(&d->args);
    outrider__arena_release(&d->arena);
    free(d);
    s->layout_data[PG_LAYOUT_REPLAY] = NULL;
}

/* The log. */

static bool replay_reads_log(const struct pg_catalog *cat, const struct pipeline_config *config)
{
    return outrider__pg_layout_log.reads(cat, config);
}

static int replay_begin_log(struct pg_source *s, struct outrider_error *err)
{
    static const struct pg_block read = {sql_replay_log, "cannot read the outbox", PG_READS};
    static const struct pg_block last = {sql_log_last, "cannot read the sequence", PG_READS};
    struct pg_words words;
    struct strbuf event;
    struct pg_bounds bounds = outrider__pg_bounds_of(2);
    if (outrider__pg_log_check(s, err) < 0 || replay_new(s, true, 1, err) < 0)
        return -1;
    struct replay_source *d = replay_of(s);
    outrider__strbuf_init(&event, SQL_TEXT_CAP);
    outrider__pg_sql_log_event(&event, &s->cat, &bounds, NULL);
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_words_take(&words, "event", &event);
    int rc = outrider__pg_statements_make(&d->tables[0].st_read, &read, 1, &words, err);
    if (rc == 0)
        rc = outrider__pg_statements_make(&d->st_last, &last, 1, &words, err);
    outrider__pg_words_release(&words);
    if (rc < 0)
        return -1;
    s->base.reads_ahead = true;
    outrider__pg_source_activate(s);
    return 0;
}

/* Tables whose rows carry their state. */

static bool replay_reads_rows(const struct pg_catalog *cat, const struct pipeline_config *config)
{
    return outrider__pg_table_has_states(cat, config);
}

static struct outbox_table *replay_table_at(struct pg_source *s, size_t i)
{
    return &replay_of(s)->tables[i].a;
}

/* Every table is known: makes their statements. */
static int replay_on_tables(struct pg_source *s, struct outrider_error *err)
{
    struct replay_source *d = replay_of(s);
    for (size_t i = 0; i < d->n_tables; i++) {
        struct replay_table *t = &d->tables[i];
        struct strbuf sql;
        if (outrider__pg_replay_check(t, s->config, err) < 0)
            return -1;
        outrider__strbuf_init(&sql, SQL_TEXT_CAP);
        if (!t->a.map.waits_for_words)
            outrider__pg_replay_sql(&sql, t);
        if (sql.failed) {
            outrider__strbuf_release(&sql);
            return outrider__fail_nomem(err);
        }
        t->st_read = (struct pg_statement){
            .sql = sql.data, .own_sql = sql.data, .what = "cannot read the outbox"};
    }
    outrider__pg_source_activate(s);
    return 0;
}

static int replay_on_session(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct replay_source *d = ctx;
    (void)results;
    (void)n;
    return outrider__pg_table_reader_begin(&d->reader, err);
}

static int replay_begin_rows(struct pg_source *s, struct outrider_error *err)
{
    int n = outrider__study_count(s->config, err);
    if (n < 0 || replay_new(s, false, n, err) < 0)
        return -1;
    struct replay_source *d = replay_of(s);
    d->reader = (struct table_reader){.s = s,
                                      .n = d->n_tables,
                                      .purpose = STUDY_FOR_COMMAND,
                                      .table = replay_table_at,
                                      .done = replay_on_tables,
                                      .arena = &d->arena};
    return outrider__pg_request(&s->conn, &d->st_plans, NULL, replay_on_session, d, err);
}

const struct pg_layout outrider__pg_replay_log = {
    .name = "log",
    .id = PG_LAYOUT_REPLAY,
    .reads = replay_reads_log,
    .reads_only = true,
    .begin = replay_begin_log,
    .start = replay_start,
    .tick = replay_tick,
    .close = replay_close,
};

const struct pg_layout outrider__pg_replay_rows = {
    .name = "status",
    .id = PG_LAYOUT_REPLAY,
    .reads = replay_reads_rows,
    .reads_only = true,
    .begin = replay_begin_rows,
    .start = replay_start,
    .tick = replay_tick,
    .close = replay_close,
};
