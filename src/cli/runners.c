/* SPDX-License-Identifier: MIT */
/* The main thread of relay and replay: signals, the end, and the exit code. */
#include "cli/runner.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"

#define PROGRESS_MS 200
/* timeout(1) signals its child and then its group, and a shell beside a supervisor does
 * alike: what comes this soon after the first request belongs to it. */
#define SAME_REQUEST_US 500000

static int runners_open_signals(struct outrider_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return outrider__fail_errno(err, errno, "cannot wait for signals");
    return fd;
}

static void runners_stop_all(struct runners *rs)
{
    for (size_t i = 0; i < rs->n; i++)
        outrider__engine_stop(&rs->items[i].engine);
}

static void runners_log_signal(struct runners *rs, const char *msg, const char *name)
{
    struct log_entry l;
    if (!outrider__log_begin(&l, &rs->log, LOG_LEVEL_INFO, msg))
        return;
    outrider__log_text(&l, "signal", name);
    outrider__log_end(&l);
}

static void runners_take_signals(struct runners *rs, int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        const char *name = info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT";
        int64_t now_us = outrider__clock_now().mono_us;
        if (info.ssi_signo == SIGHUP) {
            outrider__runners_reload(rs);
        } else if (rs->is_stopping && now_us - rs->stopping_us < SAME_REQUEST_US) {
            runners_log_signal(rs, "already asked to stop", name);
        } else if (rs->is_stopping) {
            runners_log_signal(rs, "ending at once, what is in flight comes again", name);
            _exit(CLI_FAILED);
        } else {
            runners_log_signal(rs, "asked to stop", name);
            rs->is_stopping = true;
            rs->stopping_us = now_us;
            runners_stop_all(rs);
        }
    }
}

/* A person who asked for --once gets a plain line; a log stays a log. */
static void runners_tell_failure(struct runners *rs, struct runner *r, bool others_go_on)
{
    struct outrider_error err = {0};
    struct log_entry l;
    (void)outrider__engine_wait(&r->engine, 0, &err);
    if (rs->once && rs->log.format == LOG_FORMAT_LOGFMT) {
        if (rs->n > 1)
            outrider__cli_say("pipeline '%s': %s", r->log.name, err.message);
        else
            outrider__cli_fail(&err);
        return;
    }
    if (!outrider__log_begin(&l, &rs->log, LOG_LEVEL_ERROR,
                             others_go_on ? "pipeline failed; the others go on, and SIGHUP tries "
                                            "this one again"
                                          : "pipeline failed"))
        return;
    outrider__log_text(&l, "pipeline", r->log.name);
    outrider__log_error(&l, &err);
    outrider__log_end(&l);
}

/* Whether all have ended. A pipeline that failed is told once. */
static bool runners_all_finished(struct runners *rs)
{
    size_t n_running = 0;
    for (size_t i = 0; i < rs->n; i++)
        n_running += !outrider__runner_has_ended(&rs->items[i]);
    for (size_t i = 0; i < rs->n; i++) {
        struct runner *r = &rs->items[i];
        if (r->has_failed || outrider__engine_state(&r->engine) != OUTRIDER_RELAY_FAILED)
            continue;
        r->has_failed = true;
        if (rs->once && rs->has_failed)
            continue; /* the first failure has stopped the others */
        rs->has_failed = true;
        runners_tell_failure(rs, r, !rs->once && !rs->is_stopping && n_running > 0);
        if (rs->once)
            runners_stop_all(rs);
    }
    return n_running == 0;
}

static void runners_show_progress(const struct runners *rs, struct progress *p)
{
    uint64_t n = 0;
    for (size_t i = 0; i < rs->n; i++)
        n += atomic_load(&rs->items[i].n_settled);
    outrider__progress(p, "%" PRIu64 " events settled", n);
}

static void runners_watch(struct runners *rs, int signals)
{
    struct progress progress;
    outrider__progress_init(&progress);
    progress.on &= rs->once;
    rs->log.clears_line = progress.on;
    while (!runners_all_finished(rs)) {
        struct pollfd fds[] = {{.fd = signals, .events = POLLIN},
                               {.fd = rs->done_fd, .events = POLLIN}};
        poll(fds, 2, progress.on ? PROGRESS_MS : -1);
        uint64_t count;
        if (fds[1].revents && read(rs->done_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
            break;
        if (fds[0].revents)
            runners_take_signals(rs, signals);
        runners_show_progress(rs, &progress);
    }
    outrider__progress_end(&progress);
}

static void runners_log_totals(struct runners *rs, struct runner *r)
{
    const struct relay_stats st = outrider__engine_stats(&r->engine);
    struct log_entry l;
    if (!outrider__log_begin(&l, &rs->log, LOG_LEVEL_INFO, "done"))
        return;
    outrider__log_text(&l, "pipeline", r->log.name);
    for (int i = OUTCOME_PENDING + 1; i < OUTCOME_COUNT; i++) {
        if (i == OUTCOME_DELIVERED || st.outcomes[i])
            outrider__log_int(&l, outrider__outcome_name((enum outcome)i), (int64_t)st.outcomes[i]);
    }
    outrider__log_end(&l);
}

int outrider__runners_run(struct runners *rs)
{
    struct outrider_error err = {0};
    int signals = runners_open_signals(&err), r = signals < 0 ? -1 : 0;
    for (size_t i = 0; r == 0 && i < rs->n; i++)
        r = outrider__engine_start(&rs->items[i].engine, &err);
    if (r < 0)
        runners_stop_all(rs);
    if (signals >= 0) {
        runners_watch(rs, signals);
        close(signals);
    }
    if (r < 0)
        return outrider__cli_fail(&err);
    bool has_failed = false;
    for (size_t i = 0; i < rs->n; i++) {
        if (outrider__engine_state(&rs->items[i].engine) == OUTRIDER_RELAY_STOPPED)
            runners_log_totals(rs, &rs->items[i]);
        has_failed |= rs->items[i].has_failed;
    }
    if (has_failed)
        return CLI_FAILED;
    if (rs->once && rs->is_stopping) {
        outrider__cli_say("stopped by a signal before all was delivered");
        return CLI_FAILED;
    }
    return CLI_DONE;
}
