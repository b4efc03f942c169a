/* SPDX-License-Identifier: MIT */
/*
 * Events on an application's own SQLite connection.
 *
 * Nothing here begins, commits or rolls back: the event lives and dies with
 * the transaction that the application has open.
 */
#ifndef OUTRIDER_SQLITE_H
#define OUTRIDER_SQLITE_H

#include <sqlite3.h>

#include "outrider/error.h"
#include "outrider/event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allow a call outside a transaction: the event is then committed by itself. */
#define OUTRIDER_ENQUEUE_AUTOCOMMIT 1u

/*
 * Make the outbox and its companions in the database where they are missing,
 * and bring an older schema up to date. Safe to call at every start. Must be
 * called outside a transaction.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_init_sqlite(sqlite3 *db, struct outrider_error *err);

/*
 * Insert one event into the table "outbox" of the connection's main database,
 * inside the caller's open transaction (an error without one, unless flags
 * allow it). ret_id, if not NULL, receives the event's id as text.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_enqueue_sqlite(sqlite3 *db, const struct outrider_event *event, unsigned flags,
                        char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err);

#ifdef __cplusplus
}
#endif
#endif
