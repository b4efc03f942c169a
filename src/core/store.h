/* SPDX-License-Identifier: MIT */
/*
 * The seam to a database for everything that is not relaying: what the
 * commands init, put, status, dead, cleanup, doctor and resync need.
 *
 *  (1) Calls are synchronous; they may wait for the database, within
 *      connect_timeout and its own limits.
 *  (2) Errors name the thing and the way out.
 *  (3) Nothing here needs a running relay, and everything may be done beside one.
 */
#ifndef CORE_STORE_H
#define CORE_STORE_H

#include "base/strbuf.h"
#include "core/event.h"
#include "core/finding.h"
#include "core/progress.h"
#include "outrider/event.h"

struct pipeline_config;

struct init_options {
    const char *layout;    /* "log", "status" or NULL for the default */
    const char *payload;   /* "jsonb", "text", "bytea" or NULL */
    const char *partition; /* "day", "month" or NULL */
    bool inbox;            /* the table of handled events too, for consumers */
    bool dry_run;
};

/* A position in a server's log of changes, as the server writes it: a number of one
 * kind, or a set of transactions' names that is as long as the server's history is varied. */
#define STREAM_POSITION_MAX 1024

/* What the server keeps for a pipeline in mode cdc. */
struct stream_status {
    const char *word;  /* what the server calls it: the key in JSON, and a word for people */
    const char *limit; /* the server's setting behind left_bytes, or NULL */
    char name[64];     /* "": there is none, and none is needed */
    bool exists, is_active;
    bool is_lost;                        /* needed, but gone or invalidated */
    int64_t retained_bytes;              /* log that the server keeps for it */
    char confirmed[STREAM_POSITION_MAX]; /* position up to which all is settled */
    int64_t lag_bytes;
    int64_t lag_us;     /* -1: not known */
    int64_t left_bytes; /* until the server gives it up; -1: it never does */
};

struct store_status {
    char pipeline[64];
    char sink[256];    /* identity of its sink, or "" */
    bool relay_active; /* somebody holds the pipeline's lock */
    int64_t position;  /* last settled seq */
    int64_t head;      /* last seq in the outbox */
    uint64_t pending;  /* committed and not yet settled, parked ones not counted */
    uint64_t parked, queued, dead;
    uint64_t uncovered;        /* rows in a state of which nobody knows what it means */
    char uncovered_text[320];  /* where they are, and which states; or "" */
    uint64_t ahead;            /* rows that wait: their seq is above the sequence */
    char ahead_text[320];      /* where they are, and what to do; or "" */
    int64_t oldest_pending_us; /* created_at of the oldest pending event, 0 if none */
    uint64_t delivered_total, expired_total, skipped_total, dead_total; /* since init */
    int64_t settled_at_us;                                              /* last settle, 0: never */
    bool is_cdc; /* position and pending are about then: the stream knows better */
    struct stream_status stream;
};

struct dead_filter {
    const char *pipeline;   /* NULL: all */
    const char *const *ids; /* event ids */
    size_t n_ids;
    const char *event_type; /* NULL: any */
    int64_t since_us;       /* 0: any time; by when it died */
    bool with_parked;       /* list parked and queued ones too */
};

/* One parked event, borrowed for the duration of the callback. */
struct dead_row {
    const char *pipeline, *state; /* "parked", "queued", "dead" */
    struct event *event;
    const char *error_code, *error_message;
    int64_t parked_at_us, next_attempt_us, updated_at_us;
};

/* Where another program that read the server's log had come to, as the program noted;
 * positions are numbers of the server's log. */
struct stream_offset {
    uint64_t commit_lsn; /* every transaction that ends here or before is published; 0: none */
    uint64_t event_lsn;  /* of the next one, changes up to here are published; 0: none */
    uint32_t xid;        /* that transaction */
    bool is_begin;       /* event_lsn stands for its beginning: nothing of it is published */
    bool is_sure;        /* event_lsn surely stands for a change */
};

struct stream_adoption {
    const char *from; /* the name of what the server keeps for the other program */
    const struct stream_offset *offset; /* NULL: not known */
};

struct store {
    const struct store_ops *ops;
    char description[256];
};

struct store_ops {
    const char *scheme;
    size_t size;
    int (*open)(struct store *s, const struct pipeline_config *config, struct outrider_error *err);
    void (*close)(struct store *s);
    /* Makes what is missing, upgrades what is old. Appends the SQL to ret_sql
     * (in a dry run instead of running it). Safe to run twice and by two at once. */
    int (*init)(struct store *s, const struct init_options *o, struct strbuf *ret_sql,
                struct outrider_error *err);
    /* put_begin, any number of put, then put_commit, or put_rollback. */
    int (*put_begin)(struct store *s, struct outrider_error *err);
    int (*put)(struct store *s, const struct outrider_event *e, char ret_id[OUTRIDER_ID_SIZE],
               struct outrider_error *err);
    int (*put_commit)(struct store *s, struct outrider_error *err);
    void (*put_rollback)(struct store *s);
    /* One call of row() per pipeline known to the database. */
    int (*status)(struct store *s, void (*row)(void *ctx, const struct store_status *st), void *ctx,
                  struct outrider_error *err);
    /* Of the configuration's pipeline: events that are parked or wait behind one
     * that is, and dead letters. Cheap, however long the outbox is. */
    int (*count_failed)(struct store *s, uint64_t *ret_parked, uint64_t *ret_dead,
                        struct outrider_error *err);
    int (*dead_list)(struct store *s, const struct dead_filter *f,
                     void (*row)(void *ctx, const struct dead_row *r), void *ctx,
                     struct outrider_error *err);
    /* Back to be tried at once with its attempts counted anew; or gone. How many. */
    int (*dead_retry)(struct store *s, const struct dead_filter *f, uint64_t *ret_n,
                      struct outrider_error *err);
    int (*dead_discard)(struct store *s, const struct dead_filter *f, uint64_t *ret_n,
                        struct outrider_error *err);
    /* Removes one portion of at most `limit` settled rows older than the cutoff. */
    int (*cleanup)(struct store *s, int64_t older_than_us, uint64_t limit, uint64_t *ret_removed,
                   struct outrider_error *err);
    /* The same for the inbox: ids that were marked before the cutoff. */
    int (*cleanup_inbox)(struct store *s, int64_t older_than_us, uint64_t limit,
                         uint64_t *ret_removed, struct outrider_error *err);
    int (*doctor)(struct store *s, finding_fn *found, void *ctx, struct outrider_error *err);
    int (*resync)(struct store *s, struct strbuf *ret_report, struct outrider_error *err);
    /* The pipeline goes on to the configuration's sink from where the pipeline is. */
    int (*move)(struct store *s, struct strbuf *ret_report, struct outrider_error *err);
    /* exactly_once: forgets the pipeline's intent, whose outcome nobody knows; and, where
     * `progress` is not NULL, says which of the sink's transactions was the last. */
    int (*reset_intent)(struct store *s, const struct commit_mark *progress,
                        struct strbuf *ret_report, struct outrider_error *err);
    /* Drops what the server keeps for the pipeline; NULL where there is no such thing. */
    int (*stream_drop)(struct store *s, struct strbuf *ret_report, struct outrider_error *err);
    /* Begins the pipeline where another program stands, by a copy of what the server keeps
     * for that program. */
    int (*stream_adopt)(struct store *s, const struct stream_adoption *o, struct strbuf *ret_report,
                        struct outrider_error *err);
};

#endif
