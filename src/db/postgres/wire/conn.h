/* SPDX-License-Identifier: MIT */
/*
 * One connection, never blocking: connecting, then requests.
 *
 * A request is a group of statements that travel together and, unless they
 * hold BEGIN and COMMIT of their own, are one transaction (libpq's pipeline
 * mode: everything up to the next Sync). Any number of requests may be under
 * way; the server runs them in order and `done` is called in that order.
 *
 *  (1) request_begin, any number of request_add, request_end. Nothing blocks;
 *      what does not fit into the socket goes out from poll().
 *  (2) A statement is prepared the first time that it is sent on a connection,
 *      unless it is_unnamed.
 *  (3) done() gets one result per statement, all of them successful; it may
 *      begin further requests. Results are freed when it returns. A negative
 *      return ends the connection with what it put into err.
 *  (4) The first error of the server, of the network or of a done() is final:
 *      poll() returns it, no done() is called any more. Whoever owns the
 *      connection closes it and starts over.
 *  (5) All results come in binary form: read them with the getters in wire.h.
 */
#ifndef POSTGRES_CONN_H
#define POSTGRES_CONN_H

#include <libpq-fe.h>

#include "base/clock.h"
#include "base/error.h"
#include "postgres/client/client.h"
#include "postgres/wire/wire.h"

struct pollfd;

#define PG_GROUP_MAX 80 /* statements in a request: one for each table that a batch touches */

struct pg_statement {
    const char *sql;         /* outlives the connection */
    char *own_sql;           /* the same where wire/statements.c made it; NULL: a constant */
    const char *what;        /* for messages: "cannot read the outbox" */
    bool is_unnamed;         /* sent as it is, nothing stays behind in the session */
    enum pg_purpose purpose; /* a request has the highest of its statements */
    uint64_t conn_no;        /* the connection on which it is prepared; 0: on none */
    char name[16];
};

typedef int pg_done_fn(void *ctx, PGresult **results, int n, struct outrider_error *err);

struct pg_request;

enum pg_conn_state { PG_CLOSED, PG_CONNECTING, PG_UP, PG_BROKEN };

struct pg_conn {
    PGconn *pg;
    enum pg_conn_state state;
    uint64_t conn_no;
    PostgresPollingStatusType wants; /* while connecting */
    int64_t deadline_us;             /* of connecting */
    int64_t sent_us;                 /* when something was last sent: heartbeats */
    bool wants_write;
    unsigned n_names;
    struct pg_request *first, *last; /* under way, oldest first */
    struct pg_request *open;         /* between begin and end */
    size_t n_requests;
    enum pg_purpose failed; /* of the request that the server refused */
};

/* Begins to connect. url goes to libpq as it is. name becomes part of the
 * application_name unless the URL has one. A URL that libpq cannot read is an
 * error with STOP. */
int outrider__pg_connect(struct pg_conn *c, const char *url, const char *name, int64_t timeout_us,
                         struct instant now, struct outrider_error *err);
/* Does what can be done now. */
int outrider__pg_poll(struct pg_conn *c, struct instant now, struct outrider_error *err);
int outrider__pg_fds(struct pg_conn *c, struct pollfd *ret_fds, int max);
void outrider__pg_close(struct pg_conn *c);

/* ctx must live until done() is called or the connection is closed. */
int outrider__pg_request_begin(struct pg_conn *c, pg_done_fn *done, void *ctx,
                               struct outrider_error *err);
int outrider__pg_request_add(struct pg_conn *c, struct pg_statement *st, const struct pg_args *args,
                             struct outrider_error *err);
/* Prepares it, and runs nothing: whether the server knows its columns and can cast its
 * types is known then. args say the types alone. Its result is an empty one. */
int outrider__pg_request_try(struct pg_conn *c, struct pg_statement *st, const struct pg_args *args,
                             struct outrider_error *err);
int outrider__pg_request_end(struct pg_conn *c, struct outrider_error *err);
/* The three in one, for a single statement. args may be NULL. */
int outrider__pg_request(struct pg_conn *c, struct pg_statement *st, const struct pg_args *args,
                         pg_done_fn *done, void *ctx, struct outrider_error *err);

/* What every session of ours begins with (timeouts, commit, encoding). */
int outrider__pg_session(struct pg_conn *c, pg_done_fn *done, void *ctx,
                         struct outrider_error *err);

#endif
