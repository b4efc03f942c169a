/* SPDX-License-Identifier: MIT */
/*
 * Exactly once, in the words that source, sink and engine share.
 *
 * Each batch is one transaction of the sink, and the transactions of a
 * pipeline are numbered. Before transaction n is committed the database holds
 * intent n: what will be settled once it is. The transaction itself holds the
 * number. So after any crash the number in the sink says whether the intent in
 * the database came true, and that is all anybody has to know.
 */
#ifndef CORE_PROGRESS_H
#define CORE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A transaction. The stamp is chance, and tells two databases apart that count
 * alike: one and its copy. */
struct commit_mark {
    uint64_t no; /* 0: there was none yet */
    uint64_t stamp;
};

static inline bool progress_is(struct commit_mark a, struct commit_mark b)
{
    return a.no == b.no && (a.no == 0 || a.stamp == b.stamp);
}

#endif
