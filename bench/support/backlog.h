/* SPDX-License-Identifier: MIT */
/*
 * A backlog of events in SQLite, and the least that anybody could do to read
 * it: the limits that the relay is compared with.
 */
#ifndef BENCH_BACKLOG_H
#define BENCH_BACKLOG_H

#include <sqlite3.h>
#include <stddef.h>

/* A connection to a database that `outrider init` has made. */
sqlite3 *backlog_open(const char *path);

/* n events with payloads of about 300 bytes, 10,000 keys, five event types. */
void backlog_fill(const char *path, long n);

/* Seconds to step over all events with the columns that the relay reads. */
double backlog_step(const char *path, long n);

/* The same, and per 1,000 events one write of as many bytes as the file sink
 * has for them and one fdatasync, into the new file `out`. */
double backlog_step_and_write(const char *path, long n, double bytes_per_event, const char *out);

#endif
