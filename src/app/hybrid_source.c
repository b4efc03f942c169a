/* SPDX-License-Identifier: MIT */
/*
 * What the publisher's engine reads and settles: events come from the queue,
 * outcomes go to the rows, on a connection of the publisher's own.
 *
 *  (1) Only rows that are still claimed by this process are touched, and only
 *      while they are PROCESSING: what the relay did to them since stays.
 *  (2) Whatever is not delivered is handed to the relay: failed ones with their
 *      next attempt, all others as if they had never been claimed.
 *  (3) When the connection is lost, what was on its way is forgotten: the leases
 *      of those rows run out.
 *  (4) Marks do not wait for the disk. A crash of the server that undoes one
 *      makes a duplicate, as a crash just before it would have.
 *  (5) What is published counts in the pipeline's totals, which relay and
 *      applications share: none waits for another there. Whoever finds the row
 *      locked tries again soon, and what is untold at the end stays so.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/hybrid.h"
#include "common/op_queue.h"
#include "common/outcome.h"
#include "common/tally.h"
#include "postgres/wire/conn.h"

static const char sql_setup[] =
    "SELECT current_database() || '/' || coalesce(to_regclass('outbox')::oid::text, ''), "
    "set_config('synchronous_commit', 'off', false), set_config('statement_timeout', '0', false), "
    "set_config('lock_timeout', '0', false), set_config('jit', 'off', false), "
    "set_config('default_transaction_read_only', 'off', false), "
    "set_config('row_security', 'off', false), "
    "coalesce(has_table_privilege(to_regclass('outrider_cursor'), 'SELECT') AND "
    "has_table_privilege(to_regclass('outrider_cursor'), 'UPDATE'), false)";
/* $1 ids, $2 owner, $3 states, $4 attempts, $5 delays, $6 codes, $7 messages. */
static const char sql_settle[] =
    "UPDATE outbox o SET status = u.status, published_at = CASE WHEN u.status = 'PUBLISHED' THEN "
    "now() END, attempts = u.attempts, next_attempt_at = now() + u.delay * interval '1 "
    "microsecond', last_error_code = u.code, last_error = u.message, locked_by = NULL, locked_at = "
    "NULL, locked_until = NULL, updated_at = now() FROM unnest($1::text[]::uuid[], $3::text[], "
    "$4::int4[], $5::int8[], $6::text[], $7::text[]) AS u(id, status, attempts, delay, code, "
    "message) WHERE o.id = u.id AND o.locked_by = $2::text AND o.status = 'PROCESSING'";
static const char sql_delete[] =
    "DELETE FROM outbox o WHERE o.id = ANY ($1::text[]::uuid[]) AND o.locked_by = $2::text AND "
    "o.status = 'PROCESSING'";

/* $1 pipeline, $2 delivered, $3 skipped. Whether it is done, and whether the row is there. */
static const char sql_total[] =
    "WITH c AS (SELECT ctid FROM outrider_cursor WHERE pipeline = $1::text AND "
    "to_regclass(outbox) = to_regclass('outbox')), l AS (SELECT ctid FROM outrider_cursor WHERE "
    "ctid IN (SELECT ctid FROM c) FOR UPDATE SKIP LOCKED), u AS (UPDATE outrider_cursor SET "
    "settled_at = now(), delivered_total = delivered_total + $2::int8, skipped_total = "
    "skipped_total + $3::int8 WHERE ctid IN (SELECT ctid FROM l) RETURNING 1) SELECT EXISTS "
    "(SELECT FROM u), EXISTS (SELECT FROM c)";

#define TOTAL_AGAIN_US 20000

struct totals {
    int64_t delivered, skipped;
};

struct hybrid_source {
    struct source base; /* must stay first: see source_of() */
    struct outrider_hybrid *hybrid;
    struct pg_conn conn;
    struct pg_args args;
    struct pg_statement st_setup, st_settle, st_delete;
    struct pg_statement st_total;
    bool is_set_up; /* asked for */
    bool can_total; /* the role may */
    bool is_totalling;
    struct totals told, untold; /* told: in the statement that is under way */
    int64_t total_at_us, now_us;
    size_t n_out; /* events that the engine has */
    struct op_queue ops;
};

static struct hybrid_source *source_of(struct source *s)
{
    return (struct hybrid_source *)s;
}

static int hybrid_open(struct source *s, const struct pipeline_config *config, struct instant now,
                       struct outrider_error *err)
{
    struct hybrid_source *h = source_of(s);
    h->hybrid = config->source_data;
    h->st_setup = (struct pg_statement){.sql = sql_setup, .what = "cannot set the session up"};
    h->st_settle = (struct pg_statement){
        .sql = sql_settle, .what = "cannot mark events as published", .purpose = PG_SETTLES};
    h->st_total = (struct pg_statement){.sql = sql_total, .what = "cannot count what is published"};
    h->total_at_us = CLOCK_NEVER;
    h->st_delete = (struct pg_statement){
        .sql = sql_delete, .what = "cannot remove events", .purpose = PG_SETTLES};
    s->reads_ahead = true;
    outrider__pg_args_init(&h->args);
    return outrider__pg_connect(&h->conn, config->source.url, config->name,
                                config->source.connect_timeout_us, now, err);
}

static int on_set_up(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct hybrid_source *h = ctx;
    struct hybrid_queue *q = &h->hybrid->queue;
    (void)n;
    (void)err;
    h->base.active = true;
    h->can_total = outrider__pg_get_bool(results[0], 0, 7);
    pthread_mutex_lock(&q->mutex);
    struct bytes place = outrider__pg_get_bytes(results[0], 0, 0);
    size_t len = place.len < sizeof q->place - 1 ? place.len : 0;
    memcpy(q->place, place.data, len);
    q->place[len] = '\0';
    q->is_connected = true;
    pthread_mutex_unlock(&q->mutex);
    return 0;
}

/* The id as the server writes it, and the relay with it. */
static void lower_case(struct bytes id)
{
    for (size_t i = 0; i < id.len; i++)
        if (id.data[i] >= 'A' && id.data[i] <= 'F')
            ((char *)id.data)[i] = (char)(id.data[i] - 'A' + 'a'); /* the arena's, so ours */
}

/* Fills an event from what the application committed. */
static int fill(struct batch *b, const struct hybrid_event *he)
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
    lower_case(e->id);
    e->payload_len = from->payload_len;
    e->partition = from->partition >= 0 ? from->partition : -1;
    e->created_at_us = he->created_us;
    e->occurred_at_us = from->occurred_at_us != 0 ? from->occurred_at_us : he->created_us;
    e->expires_at_us = from->expires_at_us;
    e->claim_ends_us = he->claim_ends_us;
    b->n++;
    return 0;
}

static int fetch(struct hybrid_source *h, size_t slot, struct outrider_error *err)
{
    struct batch *b = h->ops.slots[slot].op->batch;
    struct hybrid_event *he;
    int r = 0;
    while (r == 0 && !batch_is_full(b) && (he = outrider__hybrid_pop(&h->hybrid->queue)) != NULL) {
        h->n_out++;
        r = fill(b, he);
        free(he);
    }
    if (r < 0)
        return outrider__fail_nomem(err);
    op_queue_done(&h->ops, slot);
    return 0;
}

static const char *state_of(const struct event *e)
{
    if (outcome_is_published(e))
        return "PUBLISHED";
    return e->outcome == OUTCOME_PARKED ? "FAILED" : "PENDING";
}

static void add_ids(struct hybrid_source *h, const struct batch *b, bool published, bool others)
{
    outrider__pg_args_clear(&h->args);
    outrider__pg_array_begin(&h->args, PG_TEXT);
    for (size_t i = 0; i < b->n; i++)
        if (outcome_is_published(&b->events[i]) ? published : others)
            outrider__pg_array_text(&h->args, b->events[i].id);
    outrider__pg_array_end(&h->args);
    outrider__pg_arg_str(&h->args, h->hybrid->owner);
}

enum column { C_STATE, C_ATTEMPTS, C_DELAY, C_CODE, C_MESSAGE, C_COUNT };

static void add_value(struct pg_args *a, const struct event *e, enum column c, int64_t now_us)
{
    /* Only a try that failed leaves a trace: the relay makes the dead letters. */
    bool has_failed = e->outcome == OUTCOME_PARKED;
    if (c == C_STATE)
        outrider__pg_array_text(a, bytes_str(state_of(e)));
    else if (c == C_ATTEMPTS)
        outrider__pg_array_int4(a, has_failed ? (int32_t)e->attempts : 0);
    else if (c == C_DELAY && has_failed)
        outrider__pg_array_int8(a, outcome_delay_us(e, now_us));
    else if (c == C_CODE && has_failed)
        outrider__pg_array_text(a, outrider__outcome_code(e));
    else if (c == C_MESSAGE && has_failed)
        outrider__pg_array_text(a, outrider__outcome_message(e));
    else
        outrider__pg_array_null(a);
}

static void add_columns(struct hybrid_source *h, const struct batch *b, bool with_published,
                        int64_t now_us)
{
    static const Oid types[C_COUNT] = {PG_TEXT, PG_INT4, PG_INT8, PG_TEXT, PG_TEXT};
    for (int c = 0; c < C_COUNT; c++) {
        outrider__pg_array_begin(&h->args, types[c]);
        for (size_t i = 0; i < b->n; i++)
            if (with_published || !outcome_is_published(&b->events[i]))
                add_value(&h->args, &b->events[i], (enum column)c, now_us);
        outrider__pg_array_end(&h->args);
    }
}

static void give_back(struct hybrid_source *h, struct tally t)
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

static int on_totalled(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct hybrid_source *h = ctx;
    (void)n;
    (void)err;
    h->is_totalling = false;
    if (!outrider__pg_get_bool(results[0], 0, 0)) {
        h->untold.delivered += h->told.delivered;
        h->untold.skipped += h->told.skipped;
    }
    /* Also what was settled meanwhile. Without a row no relay has run yet: with the
     * next ones, then. */
    bool has_row = outrider__pg_get_bool(results[0], 0, 1);
    if (has_row && h->untold.delivered + h->untold.skipped > 0)
        h->total_at_us = h->now_us + TOTAL_AGAIN_US;
    return 0;
}

/* See (5). */
static int tell_totals(struct hybrid_source *h, struct outrider_error *err)
{
    if (!h->can_total || h->is_totalling)
        return 0;
    h->told = h->untold;
    h->untold = (struct totals){0};
    h->is_totalling = true;
    h->total_at_us = CLOCK_NEVER;
    outrider__pg_args_clear(&h->args);
    outrider__pg_arg_str(&h->args, h->hybrid->config.name);
    outrider__pg_arg_int8(&h->args, h->told.delivered);
    outrider__pg_arg_int8(&h->args, h->told.skipped);
    return outrider__pg_request(&h->conn, &h->st_total, &h->args, on_totalled, h, err);
}

struct settling {
    struct hybrid_source *source;
    size_t slot; /* of the operation */
};

static int on_settled(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct settling *s = ctx;
    struct hybrid_source *h = s->source;
    struct tally t = outrider__tally_all(h->ops.slots[s->slot].op->batch);
    (void)results;
    (void)n;
    give_back(h, t);
    op_queue_done(&h->ops, s->slot);
    h->untold.delivered += t.delivered;
    h->untold.skipped += t.skipped;
    return tally_published(&t) > 0 ? tell_totals(h, err) : 0;
}

/* What a stop found undecided is handed over like the rest. */
static void decide_rest(struct batch *b)
{
    for (size_t i = b->n_settle; i < b->n; i++)
        b->events[i].outcome = OUTCOME_RELEASED;
    b->n_settle = b->n;
}

static int settle(struct hybrid_source *h, size_t slot, struct outrider_error *err)
{
    const struct source_op *op = h->ops.slots[slot].op;
    struct batch *b = op->batch;
    bool deletes = h->hybrid->config.source.after_publish == AFTER_PUBLISH_DELETE;
    decide_rest(b);
    struct tally t = outrider__tally_all(b);
    size_t published = (size_t)tally_published(&t);
    struct settling *s = outrider__arena_alloc(&b->arena, sizeof *s);
    if (s == NULL)
        return outrider__fail_nomem(err);
    *s = (struct settling){h, slot};
    if (outrider__pg_request_begin(&h->conn, on_settled, s, err) < 0)
        return -1;
    if (deletes && published > 0) {
        add_ids(h, b, true, false);
        if (outrider__pg_request_add(&h->conn, &h->st_delete, &h->args, err) < 0)
            return -1;
    }
    if (!deletes || published < b->n) {
        add_ids(h, b, !deletes, true);
        add_columns(h, b, !deletes, op->now_wall_us);
        if (outrider__pg_request_add(&h->conn, &h->st_settle, &h->args, err) < 0)
            return -1;
    }
    return outrider__pg_request_end(&h->conn, err);
}

static int hybrid_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    struct hybrid_source *h = source_of(s);
    size_t slot;
    if (outrider__op_queue_add(&h->ops, op, h->hybrid->config.name, &slot, err) < 0)
        return -1;
    if (op->kind == SOURCE_FETCH)
        return fetch(h, slot, err);
    if (op->kind == SOURCE_SETTLE)
        return settle(h, slot, err);
    op_queue_done(&h->ops, slot); /* there are no parked rows, and nothing to clean up */
    return 0;
}

static int hybrid_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct hybrid_source *h = source_of(s);
    uint64_t count;
    *ret_done = NULL;
    if (outrider__pg_poll(&h->conn, now, err) < 0)
        return -1;
    h->now_us = now.mono_us;
    s->wake_us = h->conn.state == PG_CONNECTING ? h->conn.deadline_us : h->total_at_us;
    if (now.mono_us >= h->total_at_us && tell_totals(h, err) < 0)
        return -1;
    if (h->conn.state == PG_UP && !h->is_set_up) {
        h->is_set_up = true;
        if (outrider__pg_request(&h->conn, &h->st_setup, NULL, on_set_up, h, err) < 0)
            return -1;
    }
    /* Emptied before the look, so that what is pushed meanwhile wakes us again. */
    (void)!read(h->hybrid->queue.wake_fd, &count, sizeof count);
    s->ready = outrider__hybrid_has_events(&h->hybrid->queue);
    size_t slot = outrider__op_queue_give(&h->ops, NULL, NULL);
    *ret_done = slot != OP_QUEUE_NONE ? h->ops.slots[slot].op : NULL;
    return 0;
}

static int hybrid_fds(struct source *s, struct pollfd *ret_fds, int max)
{
    struct hybrid_source *h = source_of(s);
    if (max < 2)
        return 0;
    ret_fds[0] = (struct pollfd){.fd = h->hybrid->queue.wake_fd, .events = POLLIN};
    return 1 + outrider__pg_fds(&h->conn, ret_fds + 1, max - 1);
}

static void hybrid_close(struct source *s)
{
    struct hybrid_source *h = source_of(s);
    struct hybrid_queue *q = &h->hybrid->queue;
    pthread_mutex_lock(&q->mutex);
    q->is_connected = false;
    pthread_cond_broadcast(&q->emptied);
    pthread_mutex_unlock(&q->mutex);
    give_back(h, (struct tally){.n = h->n_out});
    outrider__pg_close(&h->conn);
    outrider__pg_args_release(&h->args);
}

const struct source_ops outrider__hybrid_source = {
    .scheme = "hybrid",
    .size = sizeof(struct hybrid_source),
    .open = hybrid_open,
    .start = hybrid_start,
    .poll = hybrid_poll,
    .fds = hybrid_fds,
    .close = hybrid_close,
};
