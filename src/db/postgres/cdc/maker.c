/* SPDX-License-Identifier: MIT */
#include "postgres/cdc/maker.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"
#include "postgres/cdc/lsn.h"
#include "postgres/options.h"

#define ASK_US 1000000
#define WARN_AGAIN_US 60000000
#define PAUSE_MAX_US 30000000

/* What CREATE_REPLICATION_SLOT answers. */
enum slot_column { SLOT_NAME, SLOT_CONSISTENT_POINT, SLOT_SNAPSHOT, SLOT_COLUMNS };
enum plan_sweep_column { PLAN_SWEEP_RANGES };
enum plan_poll_column { PLAN_POLL_POSITION, PLAN_POLL_GAPS, PLAN_POLL_ANCHOR };
enum blocker_column { BLOCKER_PID, BLOCKER_TEXT };

void outrider__cdc_maker_release(struct slot_maker *m)
{
    outrider__cdc_link_close(&m->link);
    free(m->plan.ranges);
    free(m->plan.anchor);
    *m = (struct slot_maker){.state = MAKER_IDLE};
}

static const char *maker_meanwhile(const struct pg_source *s)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    if (c->maker.purpose == SLOT_TO_POLL)
        return "the stream goes on";
    return c->move.poller != NULL ? "polling goes on" : "nothing is delivered";
}

static int maker_on_blocker(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct maker_blocker *k = &cdc_of(s)->maker.blocker;
    (void)n;
    (void)err;
    k->is_asked = false;
    if (PQntuples(results[0]) != 1)
        return 0;
    int64_t pid = outrider__pg_get_int(results[0], 0, BLOCKER_PID, 0);
    if (k->told_us != 0 && pid == k->pid && s->now.mono_us - k->told_us < WARN_AGAIN_US)
        return 0;
    k->pid = pid;
    k->told_us = s->now.mono_us;
    outrider__pg_source_warn(
        s, "%s while the server waits, to make the slot, for the transaction of %s",
        maker_meanwhile(s), outrider__pg_get_str(results[0], 0, BLOCKER_TEXT));
    return 0;
}

/* (2) */
static int maker_ask_blocker(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct maker_blocker *k = &c->maker.blocker;
    if (k->is_asked || s->now.mono_us < k->ask_us)
        return 0;
    k->is_asked = true;
    k->ask_us = s->now.mono_us + ASK_US;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_int4(&c->args, PQbackendPID(c->maker.link.pg));
    return outrider__pg_request(&s->conn, &c->st[CDC_BLOCKER], &c->args, maker_on_blocker, s, err);
}

static int maker_copy_text(char **to, struct bytes text, struct outrider_error *err)
{
    free(*to);
    *to = calloc(1, text.len + 1);
    if (*to == NULL)
        return outrider__fail_nomem(err);
    if (text.len > 0)
        memcpy(*to, text.data, text.len);
    return 0;
}

static int maker_read_plan(struct slot_maker *m, const PGresult *r, struct outrider_error *err)
{
    bool is_sweep = m->purpose == SLOT_TO_SWEEP;
    int ranges = is_sweep ? (int)PLAN_SWEEP_RANGES : (int)PLAN_POLL_GAPS;
    if (maker_copy_text(&m->plan.ranges, outrider__pg_get_bytes(r, 0, ranges), err) < 0)
        return -1;
    if (is_sweep)
        return 0;
    m->plan.position = outrider__pg_get_int(r, 0, PLAN_POLL_POSITION, 0);
    return maker_copy_text(&m->plan.anchor, outrider__pg_get_bytes(r, 0, PLAN_POLL_ANCHOR), err);
}

/* BEGIN, SET TRANSACTION SNAPSHOT, the publication, the plan, COMMIT. */
static int maker_on_planned(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct slot_maker *m = &cdc_of(s)->maker;
    const PGresult *published = results[n - 3], *plan = results[n - 2];
    int errno_value = FAILPOINT("cdc.planned");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the slot's snapshot");
    if (!outrider__pg_get_bool(published, 0, 0))
        return outrider__cdc_fail_published(s, err);
    outrider__cdc_link_close(&m->link);
    m->state = MAKER_MADE;
    return maker_read_plan(m, plan, err);
}

/* The snapshot was exported: it is read on the usual connection, and lives until the
 * maker's own sends another command. */
static int maker_plan(struct pg_source *s, const char *snapshot, struct outrider_error *err)
{
    static const char what[] = "cannot read the slot's snapshot";
    struct cdc_source *c = cdc_of(s);
    struct slot_maker *m = &c->maker;
    (void)snprintf(m->sql_snapshot, sizeof m->sql_snapshot, "SET TRANSACTION SNAPSHOT '%.60s'",
                   snapshot);
    m->st_begin = (struct pg_statement){.sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                                        .what = what};
    m->st_snapshot = (struct pg_statement){.sql = m->sql_snapshot, .what = what};
    m->st_commit = (struct pg_statement){.sql = "COMMIT", .what = what};
    outrider__cdc_published_args(s, &c->args);
    if (outrider__pg_request_begin(&s->conn, maker_on_planned, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &m->st_begin, NULL, err) < 0 ||
        outrider__pg_request_add(&s->conn, &m->st_snapshot, NULL, err) < 0 ||
        outrider__pg_request_add(&s->conn, &c->st[CDC_PUBLISHED], &c->args, err) < 0)
        return -1;
    outrider__pg_cursor_args(s, &c->args);
    int rc = m->purpose == SLOT_TO_SWEEP
                 ? outrider__pg_request_add(&s->conn, &c->st[CDC_PLAN_SWEEP], &c->args, err)
                 : outrider__pg_request_add(&s->conn, &c->st[CDC_PLAN_POLL], NULL, err);
    if (rc < 0 || outrider__pg_request_add(&s->conn, &m->st_commit, NULL, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

/* The server has made the slot. */
static int maker_take_slot(struct pg_source *s, struct outrider_error *err)
{
    struct slot_maker *m = &cdc_of(s)->maker;
    const PGresult *r = m->link.result;
    m->state = MAKER_PLANNING;
    int errno_value = FAILPOINT("cdc.slot_made");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the slot's snapshot");
    if (m->purpose == SLOT_TO_READ) {
        m->state = MAKER_MADE;
        return 0;
    }
    if (r == NULL || PQntuples(r) != 1 || PQnfields(r) < SLOT_COLUMNS)
        return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY,
                              "the server's answer to making a slot is not understood");
    m->slot_lsn = lsn_parse(PQgetvalue(r, 0, SLOT_CONSISTENT_POINT));
    return maker_plan(s, PQgetvalue(r, 0, SLOT_SNAPSHOT), err);
}

/* (4): a snapshot that is read elsewhere is exported, one that is read here is used. */
static int maker_create(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct slot_maker *m = &c->maker;
    bool is_used = c->tables.rows->reads_in_snapshot;
    char command[192];
    int errno_value = FAILPOINT("cdc.make_slot");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot make the replication slot");
    const char *how = is_used ? "USE_SNAPSHOT" : "EXPORT_SNAPSHOT";
    if (m->purpose != SLOT_TO_POLL && postgres_options(s->config)->slot_failover &&
        s->cat.version >= CDC_FAILOVER_SINCE)
        how = is_used ? "(SNAPSHOT 'use', FAILOVER true)" : "(SNAPSHOT 'export', FAILOVER true)";
    if (m->purpose == SLOT_TO_POLL)
        (void)snprintf(command, sizeof command,
                       "CREATE_REPLICATION_SLOT \"%.50s_leaving\" TEMPORARY LOGICAL pgoutput %s",
                       c->slot, how);
    else
        (void)snprintf(command, sizeof command,
                       "CREATE_REPLICATION_SLOT \"%s\" LOGICAL pgoutput %s", c->slot, how);
    m->state = MAKER_WAITING;
    m->blocker.ask_us = s->now.mono_us + ASK_US;
    return outrider__cdc_link_ask(&m->link, command, "cannot make the replication slot", err);
}

static int maker_open_transaction(struct slot_maker *m, struct outrider_error *err)
{
    m->state = MAKER_OPENING;
    return outrider__cdc_link_ask(
        &m->link, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL row_security = off",
        "cannot make the replication slot", err);
}

static int maker_begin_slot(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    return c->tables.rows->reads_in_snapshot ? maker_open_transaction(&c->maker, err)
                                             : maker_create(s, err);
}

/* The connection has an answer, or is there and idle. */
static int maker_step(struct pg_source *s, struct outrider_error *err)
{
    struct slot_maker *m = &cdc_of(s)->maker;
    switch (m->state) {
    case MAKER_CONNECTING:
        if (m->purpose == SLOT_TO_POLL)
            return maker_begin_slot(s, err);
        m->state = MAKER_CHECKING;
        return outrider__cdc_published_ask(s, err);
    case MAKER_CHECKING:
        return outrider__cdc_published_answer(s, err) < 0 ? -1 : maker_begin_slot(s, err);
    case MAKER_OPENING:
        return maker_create(s, err);
    case MAKER_WAITING:
        return maker_take_slot(s, err);
    default:
        return 0;
    }
}

int outrider__cdc_maker_tick(struct pg_source *s, struct outrider_error *err)
{
    struct slot_maker *m = &cdc_of(s)->maker;
    if (m->state == MAKER_IDLE) {
        if (s->now.mono_us < m->retry_us)
            return 0;
        m->state = MAKER_CONNECTING;
        if (outrider__cdc_link_connect(&m->link, s->config->source.url, s->config->name,
                                       s->config->source.connect_timeout_us, s->now, err) < 0)
            return -1;
    }
    if (outrider__cdc_link_poll(&m->link, s->now, err) < 0)
        return -1;
    if (m->link.state == LINK_IDLE || m->link.state == LINK_ANSWERED)
        return maker_step(s, err);
    return m->state == MAKER_WAITING ? maker_ask_blocker(s, err) : 0;
}

int outrider__cdc_maker_cancel(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    int pid = c->maker.link.pg != NULL ? PQbackendPID(c->maker.link.pg) : 0;
    outrider__cdc_link_close(&c->maker.link);
    c->maker.state = MAKER_IDLE;
    if (pid == 0)
        return 0;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_int4(&c->args, pid);
    return outrider__pg_request(&s->conn, &c->st[CDC_END_MAKER], &c->args, NULL, NULL, err);
}

void outrider__cdc_maker_put_off(struct pg_source *s, const struct outrider_error *why)
{
    struct slot_maker *m = &cdc_of(s)->maker;
    outrider__cdc_link_close(&m->link);
    m->state = MAKER_IDLE;
    m->pause_us = m->pause_us == 0 ? ASK_US : m->pause_us * 2;
    if (m->pause_us > PAUSE_MAX_US)
        m->pause_us = PAUSE_MAX_US;
    m->retry_us = s->now.mono_us + m->pause_us;
    outrider__pg_source_warn(s, "polling goes on without a slot: %.200s", why->message);
}

int64_t outrider__cdc_maker_wake_us(const struct slot_maker *m)
{
    if (m->state == MAKER_IDLE)
        return m->retry_us;
    return m->state == MAKER_WAITING && !m->blocker.is_asked ? m->blocker.ask_us : CLOCK_NEVER;
}
