/* SPDX-License-Identifier: MIT */
/*
 * One active relay per pipeline: a session advisory lock on (outbox, pipeline)
 * and, because a pooler could hand that lock to two sessions, an epoch in the
 * cursor row, which every settle checks.
 *
 *  (1) try() is asked at least every LEADER_PAUSE_US while the lock is not held.
 *  (2) While another session holds it, waiting_for says which.
 *  (3) The lock belongs to the session: it ends with the connection, and the
 *      server ends a silent session (idle_session_timeout). A session that hangs in the
 *      middle of sending to a frozen client is not silent for the server:
 *      a standby ends it (pg_terminate_backend) after LEADER_STUCK_US.
 */
#ifndef POSTGRES_LEADER_H
#define POSTGRES_LEADER_H

#include "postgres/wire/catalog.h"
#include "postgres/wire/conn.h"

#define LEADER_PAUSE_US 400000
#define LEADER_STUCK_US 8000000
#define LEADER_SESSION_MS 8000 /* idle_session_timeout of a relay's session */
#define LEADER_HEARTBEAT_US 2000000

struct pg_leader {
    char name[PG_NAME_MAX + 80]; /* what the lock's key is made from */
    bool is_held;
    bool is_asking;
    int64_t ask_us; /* when to ask next */
    char waiting_for[160];
    struct pg_statement st;
};

void outrider__pg_leader_init(struct pg_leader *l, const struct pg_catalog *cat,
                              const char *pipeline);
/* Asks for the lock if it is time to; is_held or waiting_for tell the answer
 * once the request is done. */
int outrider__pg_leader_try(struct pg_leader *l, struct pg_conn *c, struct instant now,
                            struct outrider_error *err);

#endif
