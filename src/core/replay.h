/* SPDX-License-Identifier: MIT */
/*
 * Replay: a source that reads again from a point, and leaves no trace. It wraps a
 * reader, which is what an adapter has for this (source_ops.reader, source.h (16)).
 *
 *  (1) MARK and FETCH go to the reader. All other operations are answered here, in
 *      their turn, and change nothing: there are no parked rows, no clean-up, no
 *      intents, and SETTLE forgets its batch.
 *  (2) The engine knows nothing of a replay: outrider__replay_configure() sets the
 *      options so that nothing is parked and no lane stops. What cannot be delivered
 *      is dead at its first failure, and counted.
 */
#ifndef CORE_REPLAY_H
#define CORE_REPLAY_H

#include "core/config.h"
#include "core/source.h"

/* The operations of a replay of what `adapter` reads; the caller keeps *ret_ops as long
 * as the relay lives. UNSUPPORTED where the adapter has no reader. */
int outrider__replay_wrap(const struct source_ops *adapter, struct source_ops *ret_ops,
                          struct outrider_error *err);
/* Changes the pipeline's options to those of a replay from this point on: a seq or a
 * time (wall clock), 0 where it is not given. */
void outrider__replay_configure(struct pipeline_config *c, int64_t from_seq, int64_t since_us);

#endif
