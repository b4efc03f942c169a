/* SPDX-License-Identifier: MIT */
/* The PostgreSQL source from connecting to being active, and its operations. */
#include "postgres/shared/source.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/url.h"
#include "postgres/client/client.h"
#include "postgres/postgres.h"
#include "postgres/table/table.h"

void outrider__pg_source_warn(struct pg_source *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(s->base.warning, sizeof s->base.warning, fmt, ap);
    va_end(ap);
    s->base.warnings++;
}

static const char *pg_source_table(const struct pipeline_config *config)
{
    return config->source.tables.n > 0 ? config->source.tables.items[0] : "outbox";
}

static void pg_source_describe(struct pg_source *s)
{
    struct arena arena;
    struct bytes text = BYTES_NULL;
    outrider__arena_init(&arena, 1024);
    if (outrider__url_redact(bytes_str(s->config->source.url), &arena, &text) == 0)
        (void)snprintf(s->base.description, sizeof s->base.description, "%.*s", (int)text.len,
                       text.data);
    outrider__arena_release(&arena);
}

static int pg_source_open_with(struct source *base, const struct pg_layout *const *layouts,
                               const struct pipeline_config *config, struct instant now,
                               struct outrider_error *err)
{
    struct pg_source *s = pg_source_of(base);
    s->layouts = layouts;
    s->config = config;
    s->now = now;
    s->started_us = now.mono_us;
    base->parked_due_us = CLOCK_NEVER;
    pg_source_describe(s);
    int errno_value = FAILPOINT("postgres.open");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot open the source");
    outrider__pg_durable_init(&s->durable);
    s->phase = PHASE_CONNECT;
    base->wake_us = now.mono_us;
    return outrider__pg_connect(&s->conn, config->source.url, config->name,
                                config->source.connect_timeout_us, now, err);
}

static int pg_source_open(struct source *base, const struct pipeline_config *config,
                          struct instant now, struct outrider_error *err)
{
    return pg_source_open_with(base, outrider__pg_layouts, config, now, err);
}

static int pg_source_open_reader(struct source *base, const struct pipeline_config *config,
                                 struct instant now, struct outrider_error *err)
{
    return pg_source_open_with(base, outrider__pg_readers, config, now, err);
}

static int pg_source_choose_layout(struct pg_source *s, struct outrider_error *err)
{
    for (const struct pg_layout *const *l = s->layouts; *l != NULL; l++) {
        if (!(*l)->reads(&s->cat, s->config))
            continue;
        s->layout = *l;
        return 0;
    }
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "%s is no outbox that can be read: it has neither a sequence nor a mark",
                          s->cat.table);
}

static int pg_source_read_catalog(struct pg_source *s, struct outrider_error *err);

static int pg_source_on_companions(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    (void)results;
    (void)n;
    return pg_source_read_catalog(ctx, err);
}

/* A table of an application has no tables of ours beside it at first: make them, once. */
static int pg_source_make_companions(struct pg_source *s, struct outrider_error *err)
{
    struct strbuf sql;
    outrider__strbuf_init(&sql, 65536);
    outrider__pg_companions_sql(&s->cat, &sql);
    if (sql.failed) {
        outrider__strbuf_release(&sql);
        return outrider__fail_nomem(err);
    }
    free(s->companions_sql);
    s->companions_sql = sql.data;
    s->st_companions = (struct pg_statement){
        .sql = sql.data, .what = "cannot make outrider_cursor and outrider_parked (outrider init)"};
    return outrider__pg_request(&s->conn, &s->st_companions, NULL, pg_source_on_companions, s, err);
}

/* The check comes before the lock: a relay that stands by tells at once what is wrong. */
static int pg_source_on_guarded(struct pg_source *s, struct outrider_error *err)
{
    (void)err;
    s->phase = PHASE_LOCK;
    return 0;
}

static int pg_source_on_catalog(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    char place[160];
    (void)n;
    outrider__pg_catalog_read(&s->cat, results[0], pg_source_table(s->config));
    outrider__pg_place(s->conn.pg, place, sizeof place);
    bool is_complete = s->cat.cursor_table[0] != '\0' && s->cat.parked_table[0] != '\0';
    bool is_adopted = outrider__pg_table_has_states(&s->cat, s->config);
    if (s->cat.oid != 0 && !s->cat.in_recovery && !is_complete && s->companions_sql == NULL &&
        is_adopted)
        return pg_source_make_companions(s, err);
    if (outrider__pg_catalog_check(&s->cat, place, is_adopted, err) < 0 ||
        pg_source_choose_layout(s, err) < 0)
        return -1;
    outrider__pg_leader_init(&s->leader, &s->cat, s->config->name);
    return outrider__pg_guard_begin(s, pg_source_on_guarded, err);
}

static int pg_source_read_catalog(struct pg_source *s, struct outrider_error *err)
{
    struct pg_args args;
    s->st_catalog =
        (struct pg_statement){.sql = outrider__pg_catalog_sql, .what = "cannot read the catalogue"};
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, pg_source_table(s->config));
    s->phase = PHASE_CATALOG;
    int rc = outrider__pg_request(&s->conn, &s->st_catalog, &args, pg_source_on_catalog, s, err);
    outrider__pg_args_release(&args);
    return rc;
}

static int pg_source_on_session(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    (void)results;
    (void)n;
    return pg_source_read_catalog(ctx, err);
}

void outrider__pg_source_activate(struct pg_source *s)
{
    s->phase = PHASE_ACTIVE;
    s->base.active = s->intent.is_taken;
    s->base.ready = true;
    s->base.waiting_for[0] = '\0';
    s->base.wake_us = s->now.mono_us; /* the next poll() asks for intents */
}

void outrider__pg_source_hold(struct pg_source *s)
{
    s->base.ready = false;
    s->phase = PHASE_BEGIN;
    s->base.wake_us = CLOCK_NEVER;
}

int outrider__pg_source_switch(struct pg_source *s, const struct pg_layout *layout,
                               struct outrider_error *err)
{
    s->layout->close(s);
    s->layout = layout;
    return layout->begin(s, err);
}

static int pg_source_take_lock(struct pg_source *s, struct outrider_error *err)
{
    bool needs_lock =
        !s->layout->reads_only && (s->layout->needs_lock == NULL || s->layout->needs_lock(s));
    if (needs_lock && !s->leader.is_held) {
        if (outrider__pg_leader_try(&s->leader, &s->conn, s->now, err) < 0)
            return -1;
        (void)snprintf(s->base.waiting_for, sizeof s->base.waiting_for, "%s",
                       s->leader.waiting_for);
        s->base.wake_us = s->leader.ask_us;
        if (!s->leader.is_held)
            return 0;
    }
    s->phase = PHASE_BEGIN;
    s->base.wake_us = CLOCK_NEVER;
    return s->layout->begin(s, err);
}

static int pg_source_start_op(struct pg_source *s, struct pg_op *slot, struct outrider_error *err)
{
    if (slot->op->kind == SOURCE_INTENT || slot->op->kind == SOURCE_RECALL)
        return outrider__pg_intent_start(s, slot, err);
    return s->layout->start(s, slot, err);
}

/* Starts the operations that came while the layout was changing. */
static int pg_source_start_held(struct pg_source *s, struct outrider_error *err)
{
    for (size_t i = 0; i < s->queue.n; i++) {
        struct pg_op *slot = &s->ops[op_queue_slot(&s->queue, i)];
        if (!slot->is_held)
            continue;
        slot->is_held = false;
        if (pg_source_start_op(s, slot, err) < 0)
            return -1;
    }
    return 0;
}

static int pg_source_tick(struct pg_source *s, struct outrider_error *err)
{
    int64_t wake;
    if (s->layout->tick(s, s->now, err) < 0 || outrider__pg_durable_tick(s, &wake, err) < 0)
        return -1;
    if (wake < s->base.wake_us)
        s->base.wake_us = wake;
    return 0;
}

/* Takes one step towards being active; does the layout's own work when the source is. */
static int pg_source_advance(struct pg_source *s, struct outrider_error *err)
{
    switch (s->phase) {
    case PHASE_CONNECT:
        s->base.wake_us = s->conn.deadline_us;
        if (s->conn.state != PG_UP)
            return 0;
        s->phase = PHASE_POOLER;
        return outrider__pg_pooler_begin(&s->pooler, &s->conn, s->config, s->now, err);
    case PHASE_POOLER:
        s->base.wake_us = s->pooler.deadline_us;
        if (outrider__pg_pooler_poll(&s->pooler, s->now, err) < 0)
            return -1;
        if (!s->pooler.is_done)
            return 0;
        s->phase = PHASE_SESSION;
        s->base.wake_us = CLOCK_NEVER;
        return outrider__pg_session(&s->conn, pg_source_on_session, s, err);
    case PHASE_LOCK:
        return pg_source_take_lock(s, err);
    case PHASE_BEGIN:
        return s->layout->prepare != NULL ? s->layout->prepare(s, err) : 0;
    case PHASE_ACTIVE:
        if (!s->intent.is_taken) {
            s->base.wake_us = CLOCK_NEVER;
            return outrider__pg_intent_take(s, err);
        }
        if (pg_source_start_held(s, err) < 0)
            return -1;
        if (!s->layout->reads_only &&
            outrider__pg_upkeep_tick(&s->upkeep, &s->conn, &s->cat, s->now, err) < 0)
            return -1;
        return pg_source_tick(s, err) < 0 ? -1 : outrider__pg_guard_tick(s, err);
    default:
        return 0;
    }
}

static int pg_source_start(struct source *base, struct source_op *op, struct outrider_error *err)
{
    struct pg_source *s = pg_source_of(base);
    if (!base->active)
        return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_RETRY, "pipeline '%s' is not active",
                              s->config->name);
    size_t i;
    if (outrider__op_queue_add(&s->queue, op, s->config->name, &i, err) < 0)
        return -1;
    struct pg_op *slot = &s->ops[i];
    *slot = (struct pg_op){.source = s, .op = op};
    slot->is_held = s->phase != PHASE_ACTIVE;
    if (slot->is_held)
        return 0;
    base->wake_us = s->now.mono_us; /* an operation that is done already is given back */
    return pg_source_start_op(s, slot, err);
}

static bool pg_source_may_give(const void *ctx, size_t slot)
{
    const struct pg_source *s = ctx;
    return outrider__pg_is_durable(s, &s->ops[slot]);
}

static struct source_op *pg_source_take_done(struct pg_source *s)
{
    size_t i = outrider__op_queue_give(&s->queue, pg_source_may_give, s);
    if (i == OP_QUEUE_NONE)
        return NULL;
    struct pg_op *slot = &s->ops[i];
    if (slot->op->kind == SOURCE_SETTLE ||
        (slot->op->kind == SOURCE_INTENT && slot->op->batch != NULL))
        s->n_live -= !slot->op->batch->is_parked;
    if (slot->op->kind == SOURCE_INTENT || slot->op->kind == SOURCE_RECALL)
        outrider__pg_intent_done(s, slot);
    return slot->op;
}

static int pg_source_poll(struct source *base, struct instant now, struct source_op **ret_done,
                          struct outrider_error *err)
{
    struct pg_source *s = pg_source_of(base);
    s->now = now;
    *ret_done = pg_source_take_done(s);
    if (*ret_done != NULL)
        return 0;
    if (outrider__pg_poll(&s->conn, now, err) < 0) {
        base->lost_in_cleanup = s->conn.failed == PG_CLEANS;
        return s->phase == PHASE_POOLER ? outrider__pg_pooler_failed(&s->pooler, err) : -1;
    }
    if (pg_source_advance(s, err) < 0)
        return -1;
    *ret_done = pg_source_take_done(s);
    return 0;
}

static int pg_source_fds(struct source *base, struct pollfd *ret_fds, int max)
{
    struct pg_source *s = pg_source_of(base);
    int n = outrider__pg_fds(&s->conn, ret_fds, max);
    n += outrider__pg_pooler_fds(&s->pooler, ret_fds + n, max - n);
    if (s->layout != NULL && s->layout->fds != NULL)
        n += s->layout->fds(s, ret_fds + n, max - n);
    return n;
}

static void pg_source_draw(struct source *base)
{
    struct pg_source *s = pg_source_of(base);
    if (s->layout != NULL && s->layout->draw != NULL)
        s->layout->draw(s);
}

static void pg_source_close(struct source *base)
{
    struct pg_source *s = pg_source_of(base);
    base->active = base->ready = false;
    if (s->layout != NULL)
        s->layout->close(s);
    s->layout = NULL;
    outrider__pg_pooler_close(&s->pooler);
    outrider__pg_intent_release(s);
    outrider__pg_close(&s->conn);
    outrider__pg_upkeep_release(&s->upkeep);
    outrider__pg_guard_release(&s->guard);
    free(s->companions_sql);
    s->companions_sql = NULL;
    s->queue = (struct op_queue){0};
}

static const struct source_ops pg_reader = {
    .scheme = "postgresql",
    .size = sizeof(struct pg_source),
    .open = pg_source_open_reader,
    .start = pg_source_start,
    .poll = pg_source_poll,
    .fds = pg_source_fds,
    .close = pg_source_close,
};

const struct source_ops outrider__source_postgres = {
    .scheme = "postgresql",
    .size = sizeof(struct pg_source),
    .keeps_intents = true,
    .reader = &pg_reader,
    .open = pg_source_open,
    .start = pg_source_start,
    .poll = pg_source_poll,
    .fds = pg_source_fds,
    .draw = pg_source_draw,
    .close = pg_source_close,
};
