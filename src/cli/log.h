/* SPDX-License-Identifier: MIT */
/*
 * The daemon's log: one line per thing that happened, to stderr, as logfmt or
 * JSON. Never a payload, never a secret.
 *
 *  (1) A line is one write(2), so that lines of several threads never mix.
 *  (2) Whatever a value holds (line ends, quotes, bytes that are not UTF-8),
 *      the line stays one line and parses.
 *  (3) A log that cannot be written (a full disk, a closed pipe) stops nobody.
 */
#ifndef CLI_LOG_H
#define CLI_LOG_H

#include <stdatomic.h>

#include "base/strbuf.h"
#include "core/relay.h"

struct log {
    int fd;
    _Atomic int level;        /* enum log_level: what is wanted; a reload may change it */
    _Atomic int format;       /* enum log_format */
    _Atomic bool clears_line; /* a progress line stands on the same terminal */
};

struct log_entry {
    struct log *log;
    struct strbuf sb;
    int format;
};

/* False, and nothing to do, where the level is not wanted. */
bool outrider__log_begin(struct log_entry *l, struct log *log, enum log_level level,
                         const char *msg);
void outrider__log_bytes(struct log_entry *l, const char *name, struct bytes value);
void outrider__log_text(struct log_entry *l, const char *name, const char *value);
void outrider__log_int(struct log_entry *l, const char *name, int64_t value);
void outrider__log_time(struct log_entry *l, const char *name, int64_t wall_us);
void outrider__log_duration(struct log_entry *l, const char *name, int64_t us);
/* error_code, error and, where there is one, origin. */
void outrider__log_error(struct log_entry *l, const struct outrider_error *why);
void outrider__log_end(struct log_entry *l);

/* One pipeline's observer. */
struct log_pipeline {
    struct log *log;
    const char *name;
    const char *source, *sink;            /* redacted URLs */
    int64_t source_lost_us, sink_down_us; /* monotonic; 0: not down */
    enum outrider_code down_code;         /* of the last outage told */
};

struct relay_observer outrider__log_observer(struct log_pipeline *p);

#endif
