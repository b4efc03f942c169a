/* SPDX-License-Identifier: MIT */
/* The publisher of outrider/hybrid.h: hybrid.c (its life), hybrid_source.c (what
 * its engine reads and settles), hybrid_session.c (a session's side). */
#ifndef APP_HYBRID_H
#define APP_HYBRID_H

#include <stdatomic.h>

#include "app/hybrid_queue.h"
#include "app/observe.h"
#include "outrider/hybrid.h"
#include "run/engine.h"

struct outrider_hybrid {
    struct arena arena;
    struct pipeline_config config;
    struct engine engine;
    struct hybrid_queue queue;
    const struct hybrid_ops *ops; /* of the database; set by start() */
    char owner[160];              /* in locked_by; never begins like a relay's ("pipeline@") */
    struct outrider_relay_observer observer; /* the application's */
    struct relay_observer told;              /* passes on to that one */
    atomic_int n_refs;                       /* the application's, and one per session */
};

void outrider__hybrid_unref(struct outrider_hybrid *h);

/* hybrid_source.c: config.source_data is the struct outrider_hybrid. */
extern const struct source_ops outrider__hybrid_source;

/* hybrid_session.c */
int outrider__hybrid_attach(struct outrider_hybrid *h, struct outrider_session *session,
                            struct outrider_error *err);

#endif
