/* SPDX-License-Identifier: MIT */
#include "common/seq_ranges.h"

#include <stdlib.h>

bool outrider__seq_ranges_hold(const struct seq_ranges *r, int64_t seq)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->items[middle].high < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->n && r->items[low].low <= seq;
}

void outrider__seq_ranges_release(struct seq_ranges *r)
{
    free(r->items);
    *r = (struct seq_ranges){0};
}
