/* SPDX-License-Identifier: MIT */
/*
 * The operations of a source that are under way, in the order in which the engine
 * started them: contract (4) of core/source.h, in one place.
 *
 *  (1) Operations are given back in their order. One exception: a FETCH that is done
 *      passes SETTLEs that are not, where such a SETTLE writes no parked row: all its
 *      events were delivered, and the FETCH finds the same before and after it.
 *  (2) A slot keeps its number from outrider__op_queue_add() until its operation is
 *      given back. A source with state of its own for each operation keeps an array
 *      of OP_QUEUE_MAX and uses the same numbers.
 *  (3) An operation too many is an error of the program: INVALID, and STOP.
 *  (4) Nothing is allocated. A queue of zeros is empty, and close() of a source may
 *      make it zeros at any time.
 */
#ifndef COMMON_OP_QUEUE_H
#define COMMON_OP_QUEUE_H

#include "core/source.h"

#define OP_QUEUE_MAX 32
#define OP_QUEUE_NONE SIZE_MAX /* no slot */

struct op_slot {
    struct source_op *op;
    bool may_be_passed; /* by a FETCH: (1) */
    bool is_done;
    bool is_given; /* back to the engine, while operations before it are under way */
};

struct op_queue {
    struct op_slot slots[OP_QUEUE_MAX]; /* a ring */
    size_t first;                       /* the slot of the oldest operation */
    size_t n;                           /* slots in use, given ones behind the oldest included */
};

/* Takes the operation on; *ret_slot is its number. `pipeline` is for the error. */
int outrider__op_queue_add(struct op_queue *q, struct source_op *op, const char *pipeline,
                           size_t *ret_slot, struct outrider_error *err);

/* The slot of the i-th operation, from the oldest (0) on; i is below q->n. */
static inline size_t op_queue_slot(const struct op_queue *q, size_t i)
{
    return (q->first + i) % OP_QUEUE_MAX;
}

static inline void op_queue_done(struct op_queue *q, size_t slot)
{
    q->slots[slot].is_done = true;
}

/* Whether an operation that is done may be given back already. */
typedef bool op_queue_test(const void *ctx, size_t slot);

/* The slot of an operation that can be given back now, which is free from now on; or
 * OP_QUEUE_NONE. may_give NULL: what is done may be given back. */
size_t outrider__op_queue_give(struct op_queue *q, op_queue_test *may_give, const void *ctx);

/* For a source that works on one operation at a time: the oldest operation waits.
 * Returns the slot of a FETCH that may be worked on meanwhile, or OP_QUEUE_NONE. */
size_t outrider__op_queue_passing(const struct op_queue *q);

#endif
