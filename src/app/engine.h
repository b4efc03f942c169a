/* SPDX-License-Identifier: MIT */
/*
 * A relay engine on a thread of its own, inside somebody's process.
 *
 *  (1) The thread has every signal blocked: the application's handlers never
 *      run on it.
 *  (2) Everything but the engine's own thread reads, under the mutex, copies
 *      that are made between two steps.
 *  (3) stop() is legal in any state, also before start(): the thread then ends
 *      as soon as it begins.
 */
#ifndef APP_ENGINE_H
#define APP_ENGINE_H

#include <pthread.h>

#include "core/relay.h"
#include "outrider/relay.h"

struct engine {
    struct relay *relay;
    int control_fd;
    struct relay_observer outer; /* told after the engine has taken note */

    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t ended;
    pthread_t thread;
    bool is_started; /* the thread is to be joined */
    bool must_stop;
    enum outrider_relay_state state;
    struct relay_stats stats;
    struct outrider_error err; /* why it failed */
};

int outrider__engine_init(struct engine *e, struct outrider_error *err);
/* setup.observer is the outer one; config, and what it points at, outlive the engine. */
int outrider__engine_start(struct engine *e, const struct relay_setup *setup,
                           struct outrider_error *err);
void outrider__engine_stop(struct engine *e);
int outrider__engine_wait(struct engine *e, int64_t timeout_ms, struct outrider_error *err);
enum outrider_relay_state outrider__engine_state(struct engine *e);
struct relay_stats outrider__engine_stats(struct engine *e);
/* Stops and joins. */
void outrider__engine_release(struct engine *e);

#endif
