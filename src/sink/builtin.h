/* SPDX-License-Identifier: MIT */
/* The sinks that need no client library: they are part of the program. */
#ifndef SINK_BUILTIN_H
#define SINK_BUILTIN_H

#include "core/sink.h"

/* All of them by scheme, and NULL behind the last; made by the build. */
extern const struct sink_ops *const outrider__builtin_sinks[];

extern const struct sink_ops outrider__sink_file;   /* file:DIR */
extern const struct sink_ops outrider__sink_stdout; /* stdout: */
extern const struct sink_ops outrider__sink_null;   /* null: */

#endif
