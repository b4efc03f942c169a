/* SPDX-License-Identifier: MIT */
/*
 * Points in the outbox, clauses (14) to (16) of core/source.h, as tests for every
 * source: up to where --once reads, up to where clean-up removes, and from where a
 * replay begins.
 */
#ifndef TESTS_POINT_CONTRACT_H
#define TESTS_POINT_CONTRACT_H

#include "support/source_harness.h"

int point_contract_run(const char *name, const struct source_fixture *f);

#endif
