/* SPDX-License-Identifier: MIT */
#include "core/module.h"
#include "outrider/export.h"
#include "sqlite.h"

#include <sqlite3.h>

extern const struct module outrider_module;

OUTRIDER_API const struct module outrider_module = {
    .abi = OUTRIDER_MODULE_ABI,
    .name = "sqlite",
    .scheme = "sqlite",
    .source = &outrider__source_sqlite,
    .store = &outrider__store_sqlite,
    .client_version = "SQLite " SQLITE_VERSION,
};
