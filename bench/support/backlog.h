/* SPDX-License-Identifier: MIT */
/*
 * A backlog of events in SQLite, and the least that anybody could do to read
 * it: the limits that the relay is compared with.
 */
#ifndef BENCH_BACKLOG_H
#define BENCH_BACKLOG_H

#include <sqlite3.h>
#include <stddef.h>

/* Event i: a payload of about 300 bytes (returns its length), one of five types,
 * one of 10,000 keys. */
int backlog_payload(long i, char *ret_json, size_t size);
const char *backlog_type(long i);
long backlog_key(long i);

/* A connection to a database that `outrider init` has made. */
sqlite3 *backlog_open(const char *path);

/* The first n events. */
void backlog_fill(const char *path, long n);

/* Seconds to step over all events with the columns that the relay reads. */
double backlog_step(const char *path, long n);

/* The same, and per 1,000 events one write of as many bytes as the file sink
 * has for them and one fdatasync, into the new file `out`. */
double backlog_step_and_write(const char *path, long n, double bytes_per_event, const char *out);

#endif
