/* SPDX-License-Identifier: MIT */
#include "core/adapter.h"
#include "sink/file/options.h"

#define KIB 1024.0
#define TIB (1024.0 * 1024 * 1024 * KIB)

static const struct option options[] = {
    {"sink.rotate_size", OPTION_SIZE, offsetof(struct file_options, rotate_size),
     .initial = "64MiB", .min = KIB, .max = TIB,
     .text = "file: a new segment is begun above this size."},
};

OUTRIDER_ADAPTER(file) = {
    .name = "file",
    .schemes = "file",
    .is_sink = true,
    .example = "file:events",
    .form = "file:DIR",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .config_size = sizeof(struct file_options),
};
