/* SPDX-License-Identifier: MIT */
/*
 * Learns of changes of database files, for all SQLite sources of the process: one inotify
 * instance and one thread. The kernel gives a user 128 instances, so one for each source
 * would leave the 129th pipeline without any.
 *
 *  (1) A source that has joined has a descriptor of its own (fd), which is readable when
 *      the source's file has changed since the last take(). Changes of other files wake
 *      nobody else.
 *  (2) The -wal file comes and goes with the database's connections, so the watcher also
 *      watches the directory, and follows the -wal file by itself. Without a -wal file it
 *      watches the database file.
 *  (3) The thread pauses for WATCHER_PAUSE_US after each change: a large transaction makes
 *      thousands of notifications, which the kernel merges meanwhile.
 *  (4) The thread exists while at least one source has joined.
 *  (5) Joining may fail, and a watch may be lost. is_watched says so under take(), and the
 *      source then polls.
 */
#ifndef SQLITE_WATCHER_H
#define SQLITE_WATCHER_H

#include <stdbool.h>

#define WATCHER_PAUSE_US 1000

/* A source's place in the watcher. */
struct watched {
    int fd; /* -1: not joined */
    /* Under the watcher's mutex. */
    struct watched *next;
    char *path;       /* of the database; owned */
    const char *name; /* the file's name, at the end of path */
    int file_watch, dir_watch;
};

/* Without effect where inotify or memory is not to be had: fd is -1 then. */
void outrider__sqlite_watcher_join(struct watched *w, const char *path);
/* Legal without join(), and twice. */
void outrider__sqlite_watcher_leave(struct watched *w);
/* Whether the file has changed since the last call. *ret_is_watched: the next change will
 * be noticed too. */
bool outrider__sqlite_watcher_take(struct watched *w, bool *ret_is_watched);

#endif
