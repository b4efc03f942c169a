/* SPDX-License-Identifier: MIT */
/*
 * The contract of core/sink.h as tests, which every sink has to pass. A sink's
 * own test program fills in a fixture and calls sink_contract_run(); numbers in
 * the tests are those of the contract.
 *
 * The rig below them (one sink, its deliveries, what was reported) also serves
 * the sinks' own tests.
 */
#ifndef TESTS_SINK_CONTRACT_H
#define TESTS_SINK_CONTRACT_H

#include "core/config.h"
#include "core/sink.h"

#include <jansson.h>
#include <stdio.h>

#define RIG_MAX 20000
#define RIG_TIMEOUT_MS 60000

/* A line as the receiver has it. */
struct seen {
    json_t *line;
    const char *topic, *id; /* id: header "event-id" */
};

struct sink_fixture {
    const struct sink_ops *ops;
    /* A fresh place for the sink: fills url. */
    void (*set_up)(char *ret_url, size_t size);
    void (*tear_down)(void);
    /* Calls add for each thing that was delivered, in the receiver's order by
     * topic. NULL: the sink keeps nothing. */
    void (*read_back)(void (*add)(void *ctx, json_t *line), void *ctx);
    /* Makes the sink report DOWN, and takes that back. NULL: cannot be done. */
    void (*break_it)(const char *topic);
    void (*heal_it)(void);
    /* A URL with which open() fails; NULL: there is none. */
    const char *bad_url;
    bool refuses_empty_topic;
    bool keeps_little; /* the receiver forgets all but the last few megabytes */
};

int sink_contract_run(const char *name, struct sink_fixture *f);

/* One line's worth of what the rig knows of a delivery. */
struct told {
    unsigned times;
    enum sink_result result;
    struct outrider_error why;
};

struct rig {
    const struct sink_fixture *fixture;
    struct sink *sink;
    struct pipeline_config config;
    const char *identity; /* of the sink, exactly once */
    char url[1024];
    bool is_open, in_poll;
    struct delivery *d; /* RIG_MAX of them; the first n are in use */
    struct header *headers;
    struct told *told;
    char (*ids)[24];
    size_t n, n_told;
    struct seen *seen;
    size_t n_seen;
};

/* Sets up the fixture's place; the sink is not open yet. */
void rig_init(struct rig *r, const struct sink_fixture *f);
void rig_release(struct rig *r);
int rig_open(struct rig *r, struct outrider_error *err);
void rig_close(struct rig *r);
/* Forgets all deliveries. */
void rig_clear(struct rig *r);
/* A delivery with its number as event-id. Bytes must outlive it. */
struct delivery *rig_add(struct rig *r, const char *topic, const char *key, struct bytes payload);
/* Submits deliveries [from, to), polling when the sink has no room, and flushes. */
void rig_submit(struct rig *r, size_t from, size_t to);
/* Polls until so many reports have come, or the time limit is reached, which fails the test. */
void rig_wait(struct rig *r, size_t n_told);
/* Waits for what the sink names, or for the deadline, and polls once. */
void rig_poll(struct rig *r, int64_t deadline_us);
/* Adds, submits and waits for one that must be delivered. */
void rig_deliver(struct rig *r, const char *topic, const char *key, const char *payload);
/* Reads back everything; r->seen. */
void rig_read_back(struct rig *r);
/* Reads a file of lines in the event log's form. */
void rig_read_lines(FILE *in, void (*add)(void *ctx, json_t *line), void *ctx);

/* Reads a topic of an event log and checks that its offsets are 0, 1, 2, ...; how many. */
size_t count_log_lines(const char *root, const char *topic);

/* A temporary directory, and its removal with everything in it. */
void make_temp_dir(char *ret_path, size_t size);
void remove_tree(const char *path);

#endif
