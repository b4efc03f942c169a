/* SPDX-License-Identifier: MIT */
/*
 * Pipelines, each on its own thread, and the main thread that watches over
 * them: relay and replay.
 *
 *  (1) Signals are blocked before a thread starts and read by the main thread.
 *  (2) With --once a pipeline that fails stops the others in order, and the first
 *      failure is the one that is told. In a daemon the others go on: a failure is
 *      logged, the pipeline is tried anew on SIGHUP, and the program ends when no
 *      pipeline is left.
 *  (3) What a relay borrows (its configuration) lives until it took over a
 *      newer one, or ended.
 */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include <pthread.h>

#include "cli/cli.h"
#include "cli/log.h"
#include "cli/out.h"
#include "run/engine.h"

struct runner {
    struct pipeline_config config; /* as it runs */
    struct engine engine;
    struct log_pipeline log;
    struct relay_observer log_observer, counter;
    struct source_ops replay;    /* of a replay: its source */
    int done_fd;                 /* wakes the main thread; not owned */
    bool has_failed;             /* was told; tried anew by a reload */
    pthread_mutex_t mutex;       /* of next */
    struct pipeline_config next; /* what a reload hands over */
    _Atomic unsigned generation; /* of the configuration in use */
    _Atomic unsigned next_generation;
    _Atomic uint64_t n_settled; /* events, for the progress line */
};

/* A generation of the configuration: the first, and one per reload. */
struct generation {
    struct cli_setup setup;
    unsigned number;
    struct generation *next;
};

struct runners {
    const struct args *args;
    /* What the command line says of every pipeline, also after a reload. */
    void (*adjust)(const struct args *a, struct pipeline_config *c);
    bool is_replay; /* sources are wrapped: core/replay.h */
    struct log log;
    struct runner *items;
    size_t n;
    int done_fd;
    struct generation *generations; /* newest first */
    unsigned last_generation;
    bool once;
    bool has_failed;     /* with --once: a failure was told */
    bool is_stopping;    /* a signal asked for it */
    int64_t stopping_us; /* since when, on the monotonic clock */
};

/* Makes a relay for a configuration, which is copied; what it points at is not.
 * A runner that could not be initialised is released all the same. */
int outrider__runner_init(struct runner *r, const struct pipeline_config *c, struct runners *rs,
                          struct outrider_error *err);
bool outrider__runner_has_ended(struct runner *r);
/* Joins the thread if there is one. */
void outrider__runner_release(struct runner *r);

/* Starts all, handles signals until all have ended. An exit code; errors are told. */
int outrider__runners_run(struct runners *rs);
/* Reads the configuration file again (SIGHUP); an error leaves all as it was. */
void outrider__runners_reload(struct runners *rs);

#endif
