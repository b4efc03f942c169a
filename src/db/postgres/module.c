/* SPDX-License-Identifier: MIT */
#include <pg_config.h>

#include "core/module.h"
#include "postgres/postgres.h"

OUTRIDER_MODULE = {
    .name = "postgres",
    .scheme = "postgresql",
    .source = &outrider__source_postgres,
    .store = &outrider__store_postgres,
    .client_version = "libpq " PG_VERSION,
};
