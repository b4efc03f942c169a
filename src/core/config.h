/* SPDX-License-Identifier: MIT */
/*
 * A pipeline's configuration, after parsing and checking.
 *
 * Each field is one row of the option table (core/options.c), which knows its
 * name, type, default, range and text. Strings and lists live in the arena.
 */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"

struct string_list {
    const char **items;
    size_t n;
};

struct duration_list {
    int64_t *items; /* microseconds */
    size_t n;
};

/* name: value, in the order in which they were given. */
struct string_map {
    struct string_pair {
        const char *name, *value;
    } * items;
    size_t n;
};

enum on_dead { ON_DEAD_SKIP, ON_DEAD_BLOCK };
enum form { FORM_RAW, FORM_ENVELOPE, FORM_CLOUDEVENTS, FORM_CLOUDEVENTS_BINARY };
enum source_mode { MODE_POLL, MODE_CDC };
enum durable { DURABLE_LOCAL, DURABLE_STANDBY };

struct pipeline_config {
    struct arena *arena;
    const char *name; /* "default" */

    struct {
        const char *url;
        int mode; /* enum source_mode */
        struct string_list tables;
        int64_t poll_interval_us; /* ceiling of the adaptive probe */
        int64_t batch;            /* events read at once */
        int64_t batch_bytes;      /* and bytes: a batch ends with the event that passes this */
        int64_t max_payload;
        int64_t connect_timeout_us;
        int64_t initial_delay_us;
        int durable;      /* enum durable */
        int64_t max_gaps; /* postgresql: ranges of seqs that may still be filled */
    } source;

    struct {
        const char *url;
        int64_t send_timeout_us;
        int64_t rotate_size; /* file: start a new segment above this size */
    } sink;

    struct {
        const char *topic;         /* template */
        struct string_map by_type; /* event type: topic */
        const char *regex_field;   /* aggregate_type, event_type, ... */
        const char *regex;         /* pattern over that field */
        const char *replacement;   /* topic with $1, ${name} */
    } route;

    int form;               /* enum form */
    const char *source_uri; /* cloudevents: the "source" attribute */

    struct {
        /* Header names; "" switches one off. */
        const char *event_id, *event_type, *aggregate_type;
    } headers;

    struct {
        struct string_list aggregate_types, event_types;
    } select;

    struct {
        struct duration_list delays;
        int64_t base_us, max_us; /* used when base is set instead of delays */
        double factor, jitter;   /* jitter 0..1: share of the delay that is random */
        int64_t max_attempts;    /* counts the first try */
        int on_dead;             /* enum on_dead */
    } retry;

    struct {
        const char *topic; /* template; NULL: dead letters stay in the database only */
    } dead_letter;

    struct {
        int64_t retention_us; /* 0: keep for ever */
        int64_t every_us;
        const char *at; /* "02:00": once a day, instead of every; NULL: unset */
        int64_t batch;
        int64_t pause_us;
    } cleanup;

    bool ordered;
    int64_t shutdown_timeout_us;

    /* Not options: how the pipeline is run. */
    bool once;
    bool replay;               /* read from a point, settle nothing: replay_* */
    int64_t replay_from_seq;   /* 0: not given */
    int64_t replay_since_us;   /* 0: not given */
    const char *sink_identity; /* sink URL without credentials, stored with the cursor */
};

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

/* What holds for the whole program, not for one pipeline. */
struct program_config {
    struct {
        int level;  /* enum log_level */
        int format; /* enum log_format */
    } log;
};

#endif
