/* SPDX-License-Identifier: MIT */
/* PostgreSQL's SQL dialect, and values of shared statements as arguments. */
#ifndef POSTGRES_DIALECT_H
#define POSTGRES_DIALECT_H

#include "common/dialect.h"
#include "postgres/wire/wire.h"

extern const struct sql_dialect outrider__pg_dialect;

/* The type whose binary form a value of that type has. */
Oid outrider__pg_type_of(enum sql_type type);
void outrider__pg_array_value(struct pg_args *a, const struct sql_value *v);

#endif
