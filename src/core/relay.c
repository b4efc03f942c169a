/* SPDX-License-Identifier: MIT */
/* The life of a pipeline: stepping, stopping, and when to wake up. */
#include "core/options.h"
#include "core/relay_internal.h"
#include "core/retry.h"
#include "base/failpoint.h"

#include <poll.h>
#include <stdlib.h>

#define FINAL_SETTLE_US 2000000 /* how long a stop waits for its last settle */
#define REST_US 2000000         /* and then for the source's rest: source.h (9) */
#define ROUNDS_PER_STEP 64

int outrider__relay_check(const struct pipeline_config *config, const struct source_ops *source,
                          const struct sink_ops *sink, struct outrider_error *err)
{
    if (!config->exactly_once)
        return 0;
    if (sink->seal == NULL || sink->commit == NULL || sink->abort == NULL)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "exactly_once needs a sink that has transactions, and %s: has none; "
                              "choose a sink that has them, or leave exactly_once out and let "
                              "readers tell duplicates by the event's id",
                              sink->scheme);
    if (!source->keeps_intents)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "exactly_once needs a source that can keep what is about to be "
                              "committed, and %s: cannot; leave exactly_once out",
                              source->scheme);
    return 0;
}

int outrider__relay_new(const struct relay_setup *setup, struct relay **ret_relay,
                        struct outrider_error *err)
{
    if (outrider__relay_check(setup->config, setup->source_ops, setup->sink_ops, err) < 0)
        return -1;
    struct relay *r = calloc(1, sizeof *r);
    if (r == NULL)
        return outrider__fail_nomem(err);
    r->config = *setup->config;
    r->source_ops = setup->source_ops;
    r->sink_ops = setup->sink_ops;
    r->observers = setup->observers;
    r->random = setup->seed * 0x9e3779b97f4a7c15ULL + 0x2545f4914f6cdd1dULL;
    r->timeout_check_us = CLOCK_NEVER;
    r->started_us = -1;
    outrider__relay_exact_init(r);
    size_t times = relay_is_exact(r) ? EXACT_BATCH : 1;
    size_t n_batches = relay_n_batches(r);
    size_t capacity = (size_t)r->config.source.batch * times;
    int rc = outrider__router_new(&r->config, &r->router, err);
    for (size_t i = 0; rc == 0 && i < n_batches; i++)
        rc = outrider__batch_init(&r->batches[i], capacity,
                                  (size_t)r->config.source.batch_bytes * times, err);
    if (rc == 0)
        rc = outrider__lanes_init(&r->lanes, capacity * n_batches, err);
    if (rc < 0) {
        outrider__relay_free(r);
        return -1;
    }
    *ret_relay = r;
    return 0;
}

void outrider__relay_free(struct relay *r)
{
    if (r == NULL)
        return;
    if (r->sink != NULL) {
        r->sink->ops->close(r->sink);
        free(r->sink);
    }
    if (r->source != NULL) {
        r->source->ops->close(r->source);
        free(r->source);
    }
    for (int i = 0; i < RELAY_BATCHES; i++)
        outrider__batch_release(&r->batches[i]);
    outrider__lanes_release(&r->lanes);
    outrider__router_free(r->router);
    free(r);
}

void outrider__relay_stop(struct relay *r, struct instant now)
{
    if (r->stopping)
        return;
    r->stopping = true;
    r->now = now;
    r->stop_us = now.mono_us + r->config.shutdown_timeout_us;
    relay_note(r, NOTE_STOPPING, 0, NULL);
}

int outrider__relay_reload(struct relay *r, const struct pipeline_config *config,
                           struct outrider_error *err)
{
    struct pipeline_config next = r->config;
    struct router *router;
    outrider__config_reload(&next, config);
    if (outrider__router_new(&next, &router, err) < 0)
        return -1;
    outrider__router_free(r->router);
    r->router = router;
    r->config = next;
    r->cleanup_us = 0;
    return 0;
}

static bool relay_has_batches(const struct relay *r)
{
    for (int i = 0; i < RELAY_BATCHES; i++)
        if (r->batches[i].state != BATCH_FREE)
            return true;
    return false;
}

/* Whether the source needs no more time before it is closed: source.h (9). */
static bool relay_has_rested(struct relay *r)
{
    if (r->source == NULL || !r->source->active || !r->source->wants_rest)
        return true;
    if (!r->source->is_ending) {
        r->source->is_ending = true;
        r->rest_us = r->now.mono_us + REST_US;
        r->needs_step = true;
    }
    return r->now.mono_us >= r->rest_us;
}

/* --once: the source did not become active within connect_timeout. */
static void relay_fail_inactive(struct relay *r)
{
    struct outrider_error err;
    if (r->source != NULL && r->source->waiting_for[0] != '\0')
        outrider__fail(&err, OUTRIDER_STANDBY, OUTRIDER_STOP,
                       "another relay is active on pipeline '%s' (%s)", r->config.name,
                       r->source->waiting_for);
    else if (r->source == NULL && r->source_failures > 0)
        err = r->source_error;
    else
        outrider__fail(&err, OUTRIDER_CONNECT, OUTRIDER_STOP,
                       "source did not answer within connect_timeout");
    relay_fail(r, &err);
}

/* Whether anything waits for an answer of the sink that does not come. */
static bool relay_sink_is_away(const struct relay *r)
{
    switch (r->health) {
    case HEALTH_STALLED:
    case HEALTH_PAUSED:
        return true;
    case HEALTH_PROBING:
        if (relay_has_batches(r))
            return true;
        break;
    case HEALTH_UP:
        break;
    }
    return r->exact.state == EXACT_WAITING;
}

/* --once: the sink is away, which is a failure after connect_timeout. */
static void relay_wait_for_sink(struct relay *r)
{
    if (r->down_error.code == OUTRIDER_OK)
        outrider__fail(&r->down_error, OUTRIDER_CONNECT, OUTRIDER_STOP,
                       "sink did not answer within connect_timeout");
    if (r->down_since_us == 0)
        r->down_since_us = r->now.mono_us;
    else if (r->now.mono_us - r->down_since_us >= r->config.source.connect_timeout_us)
        relay_fail(r, &r->down_error);
}

/* --once: whether all that was committed before the mark is settled. */
static bool relay_has_finished(struct relay *r)
{
    return r->mark_started && !r->mark_busy && r->source->mark_reached && r->once_parked_done &&
           !relay_has_batches(r) && relay_has_rested(r);
}

/* --once gives up when it cannot reach the source or the sink; a daemon waits for ever. */
static void relay_check_once(struct relay *r)
{
    if (!r->config.once || r->failed || r->stopping)
        return;
    if (!relay_is_active(r)) {
        if (r->now.mono_us - r->inactive_since_us >= r->config.source.connect_timeout_us)
            relay_fail_inactive(r);
    } else if (relay_sink_is_away(r)) {
        relay_wait_for_sink(r);
    } else {
        r->down_since_us = 0;
        if (relay_has_finished(r))
            r->state = RELAY_DONE;
    }
}

/* Whether a stop gains nothing by waiting for the sink: in an outage, and after a
 * failure, nothing more is delivered. */
static bool relay_wait_is_hopeless(const struct relay *r)
{
    if (r->failed || r->health == HEALTH_STALLED)
        return true;
    return relay_sink_in_outage(r) && r->stats.in_flight == 0;
}

/* Whether nothing is left that a stop would have to settle. */
static bool relay_is_idle(const struct relay *r)
{
    if (!relay_is_active(r))
        return true;
    return relay_is_exact(r) ? outrider__relay_exact_is_idle(r) : !relay_has_batches(r);
}

/* Whether a stop, or the end after a failure, is complete. */
static void relay_check_stop(struct relay *r)
{
    if (!r->stopping && !r->failed)
        return;
    bool is_idle = relay_is_idle(r);
    if (!r->is_final && !is_idle && (relay_wait_is_hopeless(r) || r->now.mono_us >= r->stop_us)) {
        outrider__relay_settle_final(r);
        r->stop_us = r->now.mono_us + FINAL_SETTLE_US;
    }
    bool is_late = r->now.mono_us >= r->stop_us;
    if (r->is_final && (r->n_ops == 0 || is_late))
        is_idle = true;
    if (is_idle && (r->failed || is_late || relay_has_rested(r))) {
        r->state = r->failed ? RELAY_FAILED : RELAY_DONE;
        relay_note(r, NOTE_STOPPED, 0, r->failed ? &r->error : NULL);
    }
}

static int64_t relay_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When parked rows are due, if they could be fetched then. */
static int64_t relay_wake_of_parked(const struct relay *r)
{
    if (r->source->parked_due_us == CLOCK_NEVER || r->batches[0].state != BATCH_FREE ||
        relay_sink_is_paused(r) || (relay_is_exact(r) && !outrider__relay_exact_may_fetch(r)))
        return CLOCK_NEVER;
    int64_t due = r->now.mono_us + (r->source->parked_due_us - r->now.wall_us);
    return due > r->parked_not_before_us ? due : r->parked_not_before_us;
}

static int64_t relay_wake_of_cleanup(const struct relay *r)
{
    return r->config.cleanup.retention_us > 0 && !r->cleanup_busy ? r->cleanup_us : CLOCK_NEVER;
}

/* Waits only for what can be done when its time comes: a deadline that has passed and
 * changes nothing would keep the caller from ever sleeping. */
static int64_t relay_wake_of_source(const struct relay *r)
{
    bool is_ending = r->stopping || r->failed;
    if (r->source == NULL) /* void batches wait for the sink */
        return is_ending || outrider__relay_has_void(r) ? CLOCK_NEVER : r->source_retry_us;
    int64_t at = r->source->wake_us;
    int64_t begin_us = r->started_us + r->config.source.initial_delay_us;
    if (!r->source->active || is_ending || (relay_is_exact(r) && !r->exact.is_ready))
        return at;
    if (r->now.mono_us < begin_us)
        return relay_earlier(at, begin_us);
    if (r->config.once)
        return at;
    return relay_earlier(at, relay_earlier(relay_wake_of_parked(r), relay_wake_of_cleanup(r)));
}

static int64_t relay_wake(const struct relay *r)
{
    int64_t at = relay_wake_of_source(r);
    if (r->sink != NULL)
        at = relay_earlier(at, r->sink->wake_us);
    if (r->sink != NULL && !relay_is_active(r))
        at = relay_earlier(at, r->inactive_since_us + SINK_GRACE_US);
    if (relay_sink_is_paused(r) && !r->failed && r->stats.in_flight == 0 && relay_is_active(r))
        at = relay_earlier(at, r->sink_retry_us);
    at = relay_earlier(at, r->timeout_check_us);
    if (relay_is_exact(r))
        at = relay_earlier(at, outrider__relay_exact_wake(r));
    if (r->stopping || r->failed)
        at = relay_earlier(at, r->stop_us);
    if (r->source != NULL && r->source->is_ending)
        at = relay_earlier(at, r->rest_us);
    if (r->config.once)
        at = relay_earlier(at, r->now.mono_us + 100000);
    return at;
}

enum relay_state outrider__relay_step(struct relay *r, struct instant now, int64_t *ret_wake_us,
                                      struct outrider_error *err)
{
    r->now = now;
    if (r->started_us < 0)
        r->started_us = r->inactive_since_us = now.mono_us;
    bool progress = r->state == RELAY_RUNNING;
    for (int round = 0; progress && round < ROUNDS_PER_STEP && !r->failed; round++) {
        outrider__relay_sink_connect(r);
        outrider__relay_void_collect(r);
        outrider__relay_source_connect(r);
        /* In this order a batch that the sink acknowledges at once is settled at once,
         * and the next batch is read into memory that is still in the cache. */
        progress = relay_is_exact(r) ? outrider__relay_exact_step(r) : outrider__relay_submit(r);
        progress |= outrider__relay_sink_poll(r);
        progress |= outrider__relay_sink_check(r);
        progress |= outrider__relay_start_settles(r);
        progress |= outrider__relay_source_poll(r);
        progress |= outrider__relay_source_start(r);
        if (!progress && r->needs_flush && r->sink != NULL) {
            r->needs_flush = false;
            r->sink->ops->flush(r->sink, now);
        }
    }
    if (r->state == RELAY_RUNNING && (r->failed || r->is_final))
        (void)outrider__relay_source_poll(r);
    if (r->state == RELAY_RUNNING) {
        relay_check_once(r);
        relay_check_stop(r);
    }
    if (r->state == RELAY_FAILED && err != NULL)
        *err = r->error;
    *ret_wake_us = progress || r->needs_step ? now.mono_us : relay_wake(r);
    r->needs_step = false;
    return r->state;
}

int outrider__relay_fds(struct relay *r, struct pollfd *ret_fds, int max)
{
    int n = 0;
    if (r->source != NULL && r->source->ops->fds != NULL)
        n += r->source->ops->fds(r->source, ret_fds, max);
    if (r->sink != NULL && r->sink->ops->fds != NULL)
        n += r->sink->ops->fds(r->sink, ret_fds + n, max - n);
    return n;
}

const struct relay_stats *outrider__relay_stats(const struct relay *r)
{
    return &r->stats;
}

const struct source *outrider__relay_source(const struct relay *r)
{
    return r->source;
}

const struct sink *outrider__relay_sink(const struct relay *r)
{
    return r->sink;
}
