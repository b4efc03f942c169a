/* SPDX-License-Identifier: MIT */
#include "run/engine.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "run/driver.h"

void outrider__engine_wake(struct engine *e)
{
    const uint64_t one = 1;
    while (write(e->control_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static bool engine_has_ended(enum outrider_relay_state s)
{
    return s == OUTRIDER_RELAY_STOPPED || s == OUTRIDER_RELAY_FAILED;
}

static void engine_set_state(struct engine *e, enum outrider_relay_state state)
{
    pthread_mutex_lock(&e->mutex);
    if (e->state != OUTRIDER_RELAY_STOPPING || engine_has_ended(state))
        e->state = state;
    pthread_mutex_unlock(&e->mutex);
}

static void engine_on_note(void *ctx, struct instant now, enum relay_note note, uint64_t count,
                           const struct outrider_error *why)
{
    struct engine *e = ctx;
    (void)now;
    (void)count;
    (void)why;
    if (note == NOTE_SOURCE_CONNECTED)
        engine_set_state(e, OUTRIDER_RELAY_ACTIVE);
    else if (note == NOTE_SOURCE_LOST || note == NOTE_STANDBY)
        engine_set_state(e, OUTRIDER_RELAY_STARTING);
    else if (note == NOTE_STOPPING)
        engine_set_state(e, OUTRIDER_RELAY_STOPPING);
}

static void engine_on_stepped(void *ctx, const struct relay *relay)
{
    struct engine *e = ctx;
    pthread_mutex_lock(&e->mutex);
    e->stats = *outrider__relay_stats(relay);
    pthread_mutex_unlock(&e->mutex);
}

static void engine_on_control(void *ctx, struct relay *relay, struct instant now)
{
    struct engine *e = ctx;
    pthread_mutex_lock(&e->mutex);
    bool must_stop = e->must_stop;
    pthread_mutex_unlock(&e->mutex);
    if (e->hooks.woken != NULL)
        e->hooks.woken(e->hooks.ctx, relay);
    if (must_stop)
        outrider__relay_stop(relay, now);
}

static void *run(void *ctx)
{
    struct engine *e = ctx;
    struct outrider_error err = {0};
    struct driver d = {.relay = e->relay,
                       .control_fd = e->control_fd,
                       .control = engine_on_control,
                       .stepped = engine_on_stepped,
                       .ctx = e};
    /* start() lets go of it when the state is set, which is ours from then on. */
    pthread_mutex_lock(&e->mutex);
    pthread_mutex_unlock(&e->mutex);
    int r = outrider__driver_run(&d, &err);
    pthread_mutex_lock(&e->mutex);
    e->err = err;
    e->state = r < 0 ? OUTRIDER_RELAY_FAILED : OUTRIDER_RELAY_STOPPED;
    pthread_cond_broadcast(&e->ended);
    pthread_mutex_unlock(&e->mutex);
    if (e->hooks.ended != NULL)
        e->hooks.ended(e->hooks.ctx);
    return NULL;
}

int outrider__engine_init(struct engine *e, struct outrider_error *err)
{
    pthread_condattr_t attr;
    *e = (struct engine){.control_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    int errno_value = errno;
    pthread_mutex_init(&e->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->ended, &attr);
    pthread_condattr_destroy(&attr);
    if (e->control_fd < 0)
        return outrider__fail_errno(err, errno_value, "cannot make an event descriptor");
    return 0;
}

/* A thread begins with the signals of the one that makes it. */
static int engine_start_thread(struct engine *e)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&e->thread, NULL, run, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

int outrider__engine_prepare(struct engine *e, const struct relay_setup *setup,
                             const struct engine_hooks *hooks, struct outrider_error *err)
{
    struct relay_setup inner = *setup;
    e->observer =
        (struct relay_observer){.next = setup->observers, .ctx = e, .note = engine_on_note};
    inner.observers = &e->observer;
    e->hooks = hooks != NULL ? *hooks : (struct engine_hooks){0};
    outrider__relay_free(e->relay);
    e->relay = NULL;
    return outrider__relay_new(&inner, &e->relay, err);
}

int outrider__engine_start(struct engine *e, struct outrider_error *err)
{
    pthread_mutex_lock(&e->mutex);
    int r = engine_start_thread(e);
    e->is_started = r == 0;
    if (e->is_started)
        e->state = e->must_stop ? OUTRIDER_RELAY_STOPPING : OUTRIDER_RELAY_STARTING;
    pthread_mutex_unlock(&e->mutex);
    return r == 0 ? 0 : outrider__fail_errno(err, r, "cannot start a thread for a pipeline");
}

void outrider__engine_stop(struct engine *e)
{
    pthread_mutex_lock(&e->mutex);
    e->must_stop = true;
    if (e->state == OUTRIDER_RELAY_STARTING || e->state == OUTRIDER_RELAY_ACTIVE)
        e->state = OUTRIDER_RELAY_STOPPING;
    pthread_mutex_unlock(&e->mutex);
    outrider__engine_wake(e);
}

static struct timespec engine_deadline_of(int64_t timeout_ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += timeout_ms / 1000;
    t.tv_nsec += timeout_ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static int engine_result_locked(const struct engine *e, struct outrider_error *err)
{
    if (e->state == OUTRIDER_RELAY_STOPPED)
        return 0;
    if (e->state == OUTRIDER_RELAY_NEW)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "the relay was not started");
    if (e->state != OUTRIDER_RELAY_FAILED)
        return outrider__fail(err, OUTRIDER_TIMEOUT, OUTRIDER_RETRY, "the relay still runs");
    if (err != NULL)
        *err = e->err;
    return -1;
}

int outrider__engine_wait(struct engine *e, int64_t timeout_ms, struct outrider_error *err)
{
    struct timespec deadline = engine_deadline_of(timeout_ms < 0 ? 0 : timeout_ms);
    int waited = 0;
    pthread_mutex_lock(&e->mutex);
    if (e->is_started && pthread_equal(e->thread, pthread_self())) {
        pthread_mutex_unlock(&e->mutex);
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "a callback of the relay cannot wait for its end");
    }
    while (e->state != OUTRIDER_RELAY_NEW && !engine_has_ended(e->state) && waited != ETIMEDOUT)
        waited = timeout_ms < 0 ? pthread_cond_wait(&e->ended, &e->mutex)
                                : pthread_cond_timedwait(&e->ended, &e->mutex, &deadline);
    int r = engine_result_locked(e, err);
    pthread_mutex_unlock(&e->mutex);
    return r;
}

enum outrider_relay_state outrider__engine_state(struct engine *e)
{
    pthread_mutex_lock(&e->mutex);
    enum outrider_relay_state s = e->state;
    pthread_mutex_unlock(&e->mutex);
    return s;
}

struct relay_stats outrider__engine_stats(struct engine *e)
{
    pthread_mutex_lock(&e->mutex);
    struct relay_stats s = e->stats;
    pthread_mutex_unlock(&e->mutex);
    return s;
}

void outrider__engine_release(struct engine *e)
{
    if (e->is_started) {
        outrider__engine_stop(e);
        pthread_join(e->thread, NULL);
    }
    outrider__relay_free(e->relay);
    if (e->control_fd >= 0)
        close(e->control_fd);
    pthread_cond_destroy(&e->ended);
    pthread_mutex_destroy(&e->mutex);
}
