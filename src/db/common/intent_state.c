/* SPDX-License-Identifier: MIT */
#include "common/intent_state.h"

int outrider__intent_start(const struct cursor_place *at, const struct intent_found *found,
                           enum intent_start *ret_start, struct outrider_error *err)
{
    if (at->config->exactly_once) {
        *ret_start = INTENT_START_TAKE;
        return 0;
    }
    *ret_start = found->has_row && found->is_in_use ? INTENT_START_LEAVE : INTENT_START_NONE;
    if (!found->has_row || !found->is_open)
        return 0;
    return outrider__fail(
        err, OUTRIDER_CONFIG, OUTRIDER_STOP,
        "pipeline '%s' of %s ran with exactly_once and was killed: whether its last transaction "
        "was committed is not known here; run it once more with exactly_once, or, if events may be "
        "published twice, run: outrider resync --forget-intent --name %s%s%s%s",
        at->config->name, at->outbox, at->config->name, found->table != NULL ? " --table '" : "",
        found->table != NULL ? found->table : "", found->table != NULL ? "'" : "");
}

enum intent_work outrider__intent_work(const struct source_op *op)
{
    if (op->kind == SOURCE_INTENT)
        return op->batch != NULL ? INTENT_WORK_SETTLE : INTENT_WORK_WRITE;
    switch (op->verdict) {
    case RECALL_CAME_TRUE:
        return INTENT_WORK_RECALL;
    case RECALL_NEVER_WAS:
        return INTENT_WORK_WRITE;
    default:
        return INTENT_WORK_PROVE;
    }
}

int outrider__intent_row(const struct source *s, const struct source_op *op, unsigned flags,
                         struct bytes own, struct strbuf *body, struct intent_row *ret_row,
                         struct outrider_error *err)
{
    bool opens = op->kind == SOURCE_INTENT && op->intent != NULL;
    bool keeps_mark = op->kind == SOURCE_INTENT && op->intent == NULL;
    *ret_row = (struct intent_row){.mark = keeps_mark ? s->saved : op->progress};
    if (!opens)
        return 0;
    if (outrider__intent_write(op->intent, flags, own, body, err) < 0)
        return -1;
    ret_row->body = strbuf_bytes(body);
    return 0;
}

void outrider__intent_done(struct source *s, const struct source_op *op)
{
    if (op->kind == SOURCE_INTENT) {
        s->has_intent = op->intent != NULL;
        if (op->intent != NULL)
            s->saved = op->progress;
    } else if (outrider__intent_work(op) != INTENT_WORK_PROVE) {
        s->has_intent = false;
        s->saved = op->progress;
    }
}
