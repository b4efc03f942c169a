/* SPDX-License-Identifier: MIT */
/* How long it takes from a commit in SQLite until a reader of the log sees the line. */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stddef.h>

/*
 * Commits one event at a time into `db`, `rate` a second for `seconds`, while a
 * relay carries them to the topic "latency" of the file sink in `dir`. Fills
 * ret_ms with a time for each event, from the return of COMMIT (which may come
 * after the event was seen: SQLite checkpoints in there); returns how many.
 */
size_t latency_measure(const char *db, const char *dir, long rate, long seconds, double *ret_ms);

/* What the disk alone takes: appends 4 KiB to the new file `path` and syncs, at
 * the same pace. An event cannot be told of before its commit is on disk. */
size_t latency_of_disk(const char *path, long rate, long seconds, double *ret_ms);

#endif
