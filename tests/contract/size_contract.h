/* SPDX-License-Identifier: MIT */
/*
 * What is too large, and how much a batch takes: struct event_bounds and struct batch
 * of core/event.h, as tests for every source.
 */
#ifndef TESTS_SIZE_CONTRACT_H
#define TESTS_SIZE_CONTRACT_H

#include "support/source_harness.h"

int size_contract_run(const char *name, const struct source_fixture *f);

#endif
