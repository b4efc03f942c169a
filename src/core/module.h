/* SPDX-License-Identifier: MIT */
/*
 * Adapters that need a client library are modules: shared objects that are
 * loaded when a URL asks for them, so that a relay maps only the libraries
 * that it uses. A module carries its own copy of src/base (which has no global
 * state) and exports one symbol, outrider_module.
 */
#ifndef CORE_MODULE_H
#define CORE_MODULE_H

#include "core/sink.h"
#include "core/source.h"
#include "core/store.h"

/* Raised whenever a struct of a seam changes: a module of another build is refused. */
#define OUTRIDER_MODULE_ABI 5u

struct module {
    unsigned abi;
    const char *name;
    const char *scheme; /* what a URL must begin with */
    const struct source_ops *source;
    const struct store_ops *store;
    const struct sink_ops *sink;
    const char *client_version; /* "SQLite 3.40.1", for `outrider version` */
};

#define OUTRIDER_MODULE_SYMBOL "outrider_module"

#endif
