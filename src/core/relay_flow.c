/* SPDX-License-Identifier: MIT */
/* Events on their way: into their lanes, to the sink, and to an outcome. */
#include "core/relay_internal.h"
#include "core/retry.h"
#include "base/failpoint.h"

#include <assert.h>
#include <stdlib.h>

static void ready_push(struct relay *r, struct event *e)
{
    e->stage = STAGE_READY;
    e->ready_next = NULL;
    e->ready_prev = r->ready_tail;
    if (r->ready_tail != NULL)
        r->ready_tail->ready_next = e;
    else
        r->ready_head = e;
    r->ready_tail = e;
}

static void ready_remove(struct relay *r, struct event *e)
{
    *(e->ready_prev != NULL ? &e->ready_prev->ready_next : &r->ready_head) = e->ready_next;
    *(e->ready_next != NULL ? &e->ready_next->ready_prev : &r->ready_tail) = e->ready_prev;
    e->ready_next = e->ready_prev = NULL;
}

static bool same_partition(const struct event *a, const struct event *b)
{
    return a->delivery.partition == b->delivery.partition &&
           bytes_eq(a->delivery.topic, b->delivery.topic);
}

/* Whether e may be offered while others of its lane, the last of them `last`,
 * are on their way. Contract: relay.h (2). */
static bool may_follow(const struct relay *r, const struct event *e, const struct event *last)
{
    return !e->is_doomed && r->sink != NULL && r->sink->lane_depth == 0 &&
           r->config.retry.on_dead == ON_DEAD_SKIP && last != NULL && !last->is_dead_letter &&
           same_partition(e, last);
}

/* Whether the lane, as far as this process knows and the database did not when
 * the event was read, has parked events before it. */
static bool lane_is_parked(const struct event *e)
{
    const struct lane *l = e->lane;
    if (l == NULL)
        return false;
    if (e->is_parked)
        return l->released == e->batch;
    return l->n_unsettled_parks > 0 || e->batch->fetch_no < l->parked_until;
}

void outrider__relay_tell(struct relay *r, struct event *e)
{
    e->stage = STAGE_DONE;
    e->batch->n_done++;
    r->stats.outcomes[e->outcome]++;
    bool is_delivered = e->outcome == OUTCOME_DELIVERED;
    for (struct relay_observer *o = r->observers; o != NULL; o = o->next)
        if (o->event != NULL && (!is_delivered || o->wants_delivered))
            o->event(o->ctx, r->now, e);
}

static void resolve(struct relay *r, struct event *e, enum outcome outcome)
{
    assert(e->stage != STAGE_DONE);
    if (e->stage == STAGE_READY)
        ready_remove(r, e);
    struct lane *l = e->lane;
    if (l != NULL) {
        bool offered = e->stage == STAGE_READY || e->stage == STAGE_IN_FLIGHT;
        l->n_outstanding -= offered;
        outrider__lane_remove(e);
        bool blocks = outcome == OUTCOME_PARKED || outcome == OUTCOME_QUEUED ||
                      (outcome == OUTCOME_DEAD && r->config.retry.on_dead == ON_DEAD_BLOCK);
        if (blocks && !e->is_parked) {
            e->blocks_lane = true;
            l->n_unsettled_parks++;
        }
        if (e->is_parked && (blocks || outcome == OUTCOME_RELEASED))
            l->released = e->batch;
    }
    e->outcome = outcome;
    outrider__relay_tell(r, e);
}

static void queue_behind(struct relay *r, struct event *e)
{
    resolve(r, e, e->is_parked ? OUTCOME_RELEASED : OUTCOME_QUEUED);
}

/* The lane stops: everything from e on that the sink does not hold queues.
 * What it does hold is decided when it comes back. */
static void lane_block(struct relay *r, struct event *e)
{
    for (struct event *next; e != NULL; e = next) {
        next = e->lane_next;
        if (e->stage != STAGE_IN_FLIGHT && !e->is_dead_letter && lane_is_parked(e))
            queue_behind(r, e);
    }
}

void outrider__relay_keep_failure(struct event *e, const struct outrider_error *why)
{
    if (why == NULL || why == e->failure)
        return;
    struct outrider_error *copy = outrider__arena_alloc(&e->batch->arena, sizeof *copy);
    if (copy != NULL) {
        *copy = *why;
        e->failure = copy;
    }
}

/* A sink that is away may come back as one that does. */
static bool wants_headers(const struct relay *r)
{
    return r->sink == NULL || r->sink->wants_headers;
}

bool outrider__relay_dead_letter(struct relay *r, struct event *e)
{
    struct outrider_error ignored;
    const char *topic = r->config.dead_letter.topic;
    if (topic == NULL || *topic == '\0' || e->is_dead_letter || e->failure == NULL)
        return false;
    if (outrider__router_dead_letter(r->router, e, topic, e->failure, wants_headers(r), &ignored) <
        0)
        return false;
    e->is_dead_letter = true;
    return true;
}

/* The event dies: the lane goes on behind it, or stops. */
static void resolve_dead(struct relay *r, struct event *e)
{
    struct event *behind = e->lane_next;
    resolve(r, e, OUTCOME_DEAD);
    if (e->lane != NULL && r->config.retry.on_dead == ON_DEAD_BLOCK)
        lane_block(r, behind);
}

static void lane_release(struct relay *r, struct lane *l)
{
    while (l->next_waiting != NULL) {
        struct event *e = l->next_waiting;
        if (e->stage != STAGE_WAITING) {
            l->next_waiting = e->lane_next;
            continue;
        }
        if (l->n_outstanding > 0 && !may_follow(r, e, e->lane_prev))
            return;
        if (e->is_doomed && !e->is_dead_letter && !outrider__relay_dead_letter(r, e)) {
            resolve_dead(r, e);
            continue;
        }
        l->next_waiting = e->lane_next;
        l->n_outstanding++;
        ready_push(r, e);
    }
}

/* resolve(), and what follows from it for the lane. */
static void finish(struct relay *r, struct event *e, enum outcome outcome)
{
    struct lane *l = e->lane;
    struct event *behind = e->lane_next;
    if (outcome == OUTCOME_DEAD)
        resolve_dead(r, e);
    else
        resolve(r, e, outcome);
    if (l == NULL)
        return;
    if (outcome == OUTCOME_PARKED)
        lane_block(r, behind);
    lane_release(r, l);
}

/* Offered to the sink and failed for good. */
static void die(struct relay *r, struct event *e, const struct outrider_error *why)
{
    outrider__relay_keep_failure(e, why);
    if (outrider__relay_dead_letter(r, e))
        ready_push(r, e);
    else
        finish(r, e, OUTCOME_DEAD);
}

/* Never to be offered: dies when the lane has come to it. */
static void doom(struct relay *r, struct event *e, const struct outrider_error *why)
{
    outrider__relay_keep_failure(e, why);
    if (e->lane == NULL) {
        die(r, e, why);
        return;
    }
    e->is_doomed = true;
    lane_release(r, e->lane);
}

static void fail_attempt(struct relay *r, struct event *e, const struct outrider_error *why)
{
    e->attempts++;
    if (r->config.replay || e->attempts >= (uint32_t)r->config.retry.max_attempts) {
        die(r, e, why);
        return;
    }
    outrider__relay_keep_failure(e, why);
    e->next_attempt_us =
        r->now.wall_us + outrider__retry_delay_us(&r->config, e->attempts, relay_random01(r));
    finish(r, e, OUTCOME_PARKED);
}

bool outrider__relay_is_expired(const struct relay *r, const struct event *e)
{
    return (e->expires_at_us != 0 && e->expires_at_us <= r->now.wall_us) ||
           (e->claim_ends_us != 0 && e->claim_ends_us <= r->now.mono_us);
}

int outrider__relay_route(struct relay *r, struct event *e, struct outrider_error *err)
{
    return outrider__router_route(r->router, e, wants_headers(r), err);
}

static void fail_oversize(const struct relay *r, const struct event *e, struct outrider_error *err)
{
    const char *column = e->large_column != NULL ? e->large_column : "payload";
    if (strcmp(column, "payload") == 0)
        outrider__fail(
            err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
            "payload of %zu bytes is above max_payload (%lld): keep the data elsewhere "
            "and send a reference, or raise source.max_payload and retry the dead letter",
            e->payload_len, (long long)r->config.source.max_payload);
    else if (strcmp(column, "headers") == 0)
        outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                       "headers of %zu bytes are above max_headers (%lld): put the data into the "
                       "payload, or raise source.max_headers and retry the dead letter",
                       e->large_len, (long long)r->config.source.max_headers);
    else
        outrider__fail(
            err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
            "%s of %zu bytes is above %d, the most that it may have: shorten it where the "
            "dead letter is kept (outrider_parked, or the outbox's row), then retry that",
            column, e->large_len, OUTRIDER_TEXT_MAX);
}

int outrider__relay_prepare(struct relay *r, struct event *e, struct outrider_error *err)
{
    if (e->is_malformed)
        return 1;
    if (e->is_oversize) {
        fail_oversize(r, e, err);
    } else {
        if (outrider__relay_route(r, e, err) == 0)
            return 0;
        if (err->disposition == OUTRIDER_RETRY)
            return -1;
        e->attempts++;
    }
    outrider__relay_keep_failure(e, err);
    return 1;
}

/* -1 only for want of memory, which is not the event's fault. */
static int admit_event(struct relay *r, struct event *e, struct outrider_error *err)
{
    if (outrider__relay_is_expired(r, e)) {
        resolve(r, e, OUTCOME_EXPIRED);
        return 0;
    }
    if (!e->is_malformed && !outrider__router_selects(r->router, e)) {
        resolve(r, e, OUTCOME_SKIPPED);
        return 0;
    }
    if (r->config.ordered) {
        e->lane = outrider__lane_get(&r->lanes, event_key(e));
        outrider__lane_append(e->lane, e);
        if (!r->config.replay && ((!e->is_parked && e->is_blocked) || lane_is_parked(e))) {
            queue_behind(r, e);
            return 0;
        }
    }
    int rc = outrider__relay_prepare(r, e, err);
    if (rc < 0)
        return -1;
    if (rc > 0) {
        doom(r, e, e->failure);
    } else if (e->lane == NULL) {
        ready_push(r, e);
    } else {
        lane_release(r, e->lane);
    }
    return 0;
}

int outrider__relay_admit(struct relay *r, struct batch *b, struct outrider_error *err)
{
    r->stats.fetched += b->is_parked ? 0 : b->n;
    r->stats.retries += b->is_parked ? b->n : 0;
    if (relay_is_exact(r))
        return outrider__relay_exact_admit(r, b, err);
    for (size_t i = 0; i < b->n; i++) {
        relay_draw(r);
        if (admit_event(r, &b->events[i], err) < 0)
            return -1;
    }
    return 0;
}

#define SUBMIT_AT_ONCE 128 /* then the source may draw */

bool outrider__relay_submit(struct relay *r)
{
    struct delivery *offer[SUBMIT_AT_ONCE];
    bool progress = false;
    if (r->sink == NULL || r->is_final || (r->is_down && !r->is_probing))
        return false;
    while (r->ready_head != NULL) {
        size_t n = 0;
        for (struct event *e = r->ready_head, *next; e != NULL && n < SUBMIT_AT_ONCE; e = next) {
            next = e->ready_next;
            if (outrider__relay_is_expired(r, e) && !e->is_dead_letter)
                finish(r, e, OUTCOME_EXPIRED);
            else
                offer[n++] = &e->delivery;
        }
        if (n == 0)
            continue;
        size_t taken = r->sink->ops->submit(r->sink, offer, n, r->now);
        for (size_t i = 0; i < taken; i++) {
            struct event *e = event_of(offer[i]);
            relay_draw(r);
            ready_remove(r, e);
            e->stage = STAGE_IN_FLIGHT;
            e->submitted_us = r->now.mono_us;
            e->is_cancelled = false;
            e->batch->n_in_flight++;
        }
        r->stats.in_flight += taken;
        r->needs_flush |= taken > 0;
        progress |= taken > 0;
        r->is_sink_full = taken < n;
        if (taken < n)
            break;
    }
    return progress;
}

/* Back into its lane (or the unordered heap of a batch), to be offered again. */
static void put_back(struct relay *r, struct event *e)
{
    struct lane *l = e->lane;
    e->stage = STAGE_WAITING;
    if (l == NULL)
        return;
    l->n_outstanding--;
    if (!e->is_dead_letter && lane_is_parked(e)) {
        struct event *behind = e->lane_next;
        queue_behind(r, e);
        lane_block(r, behind);
        return;
    }
    /* What is ready behind it must not overtake it. */
    for (struct event *f = e->lane_next; f != NULL; f = f->lane_next) {
        if (f->stage != STAGE_READY)
            continue;
        ready_remove(r, f);
        f->stage = STAGE_WAITING;
        l->n_outstanding--;
    }
    l->next_waiting = l->head;
}

static void take_back_ready(struct relay *r)
{
    while (r->ready_head != NULL) {
        struct event *e = r->ready_head;
        ready_remove(r, e);
        put_back(r, e);
    }
}

void outrider__relay_sink_down(struct relay *r, const struct outrider_error *why)
{
    bool was_down = r->is_down, was_told = was_down || r->is_stalled;
    if (was_down && !r->is_probing && r->now.mono_us < r->sink_retry_us)
        return; /* one more of the same outage */
    r->is_down = true;
    r->is_probing = false;
    r->down_error = *why;
    r->sink_retry_us = r->now.mono_us + outrider__backoff_us(r->sink_failures, relay_random01(r));
    r->sink_failures++;
    take_back_ready(r);
    if (!was_told)
        relay_note(r, NOTE_SINK_DOWN, 0, why);
}

void outrider__relay_sink_up(struct relay *r)
{
    if (r->is_down || r->is_stalled)
        relay_note(r, NOTE_SINK_UP, 0, NULL);
    r->is_down = r->is_stalled = r->is_probing = false;
    r->sink_failures = 0;
}

void outrider__relay_reported(void *ctx, struct delivery *d, enum sink_result result,
                              const struct outrider_error *why)
{
    struct relay *r = ctx;
    struct event *e = event_of(d);
    assert(e->stage == STAGE_IN_FLIGHT);
    struct outrider_error refused;
    int errno_value = result == SINK_DELIVERED ? FAILPOINT("relay.delivered") : 0;
    if (errno_value != 0) { /* a receiver that takes an event and then refuses it */
        (void)outrider__fail_errno(&refused, errno_value, "cannot deliver");
        result = SINK_RETRY;
        why = &refused;
    }
    relay_draw(r);
    e->batch->n_in_flight--;
    r->stats.in_flight--;
    /* What was on its way before the outage does not end it: only what was
     * offered since tells that the receiver is back. */
    bool answered = result == SINK_DELIVERED || result == SINK_RETRY || result == SINK_DEAD;
    if (answered && (r->is_down ? r->is_probing : r->is_stalled))
        outrider__relay_sink_up(r);
    else if (result == SINK_DOWN)
        outrider__relay_sink_down(r, why);
    if (e->batch->state == BATCH_VOID) {
        e->stage = STAGE_DONE;
        return;
    }
    if (relay_is_exact(r)) {
        outrider__relay_exact_settled(r, e, result, why);
        return;
    }
    if (result == SINK_DELIVERED) {
        finish(r, e, e->is_dead_letter ? OUTCOME_DEAD : OUTCOME_DELIVERED);
    } else if (result == SINK_DOWN) {
        put_back(r, e);
    } else if (result == SINK_UNTRIED) {
        put_back(r, e);
        /* Also where it queues now: what is behind it in its lane may go on. */
        if (!(r->is_down && !r->is_probing)) {
            if (e->lane != NULL)
                lane_release(r, e->lane);
            else
                ready_push(r, e);
        }
    } else if (result == SINK_STOP) {
        relay_fail(r, why);
        put_back(r, e);
    } else if (e->is_dead_letter) {
        finish(r, e, OUTCOME_DEAD); /* it is dead already; why it cannot be told is not its story */
    } else if (result == SINK_RETRY) {
        fail_attempt(r, e, why);
    } else {
        e->attempts++;
        die(r, e, why);
    }
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
                put_back(r, e);
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
        /* Whoever is active needs the sink for itself: a lock, a producer's name. */
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
            /* Whoever did it may be the leader now: the lock of the pipeline knows. */
            outrider__relay_source_drop(r, &err);
        else if (err.disposition == OUTRIDER_RETRY)
            outrider__relay_sink_drop(r, &err);
        else
            relay_fail(r, &err);
        return false;
    }
    return r->stats.in_flight != before || r->sink->is_busy != was_busy;
}

/* Ends an outage's pause: offers everything again, in order. */
static void probe_sink(struct relay *r)
{
    r->is_probing = true;
    for (size_t i = 0; i <= r->n_fifo && !relay_is_exact(r); i++) {
        struct batch *b = i < r->n_fifo ? r->fifo[i] : &r->batches[0];
        if (b->state != BATCH_LIVE)
            continue;
        for (size_t k = 0; k < b->n; k++) {
            struct event *e = &b->events[k];
            if (e->stage != STAGE_WAITING)
                continue;
            if (e->lane != NULL)
                lane_release(r, e->lane);
            else
                ready_push(r, e);
        }
    }
}

/* An outage in which the sink keeps what it has. */
static void sink_stalls(struct relay *r, const struct outrider_error *why)
{
    r->is_stalled = true;
    r->down_error = *why;
    relay_note(r, NOTE_SINK_DOWN, 0, why);
}

static void check_timeouts(struct relay *r)
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
    if (is_claim_late) { /* it would go on trying when the event is somebody else's */
        outrider__fail(&err, OUTRIDER_TIMEOUT, OUTRIDER_RETRY,
                       "no answer within send_timeout; opening the sink anew");
        outrider__relay_sink_drop(r, &err);
    } else if (!r->is_down && !r->is_stalled) {
        outrider__fail(&err, OUTRIDER_TIMEOUT, OUTRIDER_RETRY,
                       "no answer within send_timeout; still waiting");
        sink_stalls(r, &err);
    }
}

/* A sink that holds on to what it was given, and knows what is in the way. */
static void check_trouble(struct relay *r)
{
    struct outrider_error err;
    if (r->sink == NULL || r->sink->trouble[0] == '\0' ||
        (r->stats.in_flight == 0 && !r->sink->is_busy) || r->is_down || r->is_stalled)
        return;
    outrider__fail(&err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY, "%s", r->sink->trouble);
    sink_stalls(r, &err);
}

bool outrider__relay_sink_check(struct relay *r)
{
    bool probes = r->is_down && !r->is_probing && r->sink != NULL && r->stats.in_flight == 0 &&
                  r->now.mono_us >= r->sink_retry_us;
    if (probes)
        probe_sink(r);
    check_trouble(r);
    if (r->stats.in_flight == 0)
        r->timeout_check_us = CLOCK_NEVER;
    else if (r->timeout_check_us == CLOCK_NEVER || r->now.mono_us >= r->timeout_check_us)
        check_timeouts(r);
    return probes;
}
