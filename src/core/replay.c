/* SPDX-License-Identifier: MIT */
#include "core/replay.h"

#include <stdlib.h>

struct replay_source {
    struct source base;      /* must stay first */
    struct source *reader;   /* open, or NULL */
    struct source_op *first; /* operations under way, in their order */
    struct source_op *last;  /* of the same list */
    struct source_op read;   /* the first operation, as the reader has it */
    bool is_reading;         /* the reader has it */
};

static struct replay_source *replay_of(struct source *s)
{
    return (struct replay_source *)s;
}

/* What the engine sees of the reader. There is nothing that the reader would have to
 * finish before an end, and no parked row. */
static void replay_take_state(struct replay_source *me)
{
    struct source *to = &me->base;
    const struct source *from = me->reader;
    to->active = from->active;
    to->ready = from->ready;
    to->reads_ahead = from->reads_ahead;
    to->mark_reached = from->mark_reached;
    to->wake_us = from->wake_us;
    memcpy(to->description, from->description, sizeof to->description);
    memcpy(to->waiting_for, from->waiting_for, sizeof to->waiting_for);
    memcpy(to->warning, from->warning, sizeof to->warning);
    to->warnings = from->warnings;
}

static int replay_open(struct source *s, const struct pipeline_config *config, struct instant now,
                       struct outrider_error *err)
{
    struct replay_source *me = replay_of(s);
    const struct source_ops *ops = s->ops->reader;
    me->reader = calloc(1, ops->size);
    if (me->reader == NULL)
        return outrider__fail_nomem(err);
    me->reader->ops = ops;
    me->reader->parked_due_us = me->reader->wake_us = CLOCK_NEVER;
    int rc = ops->open(me->reader, config, now, err);
    replay_take_state(me);
    return rc;
}

/* Gives the first operation to the reader, if the reader is the one to do it. */
static int replay_begin(struct replay_source *me, struct outrider_error *err)
{
    const struct source_op *op = me->first;
    if (op == NULL || me->is_reading || (op->kind != SOURCE_MARK && op->kind != SOURCE_FETCH))
        return 0;
    me->read =
        (struct source_op){.kind = op->kind, .batch = op->batch, .now_wall_us = op->now_wall_us};
    me->is_reading = true;
    return me->reader->ops->start(me->reader, &me->read, err);
}

static int replay_start(struct source *s, struct source_op *op, struct outrider_error *err)
{
    struct replay_source *me = replay_of(s);
    op->next = NULL;
    if (me->last != NULL)
        me->last->next = op;
    else
        me->first = op;
    me->last = op;
    if (op->kind == SOURCE_FETCH_PARKED)
        op->batch->is_parked = true;
    op->removed = 0;
    op->more = false;
    int rc = replay_begin(me, err);
    replay_take_state(me);
    return rc;
}

static struct source_op *replay_pop(struct replay_source *me)
{
    struct source_op *op = me->first;
    me->first = op->next;
    if (me->first == NULL)
        me->last = NULL;
    op->next = NULL;
    return op;
}

static int replay_poll(struct source *s, struct instant now, struct source_op **ret_done,
                       struct outrider_error *err)
{
    struct replay_source *me = replay_of(s);
    struct source_op *read = NULL;
    *ret_done = NULL;
    if (me->first == NULL || me->is_reading) {
        if (me->reader->ops->poll(me->reader, now, &read, err) < 0)
            return -1;
        me->is_reading &= read == NULL;
    }
    bool is_done = me->first != NULL && !me->is_reading;
    if (is_done)
        *ret_done = replay_pop(me);
    int rc = is_done ? replay_begin(me, err) : 0;
    replay_take_state(me);
    return rc;
}

static int replay_fds(struct source *s, struct pollfd *ret_fds, int max)
{
    struct source *reader = replay_of(s)->reader;
    return reader->ops->fds != NULL ? reader->ops->fds(reader, ret_fds, max) : 0;
}

static void replay_draw(struct source *s)
{
    struct source *reader = replay_of(s)->reader;
    if (reader->ops->draw != NULL)
        reader->ops->draw(reader);
}

static void replay_close(struct source *s)
{
    struct replay_source *me = replay_of(s);
    s->active = s->ready = false;
    if (me->reader != NULL)
        me->reader->ops->close(me->reader);
    free(me->reader);
    me->reader = NULL;
    me->first = me->last = NULL;
}

int outrider__replay_wrap(const struct source_ops *adapter, struct source_ops *ret_ops,
                          struct outrider_error *err)
{
    if (adapter->reader == NULL)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "a %s: source cannot be replayed", adapter->scheme);
    *ret_ops = (struct source_ops){
        .scheme = adapter->scheme,
        .size = sizeof(struct replay_source),
        .reader = adapter->reader,
        .open = replay_open,
        .start = replay_start,
        .poll = replay_poll,
        .fds = replay_fds,
        .draw = replay_draw,
        .close = replay_close,
    };
    return 0;
}

void outrider__replay_configure(struct pipeline_config *c, int64_t from_seq, int64_t since_us)
{
    c->once = true;
    c->exactly_once = false;
    c->retry.max_attempts = 1;
    c->retry.on_dead = ON_DEAD_SKIP;
    c->replay_from_seq = from_seq;
    c->replay_since_us = since_us;
}
