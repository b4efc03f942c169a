/* SPDX-License-Identifier: MIT */
/*
 * Which adapter serves a URL's scheme: built in, or loaded from the module
 * directories (OUTRIDER_MODULE_PATH; beside the program: modules/; installed:
 * ../lib/outrider and its multiarch form). A scheme that nobody serves is an error that
 * lists those that are served; where only the module is missing, the error says why.
 *
 *  (1) A module stays loaded until the process ends: what it gave out stays valid.
 *  (2) Any thread may ask.
 */
#ifndef RUN_MODULES_H
#define RUN_MODULES_H

#include "core/module.h"

int outrider__source_find(const char *scheme, const struct source_ops **ret_ops,
                          struct outrider_error *err);
int outrider__store_find(const char *scheme, const struct store_ops **ret_ops,
                         struct outrider_error *err);
/* Fails also where the database has no hybrid publishing. */
int outrider__hybrid_find(const char *scheme, const struct hybrid_ops **ret_ops,
                          struct outrider_error *err);
int outrider__sink_find(const char *scheme, const struct sink_ops **ret_ops,
                        struct outrider_error *err);

/* Every module that can be found, by name; one that cannot be loaded comes
 * with the reason and module NULL. */
void outrider__modules_each(void (*found)(void *ctx, const char *name, const struct module *module,
                                          const struct outrider_error *why),
                            void *ctx);
/* The schemes of the sinks that are part of the program; NULL behind the last. */
const char *outrider__builtin_sink(size_t i);

#endif
