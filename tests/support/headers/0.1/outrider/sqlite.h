/* SPDX-License-Identifier: MIT */
/*
 * Events and the inbox on an application's own SQLite connection.
 *
 * Nothing here begins, commits or rolls back: what is written lives and dies
 * with the transaction that the application has open. Tables are those of the
 * connection's main database.
 */
#ifndef OUTRIDER_SQLITE_H
#define OUTRIDER_SQLITE_H

#include <sqlite3.h>

#include "outrider/error.h"
#include "outrider/event.h"
#include "outrider/inbox.h"
#include "outrider/writer.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Make the outbox and its companions in the database where they are missing,
 * and bring an older schema up to date. Safe to call at every start. Must be
 * called outside a transaction.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_init_sqlite(sqlite3 *db, struct outrider_error *err);

/*
 * Insert one event into the table "outbox", inside the caller's open
 * transaction (an error without one, unless flags allow it). A refused event
 * leaves the transaction as it was. ret_id, if not NULL, receives the event's
 * id as text.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_enqueue_sqlite(sqlite3 *db, const struct outrider_event *event, unsigned flags,
                        char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err);

/* Insert n events at once, as outrider_writer_put_many() does. */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_enqueue_many_sqlite(sqlite3 *db, const struct outrider_event *events, size_t n,
                             unsigned flags, char (*ret_ids)[OUTRIDER_ID_SIZE],
                             struct outrider_error *err);

/* A writer for this connection. Free it first: sqlite3_close() refuses to close
 * a connection that still has statements. flags must be 0. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_writer_new_sqlite(sqlite3 *db, unsigned flags,
                                                                struct outrider_writer **ret_writer,
                                                                struct outrider_error *err);

/* Make the table outrider_inbox where it is missing; the same as
 * `outrider init --inbox`. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_init_sqlite(sqlite3 *db,
                                                                struct outrider_error *err);

/* First-insert: mark the event as handled by this transaction, and say whether
 * it was new. SQLite has one writer at a time: a concurrent duplicate waits for
 * the busy timeout, or fails with OUTRIDER_DB_LOCKED. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_sqlite(sqlite3 *db, const char *consumer,
                                                           const char *event_id,
                                                           struct outrider_error *err);

/* Check-then-mark: whether the event's mark is committed (or this transaction's). */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_check_sqlite(sqlite3 *db, const char *consumer,
                                                                 const char *event_id,
                                                                 struct outrider_error *err);

/* Check-then-mark: mark the event. OUTRIDER_DUPLICATE if it is marked already:
 * roll back then. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_mark_sqlite(sqlite3 *db, const char *consumer,
                                                                const char *event_id,
                                                                struct outrider_error *err);

/*
 * Forget at most `limit` events that were marked before the given time
 * (microseconds since 1970), of one consumer or, if it is NULL, of all; call it
 * again while it removes `limit`. Keep ids for longer than the broker keeps
 * messages: what is forgotten and delivered again is new.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_inbox_cleanup_sqlite(sqlite3 *db, const char *consumer, int64_t before_us, size_t limit,
                              size_t *ret_removed, struct outrider_error *err);

#ifdef __cplusplus
}
#endif
#endif
