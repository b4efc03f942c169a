/* SPDX-License-Identifier: MIT */
#include "postgres/wire/pooler.h"

#include "postgres/client/client.h"
#include "core/config.h"

#define LOOKS 2 /* where processes are given out in turn, the second one shows it */

/* The statements of the request that begins a transaction. */
enum pooler_begin_step { POOLER_BEGIN, POOLER_PID };

static const char sql_pid[] = "SELECT pg_backend_pid()";
static const char what[] = "cannot ask for the server's process";

static int pooler_refuse(const struct pg_pooler *p, struct outrider_error *err)
{
    char place[160];
    outrider__pg_place(p->conn->pg, place, sizeof place);
    return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                          "%s is a pooler that gives each transaction to another session of the "
                          "server: the pipeline's lock would not hold; connect to the server "
                          "itself, or use the pooler's session mode (pool_mode = session)",
                          place);
}

static int pooler_ask(struct pg_pooler *p, struct pg_conn *c, pg_done_fn *done,
                      struct outrider_error *err)
{
    return outrider__pg_request(c, &p->st_pid, NULL, done, p, err);
}

static int pooler_on_own_again(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_pooler *p = ctx;
    (void)n;
    if (outrider__pg_get_int(results[0], 0, 0, 0) != p->pid)
        return pooler_refuse(p, err);
    if (++p->n_looks < LOOKS)
        return pooler_ask(p, p->conn, pooler_on_own_again, err);
    p->is_done = true;
    return 0;
}

static int pooler_on_other_again(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_pooler *p = ctx;
    (void)n;
    if (outrider__pg_get_int(results[0], 0, 0, 0) != p->other_pid)
        return pooler_refuse(p, err);
    return pooler_ask(p, p->conn, pooler_on_own_again, err);
}

static int pooler_on_committed(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_pooler *p = ctx;
    (void)results;
    (void)n;
    return pooler_ask(p, &p->other, pooler_on_other_again, err);
}

static int pooler_on_other(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_pooler *p = ctx;
    (void)n;
    p->other_pid = outrider__pg_get_int(results[0], 0, 0, 0);
    return outrider__pg_request(p->conn, &p->st_commit, NULL, pooler_on_committed, p, err);
}

/* The transaction holds its process, so the other connection has one of its own. */
static int pooler_on_begun(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_pooler *p = ctx;
    (void)err;
    p->pid = outrider__pg_get_int(results[POOLER_PID], 0, 0, 0);
    (void)n;
    p->is_begun = false;
    p->is_connected = true;
    return 0;
}

static int pooler_on_own(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_pooler *p = ctx;
    (void)n;
    if (outrider__pg_get_int(results[0], 0, 0, 0) == PQbackendPID(p->conn->pg)) {
        p->is_done = true;
        return 0;
    }
    p->is_begun = true;
    if (outrider__pg_request_begin(p->conn, pooler_on_begun, p, err) < 0 ||
        outrider__pg_request_add(p->conn, &p->st_begin, NULL, err) < 0 ||
        outrider__pg_request_add(p->conn, &p->st_pid, NULL, err) < 0)
        return -1;
    return outrider__pg_request_end(p->conn, err);
}

int outrider__pg_pooler_begin(struct pg_pooler *p, struct pg_conn *conn,
                              const struct pipeline_config *config, struct instant now,
                              struct outrider_error *err)
{
    *p = (struct pg_pooler){
        .conn = conn,
        .config = config,
        .deadline_us = now.mono_us + config->source.connect_timeout_us,
        .st_pid = {.sql = sql_pid, .what = what, .is_unnamed = true},
        .st_begin = {.sql = "BEGIN", .what = what, .is_unnamed = true},
        .st_commit = {.sql = "COMMIT", .what = what, .is_unnamed = true},
    };
    return pooler_ask(p, conn, pooler_on_own, err);
}

int outrider__pg_pooler_poll(struct pg_pooler *p, struct instant now, struct outrider_error *err)
{
    if (p->is_done) {
        outrider__pg_pooler_close(p);
        return 0;
    }
    if (now.mono_us >= p->deadline_us)
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY,
                              "a pooler stands before the server and has no second connection to "
                              "spare within connect_timeout, so its mode cannot be told; connect "
                              "to the server itself, or enlarge the pool");
    if (!p->is_connected)
        return 0;
    if (p->other.state == PG_CLOSED)
        return outrider__pg_connect(&p->other, p->config->source.url, p->config->name,
                                    p->deadline_us - now.mono_us, now, err);
    if (outrider__pg_poll(&p->other, now, err) < 0)
        return -1;
    if (p->other.state != PG_UP || p->is_asked)
        return 0;
    p->is_asked = true;
    return pooler_ask(p, &p->other, pooler_on_other, err);
}

int outrider__pg_pooler_failed(const struct pg_pooler *p, struct outrider_error *err)
{
    if (!p->is_begun || err == NULL || strcmp(err->origin, "08P01") != 0)
        return -1;
    return pooler_refuse(p, err);
}

int outrider__pg_pooler_fds(struct pg_pooler *p, struct pollfd *ret_fds, int max)
{
    return outrider__pg_fds(&p->other, ret_fds, max);
}

void outrider__pg_pooler_close(struct pg_pooler *p)
{
    outrider__pg_close(&p->other);
    p->is_connected = false;
}
