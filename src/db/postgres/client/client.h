/* SPDX-License-Identifier: MIT */
/* What the client library (outrider_enqueue_pg) and the adapters share. */
#ifndef POSTGRES_CLIENT_H
#define POSTGRES_CLIENT_H

#include <libpq-fe.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/writer.h"

#define PG_TYPE_JSONB 3802
#define PG_EVENT_ARGS 11
/* What one message to the server can hold. */
#define PG_MESSAGE_MAX 0x3fffffff

/*
 * client/error.c: from SQLSTATEs to our codes, in one table.
 *
 * What the server said, as one of our codes with its disposition; `what` says
 * what was being done ("cannot read the outbox"). res may be NULL: then the
 * connection itself failed. Returns -1. The text is the server's primary
 * message alone: its DETAIL may quote a payload.
 */
int outrider__pg_fail(struct outrider_error *err, const PGconn *pg, const PGresult *res,
                      const char *what);
/* What a relay's statement is for: after an error that decides how to go on. */
enum pg_purpose {
    PG_READS,   /* nothing is published yet; also whatever belongs to none of the others */
    PG_CLEANS,  /* removes old rows: nobody waits for it */
    PG_TRIES,   /* is prepared only, to know now whether a later one can succeed */
    PG_SETTLES, /* writes down what is published already */
};
/* The disposition of an error in such a statement; "" is a lost connection. Never DEAD. */
enum outrider_disposition outrider__pg_disposition(const char *state, enum pg_purpose purpose);
/* SQLSTATE of a failed connection attempt, which libpq tells in its text only
 * (verbosity must be PQERRORS_VERBOSE); "" where there is none. */
void outrider__pg_connect_state(const PGconn *pg, char ret_state[6]);
/* "user@host:port/database", for messages. */
void outrider__pg_place(const PGconn *pg, char *ret_text, size_t size);

/*
 * client/known.c: what is known of a connection, kept with it by libpq's own
 * means (instance data), because asking costs a round trip.
 */
struct pg_known {
    Oid payload;         /* type of outbox.payload; 0: not known */
    Oid payload_array;   /* the array of it */
    unsigned resets;     /* PQreset: prepared statements are gone */
    unsigned statements; /* names given out */
};

/* Asks for the type where it is not known. A table that is not there leaves it
 * unknown: the insert will say so. */
int outrider__pg_known(PGconn *conn, struct pg_known **ret_known, struct outrider_error *err);
/* What is kept, or NULL; asks nothing. */
struct pg_known *outrider__pg_known_kept(const PGconn *conn);

/*
 * client/check.c: whether a call may be made on the connection now. `what`
 * would be committed by itself outside a transaction ("the event").
 */
int outrider__pg_check_idle(const PGconn *conn, bool needs_transaction, const char *what,
                            struct outrider_error *err);

/*
 * client/array.c: events as one binary array for each column, in the order of
 * the insert's parameters.
 */
struct pg_arrays {
    const char *values[PG_EVENT_ARGS];
    int lengths[PG_EVENT_ARGS];
    Oid types[PG_EVENT_ARGS];
};

/* The bytes lie in buf, which is cleared first, until it is touched again. */
int outrider__pg_arrays(struct strbuf *buf, const struct pg_known *known,
                        const struct outrider_event *events, size_t n, const writer_id *ids,
                        struct pg_arrays *ret_arrays, struct outrider_error *err);

#endif
