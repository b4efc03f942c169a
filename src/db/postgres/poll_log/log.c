/* SPDX-License-Identifier: MIT */
/* The log layout: taking a pipeline over, probing a quiet outbox, and its end. */
#include "postgres/poll_log/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "poll_log.sql.h"
#include "shared.sql.h"
#include "wire.sql.h"

#define LOOK_MIN_US 4000
#define PULSE_US 1000000

static const struct pg_block log_blocks[LOG_STATEMENTS] = {
    [LOG_ENROL] = {sql_cursor_enrol, "cannot take over the pipeline", PG_READS},
    [LOG_READ_CURSOR] = {sql_log_read_cursor, "cannot read the cursor", PG_READS},
    [LOG_TAKE] = {sql_cursor_take, "cannot take over the pipeline", PG_READS},
    [LOG_READ] = {sql_log_read, "cannot read the outbox", PG_READS},
    [LOG_READ_EXACT] = {sql_log_read_exact, "cannot read the outbox", PG_READS},
    [LOG_READ_GAPS] = {sql_log_read_gaps, "cannot read the outbox", PG_READS},
    [LOG_WRITERS] = {sql_log_writers, "cannot read the locks", PG_READS},
    [LOG_FINGERPRINT] = {sql_catalog_fingerprint, "cannot read the catalogue", PG_READS},
    [LOG_FACTS] = {sql_log_facts, "cannot read the log's position", PG_READS},
    [LOG_FLUSHED] = {"SELECT pg_current_wal_flush_lsn()", "cannot read the log's position",
                     PG_READS},
    [LOG_FORCE] = {"SELECT pg_logical_emit_message(true, 'outrider.flush', '')",
                   "cannot flush the log", PG_READS},
    [LOG_LAST] = {sql_log_last, "cannot read the sequence", PG_READS},
    [LOG_SAVE] = {sql_cursor_save, "cannot settle", PG_SETTLES},
    [LOG_OLDEST] = {sql_log_oldest, "cannot read the locks", PG_READS},
    [LOG_AHEAD] = {sql_log_ahead, "cannot read the outbox", PG_READS},
};

/* Columns of log_read_cursor. */
enum log_cursor_column {
    LOG_CURSOR_SINK,
    LOG_CURSOR_POSITION,
    LOG_CURSOR_GAPS,
    LOG_CURSOR_ANCHOR,
    LOG_CURSOR_EPOCH,
    LOG_CURSOR_ON_DEAD,
    LOG_CURSOR_SYSTEM_ID,
    LOG_CURSOR_TIMELINE,
    LOG_CURSOR_ROW_ID, /* of the row at the position; NULL: there is none */
    LOG_CURSOR_LAST_VALUE,
    LOG_CURSOR_PID,
    LOG_CURSOR_MODE
};

/* The statements of the request that reads the cursor, and of the one that takes it over. */
enum log_begin_step { LOG_BEGIN_ENROL, LOG_BEGIN_CURSOR };
enum log_take_step { LOG_TAKE_EPOCH }; /* then the lanes are mended, perhaps; due time last */
enum log_pulse_step { LOG_PULSE_FINGERPRINT, LOG_PULSE_DUE };

static void log_add_event_words(struct pg_words *words, const struct pg_source *s)
{
    struct pg_bounds exact = outrider__pg_bounds_of(3);
    struct pg_bounds usual = outrider__pg_bounds_fixed(s->config, false);
    struct strbuf text;
    outrider__strbuf_init(&text, SQL_TEXT_CAP);
    outrider__pg_sql_log_event(&text, &s->cat, &exact, "$1");
    outrider__pg_words_take(words, "event", &text);
    outrider__strbuf_init(&text, SQL_TEXT_CAP);
    outrider__pg_sql_log_event(&text, &s->cat, &usual, "$1");
    outrider__pg_words_take(words, "usual", &text);
}

static int log_make_statements(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct pg_words words;
    bool is_partitioned = s->cat.relkind == 'p';
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_cursor_words(&words, sql_log_save_sets);
    log_add_event_words(&words, s);
    outrider__pg_words_add_block(&words, "lockable",
                                 is_partitioned ? sql_log_lockable_tree : "= @oid@");
    outrider__pg_words_add(&words, "any",
                           s->config->ordered ? l->parked.text.sql[PARKED_ANY] : "SELECT false");
    int rc = outrider__pg_statements_make(l->st, log_blocks, LOG_STATEMENTS, &words, err);
    outrider__pg_words_release(&words);
    return rc;
}

int outrider__pg_log_fail_history(struct pg_source *s, const char *what, struct outrider_error *err)
{
    struct cursor_place at = outrider__pg_cursor_place(s);
    return outrider__cursor_fail_history(&at, what, err);
}

int outrider__pg_log_check_fingerprint(struct pg_source *s, const PGresult *r,
                                       struct outrider_error *err)
{
    if (PQntuples(r) == 1 && strcmp(outrider__pg_get_str(r, 0, 0), s->cat.fingerprint) == 0)
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY,
                          "%s or its sequence was altered: checking it anew", s->cat.table);
}

void outrider__pg_log_look_soon(struct pg_source *s)
{
    struct log_source *l = log_of(s);
    l->look_gap_us = LOOK_MIN_US;
    l->look_us = s->now.mono_us + l->look_gap_us;
}

static bool log_reads(const struct pg_catalog *cat, const struct pipeline_config *config)
{
    (void)config;
    return cat->has_seq && !cat->has_mark;
}

static int log_check_anchor(struct pg_source *s, const PGresult *r, struct outrider_error *err)
{
    struct cursor_place at = outrider__pg_cursor_place(s);
    struct cursor_anchor a = {.position = log_of(s)->head,
                              .sequence = outrider__pg_get_int(r, 0, LOG_CURSOR_LAST_VALUE, 0),
                              .stored = outrider__pg_get_bytes(r, 0, LOG_CURSOR_ANCHOR),
                              .found = outrider__pg_get_bytes(r, 0, LOG_CURSOR_ROW_ID)};
    return outrider__cursor_check_anchor(&at, &a, err);
}

/* Gaps end below the position: rows from the position on are read in any case. */
static int log_load_gaps(struct pg_source *s, const char *text, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    int64_t low = 0, high = 0;
    int rc;
    outrider__gaps_begin_group(&l->gaps);
    while ((rc = outrider__pg_next_range(&text, &low, &high)) > 0) {
        if (high >= l->head)
            high = l->head - 1;
        if (low <= high && outrider__gaps_add(&l->gaps, low, high) < 0)
            return outrider__fail_nomem(err);
    }
    if (rc == 0)
        return 0;
    return outrider__fail(err, OUTRIDER_DB, OUTRIDER_STOP,
                          "outrider_cursor.gaps of pipeline '%s' cannot be read", s->config->name);
}

static void log_activate(struct pg_source *s)
{
    struct log_source *l = log_of(s);
    l->pulse_us = s->now.mono_us + PULSE_US;
    s->base.reads_ahead = true;
    outrider__pg_log_look_soon(s);
    outrider__pg_source_activate(s);
}

static int log_on_taken(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    if (outrider__pg_cursor_taken(s, results[LOG_TAKE_EPOCH], &l->cursor, err) < 0)
        return -1;
    const PGresult *due = results[n - 1]; /* log_take_over() adds it last */
    s->base.parked_due_us = outrider__pg_parked_due_us(due);
    log_activate(s);
    return 0;
}

static int log_take_over(struct pg_source *s, int64_t epoch, bool is_other_policy,
                         struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (outrider__pg_request_begin(&s->conn, log_on_taken, s, err) < 0 ||
        outrider__pg_cursor_add_take(s, &l->st[LOG_TAKE], &l->parked, &l->args, epoch,
                                     is_other_policy, err) < 0)
        return -1;
    if (outrider__pg_parked_add_due(&l->parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static void log_tell_of_another_server(struct pg_source *s, const PGresult *r)
{
    int64_t system_id = outrider__pg_get_int(r, 0, LOG_CURSOR_SYSTEM_ID, s->cat.system_id);
    int64_t timeline = outrider__pg_get_int(r, 0, LOG_CURSOR_TIMELINE, s->cat.timeline);
    if (system_id != s->cat.system_id)
        outrider__pg_source_warn(s, "the database was moved to another cluster since; its history "
                                    "fits, events may be delivered again");
    else if (timeline != s->cat.timeline)
        outrider__pg_source_warn(s,
                                 "the server was failed over or restored since (timeline %lld, now "
                                 "%d); its history fits, events may be delivered again",
                                 (long long)timeline, s->cat.timeline);
}

static int log_take_cursor(struct pg_source *s, const PGresult *r, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    l->head = outrider__pg_get_int(r, 0, LOG_CURSOR_POSITION, 0);
    l->last_value = outrider__pg_get_int(r, 0, LOG_CURSOR_LAST_VALUE, 0);
    if (log_check_anchor(s, r, err) < 0 ||
        log_load_gaps(s, outrider__pg_get_str(r, 0, LOG_CURSOR_GAPS), err) < 0)
        return -1;
    outrider__strbuf_clear(&l->anchor);
    outrider__strbuf_append(&l->anchor, outrider__pg_get_bytes(r, 0, LOG_CURSOR_ANCHOR));
    return l->anchor.failed ? outrider__fail_nomem(err) : 0;
}

static int log_on_cursor(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    const PGresult *r = results[LOG_BEGIN_CURSOR];
    (void)n;
    if (outrider__pg_cursor_check(s, r, LOG_CURSOR_SINK, LOG_CURSOR_PID, err) < 0)
        return -1;
    const char *mode = outrider__pg_get_str(r, 0, LOG_CURSOR_MODE);
    if (outrider__pg_cursor_check_adopted(s, mode, err) < 0)
        return -1;
    if (strcmp(mode, "poll") != 0)
        return outrider__pg_source_switch(s, &outrider__pg_layout_cdc, err);
    if (!pg_source_is_cdc(s) && outrider__pg_cdc_forget_slot(s, err) < 0)
        return -1;
    if (log_take_cursor(s, r, err) < 0)
        return -1;
    log_tell_of_another_server(s, r);
    struct bytes on_dead = outrider__pg_get_bytes(r, 0, LOG_CURSOR_ON_DEAD);
    return log_take_over(s, outrider__pg_get_int(r, 0, LOG_CURSOR_EPOCH, 0),
                         cursor_is_other_policy(s->config, on_dead), err);
}

static void log_append_stored(struct strbuf *sql, const char *const *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        outrider__pg_stored_sql(sql, columns[i]);
        strbuf_append_str(sql, ", ");
    }
}

static int log_prepare_parked(struct pg_source *s, struct outrider_error *err)
{
    static const char *const before[] = {"o.aggregate_type", "o.aggregate_id", "o.event_type"};
    static const char *const behind[] = {"o.headers", "o.topic", "o.partition_key"};
    struct strbuf copy;
    outrider__strbuf_init(&copy, SQL_TEXT_CAP);
    strbuf_append_str(&copy, "o.id::text, ");
    log_append_stored(&copy, before, sizeof before / sizeof *before);
    outrider__pg_bytea_sql(&copy, s->cat.payload_type, "o.payload");
    strbuf_append_str(&copy, ", ");
    log_append_stored(&copy, behind, sizeof behind / sizeof *behind);
    outrider__strbuf_appendf(&copy,
                             "o.partition, o.occurred_at, o.created_at, o.expires_at FROM u JOIN "
                             "%s o ON o.seq = u.seq",
                             s->cat.table);
    int rc = copy.failed ? outrider__fail_nomem(err)
                         : outrider__pg_parked_init(&log_of(s)->parked, &s->cat, s->config,
                                                    strbuf_cstr(&copy), NULL, err);
    outrider__strbuf_release(&copy);
    return rc;
}

static int log_prepare(struct pg_source *s, struct outrider_error *err)
{
    if (log_prepare_parked(s, err) < 0 || log_make_statements(s, err) < 0)
        return -1;
    return outrider__pg_cleaner_init(&log_of(s)->cleaner, &s->cat, err);
}

int outrider__pg_log_check(const struct pg_source *s, struct outrider_error *err)
{
    if (s->config->source.tables.n > 1)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "%s is a log: a pipeline reads one log; give each a pipeline of its "
                              "own",
                              s->cat.table);
    return outrider__pg_catalog_check_log(&s->cat, err);
}

static int log_begin(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = calloc(1, sizeof *l);
    if (l == NULL)
        return outrider__fail_nomem(err);
    s->layout_data[PG_LAYOUT_LOG] = l;
    outrider__pg_args_init(&l->args);
    outrider__strbuf_init(&l->anchor, 1 << 16);
    outrider__gaps_init(&l->gaps);
    l->mark = -1;
    if (outrider__pg_log_check(s, err) < 0 || log_prepare(s, err) < 0)
        return -1;
    outrider__pg_cursor_args(s, &l->args);
    if (outrider__pg_request_begin(&s->conn, log_on_cursor, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &l->st[LOG_ENROL], &l->args, err) < 0 ||
        outrider__pg_request_add(&s->conn, &l->st[LOG_READ_CURSOR], &l->args, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static void log_take_mark(struct pg_source *s, const PGresult *r)
{
    struct log_source *l = log_of(s);
    l->mark = outrider__pg_get_int(r, 0, 0, 0);
    if (l->mark == l->head && l->gaps.n == 0)
        s->base.mark_reached = true;
    else
        s->base.ready = true;
}

static int log_on_mark(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)n;
    (void)err;
    log_take_mark(op->source, results[0]);
    pg_op_done(op);
    return 0;
}

static int log_on_mark_again(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    (void)n;
    (void)err;
    log_take_mark(ctx, results[0]);
    return 0;
}

/* Where there are gaps, only a read that is newer than the mark can tell. */
static int log_mark(struct pg_source *s, pg_done_fn *done, void *ctx, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    s->must_mark = s->base.mark_reached = false;
    l->mark_fetch_no = l->fetch.no + 1;
    return outrider__pg_request(&s->conn, &l->st[LOG_LAST], NULL, done, ctx, err);
}

static int log_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    switch (op->op->kind) {
    case SOURCE_MARK:
        return log_mark(s, log_on_mark, op, err);
    case SOURCE_FETCH:
        return outrider__pg_log_fetch(s, op, err);
    case SOURCE_FETCH_PARKED:
        return outrider__pg_cursor_fetch_parked(s, &log_of(s)->parked, op, err);
    case SOURCE_SETTLE:
    case SOURCE_INTENT:
    case SOURCE_RECALL:
        return outrider__pg_log_settle(s, op, err);
    case SOURCE_CLEANUP:
        return outrider__pg_log_cleanup(s, op, err);
    }
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "unknown operation");
}

static int log_check_sequence(struct pg_source *s, int64_t last_value, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    l->last_value = last_value;
    if (last_value >= l->head)
        return 0;
    return outrider__pg_log_fail_history(s, "its sequence was set back below the position", err);
}

static int log_on_probe(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    (void)n;
    l->is_probing = false;
    if (log_check_sequence(s, outrider__pg_get_int(results[0], 0, 0, 0), err) < 0)
        return -1;
    if (l->last_value > l->head)
        s->base.ready = true;
    return 0;
}

/* The sequence is the whole probe while it equals head and there are no gaps. */
static int log_look(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (s->base.ready || l->fetch.op != NULL || l->is_probing || s->now.mono_us < l->look_us)
        return 0;
    l->look_gap_us = l->look_gap_us * 2;
    if (l->look_gap_us > s->config->source.poll_interval_us)
        l->look_gap_us = s->config->source.poll_interval_us;
    l->look_us = s->now.mono_us + l->look_gap_us;
    if (l->gaps.n > 0 || l->last_value != l->head) {
        s->base.ready = true;
        return 0;
    }
    l->is_probing = true;
    return outrider__pg_request(&s->conn, &l->st[LOG_LAST], NULL, log_on_probe, s, err);
}

static int log_on_pulse(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    l->is_pulsing = false;
    if (outrider__pg_log_check_fingerprint(s, results[LOG_PULSE_FINGERPRINT], err) < 0)
        return -1;
    if (n > LOG_PULSE_DUE)
        s->base.parked_due_us = outrider__pg_parked_due_us(results[LOG_PULSE_DUE]);
    return 0;
}

/* Keeps the session alive, sees what operators did, and what was altered. */
static int log_pulse(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (l->is_pulsing || s->now.mono_us < l->pulse_us)
        return 0;
    l->is_pulsing = true;
    l->pulse_us = s->now.mono_us + PULSE_US;
    if (l->has_forgotten_gaps && l->n_out == 0 && outrider__pg_log_save_gaps(s, err) < 0)
        return -1;
    outrider__pg_args_clear(&l->args);
    outrider__pg_arg_oid(&l->args, s->cat.oid);
    outrider__pg_arg_oid(&l->args, s->cat.sequence_oid);
    if (outrider__pg_request_begin(&s->conn, log_on_pulse, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &l->st[LOG_FINGERPRINT], &l->args, err) < 0)
        return -1;
    if (outrider__pg_parked_add_due(&l->parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int log_tick(struct pg_source *s, struct instant now, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    (void)now;
    if (s->must_mark && log_mark(s, log_on_mark_again, s, err) < 0)
        return -1;
    if (outrider__pg_log_fetch_tick(s, err) < 0 || log_look(s, err) < 0 || log_pulse(s, err) < 0)
        return -1;
    int64_t wake = l->is_pulsing ? CLOCK_NEVER : l->pulse_us;
    if (!s->base.ready && l->fetch.op == NULL && !l->is_probing && l->look_us < wake)
        wake = l->look_us;
    if (l->fetch.op != NULL && l->fetch.ask_us < wake && !l->fetch.is_asking)
        wake = l->fetch.ask_us;
    s->base.wake_us = wake;
    return 0;
}

static void log_close(struct pg_source *s)
{
    struct log_source *l = log_of(s);
    if (l == NULL)
        return;
    outrider__pg_statements_release(l->st, LOG_STATEMENTS);
    outrider__pg_cleaner_release(&l->cleaner);
    outrider__pg_parked_release(&l->parked);
    outrider__pg_args_release(&l->args);
    outrider__strbuf_release(&l->anchor);
    outrider__gaps_release(&l->gaps);
    free(l);
    s->layout_data[PG_LAYOUT_LOG] = NULL;
}

static int64_t log_epoch(struct pg_source *s)
{
    return log_of(s)->cursor.epoch;
}

const struct pg_layout outrider__pg_layout_log = {
    .name = "log",
    .id = PG_LAYOUT_LOG,
    .reads = log_reads,
    .begin = log_begin,
    .start = log_start,
    .tick = log_tick,
    .close = log_close,
    .epoch = log_epoch,
    .own_write = outrider__pg_log_own_write,
    .own_read = outrider__pg_log_own_read,
};
