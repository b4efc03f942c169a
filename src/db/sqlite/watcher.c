/* SPDX-License-Identifier: MIT */
#include "watcher.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

static struct {
    pthread_mutex_t
        life; /* of join and leave, so that only one of them starts or ends the thread */
    pthread_mutex_t mutex; /* of `first` and of every struct watched in the list */
    struct watched *first;
    pthread_t thread;
    int inotify_fd, stop_fd;
    bool has_thread;
} watcher = {
    .life = PTHREAD_MUTEX_INITIALIZER,
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .inotify_fd = -1,
    .stop_fd = -1,
};

static void watcher_signal(int fd)
{
    const uint64_t one = 1;
    /* Fails only when the counter is full, and then the descriptor is readable already. */
    ssize_t n = write(fd, &one, sizeof one);
    (void)n;
}

/* Watches the -wal file, or the database file where commits go to that. */
static void watcher_add_file(struct watched *w)
{
    char *wal = NULL;
    if (asprintf(&wal, "%s-wal", w->path) < 0)
        return;
    w->file_watch = inotify_add_watch(watcher.inotify_fd, wal, IN_MODIFY);
    if (w->file_watch < 0)
        w->file_watch = inotify_add_watch(watcher.inotify_fd, w->path, IN_MODIFY);
    free(wal);
}

static void watcher_add_dir(struct watched *w)
{
    size_t len = (size_t)(w->name - w->path);
    char *dir = len > 0 ? strndup(w->path, len) : strdup(".");
    w->dir_watch = -1;
    if (dir != NULL)
        w->dir_watch = inotify_add_watch(watcher.inotify_fd, dir, IN_CREATE | IN_MOVED_TO);
    free(dir);
}

/* Ends a watch that no source has any more. */
static void watcher_remove(int watch)
{
    for (const struct watched *w = watcher.first; w != NULL; w = w->next)
        if (w->file_watch == watch || w->dir_watch == watch)
            return;
    if (watch >= 0)
        (void)inotify_rm_watch(watcher.inotify_fd, watch);
}

/* Whether a file of this name in the directory belongs to the database. */
static bool watcher_is_ours(const struct watched *w, const char *name)
{
    size_t len = strlen(w->name);
    return strncmp(name, w->name, len) == 0 &&
           (name[len] == '\0' || strcmp(name + len, "-wal") == 0);
}

static void watcher_dispatch(const struct inotify_event *e)
{
    bool is_lost = (e->mask & IN_Q_OVERFLOW) != 0, is_gone = (e->mask & IN_IGNORED) != 0;
    for (struct watched *w = watcher.first; w != NULL; w = w->next) {
        bool is_file = e->wd == w->file_watch;
        bool is_made = e->wd == w->dir_watch && e->len > 0 && watcher_is_ours(w, e->name);
        if (e->wd == w->dir_watch && is_gone)
            w->dir_watch = -1;
        if (is_made || (is_file && is_gone)) {
            int before = w->file_watch;
            watcher_add_file(w);
            watcher_remove(before);
        }
        if (is_file || is_made || is_lost)
            watcher_signal(w->fd);
    }
}

static void watcher_drain(void)
{
    _Alignas(struct inotify_event) char buf[16384];
    ssize_t n;
    pthread_mutex_lock(&watcher.mutex);
    while ((n = read(watcher.inotify_fd, buf, sizeof buf)) > 0) {
        for (char *p = buf; p < buf + n;) {
            const struct inotify_event *e = (const struct inotify_event *)p;
            watcher_dispatch(e);
            p += sizeof *e + e->len;
        }
    }
    pthread_mutex_unlock(&watcher.mutex);
}

static void *watcher_run(void *arg)
{
    const struct timespec pause = {.tv_nsec = WATCHER_PAUSE_US * 1000L};
    struct pollfd fds[] = {{.fd = watcher.stop_fd, .events = POLLIN},
                           {.fd = watcher.inotify_fd, .events = POLLIN}};
    (void)arg;
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[0].revents != 0)
            return NULL;
        watcher_drain();
        /* (3), and still ends at once. */
        (void)ppoll(fds, 1, &pause, NULL);
    }
}

static void watcher_close(void)
{
    if (watcher.inotify_fd >= 0)
        (void)close(watcher.inotify_fd);
    if (watcher.stop_fd >= 0)
        (void)close(watcher.stop_fd);
    watcher.inotify_fd = watcher.stop_fd = -1;
}

/* Signals are the program's business: none is delivered to this thread. */
static bool watcher_start(void)
{
    sigset_t all, before;
    if (watcher.has_thread)
        return true;
    watcher.inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watcher.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watcher.inotify_fd >= 0 && watcher.stop_fd >= 0) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        watcher.has_thread = pthread_create(&watcher.thread, NULL, watcher_run, NULL) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!watcher.has_thread)
        watcher_close();
    return watcher.has_thread;
}

static void watcher_stop(void)
{
    watcher_signal(watcher.stop_fd);
    pthread_join(watcher.thread, NULL);
    watcher.has_thread = false;
    watcher_close();
}

void outrider__sqlite_watcher_join(struct watched *w, const char *path)
{
    *w = (struct watched){.fd = -1, .file_watch = -1, .dir_watch = -1};
    pthread_mutex_lock(&watcher.life);
    if (watcher_start()) {
        w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        w->path = strdup(path);
    }
    if (w->fd >= 0 && w->path != NULL) {
        const char *slash = strrchr(w->path, '/');
        w->name = slash != NULL ? slash + 1 : w->path;
        pthread_mutex_lock(&watcher.mutex);
        w->next = watcher.first;
        watcher.first = w;
        watcher_add_dir(w);
        watcher_add_file(w);
        pthread_mutex_unlock(&watcher.mutex);
    }
    pthread_mutex_unlock(&watcher.life);
    if (w->fd >= 0 && w->path == NULL)
        outrider__sqlite_watcher_leave(w);
}

void outrider__sqlite_watcher_leave(struct watched *w)
{
    struct watched **at = &watcher.first;
    if (w->fd < 0)
        return;
    pthread_mutex_lock(&watcher.life);
    pthread_mutex_lock(&watcher.mutex);
    while (*at != NULL && *at != w)
        at = &(*at)->next;
    if (*at == w) {
        *at = w->next;
        watcher_remove(w->file_watch);
        watcher_remove(w->dir_watch);
    }
    bool is_last = watcher.first == NULL;
    pthread_mutex_unlock(&watcher.mutex);
    if (is_last)
        watcher_stop();
    pthread_mutex_unlock(&watcher.life);
    (void)close(w->fd);
    free(w->path);
    *w = (struct watched){.fd = -1, .file_watch = -1, .dir_watch = -1};
}

bool outrider__sqlite_watcher_take(struct watched *w, bool *ret_is_watched)
{
    uint64_t count;
    bool any = w->fd >= 0 && read(w->fd, &count, sizeof count) > 0;
    pthread_mutex_lock(&watcher.mutex);
    *ret_is_watched = w->fd >= 0 && w->file_watch >= 0 && w->dir_watch >= 0;
    pthread_mutex_unlock(&watcher.mutex);
    return any;
}
