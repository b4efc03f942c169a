/* SPDX-License-Identifier: MIT */
/* Mode cdc: taking a pipeline over, its operations, and its end. */
#include "postgres/cdc/cdc.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "postgres/options.h"

#define PULSE_US 1000000

/* What the statements answer with, column by column. */
enum read_column {
    READ_SINK,
    READ_MODE,
    READ_EPOCH,
    READ_ON_DEAD,
    READ_POSITION,
    READ_GAPS,
    READ_SWEEP,
    READ_LSN,
    READ_LSN_NUMBER,
    READ_BACKEND_PID,
    READ_NEW_TABLES,
    READ_POLLED_LSN,
    READ_NEVER_SETTLED,
    READ_PUBLISHED
};
enum names_column { NAMES_SLOT, NAMES_OWNS_SLOT, NAMES_PUBLICATION };
enum pulse_column { PULSE_HAS_TABLES, PULSE_XMIN, PULSE_LSN, PULSE_IS_UNCHANGED };

static int cdc_parse_ranges(const char *text, struct seq_ranges *ret, struct outrider_error *err)
{
    size_t n = 0;
    int rc = 0;
    for (const char *p = text; (p = strchr(p, '[')) != NULL; p++)
        n++;
    struct seq_range *items = calloc(n + 1, sizeof *items);
    if (items == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < n && rc >= 0; i++)
        rc = outrider__pg_next_range(&text, &items[i].low, &items[i].high);
    if (rc < 0) {
        free(items);
        return outrider__fail(err, OUTRIDER_DB, OUTRIDER_STOP,
                              "outrider_cursor holds ranges that cannot be read");
    }
    *ret = (struct seq_ranges){items, n};
    return 0;
}

static bool cdc_reads(const struct pg_catalog *cat, const struct pipeline_config *config)
{
    (void)cat;
    return config->source.mode == MODE_CDC;
}

static void cdc_wake_now(struct pg_source *s)
{
    s->base.wake_us = s->now.mono_us;
}

static int cdc_on_goal(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct pg_source *s = op->source;
    (void)n;
    if (!outrider__pg_get_bool(results[0], 0, POSITION_IS_UNCHANGED))
        return outrider__cdc_fail_published(s, err);
    cdc_of(s)->goal.lsn = (uint64_t)outrider__pg_get_int(results[0], 0, POSITION_LSN, 1);
    s->base.ready = true;
    pg_op_done(op);
    return 0;
}

static int cdc_set_goal(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    s->base.mark_reached = false;
    c->goal.lsn = 0; /* the mark before was reached */
    outrider__cdc_published_args(s, &c->args);
    return outrider__pg_request(&s->conn, &c->st[CDC_POSITION], &c->args, cdc_on_goal, op, err);
}

/* A pipeline whose stream does not come up is not active: see cdc_prepare(). */
static int cdc_activate(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct pg_op *op = c->goal.op;
    outrider__pg_source_activate(s);
    c->goal.op = NULL;
    return op != NULL ? cdc_set_goal(s, op, err) : 0;
}

static int cdc_on_taken(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    if (outrider__pg_cursor_taken(s, results[0], &c->cursor, err) < 0)
        return -1;
    s->base.parked_due_us = outrider__pg_parked_due_us(results[n - 2]);
    c->has_parked = outrider__pg_get_bool(results[n - 1], 0, 0);
    c->pulse_us = s->now.mono_us + PULSE_US;
    bool has_rows = c->move.mode != CURSOR_CDC || c->sweep.ranges.n > 0;
    c->move.phase = has_rows ? MOVE_SWEEPING : MOVE_STREAM;
    cdc_wake_now(s);
    return has_rows ? cdc_activate(s, err) : 0;
}

static int cdc_add_published(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (!c->must_record)
        return 0;
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_str(&c->args, c->published);
    return outrider__pg_request_add(&s->conn, &c->st[CDC_SAVE_PUBLISHED], &c->args, err);
}

int outrider__cdc_take_over(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (outrider__pg_request_begin(&s->conn, cdc_on_taken, s, err) < 0 ||
        outrider__pg_cursor_add_take(s, &c->st[CDC_TAKE], &c->parked, &c->args, c->cursor.epoch,
                                     c->is_other_policy, err) < 0 ||
        (c->tables.rows->add_take_over != NULL && c->tables.rows->add_take_over(s, err) < 0) ||
        cdc_add_published(s, err) < 0)
        return -1;
    if (outrider__pg_parked_add_due(&c->parked, &s->conn, err) < 0 ||
        outrider__pg_parked_add_any(&c->parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static enum cursor_mode cdc_mode_of(const char *text)
{
    static const struct {
        const char *text;
        enum cursor_mode mode;
    } modes[] = {{"poll", CURSOR_POLL},
                 {"cdc", CURSOR_CDC},
                 {"leaving", CURSOR_LEAVING},
                 {"member", CURSOR_MEMBER}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(text, modes[i].text) == 0)
            return modes[i].mode;
    return CURSOR_OTHER;
}

/* cdc.h (2) and (3). */
static int cdc_read_place(struct pg_source *s, const PGresult *r, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct stream_place place = {
        .lsn = (uint64_t)outrider__pg_get_int(r, 0, READ_LSN, 0),
        .number = outrider__pg_get_int(r, 0, READ_LSN_NUMBER, 0),
        .polled_lsn = (uint64_t)outrider__pg_get_int(r, 0, READ_POLLED_LSN, 0),
    };
    if (c->tables.rows->has_seqs)
        place.polled_high = outrider__pg_get_int(r, 0, READ_POSITION, 0);
    if (cdc_parse_ranges(outrider__pg_get_str(r, 0, READ_GAPS), &place.polled_rest, err) < 0)
        return -1;
    outrider__cdc_stream_resume(&c->stream, &place);
    outrider__seq_ranges_release(&c->sweep.ranges);
    c->sweep.read_to = 0;
    return cdc_parse_ranges(outrider__pg_get_str(r, 0, READ_SWEEP), &c->sweep.ranges, err);
}

static int cdc_read_cursor(struct pg_source *s, const PGresult *r, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (outrider__pg_cursor_check(s, r, READ_SINK, READ_BACKEND_PID, err) < 0)
        return -1;
    c->move.mode = cdc_mode_of(outrider__pg_get_str(r, 0, READ_MODE));
    c->cursor.epoch = outrider__pg_get_int(r, 0, READ_EPOCH, 0);
    c->is_other_policy =
        cursor_is_other_policy(s->config, outrider__pg_get_bytes(r, 0, READ_ON_DEAD));
    c->move.skips_rows = s->config->source.existing_rows == EXISTING_ROWS_SKIP &&
                         !c->move.is_leaving && c->move.mode == CURSOR_POLL &&
                         outrider__pg_get_bool(r, 0, READ_NEVER_SETTLED);
    if (c->move.skips_rows)
        c->move.poller = NULL;
    if (outrider__cdc_published_read(s, outrider__pg_get_str(r, 0, READ_PUBLISHED), err) < 0)
        return -1;
    return cdc_read_place(s, r, err);
}

/* A pipeline in mode cdc has the tables that it began with. */
static int cdc_check_members(const struct pg_source *s, const PGresult *r,
                             struct outrider_error *err)
{
    const char *mode = outrider__pg_get_str(r, 0, READ_MODE);
    if (outrider__pg_cursor_check_adopted(s, mode, err) < 0)
        return -1;
    if (cdc_mode_of(mode) == CURSOR_MEMBER)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s belongs to pipeline '%s', but is not its first table; name the "
                              "tables in the order in which it began",
                              s->cat.table, s->config->name);
    if (!PQgetisnull(r, 0, READ_NEW_TABLES))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s is new in pipeline '%s', which is in mode cdc already, and what "
                              "it holds would not be delivered; give it a pipeline of its own "
                              "(--name)",
                              outrider__pg_get_str(r, 0, READ_NEW_TABLES), s->config->name);
    return 0;
}

static int cdc_on_facts(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    outrider__cdc_read_facts(&c->facts, results[n - 1]);
    bool is_cdc = c->move.mode == CURSOR_CDC;
    if (is_cdc && outrider__cdc_check_slot(s, err) < 0)
        return -1;
    if (is_cdc && !c->facts.is_published)
        return outrider__cdc_fail_published(s, err);
    if (outrider__cdc_check_facts(s, err) < 0)
        return -1;
    if (postgres_options(s->config)->slot_failover && s->cat.version < CDC_FAILOVER_SINCE)
        outrider__pg_source_warn(s,
                                 "source.slot_failover needs PostgreSQL 17 or newer: slot %s is "
                                 "lost in a failover",
                                 c->slot);
    if (!is_cdc)
        return outrider__cdc_arrive_begin(s, err);
    const char *tokens = outrider__pg_get_str(results[n - 1], 0, FACTS_TOKENS);
    if (outrider__cdc_published_first(s, tokens, err) < 0)
        return -1;
    return outrider__cdc_take_over(s, err);
}

static void cdc_read_names(struct pg_source *s, const PGresult *r)
{
    struct cdc_source *c = cdc_of(s);
    const char *wanted = postgres_options(s->config)->publication;
    bool is_given = wanted != NULL && wanted[0] != '\0';
    (void)snprintf(c->slot, sizeof c->slot, "%s", outrider__pg_get_str(r, 0, NAMES_SLOT));
    c->owns_slot = outrider__pg_get_bool(r, 0, NAMES_OWNS_SLOT);
    (void)snprintf(c->publication, sizeof c->publication, "%s",
                   is_given ? wanted : outrider__pg_get_str(r, 0, NAMES_PUBLICATION));
}

static int cdc_on_read(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    const PGresult *cursor = results[n - 2];
    if (cdc_read_cursor(s, cursor, err) < 0 || cdc_check_members(s, cursor, err) < 0)
        return -1;
    cdc_read_names(s, results[n - 1]);
    if (c->move.mode == CURSOR_LEAVING) {
        c->move.phase = MOVE_LEFT;
        cdc_wake_now(s);
        return 0;
    }
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_str(&c->args, c->slot);
    outrider__cdc_tables_oids(s, &c->args);
    outrider__cdc_tables_columns(s, &c->args);
    outrider__pg_arg_str(&c->args, c->publication);
    outrider__pg_arg_str(&c->args, c->published);
    return outrider__pg_request(&s->conn, &c->st[CDC_FACTS], &c->args, cdc_on_facts, s, err);
}

int outrider__cdc_restart(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    c->move.phase = MOVE_READING;
    outrider__pg_cursor_args(s, &c->args);
    if (outrider__pg_request_begin(&s->conn, cdc_on_read, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &c->st[CDC_ENROL], &c->args, err) < 0)
        return -1;
    outrider__cdc_tables_names(s, &c->args);
    if (outrider__pg_request_add(&s->conn, &c->st[CDC_READ_CURSOR], &c->args, err) < 0)
        return -1;
    outrider__pg_cursor_args(s, &c->args);
    if (outrider__pg_request_add(&s->conn, &c->st[CDC_NAMES], &c->args, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int cdc_on_tables(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (outrider__cdc_tables_prepare(s, err) < 0 || outrider__cdc_prepare_sql(s, err) < 0)
        return -1;
    c->move.poller = c->tables.rows->poller(s);
    return outrider__cdc_restart(s, err);
}

static int cdc_begin(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = calloc(1, sizeof *c);
    if (c == NULL)
        return outrider__fail_nomem(err);
    s->layout_data[PG_LAYOUT_CDC] = c;
    outrider__pg_args_init(&c->args);
    c->settled.saved_n_settled = -1;
    c->move.is_leaving = s->config->source.mode == MODE_POLL;
    if (outrider__cdc_stream_init(&c->stream, err) < 0)
        return -1;
    return outrider__cdc_tables_begin(s, cdc_on_tables, err);
}

static int cdc_on_blocked(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)n;
    if (outrider__pg_parked_apply_blocked(op->op->batch, results[0], err) < 0)
        return -1;
    cdc_of(op->source)->fetch_op = NULL;
    pg_op_done(op);
    return 0;
}

int outrider__cdc_finish_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    c->fetch_op = NULL;
    if (op->op->batch->n == 0 || !c->has_parked || !s->config->ordered) {
        pg_op_done(op);
        return 0;
    }
    c->fetch_op = op;
    if (outrider__pg_request_begin(&s->conn, cdc_on_blocked, op, err) < 0 ||
        outrider__pg_parked_add_blocked(&c->parked, &s->conn, op->op->batch, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int cdc_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->move.phase == MOVE_STREAM)
        return outrider__cdc_stream_fetch(s, op, err);
    if (c->move.phase == MOVE_SWEEPING)
        return c->tables.rows->fetch(s, op, err);
    s->base.ready = false;
    pg_op_done(op);
    return 0;
}

static int cdc_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->move.phase == MOVE_POLLING || c->move.phase == MOVE_STOPPING)
        return outrider__cdc_arrive_start(s, op, err);
    switch (op->op->kind) {
    case SOURCE_MARK:
        return cdc_set_goal(s, op, err);
    case SOURCE_FETCH:
        return cdc_fetch(s, op, err);
    case SOURCE_FETCH_PARKED:
        return outrider__pg_cursor_fetch_parked(s, &c->parked, op, err);
    case SOURCE_SETTLE:
    case SOURCE_INTENT:
    case SOURCE_RECALL:
        return outrider__cdc_settle(s, op, err);
    case SOURCE_CLEANUP:
        return c->tables.rows->cleanup(s, op, err);
    }
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "unknown operation");
}

static int cdc_on_pulse(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)n;
    c->is_pulsing = false;
    if (!outrider__pg_get_bool(results[0], 0, PULSE_IS_UNCHANGED))
        return outrider__cdc_fail_published(s, err);
    if (!outrider__pg_get_bool(results[0], 0, PULSE_HAS_TABLES))
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY,
                              "publication %s was altered: checking it anew", c->publication);
    s->base.parked_due_us = outrider__pg_parked_due_us(results[1]);
    if (c->n_parkings == c->pulse_parkings)
        c->has_parked = outrider__pg_get_bool(results[2], 0, 0);
    if (c->move.phase != MOVE_STREAM)
        return 0;
    int64_t lsn = outrider__pg_get_int(results[0], 0, PULSE_LSN, INT64_MAX);
    return outrider__cdc_note_settled(s, outrider__pg_get_int(results[0], 0, PULSE_XMIN, 0),
                                      (uint64_t)lsn, err);
}

/* Keeps the session alive, sees what operators did, and what was altered. */
int outrider__cdc_pulse(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->is_pulsing || s->now.mono_us < c->pulse_us)
        return 0;
    c->is_pulsing = true;
    c->pulse_parkings = c->n_parkings;
    c->pulse_us = s->now.mono_us + PULSE_US;
    outrider__cdc_published_args(s, &c->args);
    if (outrider__pg_request_begin(&s->conn, cdc_on_pulse, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &c->st[CDC_PULSE], &c->args, err) < 0 ||
        outrider__pg_parked_add_due(&c->parked, &s->conn, err) < 0 ||
        outrider__pg_parked_add_any(&c->parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int cdc_sweeping_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->tables.rows->tick(s, err) < 0 || outrider__cdc_pulse(s, err) < 0)
        return -1;
    s->base.wake_us = c->move.phase == MOVE_STREAM ? s->now.mono_us
                      : c->is_pulsing              ? CLOCK_NEVER
                                                   : c->pulse_us;
    return 0;
}

static int cdc_tick(struct pg_source *s, struct instant now, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    (void)now;
    switch (c->move.phase) {
    case MOVE_POLLING:
    case MOVE_STOPPING:
        return outrider__cdc_arrive_tick(s, err);
    case MOVE_SWEEPING:
        return cdc_sweeping_tick(s, err);
    case MOVE_STREAM:
        if (outrider__cdc_pulse(s, err) < 0 || outrider__cdc_stream_tick(s, err) < 0 ||
            outrider__cdc_rest_tick(s, err) < 0)
            return -1;
        return c->move.is_leaving ? outrider__cdc_leave_tick(s, err) : 0;
    case MOVE_LEFT:
        return outrider__cdc_leave_drop(s, err);
    case MOVE_READING:
        return 0;
    }
    return 0;
}

/* Until the source is active. A pipeline whose stream does not come up is not active. */
static int cdc_prepare(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    switch (c->move.phase) {
    case MOVE_LEFT:
        return outrider__cdc_leave_drop(s, err);
    case MOVE_POLLING:
    case MOVE_STOPPING:
        return c->move.poller == NULL ? outrider__cdc_arrive_tick(s, err) : 0;
    case MOVE_STREAM:
        if (outrider__cdc_pulse(s, err) < 0 || outrider__cdc_stream_tick(s, err) < 0)
            return -1;
        return stream_is_up(&c->stream) ? cdc_activate(s, err) : 0;
    default:
        return 0;
    }
}

static int cdc_fds(struct pg_source *s, struct pollfd *ret_fds, int max)
{
    struct cdc_source *c = cdc_of(s);
    if (c == NULL)
        return 0;
    int n = outrider__cdc_stream_fds(s, ret_fds, max);
    return n + outrider__cdc_link_fds(&c->maker.link, true, ret_fds + n, max - n);
}

static void cdc_draw(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    if (c != NULL)
        outrider__cdc_stream_draw(&c->stream);
}

static void cdc_close(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    if (c == NULL)
        return;
    if (c->move.poller != NULL && pg_layout_is_open(s, c->move.poller))
        c->move.poller->close(s);
    outrider__cdc_stream_release(&c->stream);
    outrider__cdc_maker_release(&c->maker);
    outrider__pg_statements_release(c->st, CDC_STATEMENTS);
    outrider__pg_cleaner_release(&c->cleaner);
    outrider__pg_parked_release(&c->parked);
    outrider__pg_args_release(&c->args);
    outrider__seq_ranges_release(&c->sweep.ranges);
    outrider__cdc_tables_release(&c->tables);
    PQclear(c->snapshot.rows);
    free(c->published);
    free(c);
    s->layout_data[PG_LAYOUT_CDC] = NULL;
}

const struct pg_layout outrider__pg_layout_cdc = {
    .name = "cdc",
    .id = PG_LAYOUT_CDC,
    .reads = cdc_reads,
    .begin = cdc_begin,
    .start = cdc_start,
    .tick = cdc_tick,
    .prepare = cdc_prepare,
    .fds = cdc_fds,
    .draw = cdc_draw,
    .close = cdc_close,
    .intent_flags = INTENT_VALUES,
    .own_write = outrider__cdc_own_write,
    .own_read = outrider__cdc_own_read,
};
