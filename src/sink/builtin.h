/* SPDX-License-Identifier: MIT */
/* The sinks that need no client library: they are part of the program. */
#ifndef SINK_BUILTIN_H
#define SINK_BUILTIN_H

#include "core/sink.h"

extern const struct sink_ops outrider__sink_file;   /* file:DIR */
extern const struct sink_ops outrider__sink_stdout; /* stdout: */
extern const struct sink_ops outrider__sink_null;   /* null: */

#endif
