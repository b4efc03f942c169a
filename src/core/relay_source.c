/* SPDX-License-Identifier: MIT */
/* The source: opening and losing it, and its operations: fetching, settling, cleaning up. */
#include "core/relay_internal.h"
#include "core/retry.h"
#include "base/failpoint.h"

#include <assert.h>
#include <stdlib.h>

#define PARKED_PAUSE_US 100000    /* after a fetch of due rows that found none */
#define CLEANUP_RETRY_US 60000000 /* after a clean-up that a lock or a timeout ended */
#define REFUSALS_MAX 2

bool outrider__relay_start_op(struct relay *r, struct source_op *op)
{
    struct outrider_error err;
    op->now_wall_us = r->now.wall_us;
    if (op->kind == SOURCE_FETCH_PARKED && r->config.once)
        op->now_wall_us = r->once_wall_us;
    r->op_no++;
    if (op->kind == SOURCE_FETCH || op->kind == SOURCE_FETCH_PARKED)
        op->batch->fetch_no = r->op_no;
    if (r->source->ops->start(r->source, op, &err) < 0) {
        outrider__relay_source_drop(r, &err);
        return false;
    }
    r->n_ops++;
    return true;
}

static bool source_start_op(struct relay *r, struct source_op *op, enum source_op_kind kind,
                            struct batch *b)
{
    *op = (struct source_op){.kind = kind, .batch = b};
    return outrider__relay_start_op(r, op);
}

static struct batch *source_unused_batch(struct relay *r)
{
    for (size_t i = 1; i < relay_n_batches(r); i++)
        if (r->batches[i].state == BATCH_FREE)
            return &r->batches[i];
    return NULL;
}

static bool source_start_fetch(struct relay *r)
{
    struct batch *b = source_unused_batch(r);
    if (b == NULL || r->fetch_busy || !r->source->ready)
        return false;
    if (r->ready_head != NULL && !r->is_sink_full && !r->source->reads_ahead)
        return false; /* what was read goes first */
    if (r->config.once && (!r->mark_started || r->mark_busy || r->source->mark_reached))
        return false;
    (void)FAILPOINT("relay.before_fetch");
    b->state = BATCH_FETCHING;
    b->is_parked = false;
    r->fifo[r->n_fifo++] = b;
    r->fetch_busy = true;
    return source_start_op(r, &r->ops[b - r->batches], SOURCE_FETCH, b);
}

static bool source_parked_are_due(const struct relay *r)
{
    if (r->config.once)
        return !r->once_parked_done && r->mark_started && !r->mark_busy;
    return r->source->parked_due_us <= r->now.wall_us && r->now.mono_us >= r->parked_not_before_us;
}

static bool source_start_fetch_parked(struct relay *r)
{
    struct batch *b = &r->batches[0];
    if (b->state != BATCH_FREE || !source_parked_are_due(r))
        return false;
    b->state = BATCH_FETCHING;
    b->is_parked = true;
    return source_start_op(r, &r->ops[0], SOURCE_FETCH_PARKED, b);
}

/* When the next clean-up begins, on the monotonic clock. */
static int64_t source_next_cleanup_us(const struct relay *r)
{
    const int64_t day_us = INT64_C(86400) * 1000000;
    const char *at = r->config.cleanup.at;
    int64_t at_us;
    if (at == NULL || outrider__day_time_parse(bytes_str(at), &at_us) < 0)
        return r->now.mono_us + r->config.cleanup.every_us;
    int64_t wait_us = at_us - r->now.wall_us % day_us;
    return r->now.mono_us + (wait_us > 0 ? wait_us : wait_us + day_us);
}

static bool source_start_cleanup(struct relay *r)
{
    if (r->cleanup_us == 0 && r->config.cleanup.at != NULL)
        r->cleanup_us = source_next_cleanup_us(r);
    if (r->cleanup_busy || r->config.once || r->config.cleanup.retention_us <= 0 ||
        r->now.mono_us < r->cleanup_us)
        return false;
    r->cleanup_busy = true;
    return source_start_op(r, &r->cleanup_op, SOURCE_CLEANUP, NULL);
}

bool outrider__relay_source_start(struct relay *r)
{
    bool progress = false;
    if (r->source == NULL || !r->source->active || r->stopping || r->failed)
        return false;
    if (relay_is_exact(r) && !r->exact.is_ready)
        return false;
    if (r->now.mono_us < r->started_us + r->config.source.initial_delay_us)
        return false;
    if (r->config.once && !r->mark_started) {
        r->mark_started = r->mark_busy = true;
        r->once_wall_us = r->now.wall_us;
        progress |= source_start_op(r, &r->mark_op, SOURCE_MARK, NULL);
    }
    if (r->source != NULL && !relay_sink_is_paused(r) &&
        (!relay_is_exact(r) || outrider__relay_exact_may_fetch(r))) {
        progress |= source_start_fetch_parked(r);
        progress |= r->source != NULL && source_start_fetch(r);
    }
    if (r->source != NULL)
        progress |= source_start_cleanup(r);
    return progress;
}

static void source_fifo_remove_first(struct relay *r)
{
    r->n_fifo--;
    for (size_t i = 0; i < r->n_fifo; i++)
        r->fifo[i] = r->fifo[i + 1];
}

static void source_fifo_remove_last(struct relay *r)
{
    r->n_fifo--;
}

static void source_free_batch(struct batch *b)
{
    outrider__batch_reset(b);
    b->state = BATCH_FREE;
}

/* Called when the database has done some work. A connection that comes up and fails
 * at its first operation does not count: people are told of it once, and the pauses
 * between the tries grow. */
static void source_works(struct relay *r)
{
    r->source_failures = 0;
    if (!r->is_connected_noted)
        relay_note(r, NOTE_SOURCE_CONNECTED, 0, NULL);
    r->is_connected_noted = true;
}

static int source_fetched(struct relay *r, struct batch *b, struct outrider_error *err)
{
    (void)FAILPOINT("relay.after_fetch");
    if (!b->is_parked)
        r->fetch_busy = false;
    if (b->n > 0) {
        b->state = BATCH_LIVE;
        return outrider__relay_admit(r, b, err);
    }
    if (b->is_parked) {
        r->once_parked_done = true;
        r->parked_not_before_us = r->now.mono_us + PARKED_PAUSE_US;
    } else {
        /* Fetches complete in order, and only one is under way: it is the last. */
        assert(r->fifo[r->n_fifo - 1] == b);
        source_fifo_remove_last(r);
        source_works(r); /* an answer about parked rows alone proves nothing */
    }
    source_free_batch(b);
    return 0;
}

/* The batch is counted once, for the first observer that wants it. */
static void source_tell_settled(struct relay *r, const struct batch *b)
{
    struct batch_counts counts;
    bool is_counted = false;
    for (struct relay_observer *o = r->observers; o != NULL; o = o->next) {
        if (o->settled != NULL)
            o->settled(o->ctx, r->now, b);
        if (o->counted == NULL)
            continue;
        if (!is_counted)
            outrider__batch_count(b, &counts);
        is_counted = true;
        o->counted(o->ctx, r->now, &counts);
    }
}

void outrider__relay_batch_settled(struct relay *r, struct batch *b)
{
    (void)FAILPOINT("relay.after_settle");
    r->stats.settles++;
    r->op_no++;
    r->settle_failures = r->refusals = 0;
    source_works(r);
    source_tell_settled(r, b);
    if (r->is_final) {
        /* The batch may be settled in part only, and the sink may still hold events of it. */
        b->state = BATCH_VOID;
        return;
    }
    for (size_t i = 0; i < b->n; i++) {
        struct event *e = &b->events[i];
        struct lane *l = e->lane;
        if (l == NULL)
            continue;
        if (b->is_parked)
            l->released = NULL;
        else if (e->blocks_lane && --l->n_unsettled_parks == 0)
            l->parked_until = r->op_no;
        outrider__lane_unref(&r->lanes, l);
    }
    /* --once: events that were parked in this run are not due in this run, unless their
     * lane was. */
    if (b->is_parked || r->source->parked_due_us <= r->once_wall_us)
        r->once_parked_done = false;
    if (!b->is_parked)
        source_fifo_remove_first(r);
    source_free_batch(b);
}

static void source_cleaned(struct relay *r, const struct source_op *op)
{
    r->cleanup_busy = false;
    r->cleanup_removed += op->removed;
    r->stats.removed += op->removed;
    if (op->more) {
        r->cleanup_us = r->now.mono_us + r->config.cleanup.pause_us;
        return;
    }
    r->cleanup_us = source_next_cleanup_us(r);
    if (r->cleanup_removed > 0)
        relay_note(r, NOTE_CLEANUP, r->cleanup_removed, NULL);
    r->cleanup_removed = 0;
}

static int source_completed(struct relay *r, struct source_op *op, struct outrider_error *err)
{
    r->n_ops--;
    switch (op->kind) {
    case SOURCE_MARK:
        r->mark_busy = false;
        break;
    case SOURCE_FETCH:
    case SOURCE_FETCH_PARKED:
        return source_fetched(r, op->batch, err);
    case SOURCE_SETTLE:
        outrider__relay_batch_settled(r, op->batch);
        break;
    case SOURCE_CLEANUP:
        source_cleaned(r, op);
        break;
    case SOURCE_INTENT:
    case SOURCE_RECALL:
        outrider__relay_exact_done(r, op);
        break;
    }
    return 0;
}

bool outrider__relay_source_poll(struct relay *r)
{
    struct outrider_error err;
    bool progress = false;
    if (r->source == NULL)
        return false;
    for (;;) {
        struct source_op *done = NULL;
        int rc = r->source->ops->poll(r->source, r->now, &done, &err);
        if (rc == 0 && done == NULL)
            break;
        if (rc < 0 || source_completed(r, done, &err) < 0) {
            outrider__relay_source_drop(r, &err);
            return false;
        }
        if (r->source == NULL) /* the engine closed it, to open it anew */
            return true;
        progress = true;
    }
    if (r->source->warnings != r->warnings) {
        r->warnings = r->source->warnings;
        outrider__fail(&err, OUTRIDER_OK, OUTRIDER_RETRY, "%s", r->source->warning);
        relay_note(r, NOTE_SOURCE_WARNING, 0, &err);
    }
    if (r->source->active && !r->was_active) {
        r->was_active = true;
        r->standby_noted = false;
        if (r->source_failures == 0)
            source_works(r);
        progress = true;
    } else if (!r->source->active && r->source->waiting_for[0] != '\0' && !r->standby_noted) {
        outrider__fail(&err, OUTRIDER_STANDBY, OUTRIDER_RETRY, "%s", r->source->waiting_for);
        r->standby_noted = true;
        relay_note(r, NOTE_STANDBY, 0, &err);
    }
    return progress;
}

bool outrider__relay_start_settles(struct relay *r)
{
    bool progress = false;
    if (r->source == NULL || !r->source->active || r->is_final || relay_is_exact(r))
        return false;
    struct batch *parked = &r->batches[0];
    for (size_t i = 0; i <= r->n_fifo; i++) {
        struct batch *b = i < r->n_fifo ? r->fifo[i] : parked;
        if (b->state == BATCH_SETTLING)
            continue;
        bool is_done = b->state == BATCH_LIVE && b->n_done == b->n;
        if (!is_done && b != parked) {
            /* Later batches wait for this one; the batch of parked rows does not. */
            i = r->n_fifo - 1;
            continue;
        }
        if (!is_done)
            continue;
        assert(b->n_in_flight == 0);
        (void)FAILPOINT("relay.before_settle");
        b->n_settle = b->n;
        b->state = BATCH_SETTLING;
        if (!source_start_op(r, &r->ops[b - r->batches], SOURCE_SETTLE, b))
            return false;
        progress = true;
    }
    return progress;
}

/* shutdown_timeout expired: settles each batch's longest finished prefix; the next
 * relay reads the rest again. */
void outrider__relay_settle_final(struct relay *r)
{
    r->is_final = true;
    if (r->source == NULL || !r->source->active)
        return;
    if (relay_is_exact(r)) {
        outrider__relay_exact_final(r);
        return;
    }
    bool whole = true;
    for (size_t i = 0; i < r->n_fifo && whole; i++) {
        struct batch *b = r->fifo[i];
        if (b->state == BATCH_SETTLING)
            continue;
        if (b->state != BATCH_LIVE)
            break;
        size_t n = 0;
        while (n < b->n && b->events[n].stage == STAGE_DONE)
            n++;
        whole = n == b->n;
        b->n_settle = n;
        if (n == 0)
            break;
        b->state = BATCH_SETTLING;
        if (!source_start_op(r, &r->ops[b - r->batches], SOURCE_SETTLE, b))
            return;
    }
    struct batch *b = &r->batches[0];
    if (b->state != BATCH_LIVE || b->n == 0)
        return;
    for (size_t i = 0; i < b->n; i++) {
        if (b->events[i].stage == STAGE_DONE)
            continue;
        b->events[i].outcome = OUTCOME_RELEASED;
        b->events[i].answer = NULL;
    }
    b->n_settle = b->n;
    b->state = BATCH_SETTLING;
    (void)source_start_op(r, &r->ops[0], SOURCE_SETTLE, b);
}

bool outrider__relay_has_void(const struct relay *r)
{
    for (int i = 0; i < RELAY_BATCHES; i++)
        if (r->batches[i].state == BATCH_VOID)
            return true;
    return false;
}

void outrider__relay_void_collect(struct relay *r)
{
    for (int i = 0; i < RELAY_BATCHES; i++)
        if (r->batches[i].state == BATCH_VOID && r->batches[i].n_in_flight == 0)
            source_free_batch(&r->batches[i]);
}

/* Errors that pass without anybody's help. All others are about the database's schema,
 * its rights or the data, and come again with the next try. */
static bool source_is_passing(const struct outrider_error *why)
{
    switch (why->code) {
    case OUTRIDER_CONNECT:
    case OUTRIDER_TIMEOUT:
    case OUTRIDER_DB_LOCKED:
    case OUTRIDER_DB_READONLY:
    case OUTRIDER_NO_SPACE:
    case OUTRIDER_NOMEM:
    case OUTRIDER_IO:
    case OUTRIDER_FENCED:
    case OUTRIDER_STANDBY:
    case OUTRIDER_CANCELLED:
        return true;
    default:
        return false;
    }
}

/* Whether the sink has events that the source has not settled. Exactly once these vanish
 * with their transaction, but they are sent again just as often. */
static bool source_has_published(const struct relay *r)
{
    if (r->exact.batch != NULL || r->exact.committed != NULL)
        return true;
    for (int i = 0; i < RELAY_BATCHES; i++) {
        const struct batch *b = &r->batches[i];
        if ((b->state == BATCH_LIVE || b->state == BATCH_SETTLING) &&
            (b->n_done > 0 || b->n_in_flight > 0))
            return true;
    }
    return false;
}

/* Rows that stay too long do no harm: delivery goes on, and the clean-up is tried later. */
static void source_cleanup_failed(struct relay *r, const struct outrider_error *why)
{
    struct outrider_error warning = *why;
    int64_t soon_us = r->now.mono_us + CLEANUP_RETRY_US, next_us = source_next_cleanup_us(r);
    r->cleanup_us = source_is_passing(why) && soon_us < next_us ? soon_us : next_us;
    warning.disposition = OUTRIDER_RETRY;
    relay_note(r, NOTE_SOURCE_WARNING, 0, &warning);
}

/*
 * Whether to open the source again. Every time that published events were not settled
 * they are published once more, so:
 *   - The wait grows until a settle succeeds. That the source can be opened and read
 *     proves nothing.
 *   - A source checks its rights and its schema when it is opened. So an error that does
 *     not pass by itself may be one that opening finds; the second in a row is not.
 *   - --once gives up, as it does where nothing can be reached.
 */
static bool source_may_open_again(struct relay *r, const struct outrider_error *why,
                                  bool was_published, bool is_cleanup)
{
    if (r->source_failures == 0 && r->settle_failures == 0)
        r->failing_since_us = r->now.mono_us;
    r->settle_failures += was_published;
    if (is_cleanup)
        return true;
    r->refusals += was_published && !source_is_passing(why);
    bool is_late = r->config.once &&
                   r->now.mono_us - r->failing_since_us >= r->config.source.connect_timeout_us;
    return why->disposition == OUTRIDER_RETRY && r->refusals < REFUSALS_MAX && !is_late;
}

static int64_t source_backoff_us(struct relay *r)
{
    double random01 = relay_random01(r);
    int64_t us = outrider__backoff_us(r->source_failures, random01);
    int64_t longer_us = outrider__backoff_published_us(r->settle_failures, random01);
    return r->settle_failures > 0 && longer_us > us ? longer_us : us;
}

static void source_void_batches(struct relay *r)
{
    for (int i = 0; i < RELAY_BATCHES; i++) {
        struct batch *b = &r->batches[i];
        if (b->state == BATCH_FREE)
            continue;
        if (b->state == BATCH_FETCHING)
            b->n = 0;
        for (size_t k = 0; k < b->n; k++)
            b->events[k].lane = NULL;
        b->state = BATCH_VOID;
    }
    outrider__lanes_clear(&r->lanes);
    outrider__relay_void_collect(r);
}

void outrider__relay_source_drop(struct relay *r, const struct outrider_error *why)
{
    bool was_published = source_has_published(r);
    bool is_cleanup = r->source != NULL && r->source->lost_in_cleanup;
    if (relay_is_exact(r))
        outrider__relay_exact_source_lost(r);
    if (r->source != NULL) {
        r->source->ops->close(r->source);
        free(r->source);
        r->source = NULL;
    }
    r->ready_head = r->ready_tail = NULL;
    source_void_batches(r);
    r->n_fifo = 0;
    r->n_ops = 0;
    r->mark_busy = r->cleanup_busy = r->fetch_busy = false;
    r->mark_started = false;
    r->once_parked_done = false;
    if (r->was_active)
        r->inactive_since_us = r->now.mono_us;
    r->was_active = r->is_connected_noted = false;
    if (why == NULL)
        return;
    if (is_cleanup)
        source_cleanup_failed(r, why);
    if (!source_may_open_again(r, why, was_published, is_cleanup)) {
        relay_fail(r, why);
        return;
    }
    r->stats.reconnects++;
    r->source_retry_us = r->now.mono_us + source_backoff_us(r);
    /* Told once per outage, and again when the reason changes. */
    if (!is_cleanup && (r->source_failures == 0 || why->code != r->source_error.code))
        relay_note(r, NOTE_SOURCE_LOST, 0, why);
    r->source_failures++;
    r->source_error = *why;
}

void outrider__relay_source_connect(struct relay *r)
{
    struct outrider_error err;
    if (r->source != NULL || r->failed || r->stopping || r->now.mono_us < r->source_retry_us ||
        outrider__relay_has_void(r))
        return;
    struct source *s = calloc(1, r->source_ops->size);
    if (s == NULL)
        return;
    s->ops = r->source_ops;
    s->parked_due_us = s->wake_us = CLOCK_NEVER;
    r->warnings = 0;
    r->source = s;
    if (s->ops->open(s, &r->config, r->now, &err) < 0)
        outrider__relay_source_drop(r, &err);
}
