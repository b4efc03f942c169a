/* SPDX-License-Identifier: MIT */
#include "core/module.h"
#include "sqlite.h"

#include <sqlite3.h>

OUTRIDER_MODULE = {
    .name = "sqlite",
    .scheme = "sqlite",
    .source = &outrider__source_sqlite,
    .store = &outrider__store_sqlite,
    .client_version = "SQLite " SQLITE_VERSION,
};
