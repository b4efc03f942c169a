/* SPDX-License-Identifier: MIT */
/*
 * durable: standby, for every layout and mode. What an operation has read or written
 * is given to the engine when a standby has it on disk.
 *
 *  (1) A layout ends an operation when this server has on disk what was read or written,
 *      whatever `durable` says. So the flush position that is asked for later covers
 *      the operation, and a standby that has flushed up to it has all of that.
 *  (2) Batches wait, because they are published next; and intents, because a survivor
 *      that does not know the last one could not go on (core/progress.h). Settling does
 *      not wait: a survivor that does not know of it publishes again.
 *  (3) A standby is a physical receiver. A logical reader confirms what it has read,
 *      and nobody can fail over to it; nor to a copy that is being made, or to an
 *      archive.
 */
#ifndef POSTGRES_DURABLE_H
#define POSTGRES_DURABLE_H

#include "postgres/wire/conn.h"

struct pg_source;
struct pg_op;

struct pg_durable {
    struct pg_statement st;
    bool is_asking;
    int64_t ask_us;           /* not before */
    int64_t waiting_since_us; /* 0: nothing waits */
    int64_t told_us;
    uint64_t standby_lsn; /* the furthest of a standby, when last asked */
};

/* Columns of standbys. */
enum pg_standbys_column { STANDBYS_SERVER_LSN, STANDBYS_LSN, STANDBYS_COUNT };

void outrider__pg_durable_init(struct pg_durable *d);
/* Whether the operation, which is done, may be given to the engine. */
bool outrider__pg_is_durable(const struct pg_source *s, const struct pg_op *op);
/* Asks while something waits. Returns when it wants to be called again. */
int outrider__pg_durable_tick(struct pg_source *s, int64_t *ret_wake_us,
                              struct outrider_error *err);

#endif
