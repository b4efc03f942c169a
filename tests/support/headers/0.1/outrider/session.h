/* SPDX-License-Identifier: MIT */
/*
 * Transactions with phases, on a connection that stays the application's own.
 *
 * A session adopts a connection: it begins, commits and rolls back when it is
 * told to, and calls back before the commit, after it, after a rollback, and
 * when either is over. Events that are enqueued wait in the session and are
 * inserted in the before-commit phase, as the last thing of the transaction: a
 * rollback has nothing to undo, and what an event holds locks on is held for
 * the shortest time.
 *
 *  (1) The connection is used for the application's statements as before. It is
 *      never closed here and must outlive the session; one session at a time.
 *  (2) Between begin and its end the application neither commits nor rolls back
 *      by other means. Savepoints are its own.
 *  (3) After a rollback, for whatever reason, nothing that was enqueued remains.
 *  (4) A session belongs to one thread at a time.
 */
#ifndef OUTRIDER_SESSION_H
#define OUTRIDER_SESSION_H

#include "outrider/error.h"
#include "outrider/event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct outrider_session;
struct pg_conn; /* libpq's PGconn */
struct sqlite3;

enum outrider_completion {
    OUTRIDER_COMMITTED,
    OUTRIDER_ROLLED_BACK,
    OUTRIDER_UNKNOWN /* the connection was lost while it committed, or others ended it */
};

/*
 * Every callback may be NULL. Callbacks may use the connection, but neither
 * begin, commit nor roll back, and must not free the session.
 */
struct outrider_session_callbacks {
    size_t size;
    void *ctx;
    /* The transaction is open; events may be enqueued. Nonzero: it is rolled back
     * and commit fails with what was put into err, which is never NULL. */
    int (*before_commit)(void *ctx, struct outrider_session *session, struct outrider_error *err);
    void (*after_commit)(void *ctx, struct outrider_session *session);
    void (*after_rollback)(void *ctx, struct outrider_session *session);
    /* Behind either of these, and the only one where nobody knows which it was. */
    void (*after_completion)(void *ctx, struct outrider_session *session,
                             enum outrider_completion how);
};

#define OUTRIDER_SESSION_CALLBACKS_INIT                                         \
    {                                                                           \
        sizeof(struct outrider_session_callbacks), NULL, NULL, NULL, NULL, NULL \
    }

/* A session on a connection (PGconn *, sqlite3 *) that has no transaction open. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_session_pg(struct pg_conn *conn,
                                                         struct outrider_session **ret_session,
                                                         struct outrider_error *err);
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_session_sqlite(struct sqlite3 *db,
                                                             struct outrider_session **ret_session,
                                                             struct outrider_error *err);

/* Be called back in every transaction from the next begin on; the struct is
 * copied. Several are called in the order in which they were added. */
OUTRIDER_API OUTRIDER_MUST_CHECK int
outrider_session_add(struct outrider_session *session,
                     const struct outrider_session_callbacks *callbacks,
                     struct outrider_error *err);

/* BEGIN (SQLite: BEGIN IMMEDIATE, because a session is there to write). */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_session_begin(struct outrider_session *session,
                                                            struct outrider_error *err);

/* Keep an event for the before-commit phase. It is copied and checked now; what
 * only the database can refuse fails the commit. ret_id as in outrider_enqueue_*. */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_session_enqueue(struct outrider_session *session,
                                                              const struct outrider_event *event,
                                                              char ret_id[OUTRIDER_ID_SIZE],
                                                              struct outrider_error *err);

/*
 * Call before_commit, insert the events, COMMIT, and call the rest. On failure
 * the transaction is over too: rolled back, or unknown (see the completion).
 */
OUTRIDER_API OUTRIDER_MUST_CHECK int outrider_session_commit(struct outrider_session *session,
                                                             struct outrider_error *err);

/* ROLLBACK. An error means that the connection is lost; the transaction is rolled
 * back even so. Without an open transaction: nothing to do. */
OUTRIDER_API int outrider_session_rollback(struct outrider_session *session,
                                           struct outrider_error *err);

/* Roll back what is open, give the session back. NULL is allowed. */
OUTRIDER_API void outrider_session_free(struct outrider_session *session);

#ifdef __cplusplus
}
#endif
#endif
