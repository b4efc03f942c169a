/* SPDX-License-Identifier: MIT */
/* When a failed event is tried again. */
#ifndef CORE_RETRY_H
#define CORE_RETRY_H

#include "core/config.h"

/* Delay before try `attempts + 1`, after `attempts` tries (>= 1) were spent:
 * delays[min(attempts, n)] of the list, or base * factor^(attempts-1), at most
 * max, with jitter. random01 in [0, 1) is the caller's: the engine stays
 * deterministic. */
int64_t outrider__retry_delay_us(const struct pipeline_config *c, uint32_t attempts,
                                 double random01);

/* Backoff for connections and outages: 100 ms doubling up to 1 s, with jitter. */
int64_t outrider__backoff_us(uint32_t failures, double random01);
/* The same up to half a minute, where every try publishes events once more. */
int64_t outrider__backoff_published_us(uint32_t failures, double random01);

#endif
