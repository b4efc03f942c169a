/* SPDX-License-Identifier: MIT */
/*
 * What a layout's part of init needs. To add a layout: a .sql file with @NAMES@
 * in it, a function that appends it, and a row in store/schema.c's table.
 */
#ifndef POSTGRES_STORE_SCHEMA_H
#define POSTGRES_STORE_SCHEMA_H

#include "base/strbuf.h"
#include "core/store.h"

struct pg_schema_value {
    const char *name, *value; /* @name@ in the text becomes value */
};

void outrider__pg_schema_expand(struct strbuf *sql, const char *template,
                                const struct pg_schema_value *values, size_t n);
/* The column type for --payload. */
int outrider__pg_schema_payload(const struct init_options *o, const char **ret_type,
                                struct outrider_error *err);
/* CREATE TABLE ... PARTITION OF for today and the time ahead, and a default one. */
void outrider__pg_schema_partitions(struct strbuf *sql, const char *root, const char *name,
                                    bool is_month);

#endif
