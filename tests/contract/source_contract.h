/* SPDX-License-Identifier: MIT */
/*
 * The contract of core/source.h as tests, which every source has to pass. A
 * source's own test program fills in a fixture and calls
 * source_contract_run(); numbers in the tests are those of the contract.
 */
#ifndef TESTS_SOURCE_CONTRACT_H
#define TESTS_SOURCE_CONTRACT_H

#include "support/source_harness.h"

/* All of it: this file's tests, those of parked rows or of rows that carry their state,
 * and those of intents. The number of failures. */
int source_contract_run(const char *name, const struct source_fixture *f);

#endif
