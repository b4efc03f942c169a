/* SPDX-License-Identifier: MIT */
/*
 * Whether a pooler stands between us and the server, and gives each
 * transaction to another session. Such a one would leave our lock with a
 * session that others use, and our settings with applications.
 *
 *  (1) Nothing is changed in any session before the answer is known: no
 *      setting, no prepared statement.
 *  (2) A pooler shows itself by a process id that is not the server's.
 *  (3) One in session mode keeps two of our connections on two processes,
 *      whatever they do. One in transaction mode gives them away: a process
 *      that the first connection lets go is taken by the second (a pooler that
 *      gives out the last used one), or the first comes to the second's (one
 *      that takes turns).
 */
#ifndef POSTGRES_POOLER_H
#define POSTGRES_POOLER_H

#include "postgres/wire/conn.h"

struct pipeline_config; /* core/config.h */

struct pg_pooler {
    struct pg_conn *conn; /* the one that is looked at */
    const struct pipeline_config *config;
    struct pg_conn other; /* a second one, where there is a pooler; for the time of the question */
    int64_t pid, other_pid; /* of the server's processes */
    int64_t deadline_us;
    int n_looks;       /* at conn, after the transaction */
    bool is_asked;     /* other was asked for its process */
    bool is_begun;     /* conn was asked for a transaction */
    bool is_connected; /* other is wanted */
    bool is_done;      /* conn may be used */
    struct pg_statement st_pid, st_begin, st_commit;
};

/* conn is up. An answer that it cannot be used is an error with STOP, from
 * here or from a poll of either connection. */
int outrider__pg_pooler_begin(struct pg_pooler *p, struct pg_conn *conn,
                              const struct pipeline_config *config, struct instant now,
                              struct outrider_error *err);
/* Call it after conn was polled, until is_done. */
int outrider__pg_pooler_poll(struct pg_pooler *p, struct instant now, struct outrider_error *err);
/* An error of conn while the question is open: what it says of the pooler. A
 * pooler in statement mode ends a connection that begins a transaction. */
int outrider__pg_pooler_failed(const struct pg_pooler *p, struct outrider_error *err);
int outrider__pg_pooler_fds(struct pg_pooler *p, struct pollfd *ret_fds, int max);
void outrider__pg_pooler_close(struct pg_pooler *p);

#endif
