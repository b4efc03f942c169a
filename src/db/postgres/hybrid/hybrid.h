/* SPDX-License-Identifier: MIT */
/*
 * Hybrid publishing on PostgreSQL (core/hybrid.h): claimer.c works on the application's
 * connection, marker.c on the publisher's. Both serve the table `outbox` of layout status
 * that `outrider init` makes; sql/hybrid.sql has their statements.
 */
#ifndef POSTGRES_HYBRID_H
#define POSTGRES_HYBRID_H

#include "core/hybrid.h"
#include "postgres/wire/wire.h"

/* claimer.c */
struct pg_claimer {
    struct hybrid_claimer base; /* must stay first */
    char *sql_insert;           /* for the payload's type */
    struct pg_args args;
};

int outrider__pg_claimer_learn(struct hybrid_claimer *base, void *conn, struct outrider_error *err);
int outrider__pg_claimer_refuse_exact(struct hybrid_claimer *base, void *conn,
                                      struct outrider_error *err);
int outrider__pg_claimer_look(struct hybrid_claimer *base, void *conn,
                              const struct outrider_event *events, size_t n, const char *place,
                              bool *ret_free, bool *ret_suits, struct outrider_error *err);
int outrider__pg_claimer_insert(struct hybrid_claimer *base, void *conn,
                                const struct outrider_event *events, size_t n, const bool *claims,
                                int64_t *ret_created_us, struct outrider_error *err);
void outrider__pg_claimer_release(struct hybrid_claimer *base);

/* marker.c: the marker, and the ops with both parts. */
extern const struct hybrid_ops outrider__hybrid_postgres;

#endif
