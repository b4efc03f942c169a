/* SPDX-License-Identifier: MIT */
/*
 * What the publisher's engine reads and settles: events come from the queue, outcomes go
 * to the rows through the database's marker (core/hybrid.h).
 *
 *  (1) Whatever is not delivered is handed to the relay: failed events with their next
 *      attempt, all others as if they had never been claimed.
 *  (2) When the connection is lost, what was on its way is forgotten: the leases of those
 *      rows run out.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/hybrid.h"
#include "common/op_queue.h"
#include "common/tally.h"

struct hybrid_source {
    struct source base; /* must stay first: see source_of() */
    struct outrider_hybrid *hybrid;
    struct hybrid_marker *marker;
    size_t n_out; /* events that the engine has */
    struct op_queue ops;
};

static struct hybrid_source *source_of(struct source *s)
{
    return (struct hybrid_source *)s;
}

static void source_give_back(struct hybrid_source *h, struct tally t)
{
    struct hybrid_queue *q = &h->hybrid->queue;
    int64_t published = tally_published(&t);
    h->n_out -= t.n;
    pthread_mutex_lock(&q->mutex);
    q->published += (uint64_t)published;
    q->handed_over += t.n - (uint64_t)published;
    q->failed += (uint64_t)(t.parked + t.dead);
    pthread_mutex_unlock(&q->mutex);
    outrider__hybrid_unreserve(q, t.n, 0);
}

static void source_on_marked(void *ctx, struct source_op *op)
{
    struct hybrid_source *h = ctx;
    source_give_back(h, outrider__tally_all(op->batch));
    for (size_t i = 0; i < h->ops.n; i++)
        if (h->ops.slots[op_queue_slot(&h->ops, i)].op == op)
            op_queue_done(&h->ops, op_queue_slot(&h->ops, i));
}

static int source_open(struct source *s, const struct pipeline_config *config, struct instant now,
                       struct outrider_error *err)
{
    struct hybrid_source *h = source_of(s);
    h->hybrid = config->source_data;
    s->reads_ahead = true;
    h->marker = calloc(1, h->hybrid->ops->marker_size);
    if (h->marker == NULL)
        return outrider__fail_nomem(err);
    h->marker->config = config;
    h->marker->owner = h->hybrid->owner;
    h->marker->marked = source_on_marked;
    h->marker->marked_ctx = h;
    return h->hybrid->ops->open(h->marker, now, err);
}

/* The marker is up: from now on events can be claimed. */
static void source_activate(struct hybrid_source *h)
{
    struct hybrid_queue *q = &h->hybrid->queue;
    h->base.active = true;
    pthread_mutex_lock(&q->mutex);
    memcpy(q->place, h->marker->place, sizeof q->place);
    q->is_connected = true;
    pthread_mutex_unlock(&q->mutex);
}

/* Writes the id as the server writes it, so that the relay's message says the same. */
static void source_lower_case(struct bytes id)
{
    for (size_t i = 0; i < id.len; i++)
        if (id.data[i] >= 'A' && id.data[i] <= 'F')
            ((char *)id.data)[i] = (char)(id.data[i] - 'A' + 'a'); /* the arena's, so ours */
}

/* Fills an event from what the application committed. */
static int source_fill(struct batch *b, const struct hybrid_event *he)
{
    const struct outrider_event *from = &he->event;
    struct event *e = outrider__batch_slot(b);
    struct arena *a = &b->arena;
    const char *key = from->partition_key, *topic = from->topic;
    if (e == NULL || outrider__arena_dup(a, bytes_str(from->id), &e->id) < 0 ||
        outrider__arena_dup(a, bytes_str(from->aggregate_type), &e->aggregate_type) < 0 ||
        outrider__arena_dup(a, bytes_str(from->aggregate_id), &e->aggregate_id) < 0 ||
        outrider__arena_dup(a, bytes_str(from->event_type), &e->event_type) < 0 ||
        outrider__arena_dup(a, bytes_of(from->payload, from->payload_len), &e->payload) < 0 ||
        outrider__arena_dup(a, bytes_str(from->headers), &e->headers) < 0 ||
        outrider__arena_dup(a, bytes_str(topic != NULL && *topic != '\0' ? topic : NULL),
                            &e->topic) < 0 ||
        outrider__arena_dup(a, bytes_str(key != NULL && *key != '\0' ? key : NULL),
                            &e->partition_key) < 0)
        return -1;
    source_lower_case(e->id);
    e->payload_len = from->payload_len;
    e->partition = from->partition >= 0 ? from->partition : -1;
    e->created_at_us = he->created_us;
    e->occurred_at_us = from->occurred_at_us != 0 ? from->occurred_at_us : he->created_us;
    e->expires_at_us = from->expires_at_us;
    e->claim_ends_us = he->claim_ends_us;
    b->n++;
    return 0;
}

static int source_fetch(struct hybrid_source *h, size_t slot, struct outrider_error *err)
{
    struct batch *b = h->ops.slots[slot].op->batch;
    struct hybrid_event *he;
    int r = 0;
    while (r == 0 && !batch_is_full(b) && (he = outrider__hybrid_pop(&h->hybrid->queue)) != NULL) {
        h->n_out++;
        r = source_fill(b, he);
        free(he);
    }
    if (r < 0)
        return outrider__fail_nomem(err);
    op_queue_done(&h->ops, slot);
    return 0;
}

/* Events that a stop finds undecided are handed over, like the rest. */
static void source_decide_rest(struct batch *b)
{
    for (size_t i = b->n_settle; i < b->n; i++)
        b->events[i].outcome = OUTCOME_RELEASED;
    b->n_settle = b->n;
}

static int source_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    struct hybrid_source *h = source_of(s);
    size_t slot;
    if (outrider__op_queue_add(&h->ops, op, h->hybrid->config.name, &slot, err) < 0)
        return -1;
    if (op->kind == SOURCE_FETCH)
        return source_fetch(h, slot, err);
    if (op->kind == SOURCE_SETTLE) {
        source_decide_rest(op->batch);
        return h->hybrid->ops->mark(h->marker, op, err);
    }
    op_queue_done(&h->ops, slot); /* there are no parked rows, and nothing to clean up */
    return 0;
}

static int source_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct hybrid_source *h = source_of(s);
    uint64_t count;
    *ret_done = NULL;
    if (h->hybrid->ops->poll(h->marker, now, err) < 0)
        return -1;
    s->wake_us = h->marker->wake_us;
    if (h->marker->is_up && !s->active)
        source_activate(h);
    /* Emptied before the look, so that an event that is pushed meanwhile wakes us again. */
    (void)!read(h->hybrid->queue.wake_fd, &count, sizeof count);
    s->ready = outrider__hybrid_has_events(&h->hybrid->queue);
    size_t slot = outrider__op_queue_give(&h->ops, NULL, NULL);
    *ret_done = slot != OP_QUEUE_NONE ? h->ops.slots[slot].op : NULL;
    return 0;
}

static int source_fds(struct source *s, struct pollfd *ret_fds, int max)
{
    struct hybrid_source *h = source_of(s);
    if (max < 2)
        return 0;
    ret_fds[0] = (struct pollfd){.fd = h->hybrid->queue.wake_fd, .events = POLLIN};
    return 1 + h->hybrid->ops->fds(h->marker, ret_fds + 1, max - 1);
}

static void source_close(struct source *s)
{
    struct hybrid_source *h = source_of(s);
    struct hybrid_queue *q = &h->hybrid->queue;
    pthread_mutex_lock(&q->mutex);
    q->is_connected = false;
    pthread_cond_broadcast(&q->emptied);
    pthread_mutex_unlock(&q->mutex);
    source_give_back(h, (struct tally){.n = h->n_out});
    if (h->marker != NULL)
        h->hybrid->ops->close(h->marker);
    free(h->marker);
    h->marker = NULL;
}

const struct source_ops outrider__hybrid_source = {
    .scheme = "hybrid",
    .size = sizeof(struct hybrid_source),
    .open = source_open,
    .start = source_start,
    .poll = source_poll,
    .fds = source_fds,
    .close = source_close,
};
