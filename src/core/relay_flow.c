/* SPDX-License-Identifier: MIT */
/* Events on their way: into their lanes, to the sink, and to their outcomes. */
#include "core/relay_internal.h"
#include "core/retry.h"
#include "base/failpoint.h"

#include <assert.h>

static void flow_ready_push(struct relay *r, struct event *e)
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

static void flow_ready_remove(struct relay *r, struct event *e)
{
    *(e->ready_prev != NULL ? &e->ready_prev->ready_next : &r->ready_head) = e->ready_next;
    *(e->ready_next != NULL ? &e->ready_next->ready_prev : &r->ready_tail) = e->ready_prev;
    e->ready_next = e->ready_prev = NULL;
}

static bool flow_same_partition(const struct event *a, const struct event *b)
{
    return a->delivery.partition == b->delivery.partition &&
           bytes_eq(a->delivery.topic, b->delivery.topic);
}

/* Whether e may be offered while others of its lane, the last of them `last`,
 * are on their way. Contract: relay.h (2). */
static bool flow_may_follow(const struct relay *r, const struct event *e, const struct event *last)
{
    return !e->is_doomed && r->sink != NULL && r->sink->lane_depth == 0 &&
           r->config.retry.on_dead == ON_DEAD_SKIP && last != NULL && !last->is_dead_letter &&
           flow_same_partition(e, last);
}

/* Whether parked events of the lane stand before e. The database did not know them
 * when e was read; this process does. */
static bool flow_lane_is_parked(const struct event *e)
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

static void flow_resolve(struct relay *r, struct event *e, enum outcome outcome)
{
    assert(e->stage != STAGE_DONE);
    if (e->stage == STAGE_READY)
        flow_ready_remove(r, e);
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

static void flow_queue_behind(struct relay *r, struct event *e)
{
    flow_resolve(r, e, e->is_parked ? OUTCOME_RELEASED : OUTCOME_QUEUED);
}

/* The lane stops: every event from e on queues, unless the sink holds the event.
 * Events that the sink holds are decided when the sink reports them. */
static void flow_lane_block(struct relay *r, struct event *e)
{
    for (struct event *next; e != NULL; e = next) {
        next = e->lane_next;
        if (e->stage != STAGE_IN_FLIGHT && !e->is_dead_letter && flow_lane_is_parked(e))
            flow_queue_behind(r, e);
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

/* A sink that is not open may want headers once it is. */
static bool flow_wants_headers(const struct relay *r)
{
    return r->sink == NULL || r->sink->wants_headers;
}

bool outrider__relay_dead_letter(struct relay *r, struct event *e)
{
    struct outrider_error ignored;
    const char *topic = r->config.dead_letter.topic;
    if (topic == NULL || *topic == '\0' || e->is_dead_letter || e->failure == NULL)
        return false;
    if (outrider__router_dead_letter(r->router, e, topic, e->failure, flow_wants_headers(r),
                                     &ignored) < 0)
        return false;
    e->is_dead_letter = true;
    return true;
}

/* The event dies: the lane goes on behind it, or stops. */
static void flow_resolve_dead(struct relay *r, struct event *e)
{
    struct event *behind = e->lane_next;
    flow_resolve(r, e, OUTCOME_DEAD);
    if (e->lane != NULL && r->config.retry.on_dead == ON_DEAD_BLOCK)
        flow_lane_block(r, behind);
}

static void flow_lane_release(struct relay *r, struct lane *l)
{
    while (l->next_waiting != NULL) {
        struct event *e = l->next_waiting;
        if (e->stage != STAGE_WAITING) {
            l->next_waiting = e->lane_next;
            continue;
        }
        if (l->n_outstanding > 0 && !flow_may_follow(r, e, e->lane_prev))
            return;
        if (e->is_doomed && !e->is_dead_letter && !outrider__relay_dead_letter(r, e)) {
            flow_resolve_dead(r, e);
            continue;
        }
        l->next_waiting = e->lane_next;
        l->n_outstanding++;
        flow_ready_push(r, e);
    }
}

/* Gives the event its outcome, and lets the lane go on or stops it. */
static void flow_finish(struct relay *r, struct event *e, enum outcome outcome)
{
    struct lane *l = e->lane;
    struct event *behind = e->lane_next;
    if (outcome == OUTCOME_DEAD)
        flow_resolve_dead(r, e);
    else
        flow_resolve(r, e, outcome);
    if (l == NULL)
        return;
    if (outcome == OUTCOME_PARKED)
        flow_lane_block(r, behind);
    flow_lane_release(r, l);
}

/* The event was offered to the sink, and failed for good. */
static void flow_die(struct relay *r, struct event *e, const struct outrider_error *why)
{
    outrider__relay_keep_failure(e, why);
    if (outrider__relay_dead_letter(r, e))
        flow_ready_push(r, e);
    else
        flow_finish(r, e, OUTCOME_DEAD);
}

/* The event can never be offered. It dies when all events before it in its lane
 * have their outcomes, so that under on_dead: block it does not hold those up. */
static void flow_doom(struct relay *r, struct event *e, const struct outrider_error *why)
{
    outrider__relay_keep_failure(e, why);
    if (e->lane == NULL) {
        flow_die(r, e, why);
        return;
    }
    e->is_doomed = true;
    flow_lane_release(r, e->lane);
}

static void flow_fail_attempt(struct relay *r, struct event *e, const struct outrider_error *why)
{
    e->attempts++;
    if (e->attempts >= (uint32_t)r->config.retry.max_attempts) {
        flow_die(r, e, why);
        return;
    }
    outrider__relay_keep_failure(e, why);
    e->next_attempt_us =
        r->now.wall_us + outrider__retry_delay_us(&r->config, e->attempts, relay_random01(r));
    flow_finish(r, e, OUTCOME_PARKED);
}

bool outrider__relay_is_expired(const struct relay *r, const struct event *e)
{
    return (e->expires_at_us != 0 && e->expires_at_us <= r->now.wall_us) ||
           (e->claim_ends_us != 0 && e->claim_ends_us <= r->now.mono_us);
}

int outrider__relay_route(struct relay *r, struct event *e, struct outrider_error *err)
{
    return outrider__router_route(r->router, e, flow_wants_headers(r), err);
}

static void flow_fail_oversize(const struct relay *r, const struct event *e,
                               struct outrider_error *err)
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
        outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                       "%s of %zu bytes is above %d, the most that an event may have: shorten the "
                       "value in the "
                       "dead letter's row, then retry the dead letter",
                       column, e->large_len, OUTRIDER_TEXT_MAX);
}

int outrider__relay_prepare(struct relay *r, struct event *e, struct outrider_error *err)
{
    if (e->is_malformed)
        return 1;
    if (e->is_oversize) {
        flow_fail_oversize(r, e, err);
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

/* Fails only for want of memory, which is not the event's fault. */
static int flow_admit_event(struct relay *r, struct event *e, struct outrider_error *err)
{
    if (outrider__relay_is_expired(r, e)) {
        flow_resolve(r, e, OUTCOME_EXPIRED);
        return 0;
    }
    if (!e->is_malformed && !outrider__router_selects(r->router, e)) {
        flow_resolve(r, e, OUTCOME_SKIPPED);
        return 0;
    }
    if (r->config.ordered) {
        e->lane = outrider__lane_get(&r->lanes, event_key(e));
        outrider__lane_append(e->lane, e);
        if ((!e->is_parked && e->is_blocked) || flow_lane_is_parked(e)) {
            flow_queue_behind(r, e);
            return 0;
        }
    }
    int rc = outrider__relay_prepare(r, e, err);
    if (rc < 0)
        return -1;
    if (rc > 0) {
        flow_doom(r, e, e->failure);
    } else if (e->lane == NULL) {
        flow_ready_push(r, e);
    } else {
        flow_lane_release(r, e->lane);
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
        if (flow_admit_event(r, &b->events[i], err) < 0)
            return -1;
    }
    return 0;
}

#define SUBMIT_AT_ONCE 128 /* then the source may draw */

bool outrider__relay_submit(struct relay *r)
{
    struct delivery *offer[SUBMIT_AT_ONCE];
    bool progress = false;
    if (r->sink == NULL || r->is_final || relay_sink_is_paused(r))
        return false;
    while (r->ready_head != NULL) {
        size_t n = 0;
        for (struct event *e = r->ready_head, *next; e != NULL && n < SUBMIT_AT_ONCE; e = next) {
            next = e->ready_next;
            if (outrider__relay_is_expired(r, e) && !e->is_dead_letter)
                flow_finish(r, e, OUTCOME_EXPIRED);
            else
                offer[n++] = &e->delivery;
        }
        if (n == 0)
            continue;
        size_t taken = r->sink->ops->submit(r->sink, offer, n, r->now);
        for (size_t i = 0; i < taken; i++) {
            struct event *e = event_of(offer[i]);
            relay_draw(r);
            flow_ready_remove(r, e);
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

void outrider__relay_put_back(struct relay *r, struct event *e)
{
    struct lane *l = e->lane;
    e->stage = STAGE_WAITING;
    if (l == NULL)
        return;
    l->n_outstanding--;
    if (!e->is_dead_letter && flow_lane_is_parked(e)) {
        struct event *behind = e->lane_next;
        flow_queue_behind(r, e);
        flow_lane_block(r, behind);
        return;
    }
    /* Those behind e that are ready must not overtake e. */
    for (struct event *f = e->lane_next; f != NULL; f = f->lane_next) {
        if (f->stage != STAGE_READY)
            continue;
        flow_ready_remove(r, f);
        f->stage = STAGE_WAITING;
        l->n_outstanding--;
    }
    l->next_waiting = l->head;
}

void outrider__relay_take_back_ready(struct relay *r)
{
    while (r->ready_head != NULL) {
        struct event *e = r->ready_head;
        flow_ready_remove(r, e);
        outrider__relay_put_back(r, e);
    }
}

void outrider__relay_offer_again(struct relay *r, struct event *e)
{
    if (e->lane != NULL)
        flow_lane_release(r, e->lane);
    else
        flow_ready_push(r, e);
}

/* The sink gave the event back without having tried it. */
static void flow_untried(struct relay *r, struct event *e)
{
    outrider__relay_put_back(r, e);
    /* Also where the event queues now: those behind it in its lane may go on. */
    if (!relay_sink_is_paused(r))
        outrider__relay_offer_again(r, e);
}

/* The event's own part of a report. A dead letter is about an event that is dead
 * already: neither its answer nor its failure replaces the event's own. */
static void flow_decide(struct relay *r, struct event *e, const struct sink_report *report)
{
    switch (report->result) {
    case SINK_DOWN:
        outrider__relay_put_back(r, e);
        return;
    case SINK_UNTRIED:
        flow_untried(r, e);
        return;
    case SINK_STOP:
        relay_fail(r, report->why);
        outrider__relay_put_back(r, e);
        return;
    case SINK_DELIVERED:
    case SINK_RETRY:
    case SINK_DEAD:
        break;
    }
    if (e->is_dead_letter) {
        flow_finish(r, e, OUTCOME_DEAD);
        return;
    }
    outrider__answer_keep(e, report->answer);
    if (report->result == SINK_DELIVERED) {
        flow_finish(r, e, OUTCOME_DELIVERED);
    } else if (report->result == SINK_RETRY) {
        flow_fail_attempt(r, e, report->why);
    } else {
        e->attempts++;
        flow_die(r, e, report->why);
    }
}

/* The sink's part of a report: what the report says about the receiver. */
static void flow_note_health(struct relay *r, const struct sink_report *report)
{
    bool is_answer = report->result == SINK_DELIVERED || report->result == SINK_RETRY ||
                     report->result == SINK_DEAD;
    if (is_answer && relay_sink_awaits_answer(r))
        outrider__relay_sink_up(r);
    else if (report->result == SINK_DOWN)
        outrider__relay_sink_down(r, report->why);
}

void outrider__relay_reported(void *ctx, struct delivery *d, const struct sink_report *report)
{
    struct relay *r = ctx;
    struct event *e = event_of(d);
    assert(e->stage == STAGE_IN_FLIGHT);
    struct outrider_error why;
    struct sink_report refused = {.result = SINK_RETRY, .why = &why, .answer = report->answer};
    int errno_value = report->result == SINK_DELIVERED ? FAILPOINT("relay.delivered") : 0;
    if (errno_value != 0) { /* a receiver that takes an event and then refuses it */
        (void)outrider__fail_errno(&why, errno_value, "cannot deliver");
        report = &refused;
    }
    relay_draw(r);
    e->batch->n_in_flight--;
    r->stats.in_flight--;
    flow_note_health(r, report);
    /* A batch with events in flight settles only when shutdown_timeout has expired: the
     * source has the outcomes of its events already, and a report comes too late. */
    bool is_late = e->batch->state == BATCH_VOID || e->batch->state == BATCH_SETTLING;
    if (is_late)
        e->stage = STAGE_DONE;
    else if (relay_is_exact(r))
        outrider__relay_exact_reported(r, e, report);
    else
        flow_decide(r, e, report);
}
