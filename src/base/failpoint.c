/* SPDX-License-Identifier: MIT */
#include "base/failpoint.h"

/* A release build has nothing here: see the header. */
#ifdef OUTRIDER_FAILPOINTS

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

enum action { ACT_KILL, ACT_STOP, ACT_ERRNO, ACT_DELAY };

struct point {
    struct bytes name;
    enum action action;
    int errno_value;
    int64_t delay_us;
    unsigned long at; /* the pass that triggers, from 1; 0: every pass */
    atomic_ulong passes;
};

#define MAX_POINTS 64
static struct point points[MAX_POINTS];
static size_t n_points;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Only test builds get here, and a test with a wrong point would pass for the
 * wrong reason: nothing but stopping at once is of use. */
static _Noreturn void failpoint_refuse(struct bytes item, const char *why)
{
    (void)fprintf(stderr, "OUTRIDER_FAILPOINTS: '%.*s': %s\n", (int)item.len, item.data, why);
    abort();
}

static int failpoint_errno_by_name(struct bytes name)
{
    for (int e = 1; e < 256; e++) {
        const char *known = strerrorname_np(e);
        if (known != NULL && strlen(known) == name.len &&
            strncasecmp(known, name.data, name.len) == 0)
            return e;
    }
    return 0;
}

/* Cuts b at the first c: what stands before it is returned, b keeps the rest,
 * or becomes null where there is no c. */
static struct bytes failpoint_cut(struct bytes *b, char c)
{
    const char *at = b->len ? memchr(b->data, c, b->len) : NULL;
    if (at == NULL) {
        struct bytes all = *b;
        *b = BYTES_NULL;
        return all;
    }
    struct bytes front = bytes_of(b->data, (size_t)(at - b->data));
    *b = bytes_of(at + 1, b->len - front.len - 1);
    return front;
}

static unsigned long failpoint_parse_pass(struct bytes item, struct bytes pass)
{
    if (bytes_is_null(pass))
        return 1;
    if (bytes_eq_str(pass, "*"))
        return 0;
    unsigned long n = 0;
    for (size_t i = 0; i < pass.len; i++) {
        if (pass.data[i] < '0' || pass.data[i] > '9' || n > 100000000)
            failpoint_refuse(item, "a pass is a number or *");
        n = n * 10 + (unsigned long)(pass.data[i] - '0');
    }
    if (n == 0)
        failpoint_refuse(item, "passes are counted from 1");
    return n;
}

static void failpoint_parse_action(struct point *pt, struct bytes item, struct bytes action)
{
    struct bytes argument = action;
    struct bytes verb = failpoint_cut(&argument, ':');
    if (bytes_eq_str(action, "kill")) {
        pt->action = ACT_KILL;
    } else if (bytes_eq_str(action, "stop")) {
        pt->action = ACT_STOP;
    } else if (bytes_eq_str(verb, "delay")) {
        pt->action = ACT_DELAY;
        if (outrider__duration_parse(argument, &pt->delay_us) < 0)
            failpoint_refuse(item, "delay takes a duration: delay:250ms");
    } else {
        pt->action = ACT_ERRNO;
        pt->errno_value = failpoint_errno_by_name(action);
        if (pt->errno_value == 0)
            failpoint_refuse(item,
                             "an action is kill, stop, delay:DURATION or the name of an errno");
    }
}

static void failpoint_parse_environment(void)
{
    struct bytes list = bytes_str(getenv("OUTRIDER_FAILPOINTS"));
    while (!bytes_is_null(list)) {
        struct bytes item = failpoint_cut(&list, ',');
        if (item.len == 0)
            continue;
        if (n_points == MAX_POINTS)
            failpoint_refuse(item, "too many failpoints");
        struct bytes rest = item;
        struct point *pt = &points[n_points];
        pt->name = failpoint_cut(&rest, '=');
        struct bytes action = failpoint_cut(&rest, '@');
        if (pt->name.len == 0 || action.len == 0)
            failpoint_refuse(item, "expected name=action or name=action@pass");
        failpoint_parse_action(pt, item, action);
        pt->at = failpoint_parse_pass(item, rest);
        n_points++;
    }
}

static int failpoint_trigger(const struct point *pt)
{
    struct timespec ts;
    switch (pt->action) {
    case ACT_KILL:
        (void)kill(getpid(), SIGKILL);
        break;
    case ACT_STOP:
        (void)raise(SIGSTOP); /* to this thread: to the process, it would run on for a moment */
        break;
    case ACT_DELAY:
        ts.tv_sec = pt->delay_us / 1000000;
        ts.tv_nsec = pt->delay_us % 1000000 * 1000;
        while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
            ;
        break;
    case ACT_ERRNO:
        return pt->errno_value;
    }
    return 0;
}

int outrider__failpoint(const char *name)
{
    (void)pthread_once(&once, failpoint_parse_environment);
    int result = 0;
    for (size_t i = 0; i < n_points; i++) {
        struct point *pt = &points[i];
        if (!bytes_eq_str(pt->name, name))
            continue;
        unsigned long pass = atomic_fetch_add(&pt->passes, 1) + 1;
        if (pt->at == 0 || pt->at == pass) {
            int e = failpoint_trigger(pt);
            if (result == 0)
                result = e;
        }
    }
    return result;
}

#endif
