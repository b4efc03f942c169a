/* SPDX-License-Identifier: MIT */
/*
 * Exactly once, clauses (10) to (13) of core/source.h, as tests for every source
 * that keeps intents.
 */
#ifndef TESTS_INTENT_CONTRACT_H
#define TESTS_INTENT_CONTRACT_H

#include "support/source_harness.h"

int intent_contract_run(const char *name, const struct source_fixture *f);

#endif
