/* SPDX-License-Identifier: MIT */
#include "core/adapter.h"

OUTRIDER_ADAPTER(stdout) = {
    .name = "stdout",
    .schemes = "stdout",
    .is_sink = true,
    .example = "stdout:",
    .form = "stdout:",
};
