/* SPDX-License-Identifier: MIT */
/*
 * A writer: the handle of one connection for many events.
 *
 * It keeps the prepared statement and the buffers that the one-shot calls
 * (outrider_enqueue_pg, outrider_enqueue_sqlite) make anew each time. It comes
 * from outrider_writer_new_pg() or outrider_writer_new_sqlite(), belongs to the
 * connection it was made for, and is used by one thread at a time and in one
 * process, like it (after a fork the child makes a connection and a writer of its
 * own). Free it before the connection is closed.
 *
 * Nothing here begins, commits or rolls back: events live and die with the
 * transaction that the application has open on that connection.
 */
#ifndef OUTRIDER_WRITER_H
#define OUTRIDER_WRITER_H

#include "outrider/error.h"
#include "outrider/event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct outrider_writer;

/* Flag of every call that inserts events (0 is right nearly always): allow it
 * outside a transaction. The events are then committed by themselves. */
#define OUTRIDER_ENQUEUE_AUTOCOMMIT 1u

/*
 * Insert one event, inside the open transaction of the writer's connection (an
 * error without one, unless flags allow it). One round trip once the statement
 * is prepared, and no allocation once the buffers have grown. ret_id, if not
 * NULL, receives the event's id as text.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_writer_put(struct outrider_writer *w, const struct outrider_event *event, unsigned flags,
                    char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err);

/*
 * Insert n events in one round trip, in their order, all of them or none; n = 0
 * does nothing. The elements' size fields must be equal: they say how far apart
 * the elements lie. ret_ids, if not NULL, receives n ids in the events' order.
 * An error that is known to be about one of the events names its place in the
 * array, counted from 0.
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_writer_put_many(struct outrider_writer *w,
                                                              const struct outrider_event *events,
                                                              size_t n, unsigned flags,
                                                              char (*ret_ids)[OUTRIDER_ID_SIZE],
                                                              struct outrider_error *err);

/* Forget the connection, which stays open, and free the writer. NULL is allowed. */
OUTRIDER_API void outrider_writer_free(struct outrider_writer *w);

#ifdef __cplusplus
}
#endif
#endif
