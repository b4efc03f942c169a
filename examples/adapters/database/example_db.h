/* SPDX-License-Identifier: MIT */
#ifndef ADAPTERS_EXAMPLE_DB_H
#define ADAPTERS_EXAMPLE_DB_H

#include "core/source.h"

extern const struct source_ops outrider__source_example;

#endif
