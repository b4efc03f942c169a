/* SPDX-License-Identifier: MIT */
/* What every benchmark needs: time, medians, and a way to give up. */
#ifndef BENCH_UTIL_H
#define BENCH_UTIL_H

#include <stddef.h>
#include <stdint.h>

int64_t bench_now_ns(void); /* monotonic */

/* Says what is wrong and exits: a benchmark has nobody to hand an error to. */
void bench_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* A number from the environment, at least 1. */
long bench_env(const char *name, long otherwise);

/* Sorts. p from 0 to 1; n > 0. */
double bench_percentile(double *values, size_t n, double p);

#endif
