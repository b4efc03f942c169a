/* SPDX-License-Identifier: MIT */
/*
 * Runs one relay on the calling thread: step, then wait with poll(2) for the
 * source, the sink, a stop descriptor and the next deadline.
 */
#ifndef RUN_DRIVER_H
#define RUN_DRIVER_H

#include "core/relay.h"

struct driver {
    struct relay *relay;
    int control_fd; /* an eventfd: readable when stop or reload was asked for */
    /* Called on the relay's thread when control_fd was readable. May be NULL. */
    void (*control)(void *ctx, struct relay *relay, struct instant now);
    /* Called on the relay's thread after each step: figures are consistent then. May be NULL. */
    void (*stepped)(void *ctx, const struct relay *relay);
    void *ctx;
};

/* Returns when the relay is done (0) or failed (-1, reason in err). */
int outrider__driver_run(struct driver *d, struct outrider_error *err);

#endif
