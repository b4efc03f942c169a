/* SPDX-License-Identifier: MIT */
#include <pg_config.h>

#include "core/module.h"
#include "postgres/hybrid/hybrid.h"
#include "postgres/postgres.h"

extern const struct adapter outrider__adapter_postgres;

OUTRIDER_MODULE = {
    .adapter = &outrider__adapter_postgres,
    .source = &outrider__source_postgres,
    .store = &outrider__store_postgres,
    .hybrid = &outrider__hybrid_postgres,
    .client_version = "libpq " PG_VERSION,
};
