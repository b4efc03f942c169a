/* SPDX-License-Identifier: MIT */
/*
 * Events and the inbox on an application's own PostgreSQL connection.
 *
 * Nothing here begins, commits or rolls back: what is written lives and dies
 * with the transaction that the application has open. Every call blocks for its
 * round trips; the connection must not be in pipeline mode or have a query
 * under way. Tables are found by the connection's search path.
 */
#ifndef OUTRIDER_POSTGRES_H
#define OUTRIDER_POSTGRES_H

#include <libpq-fe.h>

#include "outrider/error.h"
#include "outrider/event.h"
#include "outrider/inbox.h"
#include "outrider/writer.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Insert one event into the table "outbox", inside the caller's open
 * transaction (an error without one, unless flags allow it, and in one that
 * has failed already). ret_id, if not NULL, receives the event's id as text.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_enqueue_pg(PGconn *conn, const struct outrider_event *event, unsigned flags,
                    char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err);

/* Insert n events at once, as outrider_writer_put_many() does. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_enqueue_many_pg(PGconn *conn,
                                                              const struct outrider_event *events,
                                                              size_t n, unsigned flags,
                                                              char (*ret_ids)[OUTRIDER_ID_SIZE],
                                                              struct outrider_error *err);

/* Flag of outrider_writer_new_pg: prepare nothing on the server, for poolers
 * that do not carry prepared statements over. */
#define OUTRIDER_WRITER_UNPREPARED 1u

/*
 * A writer for this connection. Nothing is sent yet: the first event prepares
 * the statement, whose name starts with "outrider_", and outrider_writer_free
 * removes it again where the connection allows it.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_writer_new_pg(PGconn *conn, unsigned flags,
                                                            struct outrider_writer **ret_writer,
                                                            struct outrider_error *err);

/* Make the table outrider_inbox in the first schema of the search path, where
 * it is missing; the same as `outrider init --inbox`. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_init_pg(PGconn *conn,
                                                            struct outrider_error *err);

/* First-insert: mark the event as handled by this transaction, and say whether
 * it was new. Waits for the transaction of a concurrent duplicate to end. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_pg(PGconn *conn, const char *consumer,
                                                       const char *event_id,
                                                       struct outrider_error *err);

/* Check-then-mark: whether the event's mark is committed (or this transaction's). */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_check_pg(PGconn *conn, const char *consumer,
                                                             const char *event_id,
                                                             struct outrider_error *err);

/* Check-then-mark: mark the event. OUTRIDER_DUPLICATE if it is marked already;
 * the transaction has then failed, so that it cannot be committed by mistake. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_mark_pg(PGconn *conn, const char *consumer,
                                                            const char *event_id,
                                                            struct outrider_error *err);

/*
 * Forget at most `limit` events that were marked before the given time
 * (microseconds since 1970), of one consumer or, if it is NULL, of all; call it
 * again while it removes `limit`. Keep ids for longer than the broker keeps
 * messages: what is forgotten and delivered again is new.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_inbox_cleanup_pg(PGconn *conn, const char *consumer,
                                                               int64_t before_us, size_t limit,
                                                               size_t *ret_removed,
                                                               struct outrider_error *err);

#ifdef __cplusplus
}
#endif
#endif
