/* SPDX-License-Identifier: MIT */
/* What a source and a sink in a test of the engine need, and no test looks at. */
#ifndef SUPPORT_FAKE_ENDS_H
#define SUPPORT_FAKE_ENDS_H

#include "core/config.h"
#include "core/relay.h"
#include "core/sink.h"
#include "core/source.h"

#define FAKE_BATCH 10

/* Of a pipeline without clean-up that gives an event one try. */
struct pipeline_config fake_config(void);

int fake_source_open(struct source *s, const struct pipeline_config *config, struct instant now,
                     struct outrider_error *err);
int fake_source_fds(struct source *s, struct pollfd *ret_fds, int max);
void fake_source_close(struct source *s);

int fake_sink_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                   struct outrider_error *err);
void fake_sink_flush(struct sink *s, struct instant now);
int fake_sink_fds(struct sink *s, struct pollfd *ret_fds, int max);
void fake_sink_close(struct sink *s);

/* Steps at an instant, as often as there is something to do then; when there is again. */
int64_t fake_step(struct relay *r, struct instant now);

#endif
