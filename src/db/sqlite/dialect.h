/* SPDX-License-Identifier: MIT */
#ifndef SQLITE_DIALECT_H
#define SQLITE_DIALECT_H

#include "common/dialect.h"

extern const struct sql_dialect outrider__sqlite_dialect;

#endif
