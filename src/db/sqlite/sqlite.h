/* SPDX-License-Identifier: MIT */
/* What this directory gives to the rest of the house. */
#ifndef SQLITE_SQLITE_H
#define SQLITE_SQLITE_H

#include "core/source.h"
#include "core/store.h"

extern const struct source_ops outrider__source_sqlite;
extern const struct store_ops outrider__store_sqlite;

#endif
