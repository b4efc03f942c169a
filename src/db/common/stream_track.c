/* SPDX-License-Identifier: MIT */
#include "common/stream_track.h"

#include <stdlib.h>

#define TRACK_POSITIONS 5 /* of struct stream_track itself */

int outrider__track_init(struct stream_track *t, track_compare_fn *compare, size_t position_max,
                         struct outrider_error *err)
{
    *t = (struct stream_track){.compare = compare, .position_max = position_max};
    t->room = malloc((TRACK_POSITIONS + TRACK_COMMITS_MAX) * position_max);
    if (t->room == NULL)
        return outrider__fail_nomem(err);
    struct track_position *all[TRACK_POSITIONS] = {&t->resumed, &t->polled_end, &t->stop,
                                                   &t->received, &t->confirmable};
    char *room = t->room;
    for (size_t i = 0; i < TRACK_POSITIONS; i++, room += position_max)
        all[i]->data = room;
    for (size_t i = 0; i < TRACK_COMMITS_MAX; i++, room += position_max)
        t->commits[i].end.data = room;
    return 0;
}

void outrider__track_release(struct stream_track *t)
{
    free(t->room);
    *t = (struct stream_track){0};
}

/* Longer than position_max never is: then the bytes are the adapter's error, and an empty
 * position, which confirms nothing, does no harm. */
static void track_set(const struct stream_track *t, struct track_position *to, struct bytes from)
{
    to->len = from.len <= t->position_max ? from.len : 0;
    if (to->len > 0)
        memcpy(to->data, from.data, to->len);
}

static int track_compare(const struct stream_track *t, struct bytes a, struct track_position b)
{
    return t->compare(a, bytes_of(b.data, b.len));
}

static void track_raise(const struct stream_track *t, struct track_position *to, struct bytes from)
{
    if (to->len == 0 || track_compare(t, from, *to) > 0)
        track_set(t, to, from);
}

/* (8): nothing below the stop is left, unless a transaction is open. */
static void track_check_stop(struct stream_track *t)
{
    if (t->state == TRACK_BETWEEN && t->stop.len > 0 && t->received.len > 0 &&
        track_compare(t, track_bytes(t->received), t->stop) >= 0)
        t->state = TRACK_STOPPED;
}

void outrider__track_resume(struct stream_track *t, struct bytes position, int64_t number)
{
    track_set(t, &t->resumed, position);
    t->resumed_number = number;
}

void outrider__track_polled_until(struct stream_track *t, struct bytes position)
{
    track_set(t, &t->polled_end, position);
}

void outrider__track_stop_at(struct stream_track *t, struct bytes position)
{
    track_set(t, &t->stop, position);
    track_check_stop(t);
}

void outrider__track_begin(struct stream_track *t, struct bytes commit)
{
    if (t->state == TRACK_STOPPED)
        return;
    if (t->stop.len > 0 && track_compare(t, commit, t->stop) >= 0) {
        t->state = TRACK_STOPPED;
        return;
    }
    int order = t->resumed.len == 0 ? 1 : track_compare(t, commit, t->resumed);
    t->state = order < 0 ? TRACK_IN_SETTLED : order == 0 ? TRACK_IN_RESUMED : TRACK_IN_NEW;
    t->is_below_polled_end = t->polled_end.len > 0 && track_compare(t, commit, t->polled_end) < 0;
}

/* (6): one entry for each batch is enough, because a batch is settled as a whole. Where the
 * last entry is of the same batch, it moves on, to more events and a later position. */
static void track_note_commit(struct stream_track *t, struct bytes end)
{
    struct track_commit *last = t->n_commits > 0 ? &t->commits[t->n_commits - 1] : NULL;
    bool is_new = last == NULL || (last->event_no <= t->handed_out && last->event_no < t->n_taken &&
                                   t->n_commits < TRACK_COMMITS_MAX);
    if (is_new)
        last = &t->commits[t->n_commits++];
    last->event_no = t->n_taken;
    track_set(t, &last->end, end);
}

void outrider__track_commit(struct stream_track *t, struct bytes end)
{
    if (t->state == TRACK_STOPPED)
        return;
    t->state = TRACK_BETWEEN;
    track_raise(t, &t->received, end);
    if (track_is_all_settled(t))
        track_raise(t, &t->confirmable, end);
    else
        track_note_commit(t, end);
    track_check_stop(t);
}

void outrider__track_heartbeat(struct stream_track *t, struct bytes position)
{
    if (t->state != TRACK_BETWEEN)
        return;
    track_raise(t, &t->received, position);
    if (track_is_all_settled(t))
        track_raise(t, &t->confirmable, track_bytes(t->received));
    track_check_stop(t);
}

/* The entries that remain move to the front; the room of their positions goes round. */
static void track_forget_commits(struct stream_track *t, size_t n)
{
    struct track_commit gone[TRACK_COMMITS_MAX];
    memcpy(gone, t->commits, n * sizeof *gone);
    memmove(t->commits, t->commits + n, (t->n_commits - n) * sizeof *t->commits);
    memcpy(t->commits + (t->n_commits - n), gone, n * sizeof *gone);
    t->n_commits -= n;
}

void outrider__track_settle(struct stream_track *t, int64_t n)
{
    size_t k = 0;
    t->n_settled += n;
    while (k < t->n_commits && t->commits[k].event_no <= t->n_settled)
        track_raise(t, &t->confirmable, track_bytes(t->commits[k++].end));
    track_forget_commits(t, k);
    if (track_is_all_settled(t) && t->received.len > 0)
        track_raise(t, &t->confirmable, track_bytes(t->received));
}

bool outrider__track_has_passed(const struct stream_track *t, struct bytes position)
{
    return !t->is_holding && !track_is_in_transaction(t) && t->received.len > 0 &&
           t->compare(track_bytes(t->received), position) >= 0;
}
