/* SPDX-License-Identifier: MIT */
/*
 * What the outcome of an event means to a database: which row changes, and the
 * words that are written into that row.
 *
 *  (1) An event of the outbox that is PARKED, QUEUED or DEAD gets a row in the
 *      table of parked rows. An event that came from a parked row changes that row
 *      when it is PARKED or DEAD again, and removes it when it is DELIVERED,
 *      EXPIRED or SKIPPED. Every other outcome leaves the parked rows alone.
 *  (2) The words for the state of a parked row are 'parked', 'queued' and 'dead'.
 *  (3) The message of a failure is valid UTF-8: it ends before the first byte that is
 *      not. A receiver's answer may be cut in the middle of a character, or be no
 *      text, and a database refuses such a value and the whole settle with it.
 *  (4) The name of a lane is the partition key, else the aggregate id. An empty
 *      partition key is a key: whoever writes an event without a key stores NULL.
 *      Without order every event is a lane of its own, named by its id.
 */
#ifndef COMMON_OUTCOME_H
#define COMMON_OUTCOME_H

#include "core/event.h"

/* What happens to the parked row of the event. */
enum row_change { ROW_UNCHANGED, ROW_ADDED, ROW_CHANGED, ROW_REMOVED };

static inline enum row_change outcome_change(const struct event *e)
{
    switch (e->outcome) {
    case OUTCOME_PARKED:
    case OUTCOME_DEAD:
        return e->is_parked ? ROW_CHANGED : ROW_ADDED;
    case OUTCOME_QUEUED:
        return e->is_parked ? ROW_UNCHANGED : ROW_ADDED;
    case OUTCOME_DELIVERED:
    case OUTCOME_EXPIRED:
    case OUTCOME_SKIPPED:
        return e->is_parked ? ROW_REMOVED : ROW_UNCHANGED;
    default:
        return ROW_UNCHANGED;
    }
}

/* Whether the row of the event says from now on that it was parked, queued or is dead. */
static inline bool outcome_is_kept(const struct event *e)
{
    enum row_change change = outcome_change(e);
    return change == ROW_ADDED || change == ROW_CHANGED;
}

static inline bool outcome_is_removed(const struct event *e)
{
    return outcome_change(e) == ROW_REMOVED;
}

/* The receiver has the event, or must not get it: the row of the outbox is marked. */
static inline bool outcome_is_published(const struct event *e)
{
    return e->outcome == OUTCOME_DELIVERED || e->outcome == OUTCOME_SKIPPED;
}

/* The event is not published, and nobody tries again. */
static inline bool outcome_is_given_up(const struct event *e)
{
    return e->outcome == OUTCOME_DEAD || e->outcome == OUTCOME_EXPIRED;
}

/* The event was not tried: its row of the outbox becomes what it was before the fetch. */
static inline bool outcome_is_untried(const struct event *e)
{
    return e->outcome == OUTCOME_QUEUED || e->outcome == OUTCOME_RELEASED;
}

/* The word for the state of a parked row: (2). Any other outcome is 'queued'. */
struct bytes outrider__outcome_state(const struct event *e);

/* Why an event is where it is, as three texts; each is NULL where there is none. */
struct outcome_failure {
    struct bytes code, origin, message;
};

/* An event that expired failed for that reason, whatever was said before. */
struct outcome_failure outrider__outcome_failure(const struct event *e);
/* One text of these: where values of many events go into an array each. */
struct bytes outrider__outcome_code(const struct event *e);
struct bytes outrider__outcome_origin(const struct event *e);
struct bytes outrider__outcome_message(const struct event *e);

/* The time from now until a PARKED event is tried again; never negative. */
static inline int64_t outcome_delay_us(const struct event *e, int64_t now_wall_us)
{
    return e->next_attempt_us > now_wall_us ? e->next_attempt_us - now_wall_us : 0;
}

/* The name of the event's lane: (4). */
static inline struct bytes outcome_lane(const struct event *e, bool ordered)
{
    return ordered ? event_key(e) : e->id;
}

#endif
