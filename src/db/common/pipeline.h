/* SPDX-License-Identifier: MIT */
/* What every database says of a pipeline that an operator has changed. */
#ifndef COMMON_PIPELINE_H
#define COMMON_PIPELINE_H

#include "base/strbuf.h"
#include "core/progress.h"

/* After store_ops->reset_intent. */
void outrider__intent_reset_report(struct strbuf *out, const char *pipeline,
                                   const struct commit_mark *progress);
/* After store_ops->move: `before` is the old sink's identity, or empty. */
void outrider__pipeline_move_report(struct strbuf *out, const char *pipeline, const char *before,
                                    const char *after);

#endif
