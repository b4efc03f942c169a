/* SPDX-License-Identifier: MIT */
/* What the module offers. */
#ifndef POSTGRES_POSTGRES_H
#define POSTGRES_POSTGRES_H

#include "core/source.h"
#include "core/store.h"

extern const struct source_ops outrider__source_postgres;
extern const struct store_ops outrider__store_postgres;

#endif
