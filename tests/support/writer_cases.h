/* SPDX-License-Identifier: MIT */
/* Events and misuse that every database's writer is tried with. */
#ifndef TESTS_WRITER_CASES_H
#define TESTS_WRITER_CASES_H

#include "outrider/writer.h"

#define WRITER_CASE_N 100
#define WRITER_CASE_BIG (10 << 20)
#define WRITER_CASE_BAD 32 /* more than there are */

struct writer_case_array {
    struct outrider_event events[WRITER_CASE_N];
    char ids[WRITER_CASE_N][OUTRIDER_ID_SIZE];
    char keys[WRITER_CASE_N][16]; /* the aggregates' ids: "0", "1", ... */
};

struct outrider_event writer_case_event(const char *payload);
void writer_case_fill(struct writer_case_array *a);
/* A payload of WRITER_CASE_BIG bytes for the event; free what is returned. */
char *writer_case_big(struct outrider_event *e);
/* Events with one field each that is wrong; how many. */
size_t writer_case_spoil(struct outrider_event *bad, size_t cap);
/* Everything a program can hand over wrongly, in an open transaction that none
 * of it may touch: each call must fail with INVALID, NOT_JSON or the like. */
void writer_case_misuse(struct outrider_writer *w);

#endif
