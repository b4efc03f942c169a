/* SPDX-License-Identifier: MIT */
/*
 * Being woken by a commit.
 *
 * A writer appends to the -wal file, which inotify tells us, and only then
 * makes the commit visible: a moment later, or a sync later. So after each
 * notification the database is looked at with growing distances (1, 2, 4 ms
 * ...) up to poll_interval, which is also the fall-back where there is no
 * inotify. A look reads one index entry; our own writes cost a few looks and
 * then silence. While a look is due within a millisecond, notifications are
 * not waited for: a large transaction makes thousands of them.
 *
 * An outbox that was quiet for some seconds is looked at once a second where
 * inotify watches it: two hundred idle pipelines would keep a processor busy
 * otherwise.
 */
#include "source.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_FIRST_US 1000
#define LOOK_LAST_US 100000 /* where poll_interval says nothing */
#define QUIET_AFTER_US 5000000
#define LOOK_QUIET_US 1000000

static int64_t look_last_us(const struct sqlite_source *s, struct instant now)
{
    int64_t us = s->config->source.poll_interval_us;
    bool is_watched = s->dir_watch >= 0 && s->wal_watch >= 0;
    us = us >= LOOK_FIRST_US ? us : LOOK_LAST_US;
    if (is_watched && us < LOOK_QUIET_US && now.mono_us - s->kicked_us > QUIET_AFTER_US)
        us = LOOK_QUIET_US;
    return us;
}

static void watch_wal(struct sqlite_source *s)
{
    char *wal = sqlite3_mprintf("%s-wal", s->path);
    if (wal == NULL)
        return;
    s->wal_watch = inotify_add_watch(s->inotify_fd, wal, IN_MODIFY);
    if (s->wal_watch < 0) /* not in WAL mode: commits go to the file itself */
        s->wal_watch = inotify_add_watch(s->inotify_fd, s->path, IN_MODIFY);
    sqlite3_free(wal);
}

void outrider__sqlite_watch_open(struct sqlite_source *s)
{
    s->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (s->inotify_fd < 0)
        return; /* out of watches: the fall-back is enough */
    char *dir = strdup(s->path);
    if (dir != NULL) {
        char *slash = strrchr(dir, '/');
        if (slash != NULL)
            slash[slash == dir ? 1 : 0] = '\0';
        /* The -wal file comes and goes with the database's connections. */
        s->dir_watch = inotify_add_watch(s->inotify_fd, dir, IN_CREATE | IN_MOVED_TO);
        free(dir);
    }
    watch_wal(s);
}

void outrider__sqlite_watch_close(struct sqlite_source *s)
{
    if (s->inotify_fd >= 0)
        (void)close(s->inotify_fd);
    s->inotify_fd = s->wal_watch = s->dir_watch = -1;
}

void outrider__sqlite_watch_kick(struct sqlite_source *s, struct instant now)
{
    s->look_gap_us = LOOK_FIRST_US;
    s->kicked_us = now.mono_us;
    int64_t soonest = s->looked_us + LOOK_FIRST_US;
    s->look_us = now.mono_us > soonest ? now.mono_us : soonest;
    s->base.wake_us = s->look_us;
}

/* Takes what inotify has to say; whether it said anything. */
static bool drain(struct sqlite_source *s)
{
    _Alignas(struct inotify_event) char buf[4096];
    bool any = false, made = false;
    ssize_t n;
    while (s->inotify_fd >= 0 && (n = read(s->inotify_fd, buf, sizeof buf)) > 0) {
        any = true;
        for (char *p = buf; p < buf + n;) {
            const struct inotify_event *e = (const struct inotify_event *)p;
            made |= (e->mask & (IN_CREATE | IN_MOVED_TO | IN_IGNORED)) != 0;
            p += sizeof *e + e->len;
        }
    }
    if (made)
        watch_wal(s);
    return any;
}

/* A restored backup moved over the file leaves us reading the old one. */
static int check_replaced(struct sqlite_source *s, struct outrider_error *err)
{
    struct stat st;
    if (stat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino)
        return 0;
    return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY,
                          "%s was removed or replaced by another file; opening it anew", s->path);
}

static int look(struct sqlite_source *s, struct instant now, struct outrider_error *err)
{
    int64_t newest = 0, last = look_last_us(s, now);
    if (s->look_gap_us >= last && check_replaced(s, err) < 0)
        return -1;
    int rc = outrider__sqlite_probe(s, &newest);
    if (rc != SQLITE_OK && !outrider__sqlite_is_busy(rc))
        return outrider__sqlite_fail(err, s->db, rc, "cannot look for new events");
    /* Below what was read: the next read says what happened. */
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
    if (drain(s))
        outrider__sqlite_watch_kick(s, now);
    if (now.mono_us >= s->look_us && look(s, now, err) < 0)
        return -1;
    s->base.wake_us = s->look_us;
    return 0;
}

int outrider__sqlite_watch_fds(struct sqlite_source *s, struct pollfd *ret_fds, int max)
{
    bool looks_soon = s->look_us - s->looked_us <= LOOK_FIRST_US;
    if (s->inotify_fd < 0 || max < 1 || looks_soon || !s->base.active)
        return 0;
    ret_fds[0] = (struct pollfd){.fd = s->inotify_fd, .events = POLLIN};
    return 1;
}
