/* SPDX-License-Identifier: MIT */
#include "common/pipeline.h"

#include <inttypes.h>

void outrider__intent_reset_report(struct strbuf *out, const char *pipeline,
                                   const struct commit_mark *progress)
{
    if (progress == NULL)
        outrider__strbuf_appendf(
            out,
            "pipeline '%s': the last transaction of exactly_once is forgotten; "
            "its events may be published twice\n",
            pipeline);
    else
        outrider__strbuf_appendf(out,
                                 "pipeline '%s': the sink's last transaction of exactly_once is "
                                 "%" PRIu64 " from now on; events that the sink does not hold, and "
                                 "events that it holds twice, cannot be told from here\n",
                                 pipeline, progress->no);
}

void outrider__pipeline_move_report(struct strbuf *out, const char *pipeline, const char *before,
                                    const char *after)
{
    outrider__strbuf_appendf(out, "pipeline '%s' delivers to %s from now on; before: %s\n",
                             pipeline, after, *before != '\0' ? before : "no sink");
}
