/* SPDX-License-Identifier: MIT */
/*
 * Programs under measurement. Their peak memory is the kernel's account (what
 * VmHWM shows), which begins with the parent's size at fork(): a figure may be
 * too large by that, never too small.
 */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct measured {
    double seconds;
    double cpu_seconds;
    double peak_mib;
};

/* Starts argv (NULL at its end) with standard error into the file `log`. */
pid_t process_start(const char *const *argv, const char *log);
/* Waits for its end, which must be exit 0. */
struct measured process_wait(pid_t pid, int64_t started_ns, const char *log);
struct measured process_run(const char *const *argv, const char *log);
/* Its exit status, whatever it is. */
int process_try(const char *const *argv, const char *log);
/* SIGTERM, then as process_wait. */
struct measured process_stop(pid_t pid, const char *log);

/* CPU time that a running process has used, all threads. */
double process_cpu_seconds(pid_t pid);
/* CPU time of a process and of its children, those that have ended included:
 * a database server. In steps of the kernel's clock, usually 10 ms. */
double process_family_cpu_seconds(pid_t pid);
/* Waits until the file contains the text. */
void process_await_text(const char *path, const char *text);

#endif
