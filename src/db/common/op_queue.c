/* SPDX-License-Identifier: MIT */
#include "common/op_queue.h"

int outrider__op_queue_add(struct op_queue *q, struct source_op *op, const char *pipeline,
                           size_t *ret_slot, struct outrider_error *err)
{
    if (q->n == OP_QUEUE_MAX)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "pipeline '%s' has %d operations of its source under way, and the "
                              "source takes no more: this is an error of the program",
                              pipeline, OP_QUEUE_MAX);
    size_t slot = op_queue_slot(q, q->n++);
    q->slots[slot] = (struct op_slot){.op = op, .may_be_passed = source_op_may_be_passed(op)};
    *ret_slot = slot;
    return 0;
}

static size_t op_queue_find(const struct op_queue *q, op_queue_test *may_give, const void *ctx)
{
    for (size_t i = 0; i < q->n; i++) {
        size_t slot = op_queue_slot(q, i);
        const struct op_slot *o = &q->slots[slot];
        if (o->is_given)
            continue;
        bool can_go = o->is_done && (may_give == NULL || may_give(ctx, slot));
        if (can_go && (i == 0 || o->op->kind == SOURCE_FETCH))
            return slot;
        if (!o->may_be_passed)
            return OP_QUEUE_NONE;
    }
    return OP_QUEUE_NONE;
}

size_t outrider__op_queue_give(struct op_queue *q, op_queue_test *may_give, const void *ctx)
{
    size_t slot = op_queue_find(q, may_give, ctx);
    if (slot == OP_QUEUE_NONE)
        return slot;
    q->slots[slot].is_given = true;
    while (q->n > 0 && q->slots[q->first].is_given) {
        q->first = op_queue_slot(q, 1);
        q->n--;
    }
    return slot;
}

size_t outrider__op_queue_passing(const struct op_queue *q)
{
    for (size_t i = 0; i < q->n; i++) {
        const struct op_slot *o = &q->slots[op_queue_slot(q, i)];
        if (i > 0 && !o->is_given && o->op->kind == SOURCE_FETCH)
            return op_queue_slot(q, i);
        if (!o->is_given && !o->may_be_passed)
            return OP_QUEUE_NONE;
    }
    return OP_QUEUE_NONE;
}
