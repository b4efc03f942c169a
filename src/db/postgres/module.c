/* SPDX-License-Identifier: MIT */
#include <pg_config.h>

#include "core/module.h"
#include "outrider/export.h"
#include "postgres.h"

extern const struct module outrider_module;

OUTRIDER_API const struct module outrider_module = {
    .abi = OUTRIDER_MODULE_ABI,
    .name = "postgres",
    .scheme = "postgresql",
    .source = &outrider__source_postgres,
    .store = &outrider__store_postgres,
    .client_version = "libpq " PG_VERSION,
};
