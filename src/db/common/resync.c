/* SPDX-License-Identifier: MIT */
#include "common/resync.h"

#include <inttypes.h>

struct resync_verdict outrider__resync_judge(const struct resync_facts *f)
{
    struct resync_verdict v = {.old_position = f->anchor.position, .held = f->held};
    enum anchor_verdict anchor = outrider__anchor_judge(&f->anchor);
    if (anchor == ANCHOR_FITS) {
        v.is_intact = true;
        v.new_position = v.old_position;
    } else if (f->has_moved && f->is_order_kept) {
        v.new_position = f->moved_to;
        v.why = "the row at the old position has another seq now; events behind it follow";
    } else if (anchor == ANCHOR_SEQUENCE_SET_BACK) {
        v.why = "the sequence was set back, so rows at low seqs may be new";
    } else if (f->has_moved) {
        v.why = "the rows have other seqs now, and so have those that were still awaited";
    } else if (anchor == ANCHOR_ROW_CHANGED) {
        v.why = "the row at the position is another one now, so rows below it may be new";
    } else if (f->has_newer) {
        v.why = "rows below the position are newer than the last settle";
    } else {
        v.new_position = f->last_settled;
        v.why = "the row at the position was removed; the rest of the history fits";
    }
    return v;
}

void outrider__resync_report(const struct resync_verdict *v, const char *pipeline,
                             struct strbuf *ret_report)
{
    if (v->is_intact) {
        outrider__strbuf_appendf(
            ret_report, "pipeline '%s': the history is intact, position %" PRId64 " stays\n",
            pipeline, v->new_position);
        return;
    }
    outrider__strbuf_appendf(ret_report,
                             "pipeline '%s': position %" PRId64 " becomes %" PRId64 ": %s\n"
                             "The table holds %" PRId64 " events; those behind the position are "
                             "delivered (again).\nWhat was in the table and is gone cannot be "
                             "known: compare with the receiver.\n",
                             pipeline, v->old_position, v->new_position, v->why, v->held);
}
