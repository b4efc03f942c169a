/* SPDX-License-Identifier: MIT */
#include "core/module.h"
#include "sqlite.h"

#include <sqlite3.h>

extern const struct adapter outrider__adapter_sqlite;

OUTRIDER_MODULE = {
    .adapter = &outrider__adapter_sqlite,
    .source = &outrider__source_sqlite,
    .store = &outrider__store_sqlite,
    .client_version = "SQLite " SQLITE_VERSION,
};
