/* SPDX-License-Identifier: MIT */
/* PostgreSQL's own options, both of mode cdc; their rows are in adapter.c. */
#ifndef POSTGRES_OPTIONS_H
#define POSTGRES_OPTIONS_H

#include "core/config.h"

struct postgres_options {
    const char *publication; /* NULL: outrider_<pipeline> */
    bool slot_failover;      /* the slot is kept on standbys too */
};

static inline const struct postgres_options *postgres_options(const struct pipeline_config *c)
{
    static const struct postgres_options none;
    return config_own(c, "postgres", &none);
}

#endif
