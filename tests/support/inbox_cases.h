/* SPDX-License-Identifier: MIT */
/* Misuse that every database's inbox is tried with. */
#ifndef TESTS_INBOX_CASES_H
#define TESTS_INBOX_CASES_H

#include "outrider/error.h"

typedef int inbox_call(void *conn, const char *consumer, const char *event_id,
                       struct outrider_error *err);

/* In an open transaction, which none of it may touch. */
void inbox_case_misuse(void *conn, inbox_call *call);

#endif
