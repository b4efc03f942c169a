/* SPDX-License-Identifier: MIT */
/*
 * What a layout's part of init needs. To add a layout: a .sql file with words in it
 * (common/sql.h), a function that appends it, and a row in store/schema.c's table.
 */
#ifndef POSTGRES_STORE_SCHEMA_H
#define POSTGRES_STORE_SCHEMA_H

#include "base/strbuf.h"
#include "core/store.h"

/* The column type for --payload. */
int outrider__pg_schema_payload(const struct init_options *o, const char **ret_type,
                                struct outrider_error *err);
/* CREATE TABLE ... PARTITION OF for today and the time ahead, and a default one. */
void outrider__pg_schema_partitions(struct strbuf *sql, const char *root, const char *name,
                                    bool is_month);

#endif
