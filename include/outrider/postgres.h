/* SPDX-License-Identifier: MIT */
/*
 * Events on an application's own PostgreSQL connection.
 *
 * Nothing here begins, commits or rolls back: the event lives and dies with
 * the transaction that the application has open.
 */
#ifndef OUTRIDER_POSTGRES_H
#define OUTRIDER_POSTGRES_H

#include <libpq-fe.h>

#include "outrider/error.h"
#include "outrider/event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allow a call outside a transaction: the event is then committed by itself. */
#ifndef OUTRIDER_ENQUEUE_AUTOCOMMIT
#define OUTRIDER_ENQUEUE_AUTOCOMMIT 1u
#endif

/*
 * Insert one event into the table "outbox" that the connection's search path
 * finds, inside the caller's open transaction (an error without one, unless
 * flags allow it, and in one that has failed already). Blocks for one round
 * trip; the connection must not be in pipeline mode or have a query under way.
 * ret_id, if not NULL, receives the event's id as text.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_enqueue_pg(PGconn *conn, const struct outrider_event *event, unsigned flags,
                    char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err);

#ifdef __cplusplus
}
#endif
#endif
