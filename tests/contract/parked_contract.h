/* SPDX-License-Identifier: MIT */
/*
 * Parked rows, clauses (7) and (8) of core/source.h, as tests for every source
 * that keeps what failed beside the outbox.
 */
#ifndef TESTS_PARKED_CONTRACT_H
#define TESTS_PARKED_CONTRACT_H

#include "support/source_harness.h"

int parked_contract_run(const char *name, const struct source_fixture *f);

#endif
