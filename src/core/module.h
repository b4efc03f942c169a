/* SPDX-License-Identifier: MIT */
/*
 * Adapters that need a client library are modules: shared objects that are
 * loaded when a URL asks for them, so that a relay maps only the libraries
 * that it uses. A module carries its own copy of src/base (which has no global
 * state) and exports two symbols, outrider_module and outrider_module_abi.
 *
 *  (1) outrider_module_abi is a text: a hash over the seam headers, made by the
 *      build. The loader compares the text first, and reads nothing else of a
 *      module whose text differs: the structs of such a module may differ too.
 */
#ifndef CORE_MODULE_H
#define CORE_MODULE_H

#include "core/adapter.h"
#include "core/hybrid.h"
#include "core/sink.h"
#include "core/source.h"
#include "core/store.h"
#include "module_abi.h"
#include "outrider/export.h"

struct module {
    const struct adapter *adapter; /* its name, schemes and options: core/adapter.h */
    const struct source_ops *source;
    const struct store_ops *store;
    const struct sink_ops *sink;
    const struct hybrid_ops *hybrid; /* of a database; NULL: no hybrid publishing */
    const char *client_version;      /* the client library and its version, for people */
};

#define OUTRIDER_MODULE_SYMBOL "outrider_module"
#define OUTRIDER_MODULE_ABI_SYMBOL "outrider_module_abi"

/* The two symbols of a module: OUTRIDER_MODULE = {.adapter = ...}; */
#define OUTRIDER_MODULE                                                  \
    extern const char outrider_module_abi[sizeof OUTRIDER_MODULE_ABI];   \
    OUTRIDER_API const char outrider_module_abi[] = OUTRIDER_MODULE_ABI; \
    extern const struct module outrider_module;                          \
    OUTRIDER_API const struct module outrider_module

#endif
