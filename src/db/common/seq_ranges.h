/* SPDX-License-Identifier: MIT */
/* Sets of seqs, as ranges in ascending order. */
#ifndef COMMON_SEQ_RANGES_H
#define COMMON_SEQ_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seq_range {
    int64_t low, high; /* both included */
};

struct seq_ranges {
    struct seq_range *items; /* owned; ascending, none meets another */
    size_t n;
};

bool outrider__seq_ranges_hold(const struct seq_ranges *r, int64_t seq);
void outrider__seq_ranges_release(struct seq_ranges *r);

#endif
