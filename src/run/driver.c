/* SPDX-License-Identifier: MIT */
#include "run/driver.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

/* The control descriptor, and what a source and a sink may name together. */
#define DRIVER_FDS 32
/* Longest sleep: a wall clock that is set while we sleep is noticed by then. */
#define DRIVER_SLEEP_US 60000000

static struct timespec driver_until(int64_t wake_us, int64_t now_us)
{
    int64_t us = wake_us > now_us ? wake_us - now_us : 0;
    if (us > DRIVER_SLEEP_US)
        us = DRIVER_SLEEP_US;
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

static void driver_take_control(struct driver *d)
{
    uint64_t count;
    /* Emptied before it is acted on, so that a wish made meanwhile wakes us again. */
    while (read(d->control_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
    if (d->control)
        d->control(d->ctx, d->relay, outrider__clock_now());
}

int outrider__driver_run(struct driver *d, struct outrider_error *err)
{
    for (;;) {
        struct pollfd fds[DRIVER_FDS];
        struct instant now = outrider__clock_now();
        int64_t wake_us = CLOCK_NEVER;
        enum relay_state state = outrider__relay_step(d->relay, now, &wake_us, err);
        if (d->stepped)
            d->stepped(d->ctx, d->relay);
        if (state != RELAY_RUNNING)
            return state == RELAY_DONE ? 0 : -1;
        fds[0] = (struct pollfd){.fd = d->control_fd, .events = POLLIN};
        int n = 1 + outrider__relay_fds(d->relay, fds + 1, DRIVER_FDS - 1);
        /* A step takes time: count from now, not from before it. */
        struct timespec wait = driver_until(wake_us, outrider__clock_now().mono_us);
        int ready = ppoll(fds, (nfds_t)n, &wait, NULL);
        if (ready < 0 && errno != EINTR)
            return outrider__fail_errno(err, errno, "cannot wait for the source and the sink");
        if (ready > 0 && fds[0].revents)
            driver_take_control(d);
    }
}
