/* SPDX-License-Identifier: MIT */
/*
 * Partitions of an outbox that `outrider init --partition` made, by its function
 * outbox_partitions: made ahead by the active relay, whatever its layout and
 * mode and whether or not anything is ever removed; dropped by clean-up.
 */
#ifndef POSTGRES_UPKEEP_H
#define POSTGRES_UPKEEP_H

#include "postgres/wire/catalog.h"

struct pg_upkeep {
    char *sql; /* owned */
    struct pg_statement st;
    int64_t due_us, drop_us; /* not before */
    bool is_busy;
};

/* Makes them ahead when it is time to. Called while active. */
int outrider__pg_upkeep_tick(struct pg_upkeep *u, struct pg_conn *c, const struct pg_catalog *cat,
                             struct instant now, struct outrider_error *err);
/* Drops those that are older and settled; done() gets how many events went with
 * them. may_drop() says whether there are any, and the last time is not just past. */
bool outrider__pg_upkeep_may_drop(const struct pg_upkeep *u, const struct pg_catalog *cat,
                                  struct instant now);
int outrider__pg_upkeep_drop(struct pg_upkeep *u, struct pg_conn *c, const struct pg_catalog *cat,
                             int64_t cutoff_us, struct instant now, pg_done_fn *done, void *ctx,
                             struct outrider_error *err);
void outrider__pg_upkeep_release(struct pg_upkeep *u);

#endif
