/* SPDX-License-Identifier: MIT */
#include "core/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ALL UINT64_MAX

static const struct {
    struct commit_mark saved;
    bool has_intent;
    struct commit_mark found;
    enum recall_verdict verdict;
} cases[] = {
    /* A fresh pipeline, and one that has settled its last intent. */
    {{0, 0}, false, {0, 0}, RECALL_AGREES},
    {{7, 70}, false, {7, 70}, RECALL_AGREES},
    /* An intent is open. */
    {{7, 70}, true, {7, 70}, RECALL_CAME_TRUE},
    {{7, 70}, true, {6, 60}, RECALL_NEVER_WAS},
    {{1, 10}, true, {0, 0}, RECALL_NEVER_WAS},
    /* The stamp of the transaction before the intent is not known any more. */
    {{7, 70}, true, {6, 61}, RECALL_NEVER_WAS},
    /* Without an open intent nothing may be dropped. */
    {{7, 70}, false, {6, 60}, RECALL_DISAGREES},
    {{1, 10}, false, {0, 0}, RECALL_DISAGREES},
    /* A copy of the database has published, the database was restored, the sink forgot. */
    {{7, 70}, true, {7, 71}, RECALL_DISAGREES},
    {{7, 70}, false, {7, 71}, RECALL_DISAGREES},
    {{7, 70}, true, {8, 80}, RECALL_DISAGREES},
    {{7, 70}, true, {5, 50}, RECALL_DISAGREES},
    {{7, 70}, true, {0, 0}, RECALL_DISAGREES},
    {{0, 0}, false, {1, 10}, RECALL_DISAGREES},
    /* The largest number has no successor. */
    {{0, 0}, false, {ALL, 1}, RECALL_DISAGREES},
};

static void the_verdict_follows_from_both_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum recall_verdict v =
            outrider__progress_judge(cases[i].saved, cases[i].has_intent, cases[i].found);
        if (v != cases[i].verdict)
            fail_msg("case %zu: verdict %d, not %d", i, (int)v, (int)cases[i].verdict);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verdict_follows_from_both_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
