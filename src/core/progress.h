/* SPDX-License-Identifier: MIT */
/*
 * Exactly once, in the words that source, sink and engine share.
 *
 * Each batch is one transaction of the sink, and the transactions of a
 * pipeline are numbered. Before transaction n is committed, the database holds
 * intent n: what is settled once the transaction is committed. The transaction
 * itself holds the number n. After any crash the number in the sink therefore
 * says whether the intent in the database came true, and nobody needs to know
 * more than that.
 */
#ifndef CORE_PROGRESS_H
#define CORE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* The name of a transaction. The stamp is random: it distinguishes a database
 * from a copy of that database, whose numbers are the same. */
struct commit_mark {
    uint64_t no; /* 0: there was none yet */
    uint64_t stamp;
};

static inline bool progress_is(struct commit_mark a, struct commit_mark b)
{
    return a.no == b.no && (a.no == 0 || a.stamp == b.stamp);
}

/* What the sink's last transaction says about the database's last intent. */
enum recall_verdict {
    RECALL_DISAGREES, /* the two do not belong together; a person must decide */
    RECALL_AGREES,    /* no intent is open, and the numbers are equal */
    RECALL_CAME_TRUE, /* the intent's transaction was committed: settle the intent */
    RECALL_NEVER_WAS  /* the intent's transaction was not committed: drop the intent */
};

/*
 * The only place that judges. `saved` is the intent that the database saved last,
 * and has_intent says whether it is still there, neither settled nor dropped.
 * `found` is the last transaction that the sink has committed.
 */
enum recall_verdict outrider__progress_judge(struct commit_mark saved, bool has_intent,
                                             struct commit_mark found);

#endif
