/* SPDX-License-Identifier: MIT */
/*
 * Exactly once: the other way through the engine. One batch at a time:
 *
 *     plan -> save the intent, and offer -> seal -> commit   (the next intent settles this one)
 *       ^                 |               |
 *       +------ abort ----+---------------+
 *         something failed: it is parked, or dies, in the next plan
 *
 *  (1) The sink is asked to commit transaction n only when the database holds
 *      intent n, as it was planned for just this transaction: the stamp is new
 *      for every intent. It is saved while the sink takes in what it is offered:
 *      the commit waits for both.
 *  (2) Intent n is settled only when transaction n is known to be committed,
 *      and saved over only when it is known that it is not and never will be:
 *      its transaction was aborted before a commit was asked for, or the sink
 *      was opened anew since and does not have it.
 *  (3) A plan gives every event of the batch its outcome, as if all that is
 *      sent arrived. Nothing is counted or told before the commit.
 *  (4) As all that is sent becomes visible at once, order within a transaction
 *      is what the sink keeps by itself: in the order of submission. A lane of
 *      which something failed stops there, in the plan.
 *  (5) Nothing is fetched while a batch with events that wait is not settled: a
 *      source to which they are given back would return them at once, and the
 *      batch before would hold them up again, for ever.
 *  (6) Whatever goes wrong with the source is a start from scratch, with the
 *      sink opened anew: the database's intent and the sink's progress are all
 *      that is believed then.
 */
#include "core/relay_internal.h"
#include "core/retry.h"
#include "base/failpoint.h"

#include <assert.h>

/* A pipeline that has become quiet settles its last batch by itself after this. */
#define SETTLE_AFTER_US 100000
#define SUBMIT_AT_ONCE 256

void outrider__relay_exact_init(struct relay *r)
{
    r->exact.state = r->config.exactly_once ? EXACT_WAITING : EXACT_OFF;
}

/*
 * Lanes are remembered from the moment of reading: relay.h (4). What can be
 * routed is routed here, while another transaction is on its way; whoever
 * cannot be is told so in its turn, by the plan.
 */
int outrider__relay_exact_admit(struct relay *r, struct batch *b, struct outrider_error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        struct event *e = &b->events[i];
        relay_draw(r);
        e->lane = outrider__lane_get(&r->lanes, event_key(e));
        if (e->is_malformed || e->is_oversize || !outrider__router_selects(r->router, e))
            continue;
        e->is_routed = outrider__relay_route(r, e, err) == 0;
        if (!e->is_routed && err->disposition == OUTRIDER_RETRY)
            return -1;
    }
    return 0;
}

/* Whether an earlier event of its lane waits, in the database or in this plan. */
static bool exact_is_held_up(const struct relay *r, const struct event *e)
{
    const struct lane *l = e->lane;
    if (l->blocked_in == r->exact.plan_no)
        return true;
    return !e->is_parked &&
           (e->is_blocked || l->n_unsettled_parks > 0 || e->batch->fetch_no < l->parked_until);
}

static bool exact_blocks(const struct relay *r, enum outcome outcome)
{
    return outcome == OUTCOME_PARKED || outcome == OUTCOME_QUEUED || outcome == OUTCOME_RELEASED ||
           (outcome == OUTCOME_DEAD && r->config.retry.on_dead == ON_DEAD_BLOCK);
}

static enum outcome exact_plan_death(struct relay *r, struct event *e, bool *ret_sends)
{
    *ret_sends =
        e->verdict != VERDICT_UNTOLD && (e->is_dead_letter || outrider__relay_dead_letter(r, e));
    return OUTCOME_DEAD;
}

/* OUTCOME_PENDING only for want of memory. */
static enum outcome exact_plan_event(struct relay *r, struct event *e, bool *ret_sends,
                                     struct outrider_error *err)
{
    *ret_sends = false;
    if (e->verdict == VERDICT_NONE && !e->is_dead_letter && outrider__relay_is_expired(r, e))
        return OUTCOME_EXPIRED;
    if (!e->is_malformed && !outrider__router_selects(r->router, e))
        return OUTCOME_SKIPPED;
    if (exact_is_held_up(r, e))
        return e->is_parked ? OUTCOME_RELEASED : OUTCOME_QUEUED;
    if (e->verdict == VERDICT_RETRY)
        return OUTCOME_PARKED;
    if (!e->is_routed && !e->is_doomed) {
        int rc = outrider__relay_prepare(r, e, err);
        if (rc < 0)
            return OUTCOME_PENDING;
        e->is_routed = rc == 0;
        e->is_doomed = rc > 0;
    }
    if (e->is_doomed)
        return exact_plan_death(r, e, ret_sends);
    *ret_sends = true;
    return OUTCOME_DELIVERED;
}

static int exact_plan(struct relay *r, struct outrider_error *err)
{
    struct exact *x = &r->exact;
    struct batch *b = x->batch;
    x->plan_no++;
    x->n_offered = x->n_left = 0;
    x->is_broken = x->is_saving = x->batch_holds = false;
    for (size_t i = 0; i < b->n; i++) {
        struct event *e = &b->events[i];
        bool sends;
        assert(e->stage != STAGE_IN_FLIGHT);
        e->outcome = exact_plan_event(r, e, &sends, err);
        if (e->outcome == OUTCOME_PENDING)
            return -1;
        if (exact_blocks(r, e->outcome)) {
            e->lane->blocked_in = x->plan_no;
            x->batch_holds = true;
        }
        e->stage = sends ? STAGE_WAITING : STAGE_DONE;
        /* An answer in a transaction that was aborted counts only where it was a failure. */
        if (e->verdict == VERDICT_NONE ||
            (e->outcome != OUTCOME_PARKED && e->outcome != OUTCOME_DEAD))
            e->answer = NULL;
        x->n_left += sends;
    }
    return 0;
}

/* From the plan on: what is to be sent is offered. */
static bool exact_begin(struct relay *r)
{
    struct outrider_error err;
    if (exact_plan(r, &err) < 0) {
        outrider__relay_source_drop(r, &err);
        return false;
    }
    r->exact.state = EXACT_SENDING;
    return true;
}

/* The next batch, in the order in which they were read; parked rows and new
 * events take turns. */
static struct batch *exact_next_batch(struct relay *r)
{
    struct batch *parked = &r->batches[0], *fresh = NULL;
    for (size_t i = 0; i < r->n_fifo && fresh == NULL; i++) {
        if (r->fifo[i]->state == BATCH_SETTLING)
            continue;
        if (r->fifo[i]->state != BATCH_LIVE)
            break;
        fresh = r->fifo[i];
    }
    bool has_parked = parked->state == BATCH_LIVE;
    return has_parked && (fresh == NULL || !r->exact.was_parked) ? parked : fresh;
}

static bool exact_start_intent(struct relay *r, struct batch *intent)
{
    struct exact *x = &r->exact;
    (void)FAILPOINT("exact.before_intent");
    x->op = (struct source_op){
        .kind = SOURCE_INTENT, .batch = x->committed, .intent = intent, .progress = x->next};
    if (intent != NULL)
        intent->n_settle = intent->n;
    x->op_busy = true;
    return outrider__relay_start_op(r, &x->op);
}

static bool exact_may_offer(const struct relay *r)
{
    return r->sink != NULL && !r->sink->is_busy && !relay_sink_is_paused(r);
}

static bool exact_idle(struct relay *r)
{
    struct exact *x = &r->exact;
    bool is_ending = r->stopping || r->failed;
    if (x->committed != NULL && x->committed_holds)
        return !x->op_busy && exact_start_intent(r, NULL);
    struct batch *b = is_ending ? NULL : exact_next_batch(r);
    if (b != NULL && exact_may_offer(r)) {
        x->batch = b;
        x->was_parked = b->is_parked;
        x->next.no = x->saved.no + 1;
        return exact_begin(r);
    }
    bool is_due =
        is_ending || r->config.once || r->now.mono_us >= x->committed_us + SETTLE_AFTER_US;
    return x->committed != NULL && is_due && !x->op_busy && exact_start_intent(r, NULL);
}

static bool exact_offer(struct relay *r)
{
    struct exact *x = &r->exact;
    struct batch *b = x->batch;
    struct delivery *d[SUBMIT_AT_ONCE];
    bool progress = false;
    while (x->n_offered < b->n) {
        size_t n = 0, i = x->n_offered;
        for (; i < b->n && n < SUBMIT_AT_ONCE; i++)
            if (b->events[i].stage == STAGE_WAITING)
                d[n++] = &b->events[i].delivery;
        size_t taken = n > 0 ? r->sink->ops->submit(r->sink, d, n, r->now) : 0;
        for (size_t k = 0; k < taken; k++) {
            struct event *e = event_of(d[k]);
            relay_draw(r);
            e->stage = STAGE_IN_FLIGHT;
            e->submitted_us = r->now.mono_us;
            e->is_cancelled = false;
        }
        b->n_in_flight += taken;
        r->stats.in_flight += taken;
        r->needs_flush |= taken > 0;
        progress |= taken > 0;
        x->n_offered = taken < n ? (size_t)(event_of(d[taken]) - b->events) : i;
        if (taken < n)
            break;
    }
    return progress;
}

/* A number that no other intent has, of this database or of a copy of it. */
static uint64_t exact_new_stamp(struct relay *r)
{
    uint64_t chance = (uint64_t)(relay_random01(r) * 9007199254740992.0);
    return 1 + ((chance ^ (uint64_t)r->now.wall_us * 0x9e3779b97f4a7c15ULL) >> 2);
}

static bool exact_abort(struct relay *r)
{
    (void)FAILPOINT("exact.before_abort");
    r->exact.state = EXACT_ABORTING;
    r->sink->ops->abort(r->sink, r->now);
    return true;
}

/*
 * First, and not when all is sent: the batch before is free for the next fetch then,
 * and a broker that still ends the transaction before has a moment to do so.
 */
static bool exact_start_saving(struct relay *r)
{
    r->exact.is_saving = true;
    r->exact.next.stamp = exact_new_stamp(r);
    return exact_start_intent(r, r->exact.batch);
}

static bool exact_send(struct relay *r)
{
    struct exact *x = &r->exact;
    if (r->sink == NULL || r->sink->is_busy)
        return false;
    if (x->is_broken)
        return exact_abort(r);
    if (!x->is_saving)
        return !x->op_busy && exact_start_saving(r);
    if (x->n_left > 0 && x->n_offered < x->batch->n)
        return exact_may_offer(r) && exact_offer(r);
    (void)FAILPOINT("exact.after_offered");
    x->state = EXACT_SEALED;
    r->sink->ops->seal(r->sink, x->next, r->now);
    return true;
}

static bool exact_sealed(struct relay *r)
{
    struct exact *x = &r->exact;
    if (x->is_broken)
        return exact_abort(r);
    if (x->n_left > 0 || x->op_busy)
        return false;
    (void)FAILPOINT("exact.after_sent");
    x->state = EXACT_COMMITTING;
    r->sink->ops->commit(r->sink, r->now);
    return true;
}

/* What the sink said, now that it holds nothing any more, becomes the events' own. */
static void exact_take_verdict(struct relay *r, struct event *e)
{
    if (e->verdict == VERDICT_NONE || e->verdict == VERDICT_UNTOLD || e->is_doomed ||
        e->next_attempt_us != 0)
        return;
    e->attempts++;
    if (e->verdict == VERDICT_DEAD || e->attempts >= (uint32_t)r->config.retry.max_attempts) {
        e->verdict = VERDICT_DEAD;
        e->is_doomed = true;
    } else {
        e->next_attempt_us =
            r->now.wall_us + outrider__retry_delay_us(&r->config, e->attempts, relay_random01(r));
    }
}

static bool exact_aborted(struct relay *r)
{
    struct batch *b = r->exact.batch;
    if (r->sink->is_busy || b->n_in_flight > 0 || r->exact.op_busy)
        return false;
    (void)FAILPOINT("exact.after_abort");
    for (size_t i = 0; i < b->n; i++)
        exact_take_verdict(r, &b->events[i]);
    return exact_begin(r);
}

void outrider__relay_exact_reported(struct relay *r, struct event *e,
                                    const struct sink_report *report)
{
    struct exact *x = &r->exact;
    enum sink_result result = report->result;
    e->stage = result == SINK_DELIVERED ? STAGE_DONE : STAGE_WAITING;
    if (!e->is_dead_letter)
        outrider__answer_keep(e, report->answer);
    if (result == SINK_DELIVERED) {
        x->n_left--;
        return;
    }
    x->is_broken = true;
    if (result == SINK_STOP)
        relay_fail(r, report->why);
    if (result != SINK_RETRY && result != SINK_DEAD)
        return;
    if (e->is_dead_letter) { /* the dead letter failed: keep the event's original error */
        e->verdict = VERDICT_UNTOLD;
        return;
    }
    outrider__relay_keep_failure(e, report->why);
    e->verdict = result == SINK_RETRY ? VERDICT_RETRY : VERDICT_DEAD;
}

static void exact_committed(struct relay *r)
{
    struct exact *x = &r->exact;
    struct batch *b = x->batch;
    (void)FAILPOINT("exact.after_commit");
    if (relay_sink_in_outage(r))
        outrider__relay_sink_up(r);
    for (size_t i = 0; i < b->n; i++) {
        struct event *e = &b->events[i];
        if (!e->is_parked && exact_blocks(r, e->outcome)) {
            e->blocks_lane = true;
            e->lane->n_unsettled_parks++;
        }
        outrider__relay_tell(r, e);
    }
    assert(x->committed == NULL);
    b->state = BATCH_SETTLING;
    x->committed = b;
    x->committed_holds = x->batch_holds;
    x->committed_us = r->now.mono_us;
    x->batch = NULL;
    x->batch_holds = false;
    x->state = EXACT_IDLE;
}

/* The database and the sink do not belong together: a person must look. */
static void exact_refuse(struct relay *r)
{
    struct commit_mark p = r->sink->progress, s = r->exact.saved;
    const char *name = r->config.name;
    struct outrider_error err;
    unsigned long long theirs = p.no, ours = s.no;
    if (p.no == 0)
        outrider__fail(
            &err, OUTRIDER_HISTORY, OUTRIDER_STOP,
            "exactly_once: the database's last transaction of pipeline '%s' is %llu, but the sink "
            "knows of none as %.60s: its progress was removed, this is another cluster, or the "
            "database is a copy; see what was published, then run: outrider resync --name %s "
            "--progress 0",
            name, ours, r->source->identity, name);
    else
        outrider__fail(
            &err, OUTRIDER_HISTORY, OUTRIDER_STOP,
            "exactly_once: the sink's last transaction of pipeline '%s' is %llu, the database's is "
            "%llu: %s; see what was published, then run: outrider resync --name %s --progress "
            "%llu:%llu",
            name, theirs, ours,
            p.no < s.no ? "the sink has lost some"
                        : "the database was restored, or a copy of it has published",
            name, theirs, (unsigned long long)p.stamp);
    relay_fail(r, &err);
}

/* Hands the verdict to the source. Where the database and the sink disagree, the
 * completed operation proves that no other relay has published since the source
 * read its intent: only then may this relay call the database wrong. */
static bool exact_recall(struct relay *r, enum recall_verdict verdict)
{
    struct exact *x = &r->exact;
    (void)FAILPOINT("exact.before_recall");
    x->op = (struct source_op){
        .kind = SOURCE_RECALL, .progress = r->sink->progress, .verdict = verdict};
    x->op_busy = true;
    x->state = EXACT_RECALLING;
    return outrider__relay_start_op(r, &x->op);
}

/* The sink is open: compares what the sink has committed with the intent. */
static bool exact_compare(struct relay *r)
{
    struct exact *x = &r->exact;
    if (!relay_is_active(r) || r->sink == NULL || r->sink->is_busy || x->op_busy || r->failed)
        return false;
    if (!x->is_ready) {
        x->saved = r->source->saved;
        x->has_intent = r->source->has_intent;
    }
    enum recall_verdict verdict =
        outrider__progress_judge(x->saved, x->has_intent, r->sink->progress);
    if (r->health == HEALTH_STALLED)
        outrider__relay_sink_up(r);
    if (verdict == RECALL_DISAGREES || (!x->is_ready && x->has_intent))
        return exact_recall(r, verdict);
    x->is_ready = true;
    x->state = EXACT_IDLE;
    if (x->batch == NULL)
        return true;
    if (verdict != RECALL_NEVER_WAS && progress_is(x->next, x->saved)) {
        exact_committed(r);
        return true;
    }
    return exact_begin(r);
}

static void exact_recalled(struct relay *r, const struct source_op *op)
{
    struct exact *x = &r->exact;
    (void)FAILPOINT("exact.after_recall");
    if (op->verdict == RECALL_CAME_TRUE) {
        outrider__relay_source_drop(r, NULL);
    } else if (op->verdict == RECALL_NEVER_WAS) {
        x->saved = op->progress;
        x->has_intent = false;
        x->is_ready = true;
        /* Otherwise the sink was lost meanwhile: its progress is compared again. */
        if (x->state == EXACT_RECALLING)
            x->state = EXACT_IDLE;
    } else if (x->state == EXACT_RECALLING) {
        exact_refuse(r);
    }
}

void outrider__relay_exact_done(struct relay *r, const struct source_op *op)
{
    struct exact *x = &r->exact;
    x->op_busy = false;
    if (op->kind == SOURCE_RECALL) {
        exact_recalled(r, op);
        return;
    }
    (void)FAILPOINT("exact.after_intent");
    x->has_intent = op->intent != NULL;
    if (op->intent != NULL)
        x->saved = op->progress;
    if (x->committed != NULL)
        outrider__relay_batch_settled(r, x->committed);
    x->committed = NULL;
    x->committed_holds = false;
}

bool outrider__relay_exact_step(struct relay *r)
{
    struct exact *x = &r->exact;
    if (r->is_final || !relay_is_active(r))
        return false;
    switch (x->state) {
    case EXACT_WAITING:
        return exact_compare(r);
    case EXACT_IDLE:
        return exact_idle(r);
    case EXACT_SENDING:
        return exact_send(r);
    case EXACT_SEALED:
        return exact_sealed(r);
    case EXACT_ABORTING:
        return exact_aborted(r);
    case EXACT_COMMITTING:
        if (r->sink->is_busy)
            return false;
        exact_committed(r);
        return true;
    default:
        return false;
    }
}

/* Whether a commit under way came true is heard when the sink is open again. */
void outrider__relay_exact_sink_lost(struct relay *r)
{
    struct exact *x = &r->exact;
    x->state = EXACT_WAITING;
    if (x->batch != NULL && x->batch->state == BATCH_LIVE)
        for (size_t i = 0; i < x->batch->n; i++)
            exact_take_verdict(r, &x->batch->events[i]);
}

void outrider__relay_exact_source_lost(struct relay *r)
{
    struct exact *x = &r->exact;
    uint64_t plan_no = x->plan_no;
    if (r->sink != NULL)
        outrider__relay_sink_drop(r, NULL);
    *x = (struct exact){.state = EXACT_WAITING, .plan_no = plan_no};
}

static bool exact_is_small(const struct relay *r, const struct batch *b)
{
    return b != NULL && b->n < (size_t)r->config.source.batch;
}

static bool exact_is_resting(const struct relay *r)
{
    const struct exact *x = &r->exact;
    return x->state == EXACT_IDLE && exact_is_small(r, x->committed) && r->sink != NULL &&
           r->now.mono_us < x->committed_us + r->sink->rest_us;
}

/* While a large transaction is on its way the next is read. A small one is soon at its
 * end, and whatever is committed until then joins the very next. */
bool outrider__relay_exact_may_fetch(const struct relay *r)
{
    const struct exact *x = &r->exact;
    return !x->batch_holds && !x->committed_holds && !exact_is_small(r, x->batch) &&
           !exact_is_resting(r);
}

/* The end of the patience of a stop: what is committed is settled, the rest is
 * left to whoever comes next. */
void outrider__relay_exact_final(struct relay *r)
{
    struct exact *x = &r->exact;
    if (x->committed != NULL && !x->op_busy)
        (void)exact_start_intent(r, NULL);
}

bool outrider__relay_exact_is_idle(const struct relay *r)
{
    const struct exact *x = &r->exact;
    return x->batch == NULL && x->committed == NULL && !x->op_busy;
}

int64_t outrider__relay_exact_wake(const struct relay *r)
{
    const struct exact *x = &r->exact;
    bool waits = x->state == EXACT_IDLE && x->committed != NULL && !x->op_busy && !r->is_final;
    if (waits && x->committed_holds)
        return r->now.mono_us;
    if (waits && exact_is_resting(r))
        return x->committed_us + r->sink->rest_us;
    return waits ? x->committed_us + SETTLE_AFTER_US : CLOCK_NEVER;
}
