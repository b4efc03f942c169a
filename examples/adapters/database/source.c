/* SPDX-License-Identifier: MIT */
/*
 * `exampledb:` reads an outbox of a database with one writer at a time: a cursor
 * without gaps. It is the smallest source that keeps the contract of core/source.h
 * without exactly once; docs/adding-a-database.md walks through it. Numbers in the
 * comments are those of the contract.
 *
 *  - The rules are not here: the queue of operations, the meaning of outcomes, what a
 *    settle covers and the rules of a cursor come from src/db/common.
 *  - An operation completes in poll(). A network database would send a request in
 *    start() and look for its answer in poll().
 */
#include "example_db.h"

#include "common/cursor_rules.h"
#include "common/op_queue.h"
#include "common/outcome.h"
#include "common/tally.h"
#include "core/config.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

#define LOCK_PAUSE_US 1000

struct example_source {
    struct source base; /* must stay first: see example_of() */
    const struct pipeline_config *config;
    struct op_queue queue;
    struct server_cursor *cursor;
    int64_t epoch;    /* (6): of this relay's take-over */
    int64_t read_seq; /* the last row that was fetched */
    int64_t mark;     /* (14); negative: none */
};

static struct example_source *example_of(struct source *s)
{
    return (struct example_source *)s;
}

static struct cursor_place example_place(const struct example_source *x)
{
    return (struct cursor_place){.config = x->config, .outbox = "outbox", .url = "exampledb:shop"};
}

static int example_open(struct source *s, const struct pipeline_config *config, struct instant now,
                        struct outrider_error *err)
{
    struct example_source *x = example_of(s);
    x->config = config;
    x->mark = -1;
    s->parked_due_us = CLOCK_NEVER;
    s->wake_us = now.mono_us;
    (void)snprintf(s->description, sizeof s->description, "%s", config->source.url);
    if (config->exactly_once)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "an exampledb: source cannot deliver exactly once; leave "
                              "exactly_once out");
    if (strcmp(config->source.url, "exampledb:nowhere") == 0 || server.is_away)
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "no database at '%s'",
                              config->source.url);
    return 0;
}

static bool example_is_live(const struct example_source *x, const struct server_parked *p)
{
    return p->state != SERVER_DEAD || x->config->retry.on_dead == ON_DEAD_BLOCK;
}

/* The first row of the lane that later events wait behind; NULL: none. */
static struct server_parked *example_lane_first(const struct example_source *x, struct bytes lane)
{
    for (size_t i = 0; i < server.n_parked; i++) {
        struct server_parked *p = &server.parked[i];
        if (p->pipeline == x->cursor->pipeline && bytes_eq_str(lane, p->lane) &&
            example_is_live(x, p))
            return p;
    }
    return NULL;
}

/* (8): a lane whose first row is not due yet does not count. */
static void example_find_due(struct example_source *x)
{
    x->base.parked_due_us = CLOCK_NEVER;
    for (size_t i = 0; i < server.n_parked; i++) {
        const struct server_parked *p = &server.parked[i];
        if (p->pipeline == x->cursor->pipeline && p->state == SERVER_PARKED &&
            p->next_attempt_us < x->base.parked_due_us)
            x->base.parked_due_us = p->next_attempt_us;
    }
}

/* (8): after a row has left a lane, the next one is the first. */
static void example_promote(struct example_source *x, struct bytes lane)
{
    struct server_parked *first = example_lane_first(x, lane);
    if (first != NULL && first->state == SERVER_QUEUED) {
        first->state = SERVER_PARKED;
        first->next_attempt_us = 0;
    }
}

/* The other on_dead ran before: lanes that a dead letter blocked are free, or the other way round.
 */
static void example_mend_lanes(struct example_source *x)
{
    for (size_t i = 0; i < server.n_parked; i++) {
        struct server_parked *p = &server.parked[i];
        if (p->pipeline != x->cursor->pipeline)
            continue;
        if (p->state == SERVER_PARKED && example_lane_first(x, bytes_str(p->lane)) != p)
            p->state = SERVER_QUEUED;
        example_promote(x, bytes_str(p->lane));
    }
}

/* (6): the lock, then the cursor. */
static int example_take_over(struct example_source *x, struct outrider_error *err)
{
    struct server_cursor *c = server_cursor(x->config->name, true);
    if (c->holder != NULL) {
        (void)snprintf(x->base.waiting_for, sizeof x->base.waiting_for, "another relay");
        return 0;
    }
    struct cursor_place at = example_place(x);
    const struct server_row *row = server_find_row(c->position);
    struct cursor_anchor anchor = {.position = c->position,
                                   .sequence = server.last_seq,
                                   .stored = bytes_str(c->anchor),
                                   .found = row != NULL ? bytes_str(row->event.id) : BYTES_NULL};
    if (outrider__cursor_check_sink(&at, bytes_str(c->sink), err) < 0 ||
        outrider__cursor_check_anchor(&at, &anchor, err) < 0)
        return -1;
    bool is_other_policy = cursor_is_other_policy(x->config, bytes_str(c->on_dead));
    (void)snprintf(c->sink, sizeof c->sink, "%s", cursor_sink(x->config));
    (void)snprintf(c->on_dead, sizeof c->on_dead, "%s", cursor_policy(x->config));
    c->holder = x;
    x->cursor = c;
    x->epoch = ++c->epoch;
    x->read_seq = c->position;
    x->base.active = x->base.ready = true;
    if (is_other_policy)
        example_mend_lanes(x);
    example_find_due(x);
    return 0;
}

static int example_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    struct example_source *x = example_of(s);
    size_t slot;
    if (!s->active)
        return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_RETRY, "pipeline '%s' is held by %s",
                              x->config->name, s->waiting_for);
    return outrider__op_queue_add(&x->queue, op, x->config->name, &slot, err);
}

static int64_t example_newest(void)
{
    int64_t newest = 0;
    for (size_t i = 0; i < server.n_rows; i++)
        if (server.rows[i].is_committed)
            newest = server.rows[i].event.seq;
    return newest;
}

static struct bytes example_bound(struct event *e, const char *column, const char *text,
                                  size_t most)
{
    struct bytes value = text != NULL ? bytes_str(text) : BYTES_NULL;
    if (value.len <= most)
        return value;
    outrider__event_too_large(e, column, value.len);
    return outrider__text_cut(value);
}

static int example_keep(struct batch *b, struct bytes *value, struct outrider_error *err)
{
    if (!bytes_is_null(*value) && outrider__arena_dup(&b->arena, *value, value) < 0)
        return outrider__fail_nomem(err);
    return 0;
}

/* The one copy of a payload, from the client's buffer into the arena of the batch. */
static int example_take_row(const struct example_source *x, struct batch *b,
                            const struct server_event *from, struct event **ret_event,
                            struct outrider_error *err)
{
    const struct outrider_event *c = &from->columns;
    struct event_bounds max = outrider__event_bounds(x->config);
    struct event *e = outrider__batch_slot(b);
    e->seq = from->seq;
    e->id = bytes_str(from->id);
    e->aggregate_type = example_bound(e, "aggregate_type", c->aggregate_type, max.text);
    e->aggregate_id = example_bound(e, "aggregate_id", c->aggregate_id, max.text);
    e->event_type = example_bound(e, "event_type", c->event_type, max.text);
    e->topic = example_bound(e, "topic", c->topic, max.text);
    e->partition_key = example_bound(e, "partition_key", c->partition_key, max.text);
    e->payload = bytes_of(c->payload != NULL ? c->payload : "", c->payload_len);
    e->payload_len = c->payload_len;
    if (c->payload_len > max.payload) {
        outrider__event_too_large(e, "payload", c->payload_len);
        e->payload = BYTES_NULL;
    }
    e->headers = c->headers != NULL ? bytes_str(c->headers) : BYTES_NULL;
    if (e->headers.len > max.headers) {
        outrider__event_too_large(e, "headers", e->headers.len);
        e->headers = BYTES_NULL;
    }
    e->partition = c->partition;
    e->created_at_us = from->created_at_us;
    e->occurred_at_us = c->occurred_at_us != 0 ? c->occurred_at_us : from->created_at_us;
    e->expires_at_us = c->expires_at_us;
    struct bytes *const kept[] = {
        &e->id,      &e->aggregate_type, &e->aggregate_id,  &e->event_type,
        &e->payload, &e->headers,        &e->partition_key, &e->topic};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (example_keep(b, kept[i], err) < 0)
            return -1;
    b->n++;
    *ret_event = e;
    return 0;
}

/* (1), (2), (7) */
static int example_fetch(struct example_source *x, struct batch *b, struct outrider_error *err)
{
    b->is_parked = false;
    x->base.ready = false;
    for (size_t i = 0; i < server.n_rows; i++) {
        const struct server_row *row = &server.rows[i];
        struct event *e;
        if (!row->is_committed || row->event.seq <= x->read_seq)
            continue;
        if (batch_is_full(b)) {
            x->base.ready = true;
            break;
        }
        if (example_take_row(x, b, &row->event, &e, err) < 0)
            return -1;
        x->read_seq = e->seq;
        if (x->config->ordered)
            e->is_blocked = example_lane_first(x, event_key(e)) != NULL;
    }
    if (x->mark >= 0 && x->read_seq >= x->mark)
        x->base.mark_reached = true;
    return 0;
}

/* The rows of a lane from its first one on, up to a share of the batch: a long lane does not
 * keep the others waiting. Where dead letters block, nothing behind one is read. */
static int example_read_lane(struct example_source *x, struct batch *b,
                             const struct server_parked *first, struct outrider_error *err)
{
    size_t room = b->capacity / 4 + 1;
    for (const struct server_parked *p = first; p < server.parked + server.n_parked; p++) {
        struct event *e;
        if (p->pipeline != first->pipeline || strcmp(p->lane, first->lane) != 0)
            continue;
        if (p->state == SERVER_DEAD && x->config->retry.on_dead == ON_DEAD_BLOCK)
            return 0;
        if (p->state == SERVER_DEAD)
            continue;
        if (room-- == 0 || batch_is_full(b))
            return 0;
        if (example_take_row(x, b, &p->event, &e, err) < 0)
            return -1;
        e->is_parked = true;
        e->arrival = p->arrival;
        e->attempts = p->attempts;
    }
    return 0;
}

/* (8): each lane whose first row is due. */
static int example_fetch_parked(struct example_source *x, const struct source_op *op,
                                struct outrider_error *err)
{
    op->batch->is_parked = true;
    for (size_t i = 0; i < server.n_parked && !batch_is_full(op->batch); i++) {
        const struct server_parked *p = &server.parked[i];
        if (p->pipeline == x->cursor->pipeline && p->state == SERVER_PARKED &&
            p->next_attempt_us <= op->now_wall_us && example_read_lane(x, op->batch, p, err) < 0)
            return -1;
    }
    example_find_due(x);
    return 0;
}

static void example_write_state(struct example_source *x, struct server_parked *p,
                                const struct event *e)
{
    bool is_first = example_lane_first(x, bytes_str(p->lane)) == p;
    p->attempts = e->attempts;
    p->next_attempt_us = e->outcome == OUTCOME_PARKED ? e->next_attempt_us : 0;
    p->state = e->outcome == OUTCOME_DEAD ? SERVER_DEAD : is_first ? SERVER_PARKED : SERVER_QUEUED;
}

static size_t example_find_parked(const struct example_source *x, int64_t arrival)
{
    size_t i = 0;
    while (i < server.n_parked && (server.parked[i].arrival != arrival ||
                                   server.parked[i].pipeline != x->cursor->pipeline))
        i++;
    return i;
}

static void example_settle_event(struct example_source *x, const struct event *e)
{
    enum row_change change = outcome_change(e);
    if (change == ROW_ADDED) {
        /* A copy inside the database: an event too large to be read needs no memory here. */
        const struct server_row *row = server_find_row(e->seq);
        struct server_parked *p =
            server_park(x->config->name, outcome_lane(e, x->config->ordered), &row->event);
        example_write_state(x, p, e);
    } else if (change != ROW_UNCHANGED) {
        size_t i = example_find_parked(x, e->arrival);
        if (i == server.n_parked)
            return; /* an operator has discarded the row meanwhile */
        struct bytes lane = bytes_str(server.parked[i].lane);
        char name[OUTRIDER_TEXT_MAX + 1];
        (void)snprintf(name, sizeof name, "%.*s", (int)lane.len, lane.data);
        if (change == ROW_REMOVED)
            server_remove_parked(i);
        else
            example_write_state(x, &server.parked[i], e);
        example_promote(x, bytes_str(name));
    }
}

/* (3): one step; (6): nothing is written by a relay that lost its lock. */
static int example_settle(struct example_source *x, const struct batch *b,
                          struct outrider_error *err)
{
    struct tally t = outrider__tally_prefix(b);
    if (x->cursor->epoch != x->epoch) {
        struct cursor_place at = example_place(x);
        return outrider__cursor_fail_fenced(&at, err);
    }
    for (size_t i = 0; i < t.n; i++)
        example_settle_event(x, &b->events[i]);
    if (!b->is_parked && t.n > 0) {
        const struct event *last = &b->events[t.n - 1];
        x->cursor->position = last->seq;
        (void)snprintf(x->cursor->anchor, sizeof x->cursor->anchor, "%.*s", (int)last->id.len,
                       last->id.data);
    }
    example_find_due(x);
    return 0;
}

/* (15): settled for every pipeline, old enough, and nobody's anchor. */
static void example_cleanup(struct example_source *x, struct source_op *op)
{
    int64_t limit = x->config->cleanup.batch;
    int64_t cutoff_us = op->now_wall_us - x->config->cleanup.retention_us;
    op->removed = 0;
    op->more = false;
    if (x->config->cleanup.retention_us <= 0)
        return;
    int64_t below = INT64_MAX;
    for (size_t i = 0; i < server.n_cursors; i++)
        if (server.cursors[i].position < below)
            below = server.cursors[i].position;
    for (size_t i = 0; i < server.n_rows && !op->more;) {
        const struct server_event *e = &server.rows[i].event;
        bool is_anchor = false;
        for (size_t k = 0; k < server.n_cursors; k++)
            is_anchor |= server.cursors[k].position == e->seq;
        if (e->seq >= below || is_anchor || e->created_at_us >= cutoff_us) {
            i++;
            continue;
        }
        server_remove_row(i);
        op->removed++;
        op->more = op->removed == (uint64_t)limit;
    }
}

/* (14) */
static void example_mark(struct example_source *x)
{
    x->mark = example_newest();
    x->base.mark_reached = x->read_seq >= x->mark;
    if (!x->base.mark_reached)
        x->base.ready = true;
}

static int example_perform(struct example_source *x, struct source_op *op,
                           struct outrider_error *err)
{
    switch (op->kind) {
    case SOURCE_MARK:
        example_mark(x);
        return 0;
    case SOURCE_FETCH:
        return example_fetch(x, op->batch, err);
    case SOURCE_FETCH_PARKED:
        return example_fetch_parked(x, op, err);
    case SOURCE_SETTLE:
        return example_settle(x, op->batch, err);
    case SOURCE_CLEANUP:
        example_cleanup(x, op);
        return 0;
    default:
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "an exampledb: source keeps no intents");
    }
}

/* (4) */
static int example_poll(struct source *s, struct instant now, struct source_op **ret_done,
                        struct outrider_error *err)
{
    struct example_source *x = example_of(s);
    *ret_done = NULL;
    if (server.is_away)
        return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "the database went away");
    s->wake_us = now.mono_us + LOCK_PAUSE_US;
    if (!s->active && example_take_over(x, err) < 0)
        return -1;
    if (!s->active)
        return 0;
    if (x->queue.n == 0) {
        s->ready |= example_newest() > x->read_seq;
        return 0;
    }
    size_t slot = x->queue.first;
    struct source_op *op = x->queue.slots[slot].op;
    if (example_perform(x, op, err) < 0)
        return -1;
    op_queue_done(&x->queue, slot);
    (void)outrider__op_queue_give(&x->queue, NULL, NULL);
    *ret_done = op;
    return 0;
}

static int example_fds(struct source *s, struct pollfd *ret_fds, int max)
{
    (void)s;
    (void)ret_fds;
    (void)max;
    return 0;
}

/* (9) */
static void example_close(struct source *s)
{
    struct example_source *x = example_of(s);
    if (x->cursor != NULL && x->cursor->holder == x)
        x->cursor->holder = NULL;
    x->cursor = NULL;
    x->queue = (struct op_queue){0};
    s->active = s->ready = false;
}

/* (16): reads again, beside a relay or without one. No lock, no cursor, nothing is written. */
static int example_read_again(struct example_source *x, struct batch *b, struct outrider_error *err)
{
    x->base.ready = false;
    for (size_t i = 0; i < server.n_rows; i++) {
        const struct server_row *row = &server.rows[i];
        struct event *e;
        if (!row->is_committed || row->event.seq <= x->read_seq)
            continue;
        if (batch_is_full(b)) {
            x->base.ready = true;
            break;
        }
        x->read_seq = row->event.seq;
        if (row->event.created_at_us >= x->config->replay_since_us &&
            example_take_row(x, b, &row->event, &e, err) < 0)
            return -1;
    }
    if (x->mark >= 0 && x->read_seq >= x->mark)
        x->base.mark_reached = true;
    return 0;
}

static int reader_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct example_source *x = example_of(s);
    (void)now;
    *ret_done = NULL;
    if (!s->active) {
        x->read_seq = x->config->replay_from_seq > 0 ? x->config->replay_from_seq - 1 : 0;
        s->active = s->ready = true;
        s->wake_us = CLOCK_NEVER;
    }
    if (x->queue.n == 0)
        return 0;
    size_t slot = x->queue.first;
    struct source_op *op = x->queue.slots[slot].op;
    if (op->kind == SOURCE_MARK)
        example_mark(x);
    else if (example_read_again(x, op->batch, err) < 0)
        return -1;
    op_queue_done(&x->queue, slot);
    (void)outrider__op_queue_give(&x->queue, NULL, NULL);
    *ret_done = op;
    return 0;
}

static const struct source_ops example_reader = {
    .scheme = "exampledb",
    .size = sizeof(struct example_source),
    .open = example_open,
    .start = example_start,
    .poll = reader_poll,
    .close = example_close,
};

const struct source_ops outrider__source_example = {
    .scheme = "exampledb",
    .size = sizeof(struct example_source),
    .reader = &example_reader,
    .open = example_open,
    .start = example_start,
    .poll = example_poll,
    .fds = example_fds,
    .close = example_close,
};
