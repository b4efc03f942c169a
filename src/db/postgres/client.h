/* SPDX-License-Identifier: MIT */
/* What the client library (outrider_enqueue_pg) and the adapters share. */
#ifndef POSTGRES_CLIENT_H
#define POSTGRES_CLIENT_H

#include <libpq-fe.h>

#include "base/error.h"

/*
 * client_error.c: from SQLSTATEs to our codes, in one table.
 *
 * What the server said, as one of our codes with its disposition; `what` says
 * what was being done ("cannot read the outbox"). res may be NULL: then the
 * connection itself failed. Returns -1. The text is the server's primary
 * message alone: its DETAIL may quote a payload.
 */
int outrider__pg_fail(struct outrider_error *err, const PGconn *pg, const PGresult *res,
                      const char *what);
/* SQLSTATE of a failed connection attempt, which libpq tells in its text only
 * (verbosity must be PQERRORS_VERBOSE); "" where there is none. */
void outrider__pg_connect_state(const PGconn *pg, char ret_state[6]);
/* "user@host:port/database", for messages. */
void outrider__pg_place(const PGconn *pg, char *ret_text, size_t size);

#endif
