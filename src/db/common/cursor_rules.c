/* SPDX-License-Identifier: MIT */
#include "common/cursor_rules.h"

#include <inttypes.h>
#include <stdio.h>

int outrider__cursor_check_sink(const struct cursor_place *at, struct bytes stored,
                                struct outrider_error *err)
{
    const char *name = at->config->name, *mine = cursor_sink(at->config);
    if (*mine == '\0' || stored.len == 0 || bytes_eq_str(stored, mine))
        return 0;
    return outrider__fail(err, OUTRIDER_SINK_MISMATCH, OUTRIDER_STOP,
                          "pipeline '%s' of %s delivers to %.*s and not to %s; give this relay "
                          "another --name, or, to go on to the new sink from where the pipeline "
                          "is, run: outrider pipeline move --name %s --to %s",
                          name, at->outbox, (int)stored.len, stored.data, mine, name, mine);
}

int outrider__cursor_fail_fenced(const struct cursor_place *at, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_FENCED, OUTRIDER_RETRY,
                          "another relay took over pipeline '%s' of %s", at->config->name,
                          at->outbox);
}

enum anchor_verdict outrider__anchor_judge(const struct cursor_anchor *a)
{
    if (a->position == 0)
        return ANCHOR_FITS;
    if (a->sequence < a->position)
        return ANCHOR_SEQUENCE_SET_BACK;
    if (bytes_is_null(a->found))
        return ANCHOR_ROW_GONE;
    return bytes_eq(a->found, a->stored) ? ANCHOR_FITS : ANCHOR_ROW_CHANGED;
}

int outrider__cursor_check_anchor(const struct cursor_place *at, const struct cursor_anchor *a,
                                  struct outrider_error *err)
{
    char what[160];
    switch (outrider__anchor_judge(a)) {
    case ANCHOR_FITS:
        return 0;
    case ANCHOR_SEQUENCE_SET_BACK:
        (void)snprintf(what, sizeof what,
                       "its sequence stands at %" PRId64 ", below the position %" PRId64,
                       a->sequence, a->position);
        break;
    case ANCHOR_ROW_GONE:
        (void)snprintf(what, sizeof what, "the row at the position %" PRId64 " is gone",
                       a->position);
        break;
    case ANCHOR_ROW_CHANGED:
        (void)snprintf(what, sizeof what, "the row at the position %" PRId64 " is another one now",
                       a->position);
        break;
    }
    return outrider__cursor_fail_history(at, what, err);
}

int outrider__cursor_fail_history(const struct cursor_place *at, const char *what,
                                  struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "%s: the history of the outbox was rewritten: %s; look at what happened, "
                          "then run `outrider resync%s%s --name %s`",
                          at->outbox, what, at->url != NULL ? " --db " : "",
                          at->url != NULL ? at->url : "", at->config->name);
}
