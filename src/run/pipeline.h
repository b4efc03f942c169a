/* SPDX-License-Identifier: MIT */
/* What a configuration needs before a relay can be made of it, whoever runs it. */
#ifndef RUN_PIPELINE_H
#define RUN_PIPELINE_H

#include "core/relay.h"

/* Sets sink_identity, under which the cursor remembers the sink; without a sink, nothing. */
int outrider__pipeline_identify(struct pipeline_config *c, struct outrider_error *err);
/* Finds the sink by its URL, and asks it whether it can work so. */
int outrider__pipeline_sink(const struct pipeline_config *c, struct relay_setup *setup,
                            struct outrider_error *err);
/* The same, and the source by its URL. */
int outrider__pipeline_adapters(const struct pipeline_config *c, struct relay_setup *setup,
                                struct outrider_error *err);

#endif
