/* SPDX-License-Identifier: MIT */
/*
 * A relay on a thread of its own, in the program and in applications.
 *
 *  (1) The thread has every signal blocked: handlers of the process never run
 *      on the thread.
 *  (2) Everything but the engine's own thread reads, under the mutex, copies
 *      that are made between two steps.
 *  (3) stop() is legal in any state, also before start(): the thread then ends
 *      as soon as it begins.
 */
#ifndef RUN_ENGINE_H
#define RUN_ENGINE_H

#include <pthread.h>

#include "core/relay.h"
#include "outrider/relay.h"

/* Called on the engine's thread; each may be NULL. */
struct engine_hooks {
    void *ctx;
    /* outrider__engine_wake() was called, between two steps of the relay. */
    void (*woken)(void *ctx, struct relay *relay);
    /* The last call: state and result are final. */
    void (*ended)(void *ctx);
};

struct engine {
    struct relay *relay;
    int control_fd;
    struct engine_hooks hooks;
    struct relay_observer observer; /* the engine's own, before those of the setup */

    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t ended;
    pthread_t thread;
    bool is_started; /* the thread is to be joined */
    bool must_stop;
    enum outrider_relay_state state;
    struct relay_stats stats;
    struct outrider_error err; /* why it failed */
};

/* On failure too, release() is legal. */
int outrider__engine_init(struct engine *e, struct outrider_error *err);
/* Makes the relay. The configuration, and what it points at, outlive the engine.
 * Legal again until the engine is started. hooks may be NULL. */
int outrider__engine_prepare(struct engine *e, const struct relay_setup *setup,
                             const struct engine_hooks *hooks, struct outrider_error *err);
/* Starts the thread of an engine that is prepared; once. */
int outrider__engine_start(struct engine *e, struct outrider_error *err);
void outrider__engine_wake(struct engine *e);
void outrider__engine_stop(struct engine *e);
/* Until the relay has ended, or timeout_ms (negative: no limit) have passed. */
int outrider__engine_wait(struct engine *e, int64_t timeout_ms, struct outrider_error *err);
enum outrider_relay_state outrider__engine_state(struct engine *e);
struct relay_stats outrider__engine_stats(struct engine *e);
/* Stops and joins. */
void outrider__engine_release(struct engine *e);

#endif
