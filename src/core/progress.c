/* SPDX-License-Identifier: MIT */
#include "core/progress.h"

enum recall_verdict outrider__progress_judge(struct commit_mark saved, bool has_intent,
                                             struct commit_mark found)
{
    if (progress_is(found, saved))
        return has_intent ? RECALL_CAME_TRUE : RECALL_AGREES;
    if (has_intent && found.no + 1 == saved.no)
        return RECALL_NEVER_WAS;
    return RECALL_DISAGREES;
}
