/* SPDX-License-Identifier: MIT */
#include "core/adapter.h"

OUTRIDER_ADAPTER(null) = {
    .name = "null",
    .schemes = "null",
    .is_sink = true,
    .example = "null:",
    .form = "null:",
};
