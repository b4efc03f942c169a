/* SPDX-License-Identifier: MIT */
#include "sink/file/flusher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct flusher *flusher_of(struct sink *s)
{
    return &((struct flusher_sink *)s)->flusher;
}

static struct flusher_group *flusher_group_at(struct flusher *f, unsigned long number)
{
    return &f->groups[number % FLUSHER_GROUPS];
}

static bool flusher_has_room(const struct flusher *f)
{
    return !f->halted && f->fill - f->head < FLUSHER_GROUPS;
}

static void flusher_signal_done(struct flusher *f)
{
    uint64_t one = 1;
    /* Fails only when the counter is full, and then it is readable already. */
    ssize_t n = write(f->done_fd, &one, sizeof one);
    (void)n;
}

/* Waits for a group to write; NULL when the thread shall end. */
static struct flusher_group *flusher_take(struct flusher *f)
{
    while (!f->stopping) {
        if (!f->halted && f->work < f->fill)
            return flusher_group_at(f, f->work);
        if (!f->halted && f->wanted) {
            f->wanted = false;
            return flusher_group_at(f, f->fill++);
        }
        pthread_cond_wait(&f->wake, &f->mutex);
    }
    return NULL;
}

static void *flusher_run(void *arg)
{
    struct flusher *f = arg;
    pthread_mutex_lock(&f->mutex);
    for (;;) {
        struct flusher_group *g = flusher_take(f);
        if (g == NULL)
            break;
        pthread_mutex_unlock(&f->mutex);
        bool ok = f->ops->write(f->sink, g);
        pthread_mutex_lock(&f->mutex);
        f->halted = !ok;
        f->work++;
        flusher_signal_done(f);
    }
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

/* Signals are the program's business: none is delivered to this thread. */
static int flusher_start_thread(struct flusher *f)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(&f->thread, NULL, flusher_run, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e;
}

int outrider__flusher_start(struct flusher *f, struct sink *s, const struct flusher_ops *ops,
                            struct outrider_error *err)
{
    *f = (struct flusher){.sink = s, .ops = ops, .done_fd = -1};
    f->groups = calloc(FLUSHER_GROUPS, sizeof *f->groups);
    if (f->groups == NULL)
        return outrider__fail_nomem(err);
    f->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->done_fd < 0) {
        int e = errno;
        free(f->groups);
        f->groups = NULL;
        return outrider__fail_errno(err, e, "cannot create an event descriptor for the sink");
    }
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->wake, NULL);
    f->started = true;
    int e = flusher_start_thread(f);
    if (e != 0) {
        f->stopping = true;
        outrider__flusher_stop(f);
        return outrider__fail_errno(err, e, "cannot start the sink's writing thread");
    }
    return 0;
}

void outrider__flusher_stop(struct flusher *f)
{
    if (!f->started)
        return;
    if (!f->stopping) {
        pthread_mutex_lock(&f->mutex);
        f->stopping = true;
        pthread_cond_signal(&f->wake);
        pthread_mutex_unlock(&f->mutex);
        pthread_join(f->thread, NULL);
    }
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->mutex);
    close(f->done_fd);
    free(f->groups);
    *f = (struct flusher){.done_fd = -1};
}

/* What a delivery counts in a group; close enough to what it will be on disk. */
static size_t flusher_weight(const struct delivery *d)
{
    return d->payload.len + d->topic.len + d->key.len + 128;
}

/* Fills the group from the front of d, stops when it is full. */
static size_t flusher_fill_group(struct flusher_group *g, struct delivery **d, size_t n)
{
    size_t i = 0;
    while (i < n && g->n < FLUSHER_GROUP_ITEMS && g->bytes < FLUSHER_GROUP_BYTES) {
        g->items[g->n++] = d[i];
        g->bytes += flusher_weight(d[i++]);
    }
    return i;
}

size_t outrider__flusher_sink_submit(struct sink *s, struct delivery **d, size_t n,
                                     struct instant now)
{
    struct flusher *f = flusher_of(s);
    size_t taken = 0;
    (void)now;
    pthread_mutex_lock(&f->mutex);
    while (taken < n && flusher_has_room(f)) {
        struct flusher_group *g = flusher_group_at(f, f->fill);
        taken += flusher_fill_group(g, d + taken, n - taken);
        if (g->n == FLUSHER_GROUP_ITEMS || g->bytes >= FLUSHER_GROUP_BYTES) {
            f->fill++;
            f->wanted = false;
            pthread_cond_signal(&f->wake);
        }
    }
    pthread_mutex_unlock(&f->mutex);
    return taken;
}

void outrider__flusher_sink_flush(struct sink *s, struct instant now)
{
    struct flusher *f = flusher_of(s);
    (void)now;
    pthread_mutex_lock(&f->mutex);
    if (flusher_has_room(f) && flusher_group_at(f, f->fill)->n > 0) {
        f->wanted = true;
        pthread_cond_signal(&f->wake);
    }
    pthread_mutex_unlock(&f->mutex);
}

static void flusher_report_group(struct flusher *f, struct flusher_group *g)
{
    struct sink *s = f->sink;
    for (size_t i = 0; i < g->n; i++) {
        enum sink_result result = (enum sink_result)g->results[i];
        if (result == SINK_DELIVERED) {
            sink_report(s, g->items[i], result, NULL);
        } else if (result == SINK_DEAD) {
            struct outrider_error why = {0};
            f->ops->explain(s, g->items[i], &why);
            sink_report(s, g->items[i], result, &why);
        } else {
            sink_report(s, g->items[i], result, &g->why);
        }
    }
    g->n = 0;
    g->bytes = 0;
}

/* The failed group is the last one written; those behind it were not touched
 * by the thread, which waits while halted is set. */
static void flusher_report_behind_failed(struct flusher *f, const struct outrider_error *why,
                                         unsigned long from, unsigned long to)
{
    for (unsigned long k = from; k <= to && k - f->head < FLUSHER_GROUPS; k++) {
        struct flusher_group *g = flusher_group_at(f, k);
        g->why = *why;
        memset(g->results, flusher_result(why), g->n);
        flusher_report_group(f, g);
    }
}

/* Reports what is done through sink->reported. */
static void flusher_report(struct flusher *f)
{
    pthread_mutex_lock(&f->mutex);
    unsigned long head = f->head, work = f->work, fill = f->fill;
    bool halted = f->halted;
    if (head < work) {
        uint64_t count;
        ssize_t n = read(f->done_fd, &count, sizeof count);
        (void)n;
    }
    pthread_mutex_unlock(&f->mutex);
    if (head == work)
        return;

    struct outrider_error why = flusher_group_at(f, work - 1)->why;
    for (unsigned long k = head; k < work; k++)
        flusher_report_group(f, flusher_group_at(f, k));
    if (halted)
        flusher_report_behind_failed(f, &why, work, fill);

    pthread_mutex_lock(&f->mutex);
    f->head = work;
    if (halted) {
        f->head = f->work = f->fill = fill;
        f->wanted = false;
        f->halted = false;
    }
    pthread_mutex_unlock(&f->mutex);
}

int outrider__flusher_sink_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    (void)now;
    (void)err;
    flusher_report(flusher_of(s));
    return 0;
}

int outrider__flusher_sink_fds(struct sink *s, struct pollfd *ret_fds, int max)
{
    const struct flusher *f = flusher_of(s);
    if (max < 1 || !f->started)
        return 0;
    ret_fds[0] = (struct pollfd){.fd = f->done_fd, .events = POLLIN};
    return 1;
}
