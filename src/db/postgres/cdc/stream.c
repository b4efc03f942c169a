/* SPDX-License-Identifier: MIT */
/* The stream: from messages to batches, and how far the slot is confirmed. */
#include "postgres/cdc/stream.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "postgres/cdc/cdc.h"
#include "postgres/cdc/lsn.h"
#include "postgres/options.h"

#define REPLY_MAX_US 5000000
#define CONFIRM_PAUSE_US 100000 /* between confirmations that free disk space only */
#define ALIVE_ASK_US 10000000
#define ALIVE_END_US 30000000
#define READER_PAUSE_US 100000
#define READER_END_US 2000000
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

static int stream_compare(struct bytes a, struct bytes b)
{
    uint64_t x = lsn_of(a), y = lsn_of(b);
    return x < y ? -1 : x > y;
}

int outrider__cdc_stream_init(struct cdc_stream *st, struct outrider_error *err)
{
    *st = (struct cdc_stream){.state = STREAM_WAITING, .round_us = CLOCK_NEVER};
    return outrider__track_init(&st->track, stream_compare, sizeof(uint64_t), err);
}

void outrider__cdc_stream_release(struct cdc_stream *st)
{
    outrider__cdc_link_close(&st->link);
    outrider__cdc_decoder_release(&st->decoder);
    outrider__track_release(&st->track);
    outrider__seq_ranges_release(&st->polled.rest);
    outrider__late_ids_release(&st->polled.late);
}

void outrider__cdc_stream_resume(struct cdc_stream *st, const struct stream_place *place)
{
    outrider__track_resume(&st->track, lsn_bytes(&place->lsn), place->number);
    outrider__track_polled_until(&st->track, lsn_bytes(&place->polled_lsn));
    outrider__seq_ranges_release(&st->polled.rest);
    st->polled.high = place->polled_high;
    st->polled.rest = place->polled_rest;
}

uint64_t outrider__cdc_stream_confirmable(const struct cdc_stream *st)
{
    return lsn_of(track_bytes(st->track.confirmable));
}

/* Tells the server what is confirmed. */
static int stream_reply(struct pg_source *s, bool wants_reply, struct outrider_error *err)
{
    struct cdc_stream *st = &cdc_of(s)->stream;
    int64_t every = cdc_of(s)->facts.sender_timeout_us / 3;
    if (every <= 0 || every > REPLY_MAX_US)
        every = REPLY_MAX_US;
    int errno_value = FAILPOINT("cdc.before_confirm");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot confirm");
    st->confirmed_lsn = outrider__cdc_stream_confirmable(st);
    st->owes_reply = st->has_settled = false;
    st->reply_us = s->now.mono_us + every;
    st->confirm_us = s->now.mono_us + CONFIRM_PAUSE_US;
    if (outrider__cdc_link_status(&st->link, lsn_of(track_bytes(st->track.received)),
                                  st->confirmed_lsn, s->now.wall_us, wants_reply, err) < 0)
        return -1;
    (void)FAILPOINT("cdc.after_confirm");
    return 0;
}

static bool stream_has_news(const struct cdc_stream *st)
{
    return outrider__cdc_stream_confirmable(st) > st->confirmed_lsn;
}

/* What was settled is confirmed at once, what merely frees disk space in a while. */
static bool stream_must_reply(const struct cdc_stream *st, struct instant now)
{
    return now.mono_us >= st->reply_us || st->owes_reply ||
           (stream_has_news(st) && (st->has_settled || now.mono_us >= st->confirm_us));
}

void outrider__cdc_stream_settled(struct cdc_stream *st, int64_t n)
{
    outrider__track_settle(&st->track, n);
    st->has_settled = true;
}

void outrider__cdc_stream_pause(struct cdc_stream *st)
{
    if (st->state == STREAM_READING)
        st->state = STREAM_PAUSED;
}

void outrider__cdc_stream_unpause(struct cdc_stream *st)
{
    if (st->state == STREAM_PAUSED)
        st->state = STREAM_READING;
}

void outrider__cdc_stream_stop_at(struct cdc_stream *st, uint64_t lsn)
{
    outrider__track_stop_at(&st->track, lsn_bytes(&lsn));
}

bool outrider__cdc_stream_has_passed(const struct cdc_stream *st, uint64_t lsn)
{
    return outrider__track_has_passed(&st->track, lsn_bytes(&lsn));
}

static bool stream_reads(const struct cdc_stream *st)
{
    return st->state == STREAM_READING && !track_has_stopped(&st->track);
}

/* cdc.h (2) and (3). */
static bool stream_was_settled(const struct cdc_stream *st, const struct cdc_message *m)
{
    if (track_is_settled(&st->track, m->number))
        return true;
    return track_is_before_polled_end(&st->track) && m->seq > 0 && m->seq <= st->polled.high &&
           !outrider__seq_ranges_hold(&st->polled.rest, m->seq);
}

static int stream_take_data(struct cdc_stream *st, struct bytes data, struct outrider_error *err)
{
    struct cdc_message m;
    if (outrider__cdc_decode(&st->decoder, data, &m, err) < 0)
        return -1;
    if (m.kind == CDC_BEGIN)
        outrider__track_begin(&st->track, lsn_bytes(&m.commit_lsn));
    else if (m.kind == CDC_COMMIT)
        outrider__track_commit(&st->track, lsn_bytes(&m.end_lsn));
    if (m.kind != CDC_EVENT || stream_was_settled(st, &m))
        return 0;
    int errno_value = FAILPOINT("cdc.receive");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "the replication connection is lost");
    st->held = m;
    track_hold(&st->track);
    return 0;
}

/* The server looks the publication up as it was when an event was committed. */
static int stream_next_message(struct pg_source *s, struct link_message *ret,
                               struct outrider_error *err)
{
    struct outrider_error why;
    if (outrider__cdc_link_next(&cdc_of(s)->stream.link, s->now, ret, &why) == 0)
        return 0;
    if (strcmp(why.origin, "42704") == 0)
        return outrider__cdc_fail_published(s, err);
    if (err != NULL)
        *err = why;
    return -1;
}

/* Copies the held event into the batch, unless polling has settled it: cdc.h (7). */
static int stream_take_held(struct cdc_stream *st, struct batch *b, struct outrider_error *err)
{
    struct cdc_point *points = b->source_data;
    if (points == NULL)
        points = outrider__arena_alloc(&b->arena, b->capacity * sizeof *points);
    if (points == NULL)
        return outrider__fail_nomem(err);
    b->source_data = points;
    if (outrider__cdc_event(&st->decoder, &st->held, b, err) < 0)
        return -1;
    const struct event *e = &b->events[b->n - 1];
    if (st->polled.late.is_frozen && outrider__late_ids_has(&st->polled.late, e->seq, e->id)) {
        b->n--;
        track_drop(&st->track);
        return 0;
    }
    points[b->n - 1] = (struct cdc_point){st->held.commit_lsn, st->held.number, st->decoder.xid};
    track_take(&st->track);
    return 0;
}

/* The one way to what the server sends. Reads what is there: into the batch until it is
 * full, or, without a batch, until an event is held. */
static int stream_read(struct pg_source *s, struct batch *b, struct outrider_error *err)
{
    struct cdc_stream *st = &cdc_of(s)->stream;
    struct link_message m;
    while (b == NULL ? !st->track.is_holding : !batch_is_full(b)) {
        if (st->track.is_holding) {
            if (stream_take_held(st, b, err) < 0)
                return -1;
            continue;
        }
        if (!stream_reads(st))
            return 0;
        if (stream_next_message(s, &m, err) < 0)
            return -1;
        if (m.kind == LINK_NOTHING)
            return 0;
        st->asked_alive = false;
        st->owes_reply |= m.wants_reply;
        if (m.kind == LINK_KEEPALIVE)
            outrider__track_heartbeat(&st->track, lsn_bytes(&m.lsn));
        else if (stream_take_data(st, m.data, err) < 0)
            return -1;
    }
    return 0;
}

static void stream_check_goal(struct pg_source *s)
{
    const struct cdc_source *c = cdc_of(s);
    if (c->goal.lsn != 0 && outrider__cdc_stream_has_passed(&c->stream, c->goal.lsn))
        s->base.mark_reached = true;
}

static bool stream_is_behind(const struct pg_source *s)
{
    return s->now.wall_us - cdc_of((struct pg_source *)s)->stream.decoder.commit_us > FRESH_US;
}

static bool stream_waits_for_more(const struct pg_source *s, const struct batch *b)
{
    const struct cdc_stream *st = &cdc_of((struct pg_source *)s)->stream;
    return b->n > 0 && !batch_is_full(b) && !s->base.mark_reached && stream_reads(st) &&
           stream_is_behind(s) && s->now.mono_us < st->filling_until_us;
}

static int64_t stream_round_us(enum link_place place)
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

static int stream_fill(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_stream *st = &c->stream;
    struct batch *b = c->fetch_op->op->batch;
    st->round_us = CLOCK_NEVER;
    st->link.gulps = stream_is_behind(s);
    st->link.has_read = false;
    int rc = stream_read(s, b, err);
    st->link.gulps = false;
    if (rc < 0)
        return -1;
    stream_check_goal(s);
    if (stream_waits_for_more(s, b)) {
        st->round_us = s->now.mono_us + stream_round_us(st->link.place);
        return 0;
    }
    s->base.ready = batch_is_full(b);
    if (b->n > 0)
        track_hand_out(&st->track);
    return outrider__cdc_finish_fetch(s, c->fetch_op, err);
}

int outrider__cdc_stream_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    s->base.ready = false;
    if (!stream_is_up(&c->stream))
        return outrider__cdc_finish_fetch(s, op, err);
    c->fetch_op = op;
    c->stream.filling_until_us = s->now.mono_us + FILLING_US;
    return stream_fill(s, err);
}

/* The next round of a batch that is being filled; and without a batch, whether there is
 * anything to fetch. */
static int stream_advance(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (s->now.mono_us >= c->stream.round_us && stream_fill(s, err) < 0)
        return -1;
    if (c->fetch_op != NULL || s->base.ready)
        return 0;
    if (stream_read(s, NULL, err) < 0)
        return -1;
    s->base.ready = c->stream.track.is_holding;
    stream_check_goal(s);
    return 0;
}

void outrider__cdc_stream_draw(struct cdc_stream *st)
{
    if (stream_reads(st))
        outrider__cdc_link_draw(&st->link);
}

int outrider__cdc_stream_fds(const struct pg_source *s, struct pollfd *ret_fds, int max)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    /* When the source is ready, a fetch reads as soon as there is room for it. */
    bool wants =
        !stream_is_up(&c->stream) || (stream_reads(&c->stream) && !c->stream.track.is_holding &&
                                      !s->base.ready && c->fetch_op == NULL);
    return outrider__cdc_link_fds(&c->stream.link, wants, ret_fds, max);
}

/* A slot that was made before anybody asked for failover. */
static bool stream_needs_failover(const struct pg_source *s)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    return postgres_options(s->config)->slot_failover && s->cat.version >= CDC_FAILOVER_SINCE &&
           c->facts.has_slot && !c->facts.has_failover && c->stream.state == STREAM_CONNECTING;
}

static int stream_ask_failover(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    char command[128];
    (void)snprintf(command, sizeof command, "ALTER_REPLICATION_SLOT \"%s\" (FAILOVER true)",
                   c->slot);
    c->stream.state = STREAM_ASKING; /* the slot's last reader has to go first, as for the stream */
    return outrider__cdc_link_ask(&c->stream.link, command, "cannot alter the replication slot",
                                  err);
}

static int stream_ask(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_decoder *d = &c->stream.decoder;
    char command[320];
    int errno_value = FAILPOINT("cdc.start_stream");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot start replication");
    outrider__cdc_decoder_release(d);
    d->outboxes = c->tables.outboxes;
    d->n_outboxes = c->tables.n_outboxes;
    d->max = outrider__event_bounds(s->config);
    (void)snprintf(command, sizeof command,
                   "START_REPLICATION SLOT \"%s\" LOGICAL 0/0 (proto_version '1', "
                   "publication_names '\"%s\"', binary '%s', messages 'true')",
                   c->slot, c->publication, c->facts.is_binary ? "true" : "false");
    c->stream.state = STREAM_ASKING;
    return outrider__cdc_link_ask(&c->stream.link, command, "cannot start replication", err);
}

static int stream_on_reader_ended(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    (void)results;
    (void)n;
    (void)err;
    cdc_of(s)->stream.is_ending_reader = false;
    return 0;
}

/* The slot stays in use for a moment after its reader is gone; a frozen reader keeps the
 * slot until wal_sender_timeout. This relay holds the pipeline's lock: so the other reader
 * has lost the lock, and its stream is ended. */
static int stream_retry(struct pg_source *s, const struct outrider_error *why,
                        struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_stream *st = &c->stream;
    if (strcmp(why->origin, "55006") != 0) {
        if (err != NULL)
            *err = *why;
        return -1;
    }
    outrider__cdc_link_close(&st->link);
    st->state = STREAM_WAITING;
    if (st->retry_since_us == 0)
        st->retry_since_us = s->now.mono_us;
    st->retry_us = s->now.mono_us + READER_PAUSE_US;
    if (s->now.mono_us - st->retry_since_us < READER_END_US || st->is_ending_reader)
        return 0;
    st->is_ending_reader = true;
    st->retry_since_us = s->now.mono_us;
    outrider__pg_args_clear(&c->args);
    outrider__pg_arg_str(&c->args, c->slot);
    return outrider__pg_request(&s->conn, &c->st[CDC_END_READER], &c->args, stream_on_reader_ended,
                                s, err);
}

/* TCP alone would not say for hours that the server is gone. The server answers
 * START_REPLICATION before it decodes anything, so the same bound serves there. */
static int stream_check_silence(struct pg_source *s, struct outrider_error *err)
{
    if (s->now.mono_us - cdc_of(s)->stream.link.heard_us <= ALIVE_END_US)
        return 0;
    return outrider__fail(err, OUTRIDER_TIMEOUT, OUTRIDER_RETRY,
                          "the server did not answer on the replication connection for %d s",
                          ALIVE_END_US / 1000000);
}

/* One step towards reading, or one of a link that is up. */
static int stream_open(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_stream *st = &cdc_of(s)->stream;
    struct outrider_error why = {0};
    if (st->state == STREAM_WAITING) {
        if (s->now.mono_us < st->retry_us)
            return 0;
        if (outrider__cdc_link_connect(&st->link, s->config->source.url, s->config->name,
                                       s->config->source.connect_timeout_us, s->now, err) < 0)
            return -1;
        st->state = STREAM_CONNECTING;
    }
    if (outrider__cdc_link_poll(&st->link, s->now, &why) < 0) {
        if (st->state == STREAM_ASKING)
            return stream_retry(s, &why, err);
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (st->link.state == LINK_IDLE || st->link.state == LINK_ANSWERED)
        return stream_needs_failover(s) ? stream_ask_failover(s, err) : stream_ask(s, err);
    if (st->link.state == LINK_ASKED)
        return stream_check_silence(s, err);
    if (st->link.state == LINK_STREAMING && st->state == STREAM_ASKING) {
        st->state = STREAM_READING;
        st->retry_since_us = 0;
        st->reply_us = s->now.mono_us;
    }
    return 0;
}

static int stream_check_alive(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_stream *st = &cdc_of(s)->stream;
    if (st->track.is_holding || !stream_reads(st)) {
        st->link.heard_us = s->now.mono_us; /* nothing is read: nothing can be heard */
        return 0;
    }
    if (stream_check_silence(s, err) < 0)
        return -1;
    if (s->now.mono_us - st->link.heard_us < ALIVE_ASK_US || st->asked_alive)
        return 0;
    st->asked_alive = true;
    return stream_reply(s, true, err);
}

static int64_t stream_wake_us(const struct cdc_stream *st)
{
    int64_t wake;
    switch (st->state) {
    case STREAM_WAITING:
        return st->retry_us;
    case STREAM_CONNECTING:
        return st->link.state == LINK_CONNECTING ? st->link.deadline_us : CLOCK_NEVER;
    case STREAM_ASKING:
        return st->link.heard_us + ALIVE_END_US + 1;
    default:
        wake = st->round_us < st->reply_us ? st->round_us : st->reply_us;
        return stream_has_news(st) && st->confirm_us < wake ? st->confirm_us : wake;
    }
}

int outrider__cdc_stream_tick(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct cdc_stream *st = &c->stream;
    if (stream_open(s, err) < 0)
        return -1;
    if (stream_is_up(st)) {
        if (stream_advance(s, err) < 0)
            return -1;
        if (stream_must_reply(st, s->now) && stream_reply(s, false, err) < 0)
            return -1;
        if (stream_check_alive(s, err) < 0)
            return -1;
    }
    int64_t wake = stream_wake_us(st), pulse = c->is_pulsing ? CLOCK_NEVER : c->pulse_us;
    s->base.wake_us = pulse < wake ? pulse : wake;
    return 0;
}
