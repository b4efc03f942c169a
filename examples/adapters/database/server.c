/* SPDX-License-Identifier: MIT */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct server server;

static void *server_alloc(void *old, size_t size)
{
    void *p = realloc(old, size);
    if (p == NULL)
        abort();
    return p;
}

static const void *server_copy(const void *bytes, size_t len)
{
    if (bytes == NULL)
        return NULL;
    char *copy = server_alloc(NULL, len + 1);
    memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

static const char *server_copy_text(const char *text)
{
    return text == NULL ? NULL : server_copy(text, strlen(text));
}

static void server_event_copy(struct server_event *to, const struct server_event *from)
{
    struct outrider_event *c = &to->columns;
    *to = *from;
    c->aggregate_type = server_copy_text(c->aggregate_type);
    c->aggregate_id = server_copy_text(c->aggregate_id);
    c->event_type = server_copy_text(c->event_type);
    c->payload = server_copy(c->payload, c->payload_len);
    c->headers = server_copy_text(c->headers);
    c->topic = server_copy_text(c->topic);
    c->partition_key = server_copy_text(c->partition_key);
}

static void server_event_free(struct server_event *e)
{
    struct outrider_event *c = &e->columns;
    free((void *)c->aggregate_type);
    free((void *)c->aggregate_id);
    free((void *)c->event_type);
    free((void *)c->payload);
    free((void *)c->headers);
    free((void *)c->topic);
    free((void *)c->partition_key);
}

void server_insert(const struct outrider_event *e, int64_t now_us)
{
    struct server_event one = {.seq = ++server.last_seq, .created_at_us = now_us, .columns = *e};
    if (e->id != NULL)
        (void)snprintf(one.id, sizeof one.id, "%s", e->id);
    else
        (void)snprintf(one.id, sizeof one.id, "00000000-0000-4000-8000-%012llu",
                       (unsigned long long)one.seq % 1000000000000ULL);
    one.columns.id = NULL;
    server.rows = server_alloc(server.rows, (server.n_rows + 1) * sizeof *server.rows);
    struct server_row *row = &server.rows[server.n_rows++];
    row->is_committed = false;
    server_event_copy(&row->event, &one);
}

void server_finish(bool commit)
{
    for (size_t i = server.n_rows; i-- > 0;) {
        if (commit)
            server.rows[i].is_committed = true;
        else if (!server.rows[i].is_committed)
            server_remove_row(i);
    }
}

struct server_cursor *server_cursor(const char *pipeline, bool make)
{
    for (size_t i = 0; i < server.n_cursors; i++)
        if (strcmp(server.cursors[i].pipeline, pipeline) == 0)
            return &server.cursors[i];
    if (!make)
        return NULL;
    struct server_cursor *c = &server.cursors[server.n_cursors++];
    (void)snprintf(c->pipeline, sizeof c->pipeline, "%s", pipeline);
    (void)snprintf(c->on_dead, sizeof c->on_dead, "skip");
    return c;
}

struct server_row *server_find_row(int64_t seq)
{
    for (size_t i = 0; i < server.n_rows; i++)
        if (server.rows[i].event.seq == seq && server.rows[i].is_committed)
            return &server.rows[i];
    return NULL;
}

void server_remove_row(size_t i)
{
    server_event_free(&server.rows[i].event);
    server.n_rows--;
    memmove(&server.rows[i], &server.rows[i + 1], (server.n_rows - i) * sizeof *server.rows);
}

struct server_parked *server_park(const char *pipeline, struct bytes lane,
                                  const struct server_event *e)
{
    server.parked = server_alloc(server.parked, (server.n_parked + 1) * sizeof *server.parked);
    struct server_parked *p = &server.parked[server.n_parked++];
    *p = (struct server_parked){.arrival = ++server.last_arrival,
                                .pipeline = server_cursor(pipeline, true)->pipeline,
                                .lane = (char *)server_copy(lane.data, lane.len)};
    server_event_copy(&p->event, e);
    return p;
}

void server_remove_parked(size_t i)
{
    server_event_free(&server.parked[i].event);
    free(server.parked[i].lane);
    server.n_parked--;
    memmove(&server.parked[i], &server.parked[i + 1],
            (server.n_parked - i) * sizeof *server.parked);
}

void server_drop_all(void)
{
    while (server.n_rows > 0)
        server_remove_row(server.n_rows - 1);
    while (server.n_parked > 0)
        server_remove_parked(server.n_parked - 1);
    free(server.rows);
    free(server.parked);
    memset(&server, 0, sizeof server);
}
