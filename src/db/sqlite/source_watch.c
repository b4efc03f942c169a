/* SPDX-License-Identifier: MIT */
/*
 * Looking at the database when a commit may have changed it.
 *
 * A writer appends to the -wal file, which the watcher notices (watcher.h), and only then
 * makes the commit visible: a moment later, or a sync later. So after each notification
 * the source looks at the database with growing distances (1, 2, 4 ms ...) up to
 * poll_interval, which is also how often it looks where no watcher is to be had. A look
 * reads one index entry; our own writes cost a few looks and then silence. While a look
 * is due within a millisecond, the source does not wait for notifications: a large
 * transaction makes thousands of them.
 *
 * An outbox that was quiet for some seconds is looked at once a second where the watcher
 * watches it: two hundred idle pipelines would keep a processor busy otherwise.
 */
#include "source.h"

#include <poll.h>
#include <sys/stat.h>

#define LOOK_FIRST_US 1000
#define LOOK_LAST_US 100000 /* where poll_interval says nothing */
#define QUIET_AFTER_US 5000000
#define LOOK_QUIET_US 1000000

static int64_t watch_longest_us(const struct sqlite_source *s, struct instant now)
{
    int64_t us = s->config->source.poll_interval_us;
    us = us >= LOOK_FIRST_US ? us : LOOK_LAST_US;
    if (s->is_watched && us < LOOK_QUIET_US && now.mono_us - s->kicked_us > QUIET_AFTER_US)
        us = LOOK_QUIET_US;
    return us;
}

void outrider__sqlite_watch_open(struct sqlite_source *s)
{
    outrider__sqlite_watcher_join(&s->watched, s->path);
}

void outrider__sqlite_watch_close(struct sqlite_source *s)
{
    outrider__sqlite_watcher_leave(&s->watched);
}

void outrider__sqlite_watch_kick(struct sqlite_source *s, struct instant now)
{
    s->look_gap_us = LOOK_FIRST_US;
    s->kicked_us = now.mono_us;
    int64_t soonest = s->looked_us + LOOK_FIRST_US;
    s->look_us = now.mono_us > soonest ? now.mono_us : soonest;
    s->base.wake_us = s->look_us;
}

/* A restored backup that was moved over the file leaves this source with the old file. */
static int watch_check_replaced(struct sqlite_source *s, struct outrider_error *err)
{
    struct stat st;
    if (stat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino)
        return 0;
    return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY,
                          "%s was removed or replaced by another file; opening it anew", s->path);
}

static int watch_look(struct sqlite_source *s, struct instant now, struct outrider_error *err)
{
    int64_t newest = 0, last = watch_longest_us(s, now);
    if (s->look_gap_us >= last && watch_check_replaced(s, err) < 0)
        return -1;
    int rc = outrider__sqlite_probe(s, &newest);
    if (rc != SQLITE_OK && !outrider__sqlite_is_busy(rc))
        return outrider__sqlite_fail(err, s->db, rc, "cannot look for new events");
    /* A newest row below what was read: the next read says what happened. */
    if (rc == SQLITE_OK && newest != s->read_seq)
        s->base.ready = true;
    s->looked_us = now.mono_us;
    s->look_us = now.mono_us + s->look_gap_us;
    s->look_gap_us = s->look_gap_us * 2 < last ? s->look_gap_us * 2 : last;
    return 0;
}

int outrider__sqlite_watch_poll(struct sqlite_source *s, struct instant now,
                                struct outrider_error *err)
{
    if (outrider__sqlite_watcher_take(&s->watched, &s->is_watched))
        outrider__sqlite_watch_kick(s, now);
    if (now.mono_us >= s->look_us && watch_look(s, now, err) < 0)
        return -1;
    s->base.wake_us = s->look_us;
    return 0;
}

int outrider__sqlite_watch_fds(struct sqlite_source *s, struct pollfd *ret_fds, int max)
{
    bool looks_soon = s->look_us - s->looked_us <= LOOK_FIRST_US;
    if (s->watched.fd < 0 || max < 1 || looks_soon || !s->base.active)
        return 0;
    ret_fds[0] = (struct pollfd){.fd = s->watched.fd, .events = POLLIN};
    return 1;
}
