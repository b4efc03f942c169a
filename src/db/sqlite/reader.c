/* SPDX-License-Identifier: MIT */
/*
 * Reading the outbox again, for a replay: core/source.h (16). Beside a relay: this
 * takes no lock, has no cursor, and writes nothing.
 */
#include "source.h"

#define BUSY_PAUSE_US 5000
#define BUSY_TIMEOUT_US 2000000 /* where connect_timeout says nothing */

static enum step reader_read(struct sqlite_source *s, struct batch *b, bool *ret_at_end,
                             struct outrider_error *err)
{
    int64_t since_us = s->config->replay_since_us;
    char since[CLOCK_TEXT_SIZE];
    sqlite3_stmt *st = outrider__sqlite_statement(s, since_us != 0 ? ST_READ_SINCE : ST_FETCH, err);
    if (st == NULL)
        return STEP_FAILED;
    (void)sqlite3_bind_int64(st, 1, s->read_seq + 1);
    if (since_us != 0) {
        outrider__clock_format(since_us, since);
        (void)sqlite3_bind_text(st, 2, since, -1, SQLITE_TRANSIENT);
    }
    return outrider__sqlite_read(s, st, b, false, ret_at_end, err);
}

static enum step reader_fetch(struct sqlite_source *s, struct batch *b, struct outrider_error *err)
{
    bool at_end = false;
    int64_t newest = 0;
    if (b->n != 0)
        outrider__batch_reset(b); /* tried before, and was in the way of a writer */
    int rc = outrider__sqlite_run(s, ST_BEGIN);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read the outbox", err);
    enum step step = reader_read(s, b, &at_end, err);
    if (step != STEP_DONE) {
        outrider__sqlite_rollback(s);
        return step;
    }
    rc = outrider__sqlite_probe(s, &newest);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_run(s, ST_COMMIT);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot read the outbox", err);
    if (b->n > 0)
        s->read_seq = b->events[b->n - 1].seq;
    if (b->n > 0 && s->read_seq > s->durable_seq &&
        outrider__sqlite_make_durable(s, newest, err) < 0)
        return STEP_FAILED;
    if (at_end)
        s->read_seq = newest; /* rows that are older than asked for count as read */
    s->base.ready = !at_end;
    if (s->mark >= 0 && (at_end || s->read_seq >= s->mark))
        s->base.mark_reached = true;
    return STEP_DONE;
}

static enum step reader_perform(struct sqlite_source *s, struct source_op *op,
                                struct outrider_error *err)
{
    if (op->kind == SOURCE_MARK)
        return outrider__sqlite_mark(s, err);
    if (op->kind == SOURCE_FETCH)
        return reader_fetch(s, op->batch, err);
    return (enum step)outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                                     "a reader reads, and does nothing else");
}

static void reader_activate(struct sqlite_source *s)
{
    int64_t from = s->config->replay_from_seq;
    s->read_seq = from > 0 ? from - 1 : 0;
    s->base.active = s->base.ready = true;
    s->base.wake_us = CLOCK_NEVER;
}

/* A writer has the database locked, which happens outside of WAL mode only. */
static int reader_wait(struct sqlite_source *s, struct instant now)
{
    int64_t limit = s->config->source.connect_timeout_us;
    if (s->busy_since_us == 0)
        s->busy_since_us = now.mono_us;
    if (now.mono_us - s->busy_since_us >= (limit > 0 ? limit : BUSY_TIMEOUT_US))
        return -1;
    s->base.wake_us = now.mono_us + BUSY_PAUSE_US;
    return 0;
}

static int reader_poll(struct source *base, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct sqlite_source *s = sqlite_source_of(base);
    *ret_done = NULL;
    if (!base->active)
        reader_activate(s);
    if (s->queue.n == 0)
        return 0;
    struct source_op *op = s->queue.slots[s->queue.first].op;
    enum step step = reader_perform(s, op, err);
    if (step == STEP_FAILED)
        return -1;
    if (step == STEP_BUSY)
        return reader_wait(s, now);
    s->busy_since_us = 0;
    base->wake_us = CLOCK_NEVER;
    op_queue_done(&s->queue, s->queue.first);
    (void)outrider__op_queue_give(&s->queue, NULL, NULL);
    *ret_done = op;
    return 0;
}

const struct source_ops outrider__sqlite_reader = {
    .scheme = "sqlite",
    .size = sizeof(struct sqlite_source),
    .open = outrider__sqlite_source_open,
    .start = outrider__sqlite_source_start,
    .poll = reader_poll,
    .close = outrider__sqlite_source_close,
};
