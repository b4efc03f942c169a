/* SPDX-License-Identifier: MIT */
#include "core/answer.h"

#include <string.h>

#define ROOM_LEAST 128

/* Where an event's answer stands. Exactly once an event is reported once for each
 * try of its transaction: the same space is used again. */
struct answer_space {
    struct answer answer;
    size_t room; /* bytes that follow this struct */
};

/* A power of two, so that an answer that grows does not take a new space each time. */
static size_t answer_room(const struct batch *b, size_t len)
{
    size_t room = ROOM_LEAST;
    if (len == 0)
        return 0;
    while (room < len)
        room *= 2;
    return room <= b->max_bytes - b->answer_bytes ? room : 0;
}

static struct answer_space *answer_space(struct event *e, size_t len)
{
    struct answer_space *s = e->answer_space;
    if (s != NULL && s->room >= len)
        return s;
    size_t room = answer_room(e->batch, len);
    if (s != NULL && s->room >= room)
        return s;
    struct answer_space *larger = outrider__arena_alloc(&e->batch->arena, sizeof *s + room);
    if (larger == NULL)
        return s;
    larger->room = room;
    e->batch->answer_bytes += room;
    e->answer_space = larger;
    return larger;
}

void outrider__answer_keep(struct event *e, const struct answer *from)
{
    e->answer = NULL;
    if (from == NULL)
        return;
    size_t len = from->body.len < ANSWER_MAX ? from->body.len : ANSWER_MAX;
    struct answer_space *s = answer_space(e, len);
    if (s == NULL)
        return;
    len = len < s->room ? len : s->room;
    char *body = (char *)(s + 1);
    if (len > 0)
        memcpy(body, from->body.data, len);
    s->answer = (struct answer){
        .status = from->status,
        .body = bytes_is_null(from->body) ? BYTES_NULL : bytes_of(body, len),
        .is_cut = from->is_cut || len < from->body.len,
    };
    e->answer = &s->answer;
}
