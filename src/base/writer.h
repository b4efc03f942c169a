/* SPDX-License-Identifier: MIT */
/*
 * What the writers of all databases share: checking, ids, and the array's walk.
 *
 *  (1) Events are checked before the database hears of any of them, so that
 *      what can be refused beforehand costs no transaction.
 *  (2) insert() gets events that passed, n >= 1, and as many ids; it inserts
 *      all of them in their order, or none.
 *  (3) ret_ids are written only when everything is in.
 */
#ifndef BASE_WRITER_H
#define BASE_WRITER_H

#include "base/event_check.h"
#include "base/strbuf.h"
#include "base/uuid.h"
#include "outrider/writer.h"

typedef char writer_id[OUTRIDER_ID_SIZE];

struct writer_ops {
    size_t max_payload;
    /* Whether the connection can take events now: an open transaction, mostly. */
    int (*check)(struct outrider_writer *w, unsigned flags, struct outrider_error *err);
    int (*insert)(struct outrider_writer *w, const struct outrider_event *events, size_t n,
                  const writer_id *ids, struct outrider_error *err);
    void (*free)(struct outrider_writer *w);
};

struct outrider_writer {
    const struct writer_ops *ops;
    struct strbuf ids;
    struct uuid_pool pool; /* a connection, too, belongs to one process */
};

void outrider__writer_init(struct outrider_writer *w, const struct writer_ops *ops);
void outrider__writer_release(struct outrider_writer *w);

/* The i-th element of an array whose elements may be smaller or larger than ours. */
static inline struct outrider_event writer_event_at(const struct outrider_event *events, size_t i)
{
    return event_grown((const struct outrider_event *)((const char *)events + i * events->size));
}

/* "event: x" becomes "event 3: x". */
void outrider__writer_blame(struct outrider_error *err, size_t i);

/* An empty topic or key means "none", as it does in JSON that leaves it out. */
static inline const char *writer_or_null(const char *s)
{
    return s != NULL && *s != '\0' ? s : NULL;
}

#endif
