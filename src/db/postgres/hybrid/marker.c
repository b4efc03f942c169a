/* SPDX-License-Identifier: MIT */
/*
 * Marks what the publisher has published, on a connection of its own.
 *
 *  (1) What is published counts in the pipeline's totals, which the relay and all
 *      applications share. None of them waits for another one there: a marker that finds
 *      the row locked tries again soon, and what is not counted when the marker is closed
 *      stays uncounted.
 */
#include "postgres/hybrid/hybrid.h"

#include <poll.h>
#include <string.h>

#include "common/outcome.h"
#include "common/tally.h"
#include "core/config.h"
#include "hybrid.sql.h"
#include "postgres/wire/conn.h"

#define TOTAL_AGAIN_US 20000

enum setup_column { SETUP_PLACE, SETUP_CAN_TOTAL };
enum total_column { TOTAL_IS_DONE, TOTAL_HAS_ROW };

struct totals {
    int64_t delivered, skipped;
};

struct pg_marker {
    struct hybrid_marker base; /* must stay first: see marker_of() */
    struct pg_conn conn;
    struct pg_args args;
    struct pg_statement st_setup, st_mark, st_delete, st_total;
    bool is_set_up; /* asked for */
    bool can_total; /* the role may */
    bool is_totalling;
    struct totals sent, unsent; /* sent: in the statement that is under way */
    int64_t total_at_us, now_us;
};

static struct pg_marker *marker_of(struct hybrid_marker *base)
{
    return (struct pg_marker *)base;
}

static int marker_check(const struct pipeline_config *c, struct outrider_error *err)
{
    if (c->source.durable == DURABLE_STANDBY)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "hybrid publishing does not wait for a standby; source.durable: "
                              "local, or leave publishing to the relay");
    return 0;
}

static int marker_open(struct hybrid_marker *base, struct instant now, struct outrider_error *err)
{
    struct pg_marker *m = marker_of(base);
    const struct pipeline_config *c = base->config;
    m->st_setup =
        (struct pg_statement){.sql = sql_hybrid_setup, .what = "cannot set the session up"};
    m->st_mark = (struct pg_statement){
        .sql = sql_hybrid_mark, .what = "cannot mark events as published", .purpose = PG_SETTLES};
    m->st_delete = (struct pg_statement){
        .sql = sql_hybrid_delete, .what = "cannot remove events", .purpose = PG_SETTLES};
    m->st_total =
        (struct pg_statement){.sql = sql_hybrid_total, .what = "cannot count what is published"};
    m->total_at_us = CLOCK_NEVER;
    outrider__pg_args_init(&m->args);
    return outrider__pg_connect(&m->conn, c->source.url, c->name, c->source.connect_timeout_us, now,
                                err);
}

static int marker_on_set_up(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_marker *m = ctx;
    struct bytes place = outrider__pg_get_bytes(results[0], 0, SETUP_PLACE);
    size_t len = place.len < sizeof m->base.place - 1 ? place.len : 0;
    (void)n;
    (void)err;
    memcpy(m->base.place, place.data, len);
    m->base.place[len] = '\0';
    m->can_total = outrider__pg_get_bool(results[0], 0, SETUP_CAN_TOTAL);
    m->base.is_up = true;
    return 0;
}

static const char *marker_state_of(const struct event *e)
{
    if (outcome_is_published(e))
        return "PUBLISHED";
    return e->outcome == OUTCOME_PARKED ? "FAILED" : "PENDING";
}

static void marker_add_ids(struct pg_marker *m, const struct batch *b, bool published, bool others)
{
    outrider__pg_args_clear(&m->args);
    outrider__pg_array_begin(&m->args, PG_TEXT);
    for (size_t i = 0; i < b->n; i++)
        if (outcome_is_published(&b->events[i]) ? published : others)
            outrider__pg_array_text(&m->args, b->events[i].id);
    outrider__pg_array_end(&m->args);
    outrider__pg_arg_str(&m->args, m->base.owner);
}

enum column { C_STATE, C_ATTEMPTS, C_DELAY, C_CODE, C_MESSAGE, C_COUNT };

static void marker_add_value(struct pg_args *a, const struct event *e, enum column c,
                             int64_t now_us)
{
    /* Only a try that failed leaves a trace: the relay makes the dead letters. */
    bool has_failed = e->outcome == OUTCOME_PARKED;
    if (c == C_STATE)
        outrider__pg_array_text(a, bytes_str(marker_state_of(e)));
    else if (c == C_ATTEMPTS)
        outrider__pg_array_int4(a, has_failed ? (int32_t)e->attempts : 0);
    else if (c == C_DELAY && has_failed)
        outrider__pg_array_int8(a, outcome_delay_us(e, now_us));
    else if (c == C_CODE && has_failed)
        outrider__pg_array_text(a, outrider__outcome_code(e));
    else if (c == C_MESSAGE && has_failed)
        outrider__pg_array_text(a, outrider__outcome_message(e));
    else
        outrider__pg_array_null(a);
}

static void marker_add_columns(struct pg_marker *m, const struct batch *b, bool with_published,
                               int64_t now_us)
{
    static const Oid types[C_COUNT] = {PG_TEXT, PG_INT4, PG_INT8, PG_TEXT, PG_TEXT};
    for (int c = 0; c < C_COUNT; c++) {
        outrider__pg_array_begin(&m->args, types[c]);
        for (size_t i = 0; i < b->n; i++)
            if (with_published || !outcome_is_published(&b->events[i]))
                marker_add_value(&m->args, &b->events[i], (enum column)c, now_us);
        outrider__pg_array_end(&m->args);
    }
}

static int marker_on_totalled(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_marker *m = ctx;
    (void)n;
    (void)err;
    m->is_totalling = false;
    if (!outrider__pg_get_bool(results[0], 0, TOTAL_IS_DONE)) {
        m->unsent.delivered += m->sent.delivered;
        m->unsent.skipped += m->sent.skipped;
    }
    /* This includes what was marked meanwhile. Without a row no relay has run yet; then the
     * next mark counts all of it. */
    bool has_row = outrider__pg_get_bool(results[0], 0, TOTAL_HAS_ROW);
    if (has_row && m->unsent.delivered + m->unsent.skipped > 0)
        m->total_at_us = m->now_us + TOTAL_AGAIN_US;
    return 0;
}

/* See (1). */
static int marker_send_totals(struct pg_marker *m, struct outrider_error *err)
{
    if (!m->can_total || m->is_totalling)
        return 0;
    m->sent = m->unsent;
    m->unsent = (struct totals){0};
    m->is_totalling = true;
    m->total_at_us = CLOCK_NEVER;
    outrider__pg_args_clear(&m->args);
    outrider__pg_arg_str(&m->args, m->base.config->name);
    outrider__pg_arg_int8(&m->args, m->sent.delivered);
    outrider__pg_arg_int8(&m->args, m->sent.skipped);
    return outrider__pg_request(&m->conn, &m->st_total, &m->args, marker_on_totalled, m, err);
}

struct marking {
    struct pg_marker *marker;
    struct source_op *op;
};

static int marker_on_marked(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    const struct marking *k = ctx;
    struct pg_marker *m = k->marker;
    struct tally t = outrider__tally_all(k->op->batch);
    (void)results;
    (void)n;
    m->unsent.delivered += t.delivered;
    m->unsent.skipped += t.skipped;
    m->base.marked(m->base.marked_ctx, k->op);
    return tally_published(&t) > 0 ? marker_send_totals(m, err) : 0;
}

static int marker_mark(struct hybrid_marker *base, struct source_op *op, struct outrider_error *err)
{
    struct pg_marker *m = marker_of(base);
    struct batch *b = op->batch;
    bool deletes = base->config->source.after_publish == AFTER_PUBLISH_DELETE;
    struct tally t = outrider__tally_all(b);
    size_t published = (size_t)tally_published(&t);
    struct marking *k = outrider__arena_alloc(&b->arena, sizeof *k);
    if (k == NULL)
        return outrider__fail_nomem(err);
    *k = (struct marking){m, op};
    if (outrider__pg_request_begin(&m->conn, marker_on_marked, k, err) < 0)
        return -1;
    if (deletes && published > 0) {
        marker_add_ids(m, b, true, false);
        if (outrider__pg_request_add(&m->conn, &m->st_delete, &m->args, err) < 0)
            return -1;
    }
    if (!deletes || published < b->n) {
        marker_add_ids(m, b, !deletes, true);
        marker_add_columns(m, b, !deletes, op->now_wall_us);
        if (outrider__pg_request_add(&m->conn, &m->st_mark, &m->args, err) < 0)
            return -1;
    }
    return outrider__pg_request_end(&m->conn, err);
}

static int marker_poll(struct hybrid_marker *base, struct instant now, struct outrider_error *err)
{
    struct pg_marker *m = marker_of(base);
    m->now_us = now.mono_us;
    if (outrider__pg_poll(&m->conn, now, err) < 0)
        return -1;
    base->wake_us = m->conn.state == PG_CONNECTING ? m->conn.deadline_us : m->total_at_us;
    if (now.mono_us >= m->total_at_us && marker_send_totals(m, err) < 0)
        return -1;
    if (m->conn.state != PG_UP || m->is_set_up)
        return 0;
    m->is_set_up = true;
    return outrider__pg_request(&m->conn, &m->st_setup, NULL, marker_on_set_up, m, err);
}

static int marker_fds(struct hybrid_marker *base, struct pollfd *ret_fds, int max)
{
    return outrider__pg_fds(&marker_of(base)->conn, ret_fds, max);
}

static void marker_close(struct hybrid_marker *base)
{
    struct pg_marker *m = marker_of(base);
    base->is_up = false;
    outrider__pg_close(&m->conn);
    outrider__pg_args_release(&m->args);
}

const struct hybrid_ops outrider__hybrid_postgres = {
    .claimer_size = sizeof(struct pg_claimer),
    .marker_size = sizeof(struct pg_marker),
    .check = marker_check,
    .learn = outrider__pg_claimer_learn,
    .refuse_exact = outrider__pg_claimer_refuse_exact,
    .look = outrider__pg_claimer_look,
    .insert = outrider__pg_claimer_insert,
    .release = outrider__pg_claimer_release,
    .open = marker_open,
    .mark = marker_mark,
    .poll = marker_poll,
    .fds = marker_fds,
    .close = marker_close,
};
