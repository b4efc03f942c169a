/* SPDX-License-Identifier: MIT */
/*
 * A pipeline's configuration, after parsing and checking.
 *
 * Each field is one row of the option table (core/options.c), which knows its
 * name, type, default, range and text. Strings and lists live in the arena. What only one
 * adapter uses is a field of that adapter's struct (core/adapter.h).
 */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

#include <stddef.h>
#include <string.h>

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
enum form { FORM_RAW, FORM_ENVELOPE, FORM_CLOUDEVENTS, FORM_CLOUDEVENTS_BINARY, FORM_OBJECT };
enum object_payload { OBJECT_PAYLOAD_JSON, OBJECT_PAYLOAD_STRING };
enum missing_columns { MISSING_IS_ERROR, MISSING_IS_LEFT_OUT };
enum map_epoch { EPOCH_NONE, EPOCH_S, EPOCH_MS, EPOCH_US, EPOCH_NS };
enum source_mode { MODE_POLL, MODE_CDC };
enum durable { DURABLE_LOCAL, DURABLE_STANDBY };
enum after_publish {
    AFTER_PUBLISH_AUTO, /* polling: mark, cdc: none */
    AFTER_PUBLISH_NONE,
    AFTER_PUBLISH_MARK,
    AFTER_PUBLISH_DELETE
};

enum existing_rows { EXISTING_ROWS_DELIVER, EXISTING_ROWS_SKIP };

/* What a column of an existing outbox table can stand for: option, name in
 * messages, what it holds. */
#define COLUMN_ROLES(X)                                                                       \
    X(ID, "id", "the event's id, which is unique")                                            \
    X(SEQ, "seq", "an integer that grows with each event")                                    \
    X(AGGREGATE_TYPE, "aggregate_type", "the aggregate's type")                               \
    X(AGGREGATE_ID, "aggregate_id", "the aggregate's id")                                     \
    X(EVENT_TYPE, "event_type", "the event's type")                                           \
    X(PAYLOAD, "payload", "the payload")                                                      \
    X(HEADERS, "headers", "the event's own headers, a JSON object")                           \
    X(TOPIC, "topic", "the event's own topic")                                                \
    X(PARTITION_KEY, "partition_key", "the message's key")                                    \
    X(PARTITION, "partition", "the number of a partition")                                    \
    X(OCCURRED_AT, "occurred_at", "the time at which the event happened")                     \
    X(CREATED_AT, "created_at", "the time at which the row was written")                      \
    X(EXPIRES_AT, "expires_at", "the time from which on the event is not delivered any more") \
    X(IDEMPOTENCY_KEY, "idempotency_key", "the key of the request that made the event")       \
    X(REQUEST_DIGEST, "request_digest", "the digest of that request")                         \
    X(STATUS, "status", "the state, as one of status_values")                                 \
    X(PUBLISHED, "published", "a boolean that says whether the event is published")           \
    X(PUBLISHED_AT, "published_at", "the time of publishing, NULL until then")                \
    X(ATTEMPTS, "attempts", "the number of tries that failed")                                \
    X(NEXT_ATTEMPT_AT, "next_attempt_at", "the time of the next try")                         \
    X(LAST_ERROR, "last_error", "the reason why the last try failed")                         \
    X(LAST_ERROR_CODE, "last_error_code", "that reason's code")                               \
    X(LOCKED_BY, "locked_by", "the name of who has claimed the row")                          \
    X(LOCKED_AT, "locked_at", "the time of the claim")                                        \
    X(LOCKED_UNTIL, "locked_until", "the time at which the claim ends")                       \
    X(CLAIM, "claim", "the number of claims so far, an integer")                              \
    X(UPDATED_AT, "updated_at", "the time of the row's last change")

enum column_role {
#define COLUMN_ROLE_X(name, option, text) ROLE_##name,
    COLUMN_ROLES(COLUMN_ROLE_X)
#undef COLUMN_ROLE_X
        ROLE_COUNT
};

/* Where an adapter's struct is in `own`. */
struct adapter_place {
    const char *adapter; /* its name; NULL behind the last */
    size_t offset;
};

/* Room for the structs of all adapters together. */
#define CONFIG_OWN_SIZE 2048

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
        int64_t max_headers;
        int64_t connect_timeout_us;
        int64_t initial_delay_us;
        int durable;         /* enum durable */
        int64_t max_gaps;    /* ranges of seqs that open transactions may still fill */
        int64_t min_age_us;  /* younger rows are left to the application */
        int64_t lease_us;    /* how long a claim holds unless it is renewed */
        int64_t concurrency; /* events claimed and not yet settled; 0: as many as fit */
        int after_publish;   /* enum after_publish */
        int existing_rows;   /* enum existing_rows */
    } source;

    /* An existing table's columns, where their names do not say it. */
    struct {
        const char *columns[ROLE_COUNT];  /* NULL: inferred; "-": the table has none */
        struct string_map status_values;  /* state: value */
        struct string_map header_columns; /* header: column */
        int missing_columns;              /* enum missing_columns: of header_columns */
        int epoch;                        /* enum map_epoch: what integers as times count */
    } map;

    struct {
        const char *url;
        int64_t send_timeout_us;
        bool empty_is_tombstone; /* an empty payload is published as null */
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
        struct string_list members; /* headers that stand in the object, not in the headers */
        int payload;                /* enum object_payload */
    } object;

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
        bool adopted; /* also in tables that are not ours */
    } cleanup;

    /* Of outrider/hybrid.h: an application that publishes by itself. */
    struct {
        int64_t lease_us; /* how long what it claimed is its own */
        int64_t queue;    /* events claimed and not yet settled */
    } hybrid;

    bool ordered;
    bool exactly_once;
    int64_t shutdown_timeout_us;

    /* The structs of the adapters (core/adapter.h), each known to its adapter only. They
     * are held by value: a copy of this struct shares nothing that is written. */
    const struct adapter_place *places; /* NULL: made by hand, without any */
    union {
        max_align_t align;
        char bytes[CONFIG_OWN_SIZE];
    } own;

    /* Not options: how the pipeline is run. */
    bool once;
    int64_t replay_from_seq;   /* core/replay.h: the point to begin at; 0: not given */
    int64_t replay_since_us;   /* the same as a time; 0: not given */
    void *source_data;         /* for a source that no URL names: what it reads from */
    const char *sink_identity; /* sink URL without credentials, stored with the cursor */
};

/* An adapter's own struct; `none` where the configuration was made by hand. */
static inline const void *config_own(const struct pipeline_config *c, const char *adapter,
                                     const void *none)
{
    for (const struct adapter_place *p = c->places; p != NULL && p->adapter != NULL; p++)
        if (strcmp(p->adapter, adapter) == 0)
            return c->own.bytes + p->offset;
    return none;
}

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
