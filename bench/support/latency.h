/* SPDX-License-Identifier: MIT */
/* How long it takes from a commit until a reader of the log sees the line. */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stddef.h>

/* Who commits events, one transaction each. */
struct latency_writer {
    void *(*open)(const char *db);
    /* An event of aggregate `key`, in a transaction of its own. */
    void (*commit)(void *conn, long key, const char *json, int len);
    void (*close)(void *conn);
    int n_threads; /* that share the rate, where one could not keep it up */
};

extern const struct latency_writer latency_into_sqlite;

/*
 * Commits one event at a time into `db`, `rate` a second for `seconds`, while a
 * relay carries them to the topic "latency" of the file sink in `dir`. Fills
 * ret_ms with a time for each event, from the return of its commit (which may
 * come after the event was seen: SQLite checkpoints in there); returns how many.
 */
size_t latency_measure(const struct latency_writer *w, const char *db, const char *dir, long rate,
                       long seconds, double *ret_ms);

/* The same load, without anybody who reads it: what the writers cost alone. */
void latency_load(const struct latency_writer *w, const char *db, long rate, long seconds);

/* What the disk alone takes: appends 4 KiB to the new file `path` and syncs, at
 * the same pace; each counts from the moment it was due, as an event does that
 * waits behind a slow one. An event cannot be told of before its commit is on disk. */
size_t latency_of_disk(const char *path, long rate, long seconds, double *ret_ms);

#endif
