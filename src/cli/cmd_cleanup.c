/* SPDX-License-Identifier: MIT */
/*
 * cleanup: removes settled events, or handled ones of the inbox, in small portions, with a pause in
 * which writers and a relay come to their turn.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "cli/out.h"

static void cleanup_pause_for(int64_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) != 0)
        continue;
}

static int cleanup_remove_all(const struct pipeline_config *c, struct store *s, bool inbox,
                              uint64_t *ret_removed, struct outrider_error *err)
{
    int (*clean)(struct store *, int64_t, uint64_t, uint64_t *, struct outrider_error *) =
        inbox ? s->ops->cleanup_inbox : s->ops->cleanup;
    struct progress progress;
    /* One cutoff for the whole run: it ends also while events go on ageing. */
    int64_t cutoff_us = outrider__clock_now().wall_us - c->cleanup.retention_us;
    uint64_t total = 0, removed;
    outrider__progress_init(&progress);
    for (;;) {
        if (clean(s, cutoff_us, (uint64_t)c->cleanup.batch, &removed, err) < 0) {
            outrider__progress_end(&progress);
            return -1;
        }
        total += removed;
        if (removed == 0)
            break;
        outrider__progress(&progress, "%" PRIu64 " events removed", total);
        cleanup_pause_for(c->cleanup.pause_us);
    }
    outrider__progress_end(&progress);
    *ret_removed = total;
    return 0;
}

static int run_cleanup(const struct args *a, const struct pipeline_config *c, struct store *s,
                       struct outrider_error *err)
{
    uint64_t removed;
    if (c->cleanup.retention_us == 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s is 0, which keeps events for ever: give an age, for example "
                              "--retention 7d, or --retention 1ms for all that is settled",
                              outrider__args_has(a, F_RETENTION) ? "--retention"
                                                                 : "cleanup.retention");
    bool inbox = outrider__args_has(a, F_INBOX);
    if (cleanup_remove_all(c, s, inbox, &removed, err) < 0)
        return -1;
    if (outrider__args_has(a, F_JSON))
        printf("{\"removed\":%" PRIu64 "}\n", removed);
    else
        printf("%" PRIu64 " %s event%s %s\n", removed, inbox ? "handled" : "settled",
               removed == 1 ? "" : "s", inbox ? "forgotten" : "removed");
    return 0;
}

int outrider__cmd_cleanup(const struct args *a)
{
    return outrider__with_store(a, run_cleanup);
}
