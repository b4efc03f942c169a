/* SPDX-License-Identifier: MIT */
#include "support/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void bench_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("bench: ", stderr);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): false when it reads several files */
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

long bench_env(const char *name, long otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (text == NULL || *text == '\0')
        return otherwise;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || n < 1)
        bench_die("%s=%s is not a whole number above 0", name, text);
    return n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(double *values, size_t n, double p)
{
    qsort(values, n, sizeof *values, by_value);
    size_t i = (size_t)(p * (double)n);
    return values[i < n ? i : n - 1];
}
