/* SPDX-License-Identifier: MIT */
#include "postgres/wire/leader.h"

#include <stdio.h>

/*
 * $1: the lock's name, $2: seconds after which a session that hangs in sending
 * to its client is ended. Holders are looked for only when the lock is taken.
 */
static const char sql_try[] =
    "WITH k AS MATERIALIZED (SELECT hashtextextended($1, 0) AS key), "
    "t AS MATERIALIZED (SELECT pg_try_advisory_lock(key) AS got FROM k), "
    "h AS MATERIALIZED (SELECT l.pid, a.usename, a.application_name, a.client_addr, "
    "a.state = 'active' AND a.wait_event_type = 'Client' AND a.query_start < clock_timestamp() - "
    "make_interval(secs => $2) AS stuck FROM t, k, pg_locks l LEFT JOIN pg_stat_activity a ON "
    "a.pid = l.pid WHERE NOT t.got AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND "
    "l.classid = ((key >> 32) & 4294967295)::oid AND l.objid = (key & 4294967295)::oid) "
    "SELECT got, (SELECT format('%s%s, server process %s', application_name, "
    "coalesce(' at ' || host(client_addr), ''), pid) FROM h LIMIT 1), "
    "(SELECT bool_or(pg_terminate_backend(pid)) FROM h WHERE stuck) FROM t";

void outrider__pg_leader_init(struct pg_leader *l, const struct pg_catalog *cat,
                              const char *pipeline)
{
    *l = (struct pg_leader){.st = {.sql = sql_try, .what = "cannot ask for the pipeline's lock"}};
    (void)snprintf(l->name, sizeof l->name, "outrider/%s/%.63s", cat->table, pipeline);
}

static int answered(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_leader *l = ctx;
    (void)n;
    (void)err;
    l->is_asking = false;
    l->is_held = outrider__pg_get_bool(results[0], 0, 0);
    l->waiting_for[0] = '\0';
    if (!l->is_held)
        (void)snprintf(l->waiting_for, sizeof l->waiting_for, "%s",
                       PQgetisnull(results[0], 0, 1) ? "another relay"
                                                     : outrider__pg_get_str(results[0], 0, 1));
    return 0;
}

int outrider__pg_leader_try(struct pg_leader *l, struct pg_conn *c, struct instant now,
                            struct outrider_error *err)
{
    struct pg_args args;
    if (l->is_held || l->is_asking || now.mono_us < l->ask_us)
        return 0;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, l->name);
    outrider__pg_arg_int4(&args, LEADER_STUCK_US / 1000000);
    l->is_asking = true;
    l->ask_us = now.mono_us + LEADER_PAUSE_US;
    int rc = outrider__pg_request(c, &l->st, &args, answered, l, err);
    outrider__pg_args_release(&args);
    return rc;
}
