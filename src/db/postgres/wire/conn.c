/* SPDX-License-Identifier: MIT */
/* Connecting, and the queue of requests. */
#include "postgres/wire/conn.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "postgres/wire/leader.h"
#include "wire.sql.h"

struct pg_request {
    struct pg_request *next;
    pg_done_fn *done;
    void *ctx;
    enum pg_purpose purpose;
    int n;                       /* statements */
    bool prepares[PG_GROUP_MAX]; /* statement i has such a result before its own */
    const char *what[PG_GROUP_MAX];
    int i; /* statement whose results come next */
    bool prepare_seen;
    PGresult *results[PG_GROUP_MAX];
};

static void wire_conn_request_free(struct pg_request *r)
{
    if (r == NULL)
        return;
    for (int i = 0; i < r->n; i++)
        PQclear(r->results[i]);
    free(r);
}

static void conn_quiet(void *ctx, const PGresult *res)
{
    (void)ctx; /* a library does not write to stderr */
    (void)res;
}

/* connect_timeout of the URL, which libpq leaves to those who do not block; or 0. */
static int64_t conn_url_timeout_us(PGconn *pg)
{
    int64_t us = 0;
    PQconninfoOption *options = PQconninfo(pg);
    for (PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
        if (strcmp(o->keyword, "connect_timeout") == 0 && o->val != NULL)
            us = strtoll(o->val, NULL, 10) * 1000000;
    PQconninfoFree(options);
    return us;
}

int outrider__pg_connect(struct pg_conn *c, const char *url, const char *name, int64_t timeout_us,
                         struct instant now, struct outrider_error *err)
{
    static atomic_uint_fast64_t counter;
    char application[80];
    (void)snprintf(application, sizeof application, "outrider:%.60s", name);
    /* What stands before dbname is a default that the URL overrides. */
    const char *const keys[] = {
        "fallback_application_name", "keepalives_idle", "keepalives_interval", "keepalives_count",
        "tcp_user_timeout",          "dbname",          "client_encoding",     NULL};
    const char *const values[] = {application, "5", "2", "3", "15000", url, "UTF8", NULL};
    *c = (struct pg_conn){.state = PG_CLOSED};
    c->pg = PQconnectStartParams(keys, values, 1);
    if (c->pg == NULL)
        return outrider__fail_nomem(err);
    c->conn_no = atomic_fetch_add(&counter, 1) + 1;
    (void)PQsetErrorVerbosity(c->pg, PQERRORS_VERBOSE);
    (void)PQsetNoticeReceiver(c->pg, conn_quiet, NULL);
    int64_t own_us = conn_url_timeout_us(c->pg);
    c->deadline_us = now.mono_us + (own_us > 0 ? own_us : timeout_us);
    if (PQstatus(c->pg) == CONNECTION_BAD) {
        char *why = NULL;
        PQconninfoOption *parsed = PQconninfoParse(url, &why);
        bool is_readable = parsed != NULL;
        PQconninfoFree(parsed);
        PQfreemem(why); /* may quote the password */
        if (!is_readable)
            return outrider__fail(err, OUTRIDER_URL, OUTRIDER_STOP,
                                  "libpq cannot read the database's URL; it looks like "
                                  "postgresql://user:password@host:5432/database?sslmode=require");
        return outrider__pg_fail(err, c->pg, NULL, "cannot connect");
    }
    c->state = PG_CONNECTING;
    c->wants = PGRES_POLLING_WRITING;
    return 0;
}

static bool conn_is_signalled(const struct pg_conn *c, short events)
{
    struct pollfd fd = {.fd = PQsocket(c->pg), .events = events};
    return fd.fd >= 0 && poll(&fd, 1, 0) > 0;
}

static int conn_connecting(struct pg_conn *c, struct instant now, struct outrider_error *err)
{
    for (int round = 0; round < 32; round++) {
        if (!conn_is_signalled(c, c->wants == PGRES_POLLING_READING ? POLLIN : POLLOUT)) {
            if (now.mono_us < c->deadline_us)
                return 0;
            c->state = PG_BROKEN;
            return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY,
                                  "%s did not answer within connect_timeout", PQhost(c->pg));
        }
        c->wants = PQconnectPoll(c->pg);
        if (c->wants == PGRES_POLLING_FAILED) {
            c->state = PG_BROKEN;
            return outrider__pg_fail(err, c->pg, NULL, "cannot connect");
        }
        if (c->wants != PGRES_POLLING_OK)
            continue;
        if (PQsetnonblocking(c->pg, 1) != 0 || PQenterPipelineMode(c->pg) != 1) {
            c->state = PG_BROKEN;
            return outrider__pg_fail(err, c->pg, NULL, "cannot set the connection up");
        }
        (void)PQsetErrorVerbosity(c->pg, PQERRORS_DEFAULT);
        c->state = PG_UP;
        c->sent_us = now.mono_us;
        return 0;
    }
    return 0;
}

static int conn_flush(struct pg_conn *c, struct outrider_error *err)
{
    int rc = PQflush(c->pg);
    c->wants_write = rc > 0;
    return rc < 0 ? outrider__pg_fail(err, c->pg, NULL, "cannot send") : 0;
}

static int conn_finish(struct pg_conn *c, struct outrider_error *err)
{
    struct pg_request *r = c->first;
    c->first = r->next;
    if (c->first == NULL)
        c->last = NULL;
    c->n_requests--;
    int rc = r->done != NULL ? r->done(r->ctx, r->results, r->n, err) : 0;
    wire_conn_request_free(r);
    return rc;
}

/* The server's error; what it means depends on what the request is for. */
static void conn_refused(struct pg_conn *c, const struct pg_request *r, const PGresult *res,
                         struct outrider_error *err)
{
    (void)outrider__pg_fail(err, c->pg, res, r->i < r->n ? r->what[r->i] : "cannot commit");
    c->failed = r->purpose;
    if (err == NULL)
        return;
    if (err->disposition != OUTRIDER_STOP)
        err->disposition = outrider__pg_disposition(err->origin, r->purpose);
    if (err->disposition == OUTRIDER_RETRY)
        return;
    size_t n = strlen(err->message);
    if (r->purpose == PG_SETTLES)
        (void)snprintf(err->message + n, sizeof err->message - n,
                       "; the events of this batch are published and not marked: mend the table, "
                       "then start the relay again, which publishes them once more");
    else if (r->purpose == PG_TRIES)
        (void)snprintf(err->message + n, sizeof err->message - n,
                       "; nothing is published: mend the table, or the map.* options");
}

/* One result of the request at the front. */
static int conn_take(struct pg_conn *c, PGresult *res, struct outrider_error *err)
{
    struct pg_request *r = c->first;
    ExecStatusType status = PQresultStatus(res);
    if (r == NULL) {
        int rc = outrider__pg_fail(err, c->pg, res, "unexpected answer");
        PQclear(res);
        return rc;
    }
    if (status == PGRES_PIPELINE_SYNC) {
        PQclear(res);
        return conn_finish(c, err);
    }
    bool is_good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (!is_good || r->i >= r->n) {
        conn_refused(c, r, res, err);
        PQclear(res);
        return -1;
    }
    if (r->prepares[r->i] && !r->prepare_seen) {
        r->prepare_seen = true;
        PQclear(res);
        return 0;
    }
    r->prepare_seen = false;
    r->results[r->i++] = res;
    return 0;
}

static int conn_receive(struct pg_conn *c, struct outrider_error *err)
{
    int n_nulls = 0;
    if (PQconsumeInput(c->pg) != 1)
        return outrider__pg_fail(err, c->pg, NULL, "the connection is lost");
    /* A NULL stands between two statements' results; two say that there is no more. */
    while (c->first != NULL && !PQisBusy(c->pg)) {
        PGresult *res = PQgetResult(c->pg);
        if (res == NULL) {
            if (++n_nulls >= 2)
                break;
            continue;
        }
        n_nulls = 0;
        if (conn_take(c, res, err) < 0)
            return -1;
    }
    if (PQstatus(c->pg) == CONNECTION_BAD)
        return outrider__pg_fail(err, c->pg, NULL, "the connection is lost");
    return 0;
}

int outrider__pg_poll(struct pg_conn *c, struct instant now, struct outrider_error *err)
{
    if (c->state == PG_CONNECTING)
        return conn_connecting(c, now, err);
    if (c->state != PG_UP)
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "not connected");
    int errno_value = FAILPOINT("postgres.poll");
    if (errno_value != 0) {
        c->state = PG_BROKEN;
        return outrider__fail_errno(err, errno_value, "the connection is lost");
    }
    if (conn_receive(c, err) < 0 || conn_flush(c, err) < 0) {
        c->state = PG_BROKEN;
        return -1;
    }
    if (c->n_requests > 0)
        c->sent_us = now.mono_us;
    return 0;
}

int outrider__pg_fds(struct pg_conn *c, struct pollfd *ret_fds, int max)
{
    if (c->pg == NULL || max < 1 || PQsocket(c->pg) < 0)
        return 0;
    short events = (short)(POLLIN | (c->wants_write ? POLLOUT : 0));
    if (c->state == PG_CONNECTING)
        events = c->wants == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    ret_fds[0] = (struct pollfd){.fd = PQsocket(c->pg), .events = events};
    return 1;
}

void outrider__pg_close(struct pg_conn *c)
{
    while (c->first != NULL) {
        struct pg_request *r = c->first;
        c->first = r->next;
        wire_conn_request_free(r);
    }
    wire_conn_request_free(c->open);
    if (c->pg != NULL)
        PQfinish(c->pg);
    *c = (struct pg_conn){.state = PG_CLOSED};
}

int outrider__pg_request_begin(struct pg_conn *c, pg_done_fn *done, void *ctx,
                               struct outrider_error *err)
{
    if (c->state != PG_UP)
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "not connected");
    c->open = calloc(1, sizeof *c->open);
    if (c->open == NULL)
        return outrider__fail_nomem(err);
    c->open->done = done;
    c->open->ctx = ctx;
    return 0;
}

static int conn_fail_send(struct pg_conn *c, const char *what, struct outrider_error *err)
{
    wire_conn_request_free(c->open);
    c->open = NULL;
    c->state = PG_BROKEN;
    return outrider__pg_fail(err, c->pg, NULL, what);
}

int outrider__pg_request_add(struct pg_conn *c, struct pg_statement *st, const struct pg_args *args,
                             struct outrider_error *err)
{
    const char *values[PG_ARGS_MAX];
    int lengths[PG_ARGS_MAX], formats[PG_ARGS_MAX], n = args != NULL ? args->n : 0;
    struct pg_request *r = c->open;
    if (args != NULL && args->bytes.failed)
        return outrider__fail_nomem(err);
    if (r == NULL || r->n == PG_GROUP_MAX)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "a request has no room");
    if (!st->is_unnamed && st->conn_no != c->conn_no) {
        (void)snprintf(st->name, sizeof st->name, "outrider%u", ++c->n_names);
        if (!PQsendPrepare(c->pg, st->name, st->sql, n, args != NULL ? args->types : NULL))
            return conn_fail_send(c, st->what, err);
        st->conn_no = c->conn_no;
        r->prepares[r->n] = true;
    }
    if (args != NULL)
        outrider__pg_args_values(args, values, lengths, formats);
    int sent = st->is_unnamed
                   ? PQsendQueryParams(c->pg, st->sql, n, args != NULL ? args->types : NULL, values,
                                       lengths, formats, 1)
                   : PQsendQueryPrepared(c->pg, st->name, n, values, lengths, formats, 1);
    if (!sent)
        return conn_fail_send(c, st->what, err);
    r->what[r->n++] = st->what;
    if (st->purpose > r->purpose)
        r->purpose = st->purpose;
    return 0;
}

int outrider__pg_request_try(struct pg_conn *c, struct pg_statement *st, const struct pg_args *args,
                             struct outrider_error *err)
{
    struct pg_request *r = c->open;
    if (r == NULL || r->n == PG_GROUP_MAX)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "a request has no room");
    (void)snprintf(st->name, sizeof st->name, "outrider%u", ++c->n_names);
    if (!PQsendPrepare(c->pg, st->name, st->sql, args->n, args->types))
        return conn_fail_send(c, st->what, err);
    st->conn_no = c->conn_no;
    r->what[r->n++] = st->what;
    r->purpose = PG_TRIES;
    return 0;
}

int outrider__pg_request_end(struct pg_conn *c, struct outrider_error *err)
{
    struct pg_request *r = c->open;
    if (r == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no request was begun");
    if (!PQpipelineSync(c->pg))
        return conn_fail_send(c, "cannot send", err);
    c->open = NULL;
    if (c->last != NULL)
        c->last->next = r;
    else
        c->first = r;
    c->last = r;
    c->n_requests++;
    return conn_flush(c, err);
}

int outrider__pg_request(struct pg_conn *c, struct pg_statement *st, const struct pg_args *args,
                         pg_done_fn *done, void *ctx, struct outrider_error *err)
{
    if (outrider__pg_request_begin(c, done, ctx, err) < 0 ||
        outrider__pg_request_add(c, st, args, err) < 0)
        return -1;
    return outrider__pg_request_end(c, err);
}

/* Whether the URL's options speak of it. */
static bool conn_url_sets(PGconn *pg, const char *name)
{
    bool does = false;
    PQconninfoOption *options = PQconninfo(pg);
    for (PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
        does |= strcmp(o->keyword, "options") == 0 && o->val != NULL && strstr(o->val, name);
    PQconninfoFree(options);
    return does;
}

int outrider__pg_session(struct pg_conn *c, pg_done_fn *done, void *ctx, struct outrider_error *err)
{
    char timeout[16];
    struct pg_args args;
    /* By itself and first: a timeout of the role may be too short for the rest. */
    struct pg_statement off = {.sql = "SET statement_timeout = 0",
                               .what = "cannot set the session up"};
    if (!conn_url_sets(c->pg, "statement_timeout") &&
        outrider__pg_request(c, &off, NULL, NULL, NULL, err) < 0)
        return -1;
    struct pg_statement st = {.sql = sql_session, .what = "cannot set the session up"};
    (void)snprintf(timeout, sizeof timeout, "%d", LEADER_SESSION_MS);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, timeout);
    int rc = outrider__pg_request(c, &st, &args, done, ctx, err);
    outrider__pg_args_release(&args);
    return rc;
}
