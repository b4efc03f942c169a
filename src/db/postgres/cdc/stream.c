/* SPDX-License-Identifier: MIT */
/*
 * The stream: from messages to batches, and how far the slot may be confirmed.
 *
 * The server ends a stream whose reader is silent for wal_sender_timeout, and
 * looks for replies even while it waits for room to send. So the position is
 * told on a timer, whether anything is read or not: a sink that stalls for
 * hours does not end the stream.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"
#include "postgres/options.h"

#define STATUS_MAX_US 5000000
#define CONFIRM_PAUSE_US 100000 /* between confirmations that free log only */
#define ALIVE_ASK_US 10000000
#define ALIVE_END_US 30000000
#define READER_PAUSE_US 100000
/* Behind a backlog a batch is filled in rounds: the server is woken less often,
 * and there are fewer settles. An event that was committed just now goes at once. */
#define FRESH_US 50000
/* A Unix socket is full after about 650 microseconds, and the server waits then. */
#define ROUND_UNIX_US 300
/* The server goes on behind a full window, and what it writes then leaves it in large
 * segments, not in one for each message; from this machine all of it comes in one go. */
#define ROUND_LOOPBACK_US 10000
/* From elsewhere one window comes in one go. */
#define ROUND_REMOTE_US 1000
#define FILLING_US 20000
#define READER_END_US 2000000

static int tell(struct pg_source *s, bool wants_reply, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    int64_t every = c->facts.sender_timeout_us / 3;
    if (every <= 0 || every > STATUS_MAX_US)
        every = STATUS_MAX_US;
    int errno_value = FAILPOINT("cdc.before_confirm");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot confirm");
    c->told_lsn = c->confirmed_lsn;
    c->must_reply = c->must_confirm = false;
    c->status_us = s->now.mono_us + every;
    c->confirm_us = s->now.mono_us + CONFIRM_PAUSE_US;
    if (outrider__cdc_link_status(&c->link, c->received_lsn, c->confirmed_lsn, s->now.wall_us,
                                  wants_reply, err) < 0)
        return -1;
    (void)FAILPOINT("cdc.after_confirm");
    return 0;
}

static void confirm_up_to(struct cdc_source *c, uint64_t lsn)
{
    if (lsn > c->confirmed_lsn)
        c->confirmed_lsn = lsn;
}

bool outrider__cdc_is_all_settled(const struct cdc_source *c)
{
    return c->n_settled == c->n_fetched && !c->has_held && !c->decoder.in_transaction;
}

/* One entry for each batch is enough: they are settled as a whole. */
static void note_commit(struct cdc_source *c, uint64_t end_lsn)
{
    if (end_lsn > c->received_lsn)
        c->received_lsn = end_lsn;
    if (outrider__cdc_is_all_settled(c)) {
        confirm_up_to(c, end_lsn);
        return;
    }
    struct cdc_commit *last = c->n_commits > 0 ? &c->commits[c->n_commits - 1] : NULL;
    bool is_same_batch = last != NULL && last->event_no > c->batch_floor;
    if (last == NULL ||
        (!is_same_batch && c->n_commits < CDC_COMMITS_MAX && last->event_no < c->n_fetched))
        last = &c->commits[c->n_commits++];
    *last = (struct cdc_commit){c->n_fetched, end_lsn};
}

static void note_position(struct cdc_source *c, uint64_t lsn)
{
    if (c->decoder.in_transaction)
        return;
    if (lsn > c->received_lsn)
        c->received_lsn = lsn;
    if (outrider__cdc_is_all_settled(c))
        confirm_up_to(c, c->received_lsn);
}

void outrider__cdc_stream_settled(struct cdc_source *c, int64_t n)
{
    size_t k = 0;
    c->n_settled += n;
    c->must_confirm = true;
    while (k < c->n_commits && c->commits[k].event_no <= c->n_settled)
        confirm_up_to(c, c->commits[k++].end_lsn);
    c->n_commits -= k;
    memmove(c->commits, c->commits + k, c->n_commits * sizeof *c->commits);
    if (outrider__cdc_is_all_settled(c))
        confirm_up_to(c, c->received_lsn);
}

/* Contract (2) and (3). */
static bool is_settled_before(const struct cdc_source *c, const struct cdc_message *m)
{
    if (m->commit_lsn < c->done_lsn ||
        (m->commit_lsn == c->done_lsn && m->number <= c->done_number))
        return true;
    return m->commit_lsn < c->polled_lsn && m->seq > 0 && m->seq <= c->polled &&
           !outrider__cdc_ranges_hold(&c->unpolled, m->seq);
}

/* Whether the transaction that begins is beyond what is wanted of the stream. */
static bool is_beyond(const struct cdc_source *c, const struct cdc_message *m)
{
    return c->stop_lsn != 0 && m->kind == CDC_BEGIN && m->commit_lsn >= c->stop_lsn;
}

static int take_data(struct pg_source *s, struct bytes data, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_message m;
    if (outrider__cdc_decode(&c->decoder, data, &m, err) < 0)
        return -1;
    if (is_beyond(c, &m)) {
        c->is_stopped = true;
        c->decoder.in_transaction = false;
        return 0;
    }
    if (m.kind == CDC_COMMIT)
        note_commit(c, m.end_lsn);
    if (m.kind != CDC_EVENT || is_settled_before(c, &m))
        return 0;
    int errno_value = FAILPOINT("cdc.receive");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "the replication connection is lost");
    c->held = m;
    c->has_held = true;
    return 0;
}

/* The server looks the publication up as it was when an event was committed. */
static int next_message(struct pg_source *s, struct link_message *ret, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct outrider_error why;
    if (outrider__cdc_link_next(&c->link, s->now, ret, &why) == 0)
        return 0;
    if (strcmp(why.origin, "42704") == 0)
        return outrider__cdc_fail_published(s, err);
    if (err != NULL)
        *err = why;
    return -1;
}

/* Reads until an event is held, or there is nothing to be read now. */
static int look(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct link_message m;
    while (!c->has_held && !c->is_stopped && !c->is_paused) {
        if (next_message(s, &m, err) < 0)
            return -1;
        if (m.kind == LINK_NOTHING)
            return 0;
        c->asked_alive = false;
        if (m.kind == LINK_DATA && take_data(s, m.data, err) < 0)
            return -1;
        if (m.kind == LINK_KEEPALIVE)
            note_position(c, m.lsn);
        if (c->stop_lsn != 0 && !c->decoder.in_transaction && c->received_lsn >= c->stop_lsn)
            c->is_stopped = true;
        c->must_reply |= m.wants_reply;
    }
    return 0;
}

static void look_for_mark(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    if (c->mark_lsn != 0 && !c->has_held && !c->decoder.in_transaction &&
        c->received_lsn >= c->mark_lsn)
        s->base.mark_reached = true;
}

static int on_blocked(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)n;
    if (outrider__pg_parked_apply_blocked(op->op->batch, results[0], err) < 0)
        return -1;
    cdc_of(op->source)->fetch_op = NULL;
    pg_op_done(op);
    return 0;
}

int outrider__cdc_hand_on(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    c->fetch_op = NULL;
    if (op->op->batch->n == 0 || !c->has_parked || !s->config->ordered) {
        pg_op_done(op);
        return 0;
    }
    c->fetch_op = op;
    if (outrider__pg_request_begin(&s->conn, on_blocked, op, err) < 0 ||
        outrider__pg_parked_add_blocked(&c->parked, &s->conn, op->op->batch, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int fill(struct pg_source *s, struct batch *b, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_point *points = b->source_data;
    while (!batch_is_full(b)) {
        if (look(s, err) < 0)
            return -1;
        if (!c->has_held)
            break;
        if (points == NULL)
            points = outrider__arena_alloc(&b->arena, b->capacity * sizeof *points);
        if (points == NULL)
            return outrider__fail_nomem(err);
        if (outrider__cdc_event(&c->decoder, &c->held, b, err) < 0)
            return -1;
        c->has_held = false;
        const struct event *e = &b->events[b->n - 1];
        if (c->late.is_frozen && outrider__cdc_late_has(&c->late, e->seq, e->id)) {
            b->n--; /* cdc.h (7) */
            continue;
        }
        points[b->n - 1] = (struct cdc_point){c->held.commit_lsn, c->held.number, c->decoder.xid};
        c->n_fetched++;
    }
    b->source_data = points;
    return 0;
}

static bool is_worth_waiting(const struct pg_source *s, const struct batch *b)
{
    const struct cdc_source *c = s->cdc;
    return b->n > 0 && !batch_is_full(b) && !s->base.mark_reached && !c->is_stopped &&
           !c->is_paused && s->now.wall_us - c->decoder.commit_us > FRESH_US &&
           s->now.mono_us < c->filling_until_us;
}

static int64_t round_of(enum link_place place)
{
    switch (place) {
    case LINK_UNIX:
        return ROUND_UNIX_US;
    case LINK_LOOPBACK:
        return ROUND_LOOPBACK_US;
    default:
        return ROUND_REMOTE_US;
    }
}

static int fill_round(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct pg_op *op = c->fetch_op;
    struct batch *b = op->op->batch;
    c->link.gulps = s->now.wall_us - c->decoder.commit_us > FRESH_US;
    c->link.has_read = false;
    int rc = fill(s, b, err);
    c->link.gulps = false;
    if (rc < 0)
        return -1;
    look_for_mark(s);
    c->is_filling = is_worth_waiting(s, b);
    if (c->is_filling) {
        c->round_us = s->now.mono_us + round_of(c->link.place);
        return 0;
    }
    s->base.ready = batch_is_full(b);
    if (b->n > 0)
        c->batch_floor = c->n_fetched;
    return outrider__cdc_hand_on(s, op, err);
}

int outrider__cdc_stream_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    s->base.ready = false;
    if (c->link.state != LINK_STREAMING)
        return outrider__cdc_hand_on(s, op, err);
    c->fetch_op = op;
    c->filling_until_us = s->now.mono_us + FILLING_US;
    return fill_round(s, err);
}

/* A slot that was made before anybody asked for failover. */
static bool needs_failover(const struct pg_source *s)
{
    const struct cdc_source *c = s->cdc;
    return postgres_options(s->config)->slot_failover && s->cat.version >= CDC_FAILOVER_SINCE &&
           c->facts.has_slot && !c->facts.has_failover && c->link.state == LINK_IDLE;
}

static int ask_failover(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    char command[128];
    (void)snprintf(command, sizeof command, "ALTER_REPLICATION_SLOT \"%s\" (FAILOVER true)",
                   c->slot);
    c->is_starting = true; /* whoever reads the slot has to go first, as for the stream */
    return outrider__cdc_link_ask(&c->link, command, "cannot alter the replication slot", err);
}

static int start_stream(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    char command[320];
    int errno_value = FAILPOINT("cdc.start_stream");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot start replication");
    outrider__cdc_decoder_release(&c->decoder);
    c->decoder = (struct cdc_decoder){.outboxes = c->tables.outboxes,
                                      .n_outboxes = c->tables.n_outboxes,
                                      .max = outrider__event_bounds(s->config)};
    (void)snprintf(command, sizeof command,
                   "START_REPLICATION SLOT \"%s\" LOGICAL 0/0 (proto_version '1', "
                   "publication_names '\"%s\"', binary '%s', messages 'true')",
                   c->slot, c->publication, c->facts.is_binary ? "true" : "false");
    c->is_starting = true;
    return outrider__cdc_link_ask(&c->link, command, "cannot start replication", err);
}

static int on_ended_reader(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    (void)results;
    (void)n;
    (void)err;
    cdc_of(s)->is_asking = false;
    return 0;
}

/* The slot stays in use for a moment after its reader is gone; one that is
 * frozen keeps it until wal_sender_timeout. This relay holds the pipeline's
 * lock: the other one has lost it, and its stream is ended. */
static int retry_stream(struct pg_source *s, const struct outrider_error *why,
                        struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (strcmp(why->origin, "55006") != 0) {
        if (err != NULL)
            *err = *why;
        return -1;
    }
    outrider__cdc_link_close(&c->link);
    c->is_starting = false;
    if (c->retry_since_us == 0)
        c->retry_since_us = s->now.mono_us;
    c->retry_us = s->now.mono_us + READER_PAUSE_US;
    if (s->now.mono_us - c->retry_since_us < READER_END_US || c->is_asking)
        return 0;
    c->is_asking = true;
    c->retry_since_us = s->now.mono_us;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_str(&c->args, c->slot);
    return outrider__pg_request(&s->conn, &c->st[CDC_END_READER], &c->args, on_ended_reader, s,
                                err);
}

/* Somebody must be there: TCP alone would not tell for hours. The server answers
 * START_REPLICATION before it decodes anything, so the same bound serves there. */
static int check_silence(struct pg_source *s, struct outrider_error *err)
{
    if (s->now.mono_us - cdc_of(s)->link.heard_us <= ALIVE_END_US)
        return 0;
    return outrider__fail(err, OUTRIDER_TIMEOUT, OUTRIDER_RETRY,
                          "the server did not answer on the replication connection for %d s",
                          ALIVE_END_US / 1000000);
}

static int advance_link(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct outrider_error why = {0};
    if (c->link.state == LINK_CLOSED) {
        if (s->now.mono_us < c->retry_us)
            return 0;
        if (outrider__cdc_link_connect(&c->link, s->config->source.url, s->config->name,
                                       s->config->source.connect_timeout_us, s->now, err) < 0)
            return -1;
    }
    if (outrider__cdc_link_poll(&c->link, s->now, &why) < 0) {
        if (c->is_starting)
            return retry_stream(s, &why, err);
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (needs_failover(s))
        return ask_failover(s, err);
    if (c->link.state == LINK_IDLE || c->link.state == LINK_ANSWERED)
        return start_stream(s, err);
    if (c->link.state == LINK_ASKED)
        return check_silence(s, err);
    if (c->link.state == LINK_STREAMING && c->is_starting) {
        c->is_starting = false;
        c->retry_since_us = 0;
        c->status_us = s->now.mono_us;
    }
    return 0;
}

static int check_alive(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (c->has_held || c->is_stopped || c->is_paused) {
        c->link.heard_us = s->now.mono_us; /* nothing is read: nothing can be heard */
        return 0;
    }
    if (check_silence(s, err) < 0)
        return -1;
    if (s->now.mono_us - c->link.heard_us < ALIVE_ASK_US || c->asked_alive)
        return 0;
    c->asked_alive = true;
    return tell(s, true, err);
}

static void choose_wake(struct pg_source *s)
{
    struct cdc_source *c = cdc_of(s);
    int64_t wake = c->is_pulsing ? CLOCK_NEVER : c->pulse_us;
    if (c->link.state == LINK_STREAMING) {
        if (c->status_us < wake)
            wake = c->status_us;
        if (c->is_filling && c->round_us < wake)
            wake = c->round_us;
        if (c->confirmed_lsn > c->told_lsn && c->confirm_us < wake)
            wake = c->confirm_us;
    } else if (c->link.state == LINK_CLOSED && c->retry_us < wake) {
        wake = c->retry_us;
    } else if (c->link.state == LINK_CONNECTING && c->link.deadline_us < wake) {
        wake = c->link.deadline_us;
    } else if (c->link.state == LINK_ASKED && c->link.heard_us + ALIVE_END_US < wake) {
        wake = c->link.heard_us + ALIVE_END_US + 1;
    }
    s->base.wake_us = wake;
}

int outrider__cdc_stream_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (advance_link(s, err) < 0)
        return -1;
    if (c->link.state == LINK_STREAMING) {
        if (c->is_filling && s->now.mono_us >= c->round_us && fill_round(s, err) < 0)
            return -1;
        if (c->fetch_op == NULL && !s->base.ready) {
            if (look(s, err) < 0)
                return -1;
            s->base.ready = c->has_held;
            look_for_mark(s);
        }
        /* What was settled is told at once, what merely frees log in a while. */
        bool is_due = s->now.mono_us >= c->status_us || c->must_reply ||
                      (c->confirmed_lsn > c->told_lsn && c->must_confirm) ||
                      (c->confirmed_lsn > c->told_lsn && s->now.mono_us >= c->confirm_us);
        if (is_due && tell(s, false, err) < 0)
            return -1;
        if (check_alive(s, err) < 0)
            return -1;
    }
    choose_wake(s);
    return 0;
}
