/* SPDX-License-Identifier: MIT */
/*
 * Rows that carry their state, clauses (17) and (18) of core/source.h, as tests for
 * every source that keeps what failed in the outbox's own rows.
 */
#ifndef TESTS_ROWS_CONTRACT_H
#define TESTS_ROWS_CONTRACT_H

#include "support/source_harness.h"

int rows_contract_run(const char *name, const struct source_fixture *f);

#endif
