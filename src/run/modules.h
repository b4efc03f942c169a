/* SPDX-License-Identifier: MIT */
/*
 * Which adapter serves a URL's scheme: built in, or loaded from the module
 * directories (OUTRIDER_MODULE_PATH; beside the program: modules/; installed:
 * ../lib/outrider and its multiarch form). An unknown scheme is an error that
 * lists what there is.
 */
#ifndef RUN_MODULES_H
#define RUN_MODULES_H

#include "core/module.h"

int outrider__source_find(const char *scheme, const struct source_ops **ret_ops,
                          struct outrider_error *err);
int outrider__store_find(const char *scheme, const struct store_ops **ret_ops,
                         struct outrider_error *err);
int outrider__sink_find(const char *scheme, const struct sink_ops **ret_ops,
                        struct outrider_error *err);

#endif
