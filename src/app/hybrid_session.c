/* SPDX-License-Identifier: MIT */
/*
 * A session that is attached to a publisher: in the before-commit phase its events go into
 * the outbox, claimed by this process where core/hybrid.h allows that.
 *
 *  (1) What is claimed has a slot in the publisher's queue. Of a transaction all that
 *      could be claimed is claimed, or nothing: never an event whose predecessor in the
 *      lane was left to the relay.
 *  (2) The lease is counted from before the insert, so it ends here no later than in the
 *      row.
 */
#include <stdlib.h>

#include "app/hybrid.h"
#include "base/session.h"
#include "run/modules.h"

struct hybrid_session {
    struct outrider_hybrid *hybrid;
    const struct session_ops *plain; /* inserts what is left to the relay */
    const struct hybrid_ops *ops;
    struct hybrid_claimer *claimer;
    struct hybrid_list claimed; /* of the transaction that is open */
    struct hybrid_tally tally;
    size_t n_reserved, n_bytes;
};

/* Remembers what is claimed until the transaction has ended. */
static int session_remember(struct hybrid_session *s, const struct outrider_event *events, size_t n,
                            const bool *claims, struct outrider_error *err)
{
    int64_t ends = outrider__clock_now().mono_us + s->hybrid->config.hybrid.lease_us / 2;
    for (size_t i = 0; i < n; i++) {
        if (!claims[i])
            continue;
        struct hybrid_event **at = s->claimed.last;
        if (outrider__hybrid_list_add(&s->claimed, &events[i], err) < 0)
            return -1;
        (*at)->claim_ends_us = ends;
    }
    return 0;
}

/* All events of a lane in the transaction get the same answer, free or not. So what is
 * claimed of a lane is a beginning of the lane: (1). */
static void session_reserve(struct hybrid_session *s, const struct outrider_event *events, size_t n,
                            bool *claims)
{
    struct outrider_hybrid *h = s->hybrid;
    size_t n_free = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        n_free += claims[i];
        bytes += claims[i] ? outrider__hybrid_event_size(&events[i]) : 0;
    }
    s->tally.busy += n - n_free;
    if (n_free > 0 && outrider__hybrid_reserve(&h->queue, n_free, bytes)) {
        s->n_reserved = n_free;
        s->n_bytes = bytes;
        s->tally.claimed += n_free;
        return;
    }
    s->tally.full += n_free;
    memset(claims, 0, n * sizeof *claims);
}

static int session_insert_claimed(struct hybrid_session *s, void *conn,
                                  const struct outrider_event *events, size_t n, const char *place,
                                  struct outrider_error *err)
{
    bool suits = false;
    int64_t created_us = 0;
    bool *claims = calloc(n, sizeof *claims);
    if (claims == NULL)
        return outrider__fail_nomem(err);
    int r = s->ops->look(s->claimer, conn, events, n, place, claims, &suits, err);
    if (r == 0 && suits)
        session_reserve(s, events, n, claims);
    else if (r == 0)
        s->tally.unsuitable += n;
    if (r == 0)
        r = session_remember(s, events, n, claims, err);
    if (r == 0)
        r = s->ops->insert(s->claimer, conn, events, n, claims, &created_us, err);
    for (struct hybrid_event *e = s->claimed.first; r == 0 && e != NULL; e = e->next)
        e->created_us = created_us;
    free(claims);
    return r;
}

/* The relay makes a dead letter of an event that is above a bound. The other events of the
 * transaction are left to the relay too: (1). */
static bool session_all_fit(const struct hybrid_session *s, const struct outrider_event *events,
                            size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (outrider__event_fits(&s->hybrid->config, &events[i], NULL) < 0)
            return false;
    return true;
}

static int session_on_insert(void *ctx, void *conn, const struct outrider_event *events, size_t n,
                             struct outrider_error *err)
{
    struct hybrid_session *s = ctx;
    char place[HYBRID_PLACE_SIZE];
    if (!s->claimer->is_known && s->ops->learn(s->claimer, conn, err) < 0)
        return -1;
    bool suits = s->claimer->suits && session_all_fit(s, events, n);
    if (suits && outrider__hybrid_is_open(&s->hybrid->queue, place))
        return session_insert_claimed(s, conn, events, n, place, err);
    *(suits ? &s->tally.full : &s->tally.unsuitable) += n;
    return s->plain->insert(conn, events, n, err);
}

static void session_on_ended(void *ctx, enum outrider_completion how)
{
    struct hybrid_session *s = ctx;
    if (how == OUTRIDER_COMMITTED) {
        outrider__hybrid_push(&s->hybrid->queue, &s->claimed, &s->tally);
    } else {
        outrider__hybrid_list_clear(&s->claimed);
        outrider__hybrid_unreserve(&s->hybrid->queue, s->n_reserved, s->n_bytes);
    }
    s->n_reserved = s->n_bytes = 0;
    s->tally = (struct hybrid_tally){0};
}

static void session_on_release(void *ctx)
{
    struct hybrid_session *s = ctx;
    if (s->claimer != NULL)
        s->ops->release(s->claimer);
    free(s->claimer);
    outrider__hybrid_unref(s->hybrid);
    free(s);
}

int outrider__hybrid_attach(struct outrider_hybrid *h, struct outrider_session *session,
                            struct outrider_error *err)
{
    const struct session_ops *plain;
    const struct hybrid_ops *ops;
    void *conn = outrider__session_lend(session, &plain, err);
    if (conn == NULL || outrider__hybrid_find(plain->database, &ops, err) < 0)
        return -1;
    struct hybrid_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return outrider__fail_nomem(err);
    *s = (struct hybrid_session){
        .hybrid = h, .plain = plain, .ops = ops, .claimer = calloc(1, ops->claimer_size)};
    atomic_fetch_add(&h->n_refs, 1);
    outrider__hybrid_list_init(&s->claimed);
    if (s->claimer != NULL) {
        s->claimer->config = &h->config;
        s->claimer->owner = h->owner;
    }
    /* An error is better found now than at the first commit. */
    int r = s->claimer != NULL ? 0 : outrider__fail_nomem(err);
    if (r < 0 || ops->learn(s->claimer, conn, err) < 0 ||
        ops->refuse_exact(s->claimer, conn, err) < 0) {
        session_on_release(s);
        return -1;
    }
    struct session_inserter inserter = {.ctx = s,
                                        .insert = session_on_insert,
                                        .ended = session_on_ended,
                                        .release = session_on_release};
    outrider__session_insert_by(session, &inserter);
    return 0;
}
