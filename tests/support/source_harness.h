/* SPDX-License-Identifier: MIT */
/*
 * One open source, driven as the engine drives it: for the contract suite and
 * for the sources' own tests.
 */
#ifndef TESTS_SOURCE_HARNESS_H
#define TESTS_SOURCE_HARNESS_H

#include "core/config.h"
#include "core/replay.h"
#include "core/source.h"
#include "outrider/event.h"

struct harness;

/* What a table may have no column for. */
enum source_field {
    FIELD_UUID = 1,     /* the id is a UUID that the writer may choose */
    FIELD_SEQ = 2,      /* event->seq is the place in the outbox */
    FIELD_LONG_KEY = 4, /* keys of any length */
    FIELD_HEADERS = 8,  /* and so on: the columns of our own outbox */
    FIELD_TOPIC = 16,
    FIELD_PARTITION_KEY = 32,
    FIELD_PARTITION = 64,
    FIELD_OCCURRED_AT = 128,
    FIELD_EXPIRES_AT = 256
};

/* How an application, an operator and an enemy get at the database. */
struct source_fixture {
    const struct source_ops *ops;
    /* What the contract lets differ from source to source. */
    bool rows_carry_state;    /* (17) holds instead of (7) and (8) */
    bool rows_can_be_claimed; /* (18) holds: without order, many relays */
    bool marks_rows;          /* a mark in the row says for all pipelines that it is settled */
    bool refuses_intents;     /* exactly_once is refused when the source is opened */
    unsigned lacks;           /* enum source_field: the table has no column */
    unsigned demands;         /* enum source_field: the column must not be NULL */
    /* A fresh database with an empty outbox; fills url. */
    void (*set_up)(char *ret_url, size_t size);
    void (*tear_down)(void);
    /* Inserts in a transaction that stays open until finish(). */
    void (*insert)(const struct outrider_event *events, size_t n);
    void (*finish)(bool commit);
    /* Rows in the outbox; parked rows of a state (NULL: any). */
    int64_t (*count_outbox)(void);
    int64_t (*count_parked)(const char *state);
    /* Makes all rows of the outbox look as old as this. */
    void (*age_outbox)(int64_t age_us);
    /* What a relay on another machine does when it takes the pipeline over. */
    void (*take_over)(const char *pipeline);
    /* A URL with which open() fails. */
    const char *bad_url;
    /* All of these may be NULL: there is no need. */
    /* Sets the options that this way of reading needs. */
    void (*configure)(struct pipeline_config *config);
    /* Brings a pipeline, whose source is closed, from its first start to where it stays. */
    void (*begin)(struct harness *h);
    /* Polls until all that is committed can be fetched. */
    void (*arrive)(struct harness *h);
    /* Rows that carry their state: what failed is due now. */
    void (*make_due)(void);
    /* From now on the application's commits return before they are on disk. */
    void (*write_lazily)(void);
    /* The database crashes, loses what it had not written, and starts again. */
    void (*crash)(void);
    /* Ends the connections of all relays, as a server that goes away does. */
    void (*cut)(void);
};

#define HARNESS_TIMEOUT_US 20000000
#define HARNESS_BATCH 64

struct harness {
    const struct source_fixture *fixture;
    struct pipeline_config config;
    char url[1024];
    struct source *source; /* NULL: closed */
    struct batch batch, parked;
    uint64_t n_inserted;
    bool is_second; /* the database is another harness's */
    bool is_replay; /* the source is wrapped: core/replay.h */
    struct source_ops replay;
};

void harness_init(struct harness *h, const struct source_fixture *f);
/* A second relay of the same database, of this pipeline; closed. Its name is set before begin(). */
void harness_init_second(struct harness *h, const struct harness *first, const char *pipeline);
void harness_release(struct harness *h);
/* open() alone; on failure the source is closed again. */
int harness_open(struct harness *h, struct outrider_error *err);
/* open(), and polls until it is active. */
void harness_activate(struct harness *h);
void harness_close(struct harness *h);
/* Polls until the condition of the source holds; fails the test after a time limit. */
void harness_wait(struct harness *h, bool (*holds)(const struct source *s));
/* Starts an operation and polls until it is given back, or poll() fails. */
int harness_do(struct harness *h, struct source_op *op, struct outrider_error *err);

/* Operations that must succeed. fetch* reset their batch first; settle gives
 * the whole batch the outcome, unless it is OUTCOME_PENDING: then events have
 * theirs already, and n_settle is set. */
size_t harness_fetch(struct harness *h);
size_t harness_fetch_into(struct harness *h, struct batch *b);
/* The same until something comes: of large events a stream may hold a part only. */
void harness_fetch_some(struct harness *h, struct batch *b);
/* Into h->parked what failed and is due: parked rows, or rows that come again (17). */
size_t harness_fetch_failed(struct harness *h);
size_t harness_fetch_parked(struct harness *h, int64_t now_wall_us);
void harness_settle(struct harness *h, struct batch *b, enum outcome outcome);
/* Gives one event an outcome; PARKED and DEAD get a failure and, PARKED, a time. */
void harness_decide(struct event *e, enum outcome outcome, int64_t next_attempt_us);

/* Inserts one event with this key and payload {"n":N}, N counting up, and commits. */
void harness_insert(struct harness *h, const char *key);
void harness_insert_many(struct harness *h, size_t n, const char *const *keys, size_t n_keys);
/* The N of an event's payload. */
uint64_t harness_number(const struct event *e);
/* Fails unless the batch holds the events of these numbers, in this order. */
void harness_assert_numbers(const struct batch *b, const uint64_t *numbers, size_t n);
#define ASSERT_NUMBERS(b, ...)                                 \
    harness_assert_numbers(b, (const uint64_t[]){__VA_ARGS__}, \
                           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
/* Polls once; what was done, if anything. */
struct source_op *harness_poll(struct harness *h);
/* Waits as the engine would, but never longer than a moment: tests have conditions to look at. */
void harness_pause(struct harness *h);
/* harness_do() that must succeed. */
void harness_must_do(struct harness *h, struct source_op *op);
/* harness_insert_many(), or the same rolled back: then the payload's number is no N. */
void harness_write(struct harness *h, size_t n, const char *const *keys, size_t n_keys,
                   bool commit);

#endif
