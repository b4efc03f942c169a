/* SPDX-License-Identifier: MIT */
/* Layout `status`: taking over, the round of tables, leases, clean-up. */
#include "postgres/poll_status/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/uuid.h"
#include "postgres/shared/cursor.h"

#include "shared.sql.h"

#define LOOK_GAP_FIRST_US 2000

struct status_flight *outrider__pg_status_flight(struct status_source *d, const struct batch *b)
{
    for (size_t i = 0; i < STATUS_FLIGHTS_MAX; i++)
        if (d->flights[i].batch == b)
            return &d->flights[i];
    return NULL;
}

void outrider__pg_status_look_soon(struct status_source *d)
{
    d->look_gap_us = LOOK_GAP_FIRST_US;
    d->look_us = d->s->now.mono_us;
    d->s->base.ready = outrider__pg_status_room(d) > 0;
}

void outrider__pg_status_look_later(struct status_source *d)
{
    int64_t longest = d->s->config->source.poll_interval_us;
    d->look_gap_us = d->look_gap_us * 2 < longest ? d->look_gap_us * 2 : longest;
    d->look_us = d->s->now.mono_us + d->look_gap_us;
    d->s->base.ready = false;
}

static bool status_reads(const struct pg_catalog *cat, const struct pipeline_config *config)
{
    return outrider__pg_table_has_states(cat, config);
}

/* Mode cdc marks rows only if after_publish says so: what is unmarked was delivered. */
static int status_check_mode(const struct status_source *d, const PGresult *r,
                             struct outrider_error *err)
{
    const char *name = d->s->config->name;
    if (strcmp(outrider__pg_get_str(r, 0, 2), "poll") == 0)
        return 0;
    if (outrider__pg_cursor_check_adopted(d->s, outrider__pg_get_str(r, 0, 2), err) < 0)
        return -1;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "pipeline '%s' is in mode cdc; start it with --mode cdc, or, to poll "
                          "whatever is not marked as published, `outrider slot drop --name %s` and "
                          "`outrider resync --name %s` first",
                          name, name, name);
}

/* They claim nothing more once the intent's row is there. */
static void status_warn_claimed(const struct status_source *d, const struct status_table *t,
                                int64_t n)
{
    if (n > 0)
        outrider__pg_source_warn(d->s,
                                 "exactly_once: %lld events in %s are claimed by applications that "
                                 "publish by themselves (outrider/hybrid.h); these may come twice",
                                 (long long)n, t->a.outbox);
}

static int status_take_over(struct status_source *d, struct outrider_error *err);

static int status_on_taken(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct status_source *d = ctx;
    struct status_table *t = &d->tables[d->taking];
    struct cursor_place at = {.config = d->s->config, .outbox = t->a.outbox};
    if (outrider__cursor_check_sink(&at, outrider__pg_get_bytes(results[0], 0, 1), err) < 0 ||
        status_check_mode(d, results[0], err) < 0)
        return -1;
    t->epoch = outrider__pg_get_int(results[0], 0, 0, 0);
    if (t->sql[ST_CLAIMED] != NULL)
        status_warn_claimed(d, t, outrider__pg_get_int(results[n - 1], 0, 0, 0));
    if (++d->taking < d->n_tables)
        return status_take_over(d, err);
    outrider__pg_source_activate(d->s);
    outrider__pg_status_look_soon(d);
    outrider__pg_status_tell_waiting(d);
    return 0;
}

void outrider__pg_status_take_args(struct status_source *d, const struct status_table *t)
{
    const struct pipeline_config *config = d->s->config;
    struct strbuf words;
    outrider__pg_args_clear(&d->args);
    outrider__pg_arg_str(&d->args, cursor_sink(config));
    outrider__pg_arg_str(&d->args, cursor_policy(config));
    outrider__strbuf_init(&words, 4096);
    if (outrider__study_remembers(&t->a, &words))
        outrider__pg_arg_str(&d->args, strbuf_cstr(&words));
    else
        outrider__pg_arg_null(&d->args, PG_TEXT);
    outrider__strbuf_release(&words);
}

/* The cursor row of one table after the other, and with it the epoch. */
static int status_take_over(struct status_source *d, struct outrider_error *err)
{
    struct status_table *t = &d->tables[d->taking];
    struct pg_conn *c = &d->s->conn;
    if (outrider__pg_status_try(d, t, err) < 0)
        return -1;
    outrider__pg_status_take_args(d, t);
    if (outrider__pg_request_begin(c, status_on_taken, d, err) < 0 ||
        outrider__pg_request_add(c, &t->st[ST_TAKE], &d->args, err) < 0)
        return -1;
    if (t->sql[ST_RECLAIM] != NULL && !d->competes &&
        outrider__pg_request_add(c, &t->st[ST_RECLAIM], NULL, err) < 0)
        return -1;
    if (t->sql[ST_CLAIMED] != NULL &&
        outrider__pg_request_add(c, &t->st[ST_CLAIMED], NULL, err) < 0)
        return -1;
    return outrider__pg_request_end(c, err);
}

int outrider__pg_status_prepare(struct status_source *d, struct status_table *t,
                                struct outrider_error *err)
{
    t->has_owner = outrider__map_can_compete(&t->a.map);
    /* Exactly once nobody else may publish: nobody needs to see what is in flight. */
    t->claims = outrider__map_shows_claims(&t->a.map) && !d->s->config->exactly_once &&
                (d->competes || !t->a.is_ours);
    return outrider__pg_status_statements(d, t, err);
}

/* Every table is known: decide who may relay them at the same time. */
static int status_tables_are_read(struct pg_source *s, struct outrider_error *err)
{
    struct status_source *d = status_of(s);
    bool can_compete = true;
    for (size_t i = 0; i < d->n_tables; i++)
        can_compete &= outrider__map_can_compete(&d->tables[i].a.map);
    d->competes = !d->s->config->ordered && can_compete;
    for (size_t i = 0; i < d->n_tables; i++) {
        struct status_table *t = &d->tables[i];
        outrider__strbuf_init(&t->seen, 1 << 20);
        outrider__strbuf_init(&t->uncovered, 1 << 20);
        if (outrider__pg_status_prepare(d, t, err) < 0)
            return -1;
    }
    d->taking = 0;
    if (!d->competes && !d->s->leader.is_held) {
        d->must_lock = true;
        d->s->phase = PHASE_LOCK;
        d->s->base.wake_us = d->s->now.mono_us;
        return 0;
    }
    return status_take_over(d, err);
}

static struct outbox_table *status_reader_table(struct pg_source *s, size_t i)
{
    return &status_of(s)->tables[i].a;
}

static int status_on_session(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct status_source *d = ctx;
    (void)results;
    (void)n;
    return outrider__pg_table_reader_begin(&d->reader, err);
}

/* "pipeline@host:pid/", which begins the name of every owner of ours. */
static void status_name_owner(struct status_source *d)
{
    char host[64] = "", id[OUTRIDER_ID_SIZE];
    (void)gethostname(host, sizeof host - 1);
    if (outrider__uuid_new(d->s->now.wall_us, id) < 0)
        (void)snprintf(id, sizeof id, "%036lld", (long long)d->s->now.wall_us);
    (void)snprintf(d->nonce, sizeof d->nonce, "%.11s", id + 25);
    (void)snprintf(d->owner_prefix, sizeof d->owner_prefix, "%.63s@", d->s->config->name);
    (void)snprintf(d->host, sizeof d->host, "%.60s:%d", host, (int)getpid());
}

static int status_make(struct pg_source *s, struct outrider_error *err)
{
    struct status_source *d = calloc(1, sizeof *d);
    if (d == NULL)
        return outrider__fail_nomem(err);
    s->layout_data[PG_LAYOUT_STATUS] = d;
    d->s = s;
    d->renew_us = CLOCK_NEVER;
    d->st_session =
        (struct pg_statement){.sql = sql_session_plans, .what = "cannot set the session up"};
    d->st_beat = (struct pg_statement){.sql = "SELECT 1", .what = "cannot reach the server"};
    d->st_flush = (struct pg_statement){.sql = sql_flush_log, .what = "cannot flush the log"};
    outrider__arena_init(&d->arena, 16384);
    outrider__pg_args_init(&d->args);
    status_name_owner(d);
    int n = outrider__study_count(s->config, err);
    if (n < 0)
        return -1;
    d->n_tables = (size_t)n;
    d->tables = calloc(d->n_tables, sizeof *d->tables);
    if (d->tables == NULL)
        return outrider__fail_nomem(err);
    d->reader = (struct table_reader){.s = s,
                                      .n = d->n_tables,
                                      .table = status_reader_table,
                                      .done = status_tables_are_read,
                                      .arena = &d->arena};
    return 0;
}

static bool status_needs_lock(const struct pg_source *s)
{
    const struct status_source *d = s->layout_data[PG_LAYOUT_STATUS];
    return s->config->ordered || (d != NULL && d->must_lock);
}

static int status_begin(struct pg_source *s, struct outrider_error *err)
{
    if (!pg_source_is_cdc(s) && s->config->source.after_publish == AFTER_PUBLISH_NONE)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "after_publish: none leaves rows as they are, and polling would read "
                              "them again; set it to mark or delete, or use --mode cdc");
    if (s->layout_data[PG_LAYOUT_STATUS] != NULL)
        return status_take_over(status_of(s), err);
    if (status_make(s, err) < 0)
        return -1;
    struct status_source *d = status_of(s);
    return outrider__pg_request(&s->conn, &d->st_session, NULL, status_on_session, d, err);
}

static int status_cleanup_table(struct status_source *d, struct pg_op *op,
                                struct outrider_error *err);

static int status_on_cleaned(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct status_source *d = status_of(op->source);
    (void)n;
    uint64_t removed = strtoull(PQcmdTuples(results[0]), NULL, 10);
    op->op->removed += removed;
    op->op->more |= removed > 0 && removed == (uint64_t)d->s->config->cleanup.batch;
    op->table++;
    return status_cleanup_table(d, op, err);
}

static int status_on_dropped(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)n;
    op->op->removed += (uint64_t)outrider__pg_get_int(results[0], 0, 0, 0);
    return status_cleanup_table(status_of(op->source), op, err);
}

/* Partitions first: what goes with them need not be deleted row by row. */
static int status_cleanup(struct status_source *d, struct pg_op *op, struct outrider_error *err)
{
    struct pg_source *s = d->s;
    op->op->removed = 0;
    op->op->more = false;
    if (s->config->cleanup.retention_us <= 0) {
        pg_op_done(op);
        return 0;
    }
    if (!outrider__pg_upkeep_may_drop(&s->upkeep, &s->cat, s->now))
        return status_cleanup_table(d, op, err);
    return outrider__pg_upkeep_drop(&s->upkeep, &s->conn, &s->cat,
                                    op->op->now_wall_us - s->config->cleanup.retention_us, s->now,
                                    status_on_dropped, op, err);
}

/* One portion of each table that may be cleaned up. */
static int status_cleanup_table(struct status_source *d, struct pg_op *op,
                                struct outrider_error *err)
{
    const struct pipeline_config *config = d->s->config;
    for (; op->table < d->n_tables; op->table++) {
        struct status_table *t = &d->tables[op->table];
        if (!t->a.is_ours && !config->cleanup.adopted)
            continue;
        outrider__pg_args_clear(&d->args);
        outrider__pg_arg_time(&d->args, op->op->now_wall_us - config->cleanup.retention_us);
        outrider__pg_arg_int8(&d->args, config->cleanup.batch);
        return outrider__pg_request(&d->s->conn, &t->st[ST_CLEANUP], &d->args, status_on_cleaned,
                                    op, err);
    }
    pg_op_done(op);
    return 0;
}

static int status_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct status_source *d = status_of(s);
    switch (op->op->kind) {
    case SOURCE_MARK:
        d->is_marked = true;
        d->is_before_mark = d->fetch_op != NULL;
        s->base.mark_reached = false;
        for (size_t i = 0; i < d->n_tables; i++)
            d->tables[i].is_exhausted = false;
        pg_op_done(op);
        return 0;
    case SOURCE_FETCH:
        return outrider__pg_status_fetch(d, op, err);
    case SOURCE_FETCH_PARKED: /* see poll_status/status.h (5) */
        pg_op_done(op);
        return 0;
    case SOURCE_SETTLE:
    case SOURCE_INTENT:
    case SOURCE_RECALL:
        return outrider__pg_status_settle(d, op, err);
    case SOURCE_CLEANUP:
        return status_cleanup(d, op, err);
    }
    return 0;
}

static int status_on_renewed(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct status_source *d = ctx;
    (void)results;
    (void)n;
    (void)err;
    d->is_renewing = false;
    return 0;
}

/* ids, owner and claim numbers of a batch: what every statement on claimed rows takes. */
static void status_add_claimed(struct status_source *d, const struct status_flight *f)
{
    outrider__pg_args_clear(&d->args);
    outrider__pg_array_begin(&d->args, PG_TEXT);
    for (size_t k = 0; k < f->batch->n; k++)
        outrider__pg_array_text(&d->args, f->batch->events[k].id);
    outrider__pg_array_end(&d->args);
    outrider__pg_arg_str(&d->args, f->owner);
    outrider__pg_array_begin(&d->args, PG_INT8);
    for (size_t k = 0; k < f->batch->n; k++)
        outrider__pg_array_int8(&d->args, f->batch->events[k].claim);
    outrider__pg_array_end(&d->args);
}

/* What is in flight stays ours for another lease. */
static int status_renew(struct status_source *d, struct outrider_error *err)
{
    struct pg_conn *c = &d->s->conn;
    bool any = false;
    d->renew_us = CLOCK_NEVER;
    for (size_t i = 0; i < STATUS_FLIGHTS_MAX; i++) {
        struct status_flight *f = &d->flights[i];
        if (f->batch == NULL || !f->table->claims || f->table->sql[ST_RENEW] == NULL)
            continue;
        if (!any && outrider__pg_request_begin(c, status_on_renewed, d, err) < 0)
            return -1;
        any = true;
        status_add_claimed(d, f);
        if (outrider__pg_request_add(c, &f->table->st[ST_RENEW], &d->args, err) < 0)
            return -1;
    }
    if (!any)
        return 0;
    d->is_renewing = true;
    d->renew_us = d->s->now.mono_us + d->s->config->source.lease_us / 3;
    return outrider__pg_request_end(c, err);
}

/* The server ends a session that is silent for too long (leader.h (3)). */
static int status_beat(struct status_source *d, struct instant now, struct outrider_error *err)
{
    if (d->s->conn.n_requests > 0 || d->beat_us == 0)
        d->beat_us = now.mono_us + LEADER_HEARTBEAT_US;
    if (now.mono_us < d->beat_us)
        return 0;
    d->beat_us = now.mono_us + LEADER_HEARTBEAT_US;
    return outrider__pg_request(&d->s->conn, &d->st_beat, NULL, NULL, NULL, err);
}

static int status_tick(struct pg_source *s, struct instant now, struct outrider_error *err)
{
    struct status_source *d = status_of(s);
    if (status_beat(d, now, err) < 0 || outrider__pg_status_watch_words(d, err) < 0)
        return -1;
    if (d->fetch_op == NULL && now.mono_us >= d->look_us)
        s->base.ready = outrider__pg_status_room(d) > 0;
    if (now.mono_us >= d->renew_us && !d->is_renewing && status_renew(d, err) < 0)
        return -1;
    s->base.wake_us = d->renew_us < d->beat_us ? d->renew_us : d->beat_us;
    if (!d->is_looking && d->words_us < s->base.wake_us)
        s->base.wake_us = d->words_us;
    if (!s->base.ready && d->fetch_op == NULL && d->look_us < s->base.wake_us &&
        d->look_us > now.mono_us)
        s->base.wake_us = d->look_us;
    return 0;
}

/* Rows that a stop found on their way go back at once, where that is possible:
 * nobody waits for the answer. Otherwise their lease ends by itself. */
static void status_give_back(struct status_source *d)
{
    struct pg_conn *c = &d->s->conn;
    for (size_t i = 0; i < STATUS_FLIGHTS_MAX && c->state == PG_UP; i++) {
        struct status_flight *f = &d->flights[i];
        if (f->batch == NULL || !f->table->claims)
            continue;
        status_add_claimed(d, f);
        if (outrider__pg_request(c, &f->table->st[ST_RELEASE], &d->args, NULL, NULL, NULL) < 0)
            return;
    }
    if (c->state == PG_UP)
        (void)outrider__pg_poll(c, d->s->now, NULL);
}

static void status_close(struct pg_source *s)
{
    struct status_source *d = s->layout_data[PG_LAYOUT_STATUS];
    if (d == NULL)
        return;
    status_give_back(d);
    for (size_t i = 0; d->tables != NULL && i < d->n_tables; i++) {
        for (int k = 0; k < ST_COUNT; k++)
            free(d->tables[i].sql[k]);
        outrider__strbuf_release(&d->tables[i].seen);
        outrider__strbuf_release(&d->tables[i].uncovered);
    }
    free(d->tables);
    outrider__pg_table_reader_release(&d->reader);
    outrider__pg_args_release(&d->args);
    outrider__arena_release(&d->arena);
    free(d);
    s->layout_data[PG_LAYOUT_STATUS] = NULL;
}

static int64_t status_epoch(struct pg_source *s)
{
    return status_of(s)->tables[0].epoch;
}

static const struct outbox_table *status_table_of(struct pg_source *s, const struct batch *b)
{
    const struct status_flight *f = outrider__pg_status_flight(status_of(s), b);
    return f != NULL ? &f->table->a : NULL;
}

static const struct outbox_table *status_table_at(struct pg_source *s, size_t i)
{
    return &status_of(s)->tables[i].a;
}

const struct pg_layout outrider__pg_layout_status = {
    .name = "status",
    .has_states = true,
    .id = PG_LAYOUT_STATUS,
    .reads = status_reads,
    .needs_lock = status_needs_lock,
    .begin = status_begin,
    .start = status_start,
    .tick = status_tick,
    .close = status_close,
    .epoch = status_epoch,
    .table_of = status_table_of,
    .table_at = status_table_at,
    .intent_flags = INTENT_EACH,
    .own_write = outrider__pg_status_own_write,
    .own_read = outrider__pg_status_own_read,
};
