/* SPDX-License-Identifier: MIT */
#include "core/adapter.h"

OUTRIDER_ADAPTER(sqlite) = {
    .name = "sqlite",
    .schemes = "sqlite",
    .is_source = true,
    .is_example = true,
    .example = "sqlite:shop.db",
    .form = "sqlite:FILE",
    .library = "libsqlite3",
};
