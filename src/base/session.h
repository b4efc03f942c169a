/* SPDX-License-Identifier: MIT */
/* outrider/session.h, the half that no database knows: phases, callbacks, the events that wait. */
#ifndef BASE_SESSION_H
#define BASE_SESSION_H

#include "base/error.h"
#include "outrider/session.h"

/* What a database does for a session. */
struct session_ops {
    const char *database; /* the scheme of its URLs */
    int (*begin)(void *conn, struct outrider_error *err);
    /* Whether the transaction that begin() opened can still commit; if not,
     * *ret_how says what became of it once it is rolled back. */
    int (*check)(void *conn, enum outrider_completion *ret_how, struct outrider_error *err);
    int (*insert)(void *conn, const struct outrider_event *events, size_t n,
                  struct outrider_error *err);
    /* err is set unless it is COMMITTED. The transaction is over in any case. */
    enum outrider_completion (*commit)(void *conn, struct outrider_error *err);
    int (*rollback)(void *conn, struct outrider_error *err);
};

/* Who inserts the events in place of the database's insert(), and is told how it
 * ended before any after_ callback is. */
struct session_inserter {
    void *ctx;
    int (*insert)(void *ctx, void *conn, const struct outrider_event *events, size_t n,
                  struct outrider_error *err);
    void (*ended)(void *ctx, enum outrider_completion how);
    void (*release)(void *ctx); /* the session is freed */
};

int outrider__session_new(void *conn, const struct session_ops *ops, size_t max_payload,
                          struct outrider_session **ret_session, struct outrider_error *err);
/* The connection of a session that an inserter may be given to: between two transactions,
 * and without an inserter so far. NULL with err: none may. *ret_ops is its database. */
void *outrider__session_lend(struct outrider_session *s, const struct session_ops **ret_ops,
                             struct outrider_error *err);
void outrider__session_insert_by(struct outrider_session *s,
                                 const struct session_inserter *inserter);

#endif
