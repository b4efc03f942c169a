/* SPDX-License-Identifier: MIT */
/*
 * Stands for a database server and its client library: tables in memory, one
 * writer at a time. A real adapter includes its client library instead, and the
 * tables below are tables of that database.
 */
#ifndef ADAPTERS_SERVER_H
#define ADAPTERS_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "outrider/event.h"

/* An event as a row: a copy of all that the application wrote. */
struct server_event {
    int64_t seq; /* grows with each row; one writer at a time, so also with each commit */
    int64_t created_at_us;
    char id[OUTRIDER_ID_SIZE];
    struct outrider_event columns;
};

/* The outbox. */
struct server_row {
    struct server_event event;
    bool is_committed;
};

/* outrider_parked */
enum server_state { SERVER_PARKED, SERVER_QUEUED, SERVER_DEAD };

struct server_parked {
    int64_t arrival; /* grows with each row */
    const char *pipeline;
    char *lane;
    enum server_state state;
    int64_t next_attempt_us;
    uint32_t attempts;
    struct server_event event;
};

/* outrider_cursor */
struct server_cursor {
    char pipeline[64], sink[256], on_dead[8];
    char anchor[OUTRIDER_ID_SIZE]; /* id of the row at position */
    int64_t position, epoch;
    const void *holder; /* of the pipeline's lock; NULL: nobody */
};

struct server {
    struct server_row *rows; /* in the order of seq */
    size_t n_rows;
    struct server_parked *parked; /* in the order of arrival */
    size_t n_parked;
    struct server_cursor cursors[8];
    size_t n_cursors;
    int64_t last_seq, last_arrival;
    bool is_away;
};

/* Everybody talks to this one. */
extern struct server server;

/* What an application does: BEGIN where none is open, INSERT; then COMMIT or ROLLBACK. */
void server_insert(const struct outrider_event *e, int64_t now_us);
void server_finish(bool commit);

struct server_cursor *server_cursor(const char *pipeline, bool make);
/* NULL: there is no such row, or it is not committed. */
struct server_row *server_find_row(int64_t seq);
void server_remove_row(size_t i);
/* Appends a parked row with a copy of the event. */
struct server_parked *server_park(const char *pipeline, struct bytes lane,
                                  const struct server_event *e);
void server_remove_parked(size_t i);
void server_drop_all(void);

#endif
