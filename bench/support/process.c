/* SPDX-License-Identifier: MIT */
#include "support/process.h"
#include "support/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS (INT64_C(60) * 1000000000)

pid_t process_start(const char *const *argv, const char *log)
{
    pid_t pid = fork();
    if (pid < 0)
        bench_die("cannot fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd >= 0 && dup2(fd, STDERR_FILENO) >= 0)
        execv(argv[0], (char *const *)argv);
    _exit(127);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

struct measured process_wait(pid_t pid, int64_t started_ns, const char *log)
{
    struct rusage usage;
    int status;
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            bench_die("cannot wait for a child: %s", strerror(errno));
    double seconds = (double)(bench_now_ns() - started_ns) / 1e9;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_die("a program under measurement failed: see %s", log);
    return (struct measured){
        .seconds = seconds,
        .cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
        .peak_mib = (double)usage.ru_maxrss / 1024,
    };
}

struct measured process_run(const char *const *argv, const char *log)
{
    int64_t started_ns = bench_now_ns();
    return process_wait(process_start(argv, log), started_ns, log);
}

int process_try(const char *const *argv, const char *log)
{
    int status;
    pid_t pid = process_start(argv, log);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            bench_die("cannot wait for a child: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct measured process_stop(pid_t pid, const char *log)
{
    int64_t now_ns = bench_now_ns();
    kill(pid, SIGTERM);
    return process_wait(pid, now_ns, log);
}

double process_cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        bench_die("cannot read the CPU time of process %d", (int)pid);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Ticks of user and system time of a process; with those of the children it has
 * waited for if `whole`. 0 if it is gone or if its parent is not `parent` (-1: any). */
static unsigned long long ticks_of(long pid, long parent, int whole)
{
    char path[64], text[1024];
    unsigned long long user, sys, child_user, child_sys;
    long found;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *rest = strrchr(text, ')'); /* the name may hold anything */
    /* NOLINTBEGIN(cert-err34-c): the kernel writes these numbers */
    int fields =
        rest == NULL
            ? 0
            : sscanf(rest, ") %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
                     &found, &user, &sys, &child_user, &child_sys);
    /* NOLINTEND(cert-err34-c) */
    if (fields != 5)
        return 0;
    if (parent >= 0 && found != parent)
        return 0;
    return user + sys + (whole ? child_user + child_sys : 0);
}

double process_family_cpu_seconds(pid_t pid)
{
    unsigned long long ticks = ticks_of(pid, -1, 1);
    DIR *d = opendir("/proc");
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            ticks += ticks_of(strtol(e->d_name, NULL, 10), pid, 0);
    if (d != NULL)
        closedir(d);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static int contains(const char *path, const char *text)
{
    char buffer[65536];
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    size_t n = fread(buffer, 1, sizeof buffer - 1, f);
    buffer[n] = '\0';
    fclose(f);
    return strstr(buffer, text) != NULL;
}

void process_await_text(const char *path, const char *text)
{
    int64_t give_up_ns = bench_now_ns() + PATIENCE_NS;
    while (!contains(path, text)) {
        if (bench_now_ns() > give_up_ns)
            bench_die("%s never said '%s'", path, text);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}
