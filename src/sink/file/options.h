/* SPDX-License-Identifier: MIT */
/* The file sink's own options; their rows are in adapter.c. */
#ifndef SINK_FILE_OPTIONS_H
#define SINK_FILE_OPTIONS_H

#include "core/config.h"

struct file_options {
    int64_t rotate_size; /* a segment above this size is followed by a new one; 0: never */
};

static inline const struct file_options *file_options(const struct pipeline_config *c)
{
    static const struct file_options none;
    return config_own(c, "file", &none);
}

#endif
