/* SPDX-License-Identifier: MIT */
/*
 * What is known of an adapter (a database or a receiver) without loading the adapter: its
 * name, the schemes that the adapter serves, and its options.
 *
 *  (1) Each adapter's directory has a file adapter.c with one such row. The file uses no
 *      client library: the program links the rows of all adapters, so that the program
 *      parses a file, explains every option and hides every secret also where a client
 *      library is missing. The build collects the rows (cmake/OutriderAdapter.cmake).
 *  (2) An adapter's options are rows of its own struct: `offset` counts from the
 *      beginning of that struct. A pipeline's configuration holds one such struct of each
 *      adapter (config_own() in core/config.h), used or not. Zero bytes are a valid
 *      struct: a configuration that was made by hand has no other.
 *  (3) The names of options are unique over core and all adapters, and stand in a section
 *      that core has: "source." for a database, "sink." for a receiver.
 */
#ifndef CORE_ADAPTER_H
#define CORE_ADAPTER_H

#include "core/options.h"

struct adapter {
    const char *name;        /* also its module's: modules/NAME.so */
    const char *schemes;     /* separated by spaces; the first one is shown to people */
    bool is_source, is_sink; /* what the adapter serves */
    bool needs_server;       /* false: the adapter works with files alone */
    bool is_example;         /* help shows this adapter among those of its kind */
    const char *example;     /* a URL, for help and messages */
    const char *form;        /* of its URLs: "file:DIR" */
    const char *library;     /* the client library; NULL: none, the adapter is built in */
    const struct option *options;
    size_t n_options;
    size_t config_size; /* of the struct that the options are fields of */
};

/* A row: OUTRIDER_ADAPTER(file) = {.name = "file", ...}; */
#define OUTRIDER_ADAPTER(name)                            \
    extern const struct adapter outrider__adapter_##name; \
    const struct adapter outrider__adapter_##name

/* One adapter of this source tree; is_built: this build has its module, or it is built in. */
struct adapter_entry {
    const struct adapter *adapter;
    bool is_built;
};

/* All of them by name; the last one's adapter is NULL. Made by the build. */
extern const struct adapter_entry outrider__adapters[];

/* The scheme that is shown to people. */
static inline struct bytes adapter_scheme(const struct adapter *a)
{
    return bytes_of(a->schemes, strcspn(a->schemes, " "));
}

/* The adapter that serves a scheme, or NULL. */
const struct adapter_entry *outrider__adapter_find(const char *scheme);
/* The adapter that serves a URL's scheme, or NULL. */
const struct adapter_entry *outrider__adapter_of_url(const char *url);

/* URLs for help and messages. */
enum adapter_example {
    EXAMPLE_SOURCE,        /* a database that needs no server */
    EXAMPLE_SOURCE_SERVER, /* a database with a server */
    EXAMPLE_SINK_SERVER    /* a broker */
};
/* What an option's row has as its example for EXAMPLE_SOURCE. */
#define OPTION_EXAMPLE_SOURCE "@db@"

const char *outrider__adapter_example(enum adapter_example kind);
/* The forms of all sinks' URLs: "file:DIR, null: or stdout:". */
void outrider__adapter_sink_forms(struct strbuf *out);

#endif
