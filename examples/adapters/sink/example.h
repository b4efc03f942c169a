/* SPDX-License-Identifier: MIT */
#ifndef ADAPTERS_EXAMPLE_H
#define ADAPTERS_EXAMPLE_H

#include "core/sink.h"

extern const struct sink_ops outrider__sink_example;

#endif
