/* SPDX-License-Identifier: MIT */
/* Mode cdc: taking a pipeline over, its operations, and its end. */
#include "postgres/cdc/cdc.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "postgres/options.h"
#include "postgres/poll_status/status.h"

#define PULSE_US 1000000

int outrider__cdc_parse_ranges(const char *text, struct cdc_ranges *ret, struct outrider_error *err)
{
    size_t n = 0;
    int rc = 0;
    for (const char *p = text; (p = strchr(p, '[')) != NULL; p++)
        n++;
    struct cdc_range *items = calloc(n + 1, sizeof *items);
    if (items == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < n && rc >= 0; i++)
        rc = outrider__pg_next_range(&text, &items[i].low, &items[i].high);
    if (rc < 0) {
        free(items);
        return outrider__fail(err, OUTRIDER_DB, OUTRIDER_STOP,
                              "outrider_cursor holds ranges that cannot be read");
    }
    free(ret->items);
    *ret = (struct cdc_ranges){items, n};
    return 0;
}

void outrider__cdc_ranges_release(struct cdc_ranges *r)
{
    free(r->items);
    *r = (struct cdc_ranges){0};
}

bool outrider__cdc_ranges_hold(const struct cdc_ranges *r, int64_t seq)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->items[middle].high < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->n && r->items[low].low <= seq;
}

static bool cdc_reads(const struct pg_catalog *cat, const struct pipeline_config *config)
{
    (void)cat;
    return config->source.mode == MODE_CDC && !config->replay;
}

static void wake_now(struct pg_source *s)
{
    s->base.wake_us = s->now.mono_us;
}

static int on_mark(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct pg_source *s = op->source;
    (void)n;
    if (!outrider__pg_get_bool(results[0], 0, 3))
        return outrider__cdc_fail_published(s, err);
    cdc_of(s)->mark_lsn = (uint64_t)outrider__pg_get_int(results[0], 0, 0, 1);
    s->base.ready = true;
    pg_op_done(op);
    return 0;
}

static int mark(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    s->base.mark_reached = false;
    c->mark_lsn = 0; /* of the mark before: that one is reached */
    outrider__cdc_published_args(s, &c->args);
    return outrider__pg_request(&s->conn, &c->st[CDC_MARK], &c->args, on_mark, op, err);
}

/* A pipeline whose stream does not come up is not active: see cdc_prepare(). */
static int activate(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct pg_op *op = c->mark_op;
    outrider__pg_source_activate(s);
    c->mark_op = NULL;
    return op != NULL ? mark(s, op, err) : 0;
}

static int on_taken(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    if (outrider__pg_cursor_taken(s, results[0], &c->cursor, err) < 0)
        return -1;
    s->base.parked_due_us = outrider__pg_parked_due_us(results[n - 2]);
    c->has_parked = outrider__pg_get_bool(results[n - 1], 0, 0);
    c->pulse_us = s->now.mono_us + PULSE_US;
    bool is_moving = (c->tables.is_mapped || c->skips_rows) && strcmp(c->mode, "cdc") != 0;
    c->phase = is_moving || c->sweep.n > 0 ? CDC_SWEEPING : CDC_STREAM;
    wake_now(s);
    return c->phase == CDC_SWEEPING ? activate(s, err) : 0;
}

static int add_gather(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (!c->tables.is_mapped || strcmp(c->mode, "cdc") == 0)
        return 0;
    outrider__pg_cursor_args(s, &c->args);
    outrider__cdc_tables_names(s, &c->args);
    outrider__cdc_tables_oids(s, &c->args);
    return outrider__pg_request_add(&s->conn, &c->st[CDC_GATHER], &c->args, err);
}

static int add_published(struct pg_source *s, struct outrider_error *err)
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
    if (outrider__pg_request_begin(&s->conn, on_taken, s, err) < 0 ||
        outrider__pg_cursor_add_take(s, &c->st[CDC_TAKE], &c->parked, &c->args, c->cursor.epoch,
                                     c->is_other_policy, err) < 0 ||
        add_gather(s, err) < 0 || add_published(s, err) < 0)
        return -1;
    if (outrider__pg_parked_add_due(&c->parked, &s->conn, err) < 0 ||
        outrider__pg_parked_add_any(&c->parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int read_cursor(struct pg_source *s, const PGresult *r, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (outrider__pg_cursor_check(s, r, 0, 9, err) < 0)
        return -1;
    (void)snprintf(c->mode, sizeof c->mode, "%s", outrider__pg_get_str(r, 0, 1));
    c->polled = outrider__pg_get_int(r, 0, 4, 0);
    c->polled_lsn = (uint64_t)outrider__pg_get_int(r, 0, 11, 0);
    c->done_lsn = (uint64_t)outrider__pg_get_int(r, 0, 7, 0);
    c->done_number = outrider__pg_get_int(r, 0, 8, 0);
    c->swept = 0;
    if (outrider__cdc_parse_ranges(outrider__pg_get_str(r, 0, 5), &c->unpolled, err) < 0)
        return -1;
    if (outrider__cdc_published_read(s, outrider__pg_get_str(r, 0, 13), err) < 0)
        return -1;
    c->cursor.epoch = outrider__pg_get_int(r, 0, 2, 0);
    c->is_other_policy = cursor_is_other_policy(s->config, outrider__pg_get_bytes(r, 0, 3));
    if (c->tables.is_mapped)
        c->polled = 0;
    c->skips_rows = s->config->source.existing_rows == EXISTING_ROWS_SKIP && !c->is_leaving &&
                    strcmp(c->mode, "poll") == 0 && outrider__pg_get_bool(r, 0, 12);
    if (c->skips_rows)
        c->poller = NULL;
    return outrider__cdc_parse_ranges(outrider__pg_get_str(r, 0, 6), &c->sweep, err);
}

/* A pipeline in mode cdc has the tables that it began with. */
static int check_members(const struct pg_source *s, const PGresult *r, struct outrider_error *err)
{
    const struct cdc_source *c = s->cdc;
    if (outrider__pg_cursor_check_adopted(s, c->mode, err) < 0)
        return -1;
    if (strcmp(c->mode, "member") == 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s belongs to pipeline '%s', but is not its first table; name the "
                              "tables in the order in which it began",
                              s->cat.table, s->config->name);
    if (!PQgetisnull(r, 0, 10))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s is new in pipeline '%s', which is in mode cdc already, and what "
                              "it holds would not be delivered; give it a pipeline of its own "
                              "(--name)",
                              outrider__pg_get_str(r, 0, 10), s->config->name);
    return 0;
}

static int on_facts(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    outrider__cdc_read_facts(&c->facts, results[n - 1]);
    bool is_cdc = strcmp(c->mode, "cdc") == 0;
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
        return outrider__cdc_begin_polling(s, err);
    const char *tokens = outrider__pg_get_str(results[n - 1], 0, CDC_FACTS_TOKENS);
    if (outrider__cdc_published_first(s, tokens, err) < 0)
        return -1;
    return outrider__cdc_take_over(s, err);
}

static void read_names(struct pg_source *s, const PGresult *r)
{
    struct cdc_source *c = cdc_of(s);
    const char *wanted = postgres_options(s->config)->publication;
    bool is_given = wanted != NULL && wanted[0] != '\0';
    (void)snprintf(c->slot, sizeof c->slot, "%s", outrider__pg_get_str(r, 0, 0));
    c->owns_slot = outrider__pg_get_bool(r, 0, 1);
    (void)snprintf(c->publication, sizeof c->publication, "%s",
                   is_given ? wanted : outrider__pg_get_str(r, 0, 2));
}

static int on_read(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    const PGresult *cursor = results[n - 2];
    if (read_cursor(s, cursor, err) < 0 || check_members(s, cursor, err) < 0)
        return -1;
    read_names(s, results[n - 1]);
    if (strcmp(c->mode, "leaving") == 0) {
        c->phase = CDC_LEFT;
        wake_now(s);
        return 0;
    }
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_str(&c->args, c->slot);
    outrider__cdc_tables_oids(s, &c->args);
    outrider__cdc_tables_columns(s, &c->args);
    outrider__pg_arg_str(&c->args, c->publication);
    outrider__pg_arg_str(&c->args, c->published);
    return outrider__pg_request(&s->conn, &c->st[CDC_FACTS], &c->args, on_facts, s, err);
}

int outrider__cdc_restart(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    c->phase = CDC_READING;
    outrider__pg_cursor_args(s, &c->args);
    if (outrider__pg_request_begin(&s->conn, on_read, s, err) < 0 ||
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

static int on_tables(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (outrider__cdc_tables_prepare(s, err) < 0 || outrider__cdc_prepare_sql(s, err) < 0)
        return -1;
    if (!c->tables.is_mapped && outrider__pg_cleaner_init(&c->cleaner, &s->cat, err) < 0)
        return -1;
    c->poller = !c->tables.is_mapped      ? &outrider__pg_layout_log
                : c->tables.can_be_polled ? &outrider__pg_layout_status
                                          : NULL;
    return outrider__cdc_restart(s, err);
}

static int cdc_begin(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = calloc(1, sizeof *c);
    if (c == NULL)
        return outrider__fail_nomem(err);
    s->cdc = c;
    outrider__pg_args_init(&c->args);
    c->settled.saved_n_settled = -1;
    c->is_leaving = s->config->source.mode == MODE_POLL;
    return outrider__cdc_tables_begin(s, on_tables, err);
}

int outrider__pg_cdc_begin_leaving(struct pg_source *s, struct outrider_error *err)
{
    s->layout->close(s);
    s->layout = &outrider__pg_layout_cdc;
    return cdc_begin(s, err);
}

static int fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    switch (cdc_of(s)->phase) {
    case CDC_SWEEPING:
        return cdc_of(s)->tables.is_mapped ? outrider__cdc_snapshot_fetch(s, op, err)
                                           : outrider__cdc_sweep_fetch(s, op, err);
    case CDC_STREAM:
        return outrider__cdc_stream_fetch(s, op, err);
    default:
        s->base.ready = false;
        pg_op_done(op);
        return 0;
    }
}

static int cdc_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    enum cdc_phase phase = cdc_of(s)->phase;
    if (phase == CDC_POLLING || phase == CDC_STOPPING)
        return outrider__cdc_polling_start(s, op, err);
    switch (op->op->kind) {
    case SOURCE_MARK:
        return mark(s, op, err);
    case SOURCE_FETCH:
        return fetch(s, op, err);
    case SOURCE_FETCH_PARKED:
        return outrider__pg_cursor_fetch_parked(s, &cdc_of(s)->parked, op, err);
    case SOURCE_SETTLE:
    case SOURCE_INTENT:
    case SOURCE_RECALL:
        return outrider__cdc_settle(s, op, err);
    case SOURCE_CLEANUP:
        return cdc_of(s)->tables.is_mapped
                   ? outrider__cdc_tables_cleanup(s, op, err)
                   : outrider__pg_cleanup_start(s, &cdc_of(s)->cleaner, op, err);
    }
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "unknown operation");
}

static int on_pulse(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)n;
    c->is_pulsing = false;
    if (!outrider__pg_get_bool(results[0], 0, 3))
        return outrider__cdc_fail_published(s, err);
    if (!outrider__pg_get_bool(results[0], 0, 0))
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY,
                              "publication %s was altered: checking it anew", c->publication);
    s->base.parked_due_us = outrider__pg_parked_due_us(results[1]);
    if (c->n_parkings == c->pulse_parkings)
        c->has_parked = outrider__pg_get_bool(results[2], 0, 0);
    if (c->phase != CDC_STREAM)
        return 0;
    return outrider__cdc_note_settled(s, outrider__pg_get_int(results[0], 0, 1, 0),
                                      (uint64_t)outrider__pg_get_int(results[0], 0, 2, INT64_MAX),
                                      err);
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
    if (outrider__pg_request_begin(&s->conn, on_pulse, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &c->st[CDC_PULSE], &c->args, err) < 0 ||
        outrider__pg_parked_add_due(&c->parked, &s->conn, err) < 0 ||
        outrider__pg_parked_add_any(&c->parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

/* All rows from before the slot are settled: the stream follows. */
static void end_sweep(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    bool is_read = c->sweep.n == 0 || c->sweep.items[c->sweep.n - 1].high <= c->swept;
    if (!is_read || s->n_live > 0 || c->fetch_op != NULL)
        return;
    outrider__cdc_ranges_release(&c->sweep);
    c->phase = CDC_STREAM;
}

static int cdc_tick(struct pg_source *s, struct instant now, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    (void)now;
    switch (c->phase) {
    case CDC_POLLING:
    case CDC_STOPPING:
        return outrider__cdc_polling_tick(s, err);
    case CDC_SWEEPING:
        if (c->tables.is_mapped || c->skips_rows) {
            if (outrider__cdc_snapshot_tick(s, err) < 0)
                return -1;
        } else {
            end_sweep(s);
        }
        if (outrider__cdc_pulse(s, err) < 0)
            return -1;
        s->base.wake_us = c->phase == CDC_STREAM ? s->now.mono_us
                          : c->is_pulsing        ? CLOCK_NEVER
                                                 : c->pulse_us;
        return 0;
    case CDC_STREAM:
        if (outrider__cdc_pulse(s, err) < 0 || outrider__cdc_stream_tick(s, err) < 0 ||
            outrider__cdc_rest_tick(s, err) < 0)
            return -1;
        return c->is_leaving ? outrider__cdc_leaving_tick(s, err) : 0;
    case CDC_LEFT:
        return outrider__cdc_left_tick(s, err);
    case CDC_READING:
        return 0;
    }
    return 0;
}

static int cdc_prepare(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->phase == CDC_LEFT)
        return outrider__cdc_left_tick(s, err);
    if ((c->phase == CDC_POLLING || c->phase == CDC_STOPPING) && c->poller == NULL)
        return outrider__cdc_waiting_tick(s, err);
    if (c->phase != CDC_STREAM)
        return 0;
    if (outrider__cdc_pulse(s, err) < 0 || outrider__cdc_stream_tick(s, err) < 0)
        return -1;
    return c->link.state == LINK_STREAMING ? activate(s, err) : 0;
}

static int cdc_fds(struct pg_source *s, struct pollfd *ret_fds, int max)
{
    struct cdc_source *c = cdc_of(s);
    if (c == NULL)
        return 0;
    /* Ready: a fetch reads when there is room for it. */
    bool wants =
        c->link.state != LINK_STREAMING ||
        (!s->base.ready && !c->has_held && !c->is_stopped && !c->is_paused && c->fetch_op == NULL);
    int n = outrider__cdc_link_fds(&c->link, wants, ret_fds, max);
    n += outrider__cdc_link_fds(&c->maker, true, ret_fds + n, max - n);
    return n;
}

static void cdc_draw(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    if (c != NULL && !c->is_stopped && !c->is_paused)
        outrider__cdc_link_draw(&c->link);
}

static void cdc_close(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    if (c == NULL)
        return;
    if (s->layout_data != NULL && c->poller != NULL)
        c->poller->close(s);
    outrider__cdc_link_close(&c->link);
    outrider__cdc_link_close(&c->maker);
    for (int i = 0; i < CDC_STATEMENTS; i++)
        free(c->sql[i]);
    outrider__pg_cleaner_release(&c->cleaner);
    outrider__pg_parked_release(&c->parked);
    outrider__pg_args_release(&c->args);
    outrider__cdc_ranges_release(&c->sweep);
    outrider__cdc_ranges_release(&c->unpolled);
    outrider__cdc_tables_release(&c->tables);
    outrider__cdc_decoder_release(&c->decoder);
    outrider__cdc_late_release(&c->late);
    PQclear(c->snapshot.rows);
    free(c->sql_publication);
    free(c->published);
    free(c->plan);
    free(c->plan_anchor);
    free(c);
    s->cdc = NULL;
}

const struct pg_layout outrider__pg_layout_cdc = {
    .name = "cdc",
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
