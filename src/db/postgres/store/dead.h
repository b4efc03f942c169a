/* SPDX-License-Identifier: MIT */
/* Statements on dead letters (common/dead.h), run by the PostgreSQL store. */
#ifndef POSTGRES_STORE_DEAD_H
#define POSTGRES_STORE_DEAD_H

#include "common/dead.h"
#include "postgres/store/store.h"

int outrider__pg_store_dead_query(struct pg_store *s, enum dead_statement which,
                                  const struct pg_args *args, PGresult **ret_result,
                                  struct outrider_error *err);

#endif
