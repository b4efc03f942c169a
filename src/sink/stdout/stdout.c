/* SPDX-License-Identifier: MIT */
/*
 * `stdout:` writes the event log's lines to standard output.
 *
 *  (1) Offsets count from 0 per topic in this run.
 *  (2) A delivery is reported as delivered once its whole line was written.
 *  (3) A line is never torn by an error that passes: what is left of one is
 *      written before anything else.
 *  (4) A full pipe stops the writing thread only, and never keeps close()
 *      waiting: it waits with poll(2), and writes no more than a pipe that is
 *      writable takes at once. The descriptor is shared with other programs,
 *      so it is not made non-blocking.
 */
#include "sink/builtin.h"

#include "core/config.h"
#include "sink/file/flusher.h"
#include "sink/file/line.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEP_BYTES ((size_t)1 << 20)
#define WRITE_BYTES ((size_t)64 << 10)

struct stdout_topic {
    struct bytes name; /* owned */
    uint64_t hash, next;
    struct strbuf member;
};

struct stdout_sink {
    struct flusher_sink base; /* must stay first: see stdout_of() */
    int stop_fd;              /* readable: do not wait for standard output any more */
    size_t max_write;

    /* The flusher's thread only. */
    struct stdout_topic *topics; /* open addressing; size is a power of two */
    size_t n_topics, size;
    struct stdout_topic *last;
    struct strbuf lines; /* a group's; after a failure what is left of a line */
    bool is_torn;        /* lines begins inside a line */
};

static struct stdout_sink *stdout_of(struct sink *s)
{
    return (struct stdout_sink *)s;
}

static struct stdout_topic *stdout_slot_of(struct stdout_topic *topics, size_t size, uint64_t hash,
                                           struct bytes name)
{
    size_t i = hash & (size - 1);
    while (!bytes_is_null(topics[i].name) &&
           !(topics[i].hash == hash && bytes_eq(topics[i].name, name)))
        i = (i + 1) & (size - 1);
    return &topics[i];
}

static int stdout_grow(struct stdout_sink *k)
{
    size_t size = k->size ? 2 * k->size : 64;
    struct stdout_topic *topics = calloc(size, sizeof *topics);
    if (topics == NULL)
        return -1;
    for (size_t i = 0; i < k->size; i++)
        if (!bytes_is_null(k->topics[i].name))
            *stdout_slot_of(topics, size, k->topics[i].hash, k->topics[i].name) = k->topics[i];
    free(k->topics);
    k->topics = topics;
    k->size = size;
    k->last = NULL;
    return 0;
}

/* The topic, made on first use; NULL when there is no memory. */
static struct stdout_topic *stdout_topic_of(struct stdout_sink *k, struct bytes name)
{
    if (k->last != NULL && bytes_eq(k->last->name, name))
        return k->last;
    if (2 * (k->n_topics + 1) > k->size && stdout_grow(k) < 0)
        return NULL;
    uint64_t hash = outrider__bytes_hash(name);
    struct stdout_topic *t = stdout_slot_of(k->topics, k->size, hash, name);
    if (bytes_is_null(t->name)) {
        struct stdout_topic made = {.hash = hash};
        char *copy = malloc(name.len + 1);
        outrider__strbuf_init(&made.member, 6 * name.len + 32);
        if (copy == NULL || outrider__line_topic(&made.member, name) < 0) {
            free(copy);
            outrider__strbuf_release(&made.member);
            return NULL;
        }
        if (name.len > 0)
            memcpy(copy, name.data, name.len);
        made.name = bytes_of(copy, name.len);
        *t = made;
        k->n_topics++;
    }
    k->last = t;
    return t;
}

/* Waits until standard output takes something; false when the sink is closed. */
static bool stdout_wait_writable(struct stdout_sink *k)
{
    struct pollfd fds[2] = {{.fd = STDOUT_FILENO, .events = POLLOUT},
                            {.fd = k->stop_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return true;
    return fds[1].revents == 0;
}

/* Writes from the front of the lines; *ret_written also counts on failure. */
static int stdout_write_out(struct stdout_sink *k, size_t *ret_written)
{
    size_t done = 0;
    int e = 0;
    while (done < k->lines.len && e == 0) {
        size_t n = k->lines.len - done < k->max_write ? k->lines.len - done : k->max_write;
        if (!stdout_wait_writable(k)) {
            e = ECANCELED;
            break;
        }
        ssize_t w = write(STDOUT_FILENO, k->lines.data + done, n);
        if (w >= 0)
            done += (size_t)w;
        else if (errno != EINTR && errno != EAGAIN)
            e = errno;
    }
    *ret_written = done;
    return e;
}

static void stdout_fail_write(int e, struct outrider_error *err)
{
    if (e == EPIPE || e == EBADF) {
        (void)outrider__fail(err, OUTRIDER_IO, OUTRIDER_STOP,
                             "standard output was closed by its reader; nothing more can be "
                             "delivered there");
        outrider__error_origin(err, e == EPIPE ? "EPIPE" : "EBADF");
        return;
    }
    (void)outrider__fail_errno(err, e, "cannot write to standard output; waiting");
}

/* Where the line that is torn at byte `at` ends; at itself where none is. */
static size_t stdout_torn_end(const struct stdout_sink *k, size_t at)
{
    const struct strbuf *lines = &k->lines;
    if (at == 0 ? !k->is_torn : lines->data[at - 1] == '\n')
        return at;
    const char *newline = memchr(lines->data + at, '\n', lines->len - at);
    return newline != NULL ? (size_t)(newline - lines->data) + 1 : lines->len;
}

/* Writes what is buffered. On failure only the rest of a torn line stays, and
 * *ret_lost is how many whole lines behind it were dropped. */
static int stdout_drain(struct stdout_sink *k, size_t *ret_lost, struct outrider_error *err)
{
    size_t written, lost = 0;
    int e = stdout_write_out(k, &written);
    *ret_lost = 0;
    if (e == 0) {
        outrider__strbuf_clear(&k->lines);
        k->is_torn = false;
        return 0;
    }
    stdout_fail_write(e, err);
    size_t end = stdout_torn_end(k, written);
    for (size_t i = end; i < k->lines.len; i++)
        lost += k->lines.data[i] == '\n';
    memmove(k->lines.data, k->lines.data + written, end - written);
    k->lines.len = end - written;
    k->is_torn = k->lines.len > 0;
    *ret_lost = lost;
    return -1;
}

/*
 * Formats deliveries from `from` on until the buffer is large enough. Their
 * offsets are taken back later if their lines are dropped.
 */
static int stdout_format_some(struct stdout_sink *k, struct flusher_group *g, size_t from,
                              size_t *ret_to)
{
    size_t i = from;
    struct outrider_error err;
    for (; i < g->n && k->lines.len < WRITE_BYTES; i++) {
        struct stdout_topic *t = stdout_topic_of(k, g->items[i]->topic);
        if (t == NULL) {
            (void)outrider__fail_nomem(&g->why);
            break;
        }
        if (outrider__line_append(&k->lines, t->next, strbuf_bytes(&t->member), g->items[i],
                                  &err) == 0) {
            t->next++;
            g->results[i] = SINK_DELIVERED;
        } else if (err.disposition == OUTRIDER_DEAD) {
            g->results[i] = SINK_DEAD;
        } else {
            g->why = err;
            break;
        }
    }
    *ret_to = i;
    return i == g->n || k->lines.len >= WRITE_BYTES ? 0 : -1;
}

/* The last `lost` lines of those formatted were not written: their offsets are
 * free again. The torn one before them, if any, will be completed and keeps
 * its own, though its delivery is submitted again. */
static void stdout_take_back(struct stdout_sink *k, struct flusher_group *g, size_t from, size_t to,
                             size_t lost)
{
    unsigned char result = (unsigned char)flusher_result(&g->why);
    for (size_t i = to; i-- > from;) {
        if (g->results[i] != SINK_DELIVERED)
            continue;
        if (lost == 0 && !k->is_torn)
            break;
        g->results[i] = result;
        if (lost == 0)
            break;
        stdout_topic_of(k, g->items[i]->topic)->next--;
        lost--;
    }
}

static bool stdout_write(struct sink *s, struct flusher_group *g)
{
    struct stdout_sink *k = stdout_of(s);
    size_t i = 0, lost;
    bool ok = true;
    memset(g->results, SINK_DOWN, g->n);
    if (k->lines.len > 0)
        ok = stdout_drain(k, &lost, &g->why) == 0;
    while (ok && i < g->n) {
        size_t to;
        struct outrider_error why;
        bool formatted = stdout_format_some(k, g, i, &to) == 0;
        if (stdout_drain(k, &lost, &why) < 0) {
            g->why = why;
            stdout_take_back(k, g, i, to, lost);
            ok = false;
        }
        ok = ok && formatted;
        i = to;
    }
    if (!ok)
        memset(g->results + i, flusher_result(&g->why), g->n - i);
    if (k->lines.len == 0 && k->lines.size > KEEP_BYTES)
        outrider__strbuf_release(&k->lines);
    return ok;
}

static void stdout_explain(struct sink *s, const struct delivery *d, struct outrider_error *ret_why)
{
    (void)s;
    (void)d;
    (void)outrider__fail(ret_why, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                         "the event makes a line of more than %zu bytes; lower max_payload",
                         FILE_LINE_MAX);
}

static const struct flusher_ops stdout_flusher_ops = {
    .write = stdout_write,
    .explain = stdout_explain,
};

static int stdout_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                       struct outrider_error *err)
{
    struct stdout_sink *k = stdout_of(s);
    struct stat st;
    (void)config;
    (void)now;
    k->base.flusher = (struct flusher){.done_fd = -1};
    k->topics = NULL;
    k->last = NULL;
    k->n_topics = k->size = 0;
    k->stop_fd = -1;
    k->is_torn = false;
    outrider__strbuf_init(&k->lines, 16 * FILE_LINE_MAX);
    s->wants_headers = true;
    s->lane_depth = 0;
    s->wake_us = CLOCK_NEVER;
    memcpy(s->description, "stdout:", sizeof "stdout:");
    if (fstat(STDOUT_FILENO, &st) < 0)
        return outrider__fail(err, OUTRIDER_IO, OUTRIDER_STOP,
                              "standard output is closed; redirect it to a file or a program");
    k->max_write = S_ISREG(st.st_mode) ? WRITE_BYTES : PIPE_BUF;
    k->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->stop_fd < 0)
        return outrider__fail_errno(err, errno, "cannot create an event descriptor for the sink");
    return outrider__flusher_start(&k->base.flusher, s, &stdout_flusher_ops, err);
}

static void stdout_close(struct sink *s)
{
    struct stdout_sink *k = stdout_of(s);
    uint64_t one = 1;
    if (k->stop_fd >= 0 && write(k->stop_fd, &one, sizeof one) < 0)
        errno = 0;
    outrider__flusher_stop(&k->base.flusher);
    if (k->stop_fd >= 0)
        close(k->stop_fd);
    k->stop_fd = -1;
    for (size_t i = 0; i < k->size; i++) {
        outrider__strbuf_release(&k->topics[i].member);
        free((char *)k->topics[i].name.data);
    }
    free(k->topics);
    k->topics = NULL;
    k->size = k->n_topics = 0;
    outrider__strbuf_release(&k->lines);
}

const struct sink_ops outrider__sink_stdout = {
    .scheme = "stdout",
    .size = sizeof(struct stdout_sink),
    .open = stdout_open,
    .submit = outrider__flusher_sink_submit,
    .flush = outrider__flusher_sink_flush,
    .poll = outrider__flusher_sink_poll,
    .fds = outrider__flusher_sink_fds,
    .close = stdout_close,
};
