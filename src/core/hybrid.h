/* SPDX-License-Identifier: MIT */
/*
 * The seam to a database for hybrid publishing (outrider/hybrid.h). A process claims
 * events in the transaction that inserts them, publishes them after the commit, and marks
 * their rows. src/app has the queue, the publisher and the phases of a session; a
 * database has two parts.
 *
 * The *claimer* of a session works on the application's own connection, in the
 * before-commit phase, and may wait for the database:
 *
 *  (1) look() locks the lane of each event until the end of the transaction, in the same
 *      order in every process, and looks afterwards, in a younger snapshot, for events of
 *      these lanes that are not settled. A look in the statement that locks would see
 *      nothing of a writer for whose lock it waited.
 *  (2) look() says that the transaction does not suit where a claim could reorder a lane
 *      or publish what is not durable: another isolation level, commits that do not wait
 *      for the disk, a relay of the outbox that reads a stream or publishes exactly once,
 *      an outbox that is not the publisher's.
 *  (3) insert() writes all events. A row whose event is claimed names the owner and a
 *      lease, counted from a moment that is not before the call; relays leave such a row
 *      alone until the lease has run out.
 *
 * The *marker* works on the publisher's connection and never waits:
 *
 *  (4) mark() changes only rows that are still claimed by the owner. DELIVERED and SKIPPED
 *      become published, or are removed where source.after_publish says so. PARKED becomes
 *      failed with its next attempt. Everything else becomes what it would be without the
 *      claim. Then marked() is called, once, from poll().
 *  (5) After an error of poll() or mark() only close() is legal. The leases of what was not
 *      marked run out.
 *  (6) Marks need not be on disk when marked() is called: a mark that a crash undoes makes
 *      a duplicate, as a crash just before it would have.
 */
#ifndef CORE_HYBRID_H
#define CORE_HYBRID_H

#include "core/source.h"
#include "outrider/event.h"

#define HYBRID_PLACE_SIZE 128

struct pollfd;

/* The beginning of a database's own struct, which is zero but for this. */
struct hybrid_claimer {
    /* Set by src/app. */
    const struct pipeline_config *config;
    const char *owner;
    /* Set by learn(). */
    bool is_known; /* the outbox was there, and was looked at */
    bool suits;    /* the outbox has room for claims */
};

struct hybrid_marker {
    /* Set by src/app. */
    const struct pipeline_config *config;
    const char *owner;
    void (*marked)(void *ctx, struct source_op *op);
    void *marked_ctx;
    /* Set by the database. */
    bool is_up;                    /* rows can be marked */
    char place[HYBRID_PLACE_SIZE]; /* which outbox that is; empty: none */
    int64_t wake_us;               /* monotonic: call poll() at the latest then */
};

struct hybrid_ops {
    size_t claimer_size, marker_size;
    /* What the database cannot do for this configuration. */
    int (*check)(const struct pipeline_config *config, struct outrider_error *err);

    /* Looks at the outbox. Where there is none, the next commit calls learn() again. */
    int (*learn)(struct hybrid_claimer *c, void *conn, struct outrider_error *err);
    /* Fails where a relay publishes the outbox exactly once. */
    int (*refuse_exact)(struct hybrid_claimer *c, void *conn, struct outrider_error *err);
    /* ret_free[i]: the lane of event i has nothing that is not settled. place is the
     * marker's. */
    int (*look)(struct hybrid_claimer *c, void *conn, const struct outrider_event *events, size_t n,
                const char *place, bool *ret_free, bool *ret_suits, struct outrider_error *err);
    /* *ret_created_us is created_at of all rows, so that the publisher's message and the
     * relay's say the same. */
    int (*insert)(struct hybrid_claimer *c, void *conn, const struct outrider_event *events,
                  size_t n, const bool *claims, int64_t *ret_created_us,
                  struct outrider_error *err);
    void (*release)(struct hybrid_claimer *c);

    int (*open)(struct hybrid_marker *m, struct instant now, struct outrider_error *err);
    /* A SETTLE whose events all have an outcome. */
    int (*mark)(struct hybrid_marker *m, struct source_op *op, struct outrider_error *err);
    int (*poll)(struct hybrid_marker *m, struct instant now, struct outrider_error *err);
    int (*fds)(struct hybrid_marker *m, struct pollfd *ret_fds, int max);
    void (*close)(struct hybrid_marker *m);
};

#endif
