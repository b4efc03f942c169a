/* SPDX-License-Identifier: MIT */
/* The sink: opening and losing it, its health, its outages and its timeouts. */
#include "core/relay_internal.h"
#include "core/retry.h"

#include <stdlib.h>

void outrider__relay_sink_down(struct relay *r, const struct outrider_error *why)
{
    bool was_told = relay_sink_in_outage(r);
    if (relay_sink_is_paused(r) && r->now.mono_us < r->sink_retry_us)
        return; /* one more report of the same outage */
    r->health = HEALTH_PAUSED;
    r->down_error = *why;
    r->sink_retry_us = r->now.mono_us + outrider__backoff_us(r->sink_failures, relay_random01(r));
    r->sink_failures++;
    outrider__relay_take_back_ready(r);
    if (!was_told)
        relay_note(r, NOTE_SINK_DOWN, 0, why);
}

void outrider__relay_sink_up(struct relay *r)
{
    if (relay_sink_in_outage(r))
        relay_note(r, NOTE_SINK_UP, 0, NULL);
    r->health = HEALTH_UP;
    r->sink_failures = 0;
}

void outrider__relay_sink_drop(struct relay *r, const struct outrider_error *why)
{
    if (r->sink != NULL) {
        r->sink->ops->close(r->sink);
        free(r->sink);
        r->sink = NULL;
    }
    for (int i = 0; i < RELAY_BATCHES; i++) {
        struct batch *b = &r->batches[i];
        for (size_t k = 0; k < b->n; k++) {
            struct event *e = &b->events[k];
            if (e->stage != STAGE_IN_FLIGHT)
                continue;
            b->n_in_flight--;
            r->stats.in_flight--;
            if (b->state == BATCH_VOID)
                e->stage = STAGE_DONE;
            else if (relay_is_exact(r))
                e->stage = STAGE_WAITING;
            else
                outrider__relay_put_back(r, e);
        }
    }
    if (relay_is_exact(r))
        outrider__relay_exact_sink_lost(r);
    if (why != NULL)
        outrider__relay_sink_down(r, why);
}

void outrider__relay_sink_connect(struct relay *r)
{
    struct outrider_error err;
    if (!relay_is_active(r)) {
        /* The active relay needs the sink for itself: a lock, a producer's name. */
        if (r->sink != NULL && r->now.mono_us >= r->inactive_since_us + SINK_GRACE_US)
            outrider__relay_sink_drop(r, NULL);
        return;
    }
    if (r->sink != NULL || r->failed || r->now.mono_us < r->sink_retry_us)
        return;
    struct sink *s = calloc(1, r->sink_ops->size);
    if (s == NULL)
        return;
    s->ops = r->sink_ops;
    s->reported = outrider__relay_reported;
    s->reported_ctx = r;
    s->wake_us = CLOCK_NEVER;
    s->identity = relay_is_exact(r) ? r->source->identity : NULL;
    if (s->ops->open(s, &r->config, r->now, &err) < 0) {
        s->ops->close(s);
        free(s);
        if (err.disposition == OUTRIDER_RETRY)
            outrider__relay_sink_down(r, &err);
        else
            relay_fail(r, &err);
        return;
    }
    r->sink = s;
}

bool outrider__relay_sink_poll(struct relay *r)
{
    struct outrider_error err;
    if (r->sink == NULL)
        return false;
    size_t before = r->stats.in_flight;
    bool was_busy = r->sink->is_busy;
    if (r->sink->ops->poll(r->sink, r->now, &err) < 0) {
        if (err.code == OUTRIDER_FENCED && relay_is_exact(r) && r->source != NULL)
            /* Another relay fenced us. Reopen the source: its lock decides who leads. */
            outrider__relay_source_drop(r, &err);
        else if (err.disposition == OUTRIDER_RETRY)
            outrider__relay_sink_drop(r, &err);
        else
            relay_fail(r, &err);
        return false;
    }
    return r->stats.in_flight != before || r->sink->is_busy != was_busy;
}

/* The pause is over: offers everything again, in order. */
static void sink_probe(struct relay *r)
{
    r->health = HEALTH_PROBING;
    for (size_t i = 0; i <= r->n_fifo && !relay_is_exact(r); i++) {
        struct batch *b = i < r->n_fifo ? r->fifo[i] : &r->batches[0];
        if (b->state != BATCH_LIVE)
            continue;
        for (size_t k = 0; k < b->n; k++) {
            struct event *e = &b->events[k];
            if (e->stage == STAGE_WAITING)
                outrider__relay_offer_again(r, e);
        }
    }
}

/* An outage in which the sink keeps what it has, so nothing can be offered again. */
static void sink_stall(struct relay *r, const struct outrider_error *why)
{
    r->health = HEALTH_STALLED;
    r->down_error = *why;
    relay_note(r, NOTE_SINK_DOWN, 0, why);
}

static void sink_check_timeouts(struct relay *r)
{
    int64_t timeout = r->config.sink.send_timeout_us;
    r->timeout_check_us = CLOCK_NEVER;
    if (timeout <= 0 || r->sink == NULL)
        return;
    bool late = false, is_claim_late = false;
    for (int i = 0; i < RELAY_BATCHES; i++) {
        struct batch *b = &r->batches[i];
        for (size_t k = 0; b->n_in_flight > 0 && k < b->n; k++) {
            struct event *e = &b->events[k];
            if (e->stage != STAGE_IN_FLIGHT || e->is_cancelled)
                continue;
            int64_t deadline = e->submitted_us + timeout;
            if (deadline > r->now.mono_us) {
                if (deadline < r->timeout_check_us)
                    r->timeout_check_us = deadline;
                continue;
            }
            late = true;
            is_claim_late |= e->claim_ends_us != 0;
            e->is_cancelled = true;
            if (r->sink->ops->cancel != NULL)
                r->sink->ops->cancel(r->sink, &e->delivery);
        }
    }
    if (!late || r->sink->ops->cancel != NULL)
        return;
    struct outrider_error err;
    if (is_claim_late) { /* the sink would go on trying when another process owns the event */
        outrider__fail(&err, OUTRIDER_TIMEOUT, OUTRIDER_RETRY,
                       "no answer within send_timeout; opening the sink anew");
        outrider__relay_sink_drop(r, &err);
    } else if (!relay_sink_in_outage(r)) {
        outrider__fail(&err, OUTRIDER_TIMEOUT, OUTRIDER_RETRY,
                       "no answer within send_timeout; still waiting");
        sink_stall(r, &err);
    }
}

/* A sink that keeps what it has may know the reason: its `trouble`. */
static void sink_check_trouble(struct relay *r)
{
    struct outrider_error err;
    if (r->sink == NULL || r->sink->trouble[0] == '\0' ||
        (r->stats.in_flight == 0 && !r->sink->is_busy) || relay_sink_in_outage(r))
        return;
    outrider__fail(&err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY, "%s", r->sink->trouble);
    sink_stall(r, &err);
}

bool outrider__relay_sink_check(struct relay *r)
{
    bool probes = relay_sink_is_paused(r) && r->sink != NULL && r->stats.in_flight == 0 &&
                  r->now.mono_us >= r->sink_retry_us;
    if (probes)
        sink_probe(r);
    sink_check_trouble(r);
    if (r->stats.in_flight == 0)
        r->timeout_check_us = CLOCK_NEVER;
    else if (r->timeout_check_us == CLOCK_NEVER || r->now.mono_us >= r->timeout_check_us)
        sink_check_timeouts(r);
    return probes;
}
