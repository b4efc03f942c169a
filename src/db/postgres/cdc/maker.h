/* SPDX-License-Identifier: MIT */
/*
 * The slot maker: makes a replication slot on a connection of its own, and reads in the
 * slot's snapshot what the move needs to know. It knows nothing of the phases of a move.
 *
 *  (1) tick() advances the making, `state` says how far it is. MAKER_MADE: everything
 *      committed before slot_lsn is in the slot's snapshot, everything else is in its
 *      stream, and `plan` holds what was asked for.
 *  (2) The server waits with the slot for every transaction that is open then. Meanwhile
 *      tick() asks which one that is, and warns with its name.
 *  (3) Before a slot that stays, the publication's rows of the catalogue are read: the
 *      cursor will record them (publication.c).
 *  (4) SLOT_TO_SWEEP: the plan is the set of seqs that the snapshot shows and polling had
 *      not settled. SLOT_TO_READ: there is no plan, and the snapshot stays open on `link`,
 *      where the rows are read. SLOT_TO_POLL: a temporary slot; the plan is where polling
 *      goes on behind everything in the snapshot.
 *  (5) cancel() gives up: the server does not notice by itself that nobody waits, so its
 *      process is ended. put_off() closes the connection and lets tick() try again later,
 *      each time after a longer pause.
 */
#ifndef POSTGRES_CDC_MAKER_H
#define POSTGRES_CDC_MAKER_H

#include "postgres/cdc/link.h"
#include "postgres/wire/conn.h"

struct pg_source;

enum maker_state {
    MAKER_IDLE,       /* tick() begins, at retry_us at the soonest */
    MAKER_CONNECTING, /* to the server */
    MAKER_CHECKING,   /* the publication */
    MAKER_OPENING,    /* a transaction, which will have the slot's snapshot */
    MAKER_WAITING,    /* the server makes the slot */
    MAKER_PLANNING,   /* the snapshot is being read */
    MAKER_MADE
};

enum slot_purpose { SLOT_TO_SWEEP, SLOT_TO_READ, SLOT_TO_POLL };

struct slot_plan {
    char *ranges;     /* owned: SLOT_TO_SWEEP the seqs to read, SLOT_TO_POLL the gaps */
    int64_t position; /* SLOT_TO_POLL: the highest seq */
    char *anchor;     /* owned; SLOT_TO_POLL: the id there */
};

struct slot_maker {
    enum maker_state state;
    enum slot_purpose purpose;
    struct cdc_link link;
    struct pg_statement st_begin, st_snapshot, st_commit;
    char sql_snapshot[160];
    uint64_t slot_lsn;
    struct slot_plan plan;
    int64_t pause_us, retry_us; /* (5) */
    struct maker_blocker {      /* (2) */
        int64_t ask_us;
        bool is_asked;
        int64_t pid, told_us; /* as it was told last */
    } blocker;
};

int outrider__cdc_maker_tick(struct pg_source *s, struct outrider_error *err);
int outrider__cdc_maker_cancel(struct pg_source *s, struct outrider_error *err);
void outrider__cdc_maker_put_off(struct pg_source *s, const struct outrider_error *why);
/* When tick() wants to be called; CLOCK_NEVER: when the connection has something. */
int64_t outrider__cdc_maker_wake_us(const struct slot_maker *m);
void outrider__cdc_maker_release(struct slot_maker *m);

#endif
