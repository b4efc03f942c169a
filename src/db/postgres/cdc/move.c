/* SPDX-License-Identifier: MIT */
/*
 * From polling to the stream, and back.
 *
 * There: polling delivers as ever while the server makes the slot, which takes as
 * long as the oldest transaction that writes. What the slot's snapshot shows and
 * polling has not settled is saved as the sweep, or read at once where a table is
 * not our log; cdc.h (1), (2), (6), (7).
 *
 * Back: a temporary slot is made, and the stream is read up to where that one
 * begins: then all in its snapshot is delivered, and nothing else. So polling
 * begins with its highest seq as the position and the missing ones as gaps. The
 * stream is not read while that slot is made, or it could be beyond already:
 * so the server gets a while for it, then delivery goes on for a while, and so
 * in turn, each time longer. `leaving` is saved before the slot is dropped:
 * otherwise a crash between the two leaves a slot that fills the disk.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"
#include "postgres/options.h"
#include "postgres/poll_log/log.h"
#include "postgres/poll_status/status.h"

#define ASK_US 1000000
#define TELL_AGAIN_US 60000000
#define PAUSE_FIRST_US 500000
#define PAUSE_MOST_US 30000000
#define DROP_PAUSE_US 50000
#define SLOT_EXISTS "42710"

static int on_maker_ended(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)results;
    (void)n;
    return outrider__fail(
        err, OUTRIDER_STANDBY, OUTRIDER_RETRY,
        "replication slot %s is in use by server process %lld, and its beginning "
        "is not recorded; if that does not end: SELECT pg_terminate_backend(%lld)",
        c->slot, (long long)c->facts.slot_pid, (long long)c->facts.slot_pid);
}

/* A slot that a relay before this one began to make, and the server still waits
 * with it: this relay holds the pipeline's lock, so nobody wants that slot. */
static int end_other_maker(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_str(&c->args, c->slot);
    return outrider__pg_request(&s->conn, &c->st[CDC_END_READER], &c->args, on_maker_ended, s, err);
}

static int on_cleared(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    if (n > 0 && c->facts.has_slot && outrider__pg_get_int(results[n - 1], 0, 1, 0) > 0)
        return end_other_maker(s, err);
    c->phase = CDC_POLLING;
    c->making = MAKER_NONE;
    if (c->poller != NULL)
        return c->poller->begin(s, err);
    s->base.wake_us = s->now.mono_us; /* outrider__cdc_waiting_tick() */
    return 0;
}

static int publication_sql(struct cdc_source *c, struct outrider_error *err)
{
    struct strbuf sql;
    outrider__strbuf_init(&sql, PG_SQL_CAP);
    outrider__strbuf_appendf(&sql,
                             "CREATE PUBLICATION %s FOR TABLE %s WITH (publish = 'insert', "
                             "publish_via_partition_root = true)",
                             c->publication, strbuf_cstr(&c->tables.names));
    free(c->sql_publication);
    c->sql_publication = sql.failed ? NULL : sql.data;
    c->st_publication =
        (struct pg_statement){.sql = c->sql_publication, .what = "cannot make the publication"};
    return sql.failed ? outrider__fail_nomem(err) : 0;
}

int outrider__cdc_begin_polling(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->facts.has_publication && !c->facts.has_slot)
        return on_cleared(s, NULL, 0, err);
    if (outrider__pg_request_begin(&s->conn, on_cleared, s, err) < 0)
        return -1;
    if (!c->facts.has_publication) {
        if (publication_sql(c, err) < 0 ||
            outrider__pg_request_add(&s->conn, &c->st_publication, NULL, err) < 0)
            return -1;
    }
    if (c->facts.has_slot) {
        outrider__pg_args_clear(&c->args);
        outrider__pg_arg_str(&c->args, c->slot);
        if (outrider__pg_request_add(&s->conn, &c->st[CDC_DROP_SLOT], &c->args, err) < 0)
            return -1;
    }
    return outrider__pg_request_end(&s->conn, err);
}

static int on_waited_for(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)n;
    (void)err;
    c->is_asking = false;
    if (PQntuples(results[0]) != 1)
        return 0;
    int64_t pid = outrider__pg_get_int(results[0], 0, 0, 0);
    if (c->told_us != 0 && pid == c->told_pid && s->now.mono_us - c->told_us < TELL_AGAIN_US)
        return 0;
    c->told_pid = pid;
    c->told_us = s->now.mono_us;
    outrider__pg_source_warn(
        s, "%s while the server waits, to make the slot, for the transaction of %s",
        c->is_leaving       ? "the stream goes on"
        : c->poller != NULL ? "polling goes on"
                            : "nothing is delivered",
        outrider__pg_get_str(results[0], 0, 1));
    return 0;
}

static int ask_who(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->is_asking || s->now.mono_us < c->ask_us)
        return 0;
    c->is_asking = true;
    c->ask_us = s->now.mono_us + ASK_US;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_int4(&c->args, PQbackendPID(c->maker.pg));
    return outrider__pg_request(&s->conn, &c->st[CDC_WAITED_FOR], &c->args, on_waited_for, s, err);
}

static int keep_text(char **to, struct bytes text, struct outrider_error *err)
{
    free(*to);
    *to = calloc(1, text.len + 1);
    if (*to == NULL)
        return outrider__fail_nomem(err);
    if (text.len > 0)
        memcpy(*to, text.data, text.len);
    return 0;
}

static int on_planned(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    const PGresult *r = results[n - 2];
    int errno_value = FAILPOINT("cdc.planned");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the slot's snapshot");
    if (!outrider__pg_get_bool(results[n - 3], 0, 0))
        return outrider__cdc_fail_published(s, err);
    outrider__cdc_link_close(&c->maker);
    c->making = MAKER_DONE;
    if (!c->is_leaving) {
        c->phase = CDC_STOPPING;
        return keep_text(&c->plan, outrider__pg_get_bytes(r, 0, 0), err);
    }
    c->plan_position = outrider__pg_get_int(r, 0, 0, 0);
    c->stop_lsn = c->made_lsn;
    c->is_paused = false;
    if (c->received_lsn >= c->stop_lsn && !c->decoder.in_transaction)
        c->is_stopped = true;
    if (keep_text(&c->plan, outrider__pg_get_bytes(r, 0, 1), err) < 0)
        return -1;
    return keep_text(&c->plan_anchor, outrider__pg_get_bytes(r, 0, 2), err);
}

/* "16/B374D848" */
static uint64_t parse_lsn(const char *text)
{
    char *end;
    uint64_t high = strtoull(text, &end, 16);
    return *end == '/' ? high << 32 | strtoull(end + 1, NULL, 16) : 0;
}

static int plan(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const PGresult *r = c->maker.result;
    if (r == NULL || PQntuples(r) != 1 || PQnfields(r) < 3)
        return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY,
                              "the server's answer to making a slot is not understood");
    c->made_lsn = parse_lsn(PQgetvalue(r, 0, 1));
    (void)snprintf(c->sql_snapshot, sizeof c->sql_snapshot, "SET TRANSACTION SNAPSHOT '%.60s'",
                   PQgetvalue(r, 0, 2));
    c->st_snapshot =
        (struct pg_statement){.sql = c->sql_snapshot, .what = "cannot read the slot's snapshot"};
    c->making = MAKER_PLANNING;
    int errno_value = FAILPOINT("cdc.slot_made");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the slot's snapshot");
    struct pg_statement *st = &c->st[c->is_leaving ? CDC_PLAN_POLL : CDC_PLAN_SWEEP];
    outrider__cdc_published_args(s, &c->args);
    if (outrider__pg_request_begin(&s->conn, on_planned, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &c->st_begin, NULL, err) < 0 ||
        outrider__pg_request_add(&s->conn, &c->st_snapshot, NULL, err) < 0 ||
        outrider__pg_request_add(&s->conn, &c->st[CDC_PUBLISHED], &c->args, err) < 0)
        return -1;
    outrider__pg_cursor_args(s, &c->args);
    if (outrider__pg_request_add(&s->conn, st, c->is_leaving ? NULL : &c->args, err) < 0 ||
        outrider__pg_request_add(&s->conn, &c->st_commit, NULL, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

/* Of our log the snapshot is exported, and read on the usual connection; of other
 * tables it is this connection's own, which goes on to read them. */
static int make_slot(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    char command[192];
    int errno_value = FAILPOINT("cdc.make_slot");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot make the replication slot");
    const char *how = c->tables.is_mapped ? "USE_SNAPSHOT" : "EXPORT_SNAPSHOT";
    if (!c->is_leaving && postgres_options(s->config)->slot_failover &&
        s->cat.version >= CDC_FAILOVER_SINCE)
        how = c->tables.is_mapped ? "(SNAPSHOT 'use', FAILOVER true)"
                                  : "(SNAPSHOT 'export', FAILOVER true)";
    if (c->is_leaving)
        (void)snprintf(command, sizeof command,
                       "CREATE_REPLICATION_SLOT \"%.50s_leaving\" TEMPORARY LOGICAL pgoutput %s",
                       c->slot, how);
    else
        (void)snprintf(command, sizeof command,
                       "CREATE_REPLICATION_SLOT \"%s\" LOGICAL pgoutput %s", c->slot, how);
    c->making = MAKER_WAITING;
    c->ask_us = s->now.mono_us + ASK_US;
    return outrider__cdc_link_ask(&c->maker, command, "cannot make the replication slot", err);
}

static int open_transaction(struct cdc_source *c, struct outrider_error *err)
{
    c->making = MAKER_OPENING;
    return outrider__cdc_link_ask(
        &c->maker, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL row_security = off",
        "cannot make the replication slot", err);
}

/* The slot is there. */
static int made(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (!c->tables.is_mapped && !c->skips_rows)
        return plan(s, err);
    int errno_value = FAILPOINT("cdc.slot_made");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the slot's snapshot");
    c->making = MAKER_DONE;
    c->phase = CDC_STOPPING;
    return 0;
}

static int advance_link(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->making == MAKER_NONE) {
        c->making = MAKER_CONNECTING;
        if (outrider__cdc_link_connect(&c->maker, s->config->source.url, s->config->name,
                                       s->config->source.connect_timeout_us, s->now, err) < 0)
            return -1;
    }
    if (outrider__cdc_link_poll(&c->maker, s->now, err) < 0)
        return -1;
    if (c->making == MAKER_CONNECTING && c->maker.state == LINK_IDLE && !c->is_leaving) {
        c->making = MAKER_LOOKING;
        return outrider__cdc_published_ask(s, err);
    }
    bool has_looked = c->making == MAKER_LOOKING && c->maker.state == LINK_ANSWERED;
    if (has_looked && outrider__cdc_published_answer(s, err) < 0)
        return -1;
    if (has_looked || (c->making == MAKER_CONNECTING && c->maker.state == LINK_IDLE))
        return c->tables.is_mapped ? open_transaction(c, err) : make_slot(s, err);
    if (c->making == MAKER_OPENING && c->maker.state == LINK_ANSWERED)
        return make_slot(s, err);
    return 0;
}

/* Polling goes on without it, and it is tried again in a while; but a slot that is
 * there already has to be dropped first, which is where everything begins. */
static int forgive(struct pg_source *s, const struct outrider_error *why,
                   struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->phase != CDC_POLLING || c->poller == NULL || why->disposition != OUTRIDER_RETRY ||
        strcmp(why->origin, SLOT_EXISTS) == 0) {
        if (err != NULL)
            *err = *why;
        return -1;
    }
    outrider__cdc_link_close(&c->maker);
    c->making = MAKER_NONE;
    c->maker_pause_us = c->maker_pause_us == 0 ? ASK_US : c->maker_pause_us * 2;
    if (c->maker_pause_us > PAUSE_MOST_US)
        c->maker_pause_us = PAUSE_MOST_US;
    c->maker_retry_us = s->now.mono_us + c->maker_pause_us;
    outrider__pg_source_warn(s, "polling goes on without a slot: %.200s", why->message);
    return 0;
}

static int advance_maker(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct outrider_error why = {0};
    if (c->making == MAKER_NONE && s->now.mono_us < c->maker_retry_us)
        return 0;
    if (advance_link(s, &why) < 0)
        return forgive(s, &why, err);
    if (c->making == MAKER_WAITING)
        return c->maker.state == LINK_ANSWERED ? made(s, err) : ask_who(s, err);
    return 0;
}

/* The server does not notice by itself that nobody waits any more. */
static int end_maker(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    int pid = c->maker.pg != NULL ? PQbackendPID(c->maker.pg) : 0;
    outrider__cdc_link_close(&c->maker);
    if (pid == 0)
        return 0;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_int4(&c->args, pid);
    return outrider__pg_request(&s->conn, &c->st[CDC_END_MAKER], &c->args, NULL, NULL, err);
}

static void wake_by(struct pg_source *s, int64_t when)
{
    if (when < s->base.wake_us)
        s->base.wake_us = when;
}

static int on_saved_cdc(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    (void)results;
    (void)n;
    int errno_value = FAILPOINT("cdc.plan_saved");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save the cursor");
    return outrider__cdc_restart(s, err);
}

/* Nothing of polling is under way: what it settled is final. */
static int save_cdc(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    int64_t epoch = log_of(s)->cursor.epoch;
    outrider__pg_layout_log.close(s);
    s->base.ready = false; /* operations that come meanwhile are held */
    s->phase = PHASE_BEGIN;
    c->phase = CDC_READING;
    s->base.wake_us = CLOCK_NEVER;
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, epoch);
    outrider__pg_arg_str(&c->args, c->plan);
    outrider__pg_arg_str(&c->args, c->published);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_CDC], &c->args, on_saved_cdc, s, err);
}

/* The same for tables that are read by their maps: their rows are read next. */
static int begin_snapshot(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    outrider__cdc_late_freeze(&c->late);
    s->base.ready = false; /* operations that come meanwhile are held */
    s->phase = PHASE_BEGIN;
    c->phase = CDC_READING;
    s->base.wake_us = CLOCK_NEVER;
    if (c->poller != NULL) {
        const struct status_source *d = status_of(s);
        for (size_t i = 0; i < d->n_tables; i++)
            if (outrider__cdc_tables_learn(s, i, &d->tables[i].a.map, err) < 0)
                return -1;
        c->cursor.epoch = d->tables[0].epoch;
        c->poller->close(s);
    }
    if (c->skips_rows)
        c->snapshot.at = c->tables.n;
    return outrider__cdc_take_over(s, err);
}

/* --once has no time for a slot that does not come: polling serves it. */
static int give_mark_to_log(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct pg_op *op = c->mark_op;
    if (op == NULL || s->now.mono_us < c->mark_deadline_us || c->phase != CDC_POLLING)
        return 0;
    c->mark_op = NULL;
    c->has_given_up = true;
    c->making = MAKER_NONE;
    if (end_maker(s, err) < 0)
        return -1;
    return c->poller->start(s, op, err);
}

/* What polling settles last may come again in the stream: cdc.h (7). A failed
 * event comes again on purpose, unless it has a copy that is tried by itself. */
static int note_settled(struct pg_source *s, const struct batch *b, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const struct status_flight *f = outrider__pg_status_flight(status_of(s), b);
    for (size_t i = 0; f != NULL && i < b->n_settle; i++) {
        const struct event *e = &b->events[i];
        bool is_final = e->outcome == OUTCOME_DELIVERED || e->outcome == OUTCOME_SKIPPED ||
                        e->outcome == OUTCOME_EXPIRED || e->outcome == OUTCOME_DEAD ||
                        (e->outcome == OUTCOME_PARKED && f->table->a.parks_retries);
        if (is_final &&
            outrider__cdc_late_note(&c->late, f->table->a.id, e->id, s->now.mono_us) < 0)
            return outrider__fail_nomem(err);
    }
    return 0;
}

/* While polling delivers, it does everything; it is only kept from reading more
 * once the slot is there. A mark waits for the slot for a while, so that --once
 * ends in mode cdc if it can. */
int outrider__cdc_polling_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    enum source_op_kind kind = op->op->kind;
    op->op->removed = 0;
    op->op->more = false;
    if (kind == SOURCE_MARK) {
        c->mark_op = op;
        c->mark_deadline_us = s->now.mono_us + s->config->source.connect_timeout_us;
        return 0;
    }
    if (c->phase == CDC_STOPPING && (kind == SOURCE_FETCH || kind == SOURCE_CLEANUP)) {
        s->base.ready = false;
        pg_op_done(op);
        return 0;
    }
    if (kind == SOURCE_SETTLE && c->tables.is_mapped && note_settled(s, op->op->batch, err) < 0)
        return -1;
    return c->poller->start(s, op, err);
}

/* Tables without a mark cannot be polled: until the slot is there, nothing is delivered. */
int outrider__cdc_waiting_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->phase == CDC_POLLING && advance_maker(s, err) < 0)
        return -1;
    if (c->phase == CDC_STOPPING && s->conn.n_requests == 0)
        return begin_snapshot(s, err);
    s->base.wake_us = s->now.mono_us + ASK_US;
    return outrider__cdc_pulse(s, err);
}

int outrider__cdc_polling_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (give_mark_to_log(s, err) < 0)
        return -1;
    if (c->phase == CDC_POLLING && !c->has_given_up && advance_maker(s, err) < 0)
        return -1;
    size_t own = c->mark_op != NULL;
    if (c->phase == CDC_STOPPING && s->n_live == 0 && s->queue.n == own && s->conn.n_requests == 0)
        return c->tables.is_mapped ? begin_snapshot(s, err) : save_cdc(s, err);
    if (c->poller->tick(s, s->now, err) < 0)
        return -1;
    if (c->phase == CDC_STOPPING)
        s->base.ready = false;
    if (c->making == MAKER_WAITING && !c->is_asking)
        wake_by(s, c->ask_us);
    if (c->making == MAKER_NONE && !c->has_given_up)
        wake_by(s, c->maker_retry_us);
    if (c->mark_op != NULL)
        wake_by(s, c->mark_deadline_us);
    return 0;
}

static int on_saved_leaving(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)results;
    (void)n;
    int errno_value = FAILPOINT("cdc.left");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save the cursor");
    outrider__cdc_link_close(&c->link);
    c->phase = CDC_LEFT;
    c->ask_us = s->now.mono_us;
    s->base.wake_us = s->now.mono_us;
    return 0;
}

static int save_leaving(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    s->base.ready = false; /* operations that come meanwhile are held */
    s->phase = PHASE_BEGIN;
    s->base.wake_us = CLOCK_NEVER;
    c->phase = CDC_READING;
    outrider__pg_cursor_args(s, &c->args);
    outrider__pg_arg_int8(&c->args, c->cursor.epoch);
    outrider__pg_arg_int8(&c->args, c->plan_position);
    outrider__pg_arg_str(&c->args, c->plan);
    if (c->plan_position > 0)
        outrider__pg_arg_str(&c->args, c->plan_anchor);
    else
        outrider__pg_arg_null(&c->args, PG_TEXT);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_LEAVING], &c->args, on_saved_leaving, s,
                                err);
}

/* Too long: delivery goes on for as long as it stood still. */
static int give_way(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    int rc = end_maker(s, err);
    c->making = MAKER_NONE;
    c->is_paused = false;
    c->pause_until_us = s->now.mono_us + c->pause_us;
    c->pause_us = c->pause_us * 2 < PAUSE_MOST_US ? c->pause_us * 2 : PAUSE_MOST_US;
    return rc;
}

int outrider__cdc_leaving_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->link.state != LINK_STREAMING)
        return 0;
    if (c->making == MAKER_DONE) {
        if (c->is_stopped && !c->has_held && c->fetch_op == NULL && s->n_live == 0 &&
            s->queue.n == 0 && s->conn.n_requests == 0)
            return save_leaving(s, err);
        return 0;
    }
    if (c->making == MAKER_NONE) {
        wake_by(s, c->pause_until_us);
        if (s->now.mono_us < c->pause_until_us)
            return 0;
        c->is_paused = true;
        c->pause_us = c->pause_us == 0 ? PAUSE_FIRST_US : c->pause_us;
        c->pause_until_us = s->now.mono_us + c->pause_us;
    }
    if (advance_maker(s, err) < 0)
        return -1;
    if (c->making == MAKER_WAITING || c->making == MAKER_CONNECTING) {
        if (s->now.mono_us >= c->pause_until_us && give_way(s, err) < 0)
            return -1;
        wake_by(s, c->pause_until_us);
    }
    return 0;
}

static int on_poll_saved(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    (void)results;
    (void)n;
    if (s->config->source.mode == MODE_CDC)
        return outrider__cdc_restart(s, err);
    /* A mark behind the end of the stream: polling reaches it. */
    s->must_mark = cdc_of(s)->mark_lsn != 0 && !s->base.mark_reached;
    s->layout->close(s);
    s->layout = &outrider__pg_layout_log;
    return s->layout->begin(s, err);
}

static int on_dropped(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct cdc_source *c = cdc_of(s);
    (void)n;
    c->is_asking = false;
    if (outrider__pg_get_int(results[0], 0, 1, 0) > 0)
        return 0; /* its last reader is not quite gone */
    c->is_saving = true;
    outrider__pg_cursor_args(s, &c->args);
    return outrider__pg_request(&s->conn, &c->st[CDC_SAVE_POLL], &c->args, on_poll_saved, s, err);
}

int outrider__cdc_left_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    s->base.wake_us = c->is_asking || c->is_saving ? CLOCK_NEVER : c->ask_us;
    if (c->is_asking || c->is_saving || s->now.mono_us < c->ask_us)
        return 0;
    c->is_asking = true;
    c->ask_us = s->now.mono_us + DROP_PAUSE_US;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_str(&c->args, c->slot);
    return outrider__pg_request(&s->conn, &c->st[CDC_DROP_SLOT], &c->args, on_dropped, s, err);
}

/* Only a slot that the cursor records: cdc/slot.h (1). */
static const char sql_forget[] =
    "SELECT pg_drop_replication_slot(s.slot_name) FROM pg_replication_slots s WHERE s.slot_name = "
    "(SELECT nullif(k.slot, '') FROM %s k WHERE k.pipeline = $1 AND k.outbox = $2 AND k.mode = "
    "'poll') AND NOT s.active AND s.database = current_database() AND s.plugin = 'pgoutput'";

int outrider__pg_cdc_forget_slot(struct pg_source *s, struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args args;
    outrider__strbuf_init(&sql, PG_SQL_CAP);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    outrider__strbuf_appendf(&sql, sql_forget, s->cat.cursor_table);
#pragma GCC diagnostic pop
    struct pg_statement st = {.sql = strbuf_cstr(&sql), .what = "cannot drop the replication slot"};
    outrider__pg_args_init(&args);
    outrider__pg_cursor_args(s, &args);
    int rc = outrider__pg_request(&s->conn, &st, &args, NULL, NULL, err);
    outrider__pg_args_release(&args);
    outrider__strbuf_release(&sql);
    return rc;
}
