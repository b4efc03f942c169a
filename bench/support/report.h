/* SPDX-License-Identifier: MIT */
/*
 * What a benchmark says at its end: a table for people on standard output and,
 * with BENCH_JSON=FILE, the same for programs:
 *
 *     {"bench":NAME,"results":[{"what":...,"value":...,"unit":...,"goal":...,"holds":true}]}
 *
 * A row with a limit is a comparison: its value in JSON is the ratio.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

enum report_goal { GOAL_NONE, GOAL_AT_LEAST, GOAL_AT_MOST };

struct report_row {
    char what[64];
    double ours;
    const char *unit;
    double limit; /* what ours is compared with; 0: nothing */
    enum report_goal kind;
    double goal; /* of the ratio where there is a limit, else of ours */
};

struct report {
    const char *bench;
    struct report_row rows[32];
    size_t n;
};

void report_add(struct report *r, struct report_row row);
void report_print(const struct report *r);
/* To the file that BENCH_JSON names, if any. */
void report_write_json(const struct report *r);

#endif
