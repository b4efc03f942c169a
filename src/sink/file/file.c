/* SPDX-License-Identifier: MIT */
/*
 * `file:DIR`: an append-only event log, one directory per topic, one JSON
 * object per line (file/line.h), in segments (file/topic.h).
 *
 *  (1) A delivery is reported as delivered after the fdatasync that covers its
 *      line; one fdatasync per topic and group.
 *  (2) A topic's lines of a group are confirmed together or cut off together;
 *      what is cut off is reported DOWN, with everything behind it.
 *  (3) Offsets count from 0 per topic, without a gap, across segments and
 *      restarts.
 *  (4) At most OPEN_TOPICS topics are open; the one not used for longest is
 *      closed for a new one, and found as it was when it is needed again.
 *
 * Everything but open, submit, flush, poll and close runs on the flusher's
 * thread, and so needs no locks.
 */
#include "sink/builtin.h"

#include "base/url.h"
#include "core/config.h"
#include "sink/file/flusher.h"
#include "sink/file/options.h"
#include "sink/file/topic.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_TOPICS 64
#define WRITE_BYTES ((size_t)256 << 10) /* lines are written when there are this many */
#define KEEP_BYTES ((size_t)1 << 20)    /* a buffer above this is given back */
#define ROOT_MAX (PATH_MAX - TOPIC_DIR_SIZE - 64)

struct file_sink {
    struct flusher_sink base; /* must stay first: see file_of() */
    char root[PATH_MAX];
    int64_t rotate_size;

    /* The flusher's thread only. */
    struct topic topics[OPEN_TOPICS];
    uint64_t hashes[OPEN_TOPICS]; /* of topics[], side by side: searched for each event */
    int n_topics;
    int last;       /* the topic that the last event had */
    uint64_t clock; /* counts waves, for `used` */
    struct topic *wave[OPEN_TOPICS];
    int n_wave;
    short next[FLUSHER_GROUP_ITEMS]; /* the topic's next delivery in the group, or -1 */
    struct strbuf lines;
};

static struct file_sink *file_of(struct sink *s)
{
    return (struct file_sink *)s;
}

static struct topic *file_find_topic(struct file_sink *f, struct bytes name)
{
    if (f->last < f->n_topics && bytes_eq(f->topics[f->last].name, name))
        return &f->topics[f->last];
    uint64_t hash = outrider__bytes_hash(name);
    for (int i = 0; i < f->n_topics; i++) {
        if (f->hashes[i] == hash && bytes_eq(f->topics[i].name, name)) {
            f->last = i;
            return &f->topics[i];
        }
    }
    return NULL;
}

/* A place for one more topic; -1 where the wave under way needs them all. */
static int file_free_slot(struct file_sink *f)
{
    if (f->n_topics < OPEN_TOPICS)
        return f->n_topics;
    int oldest = 0;
    for (int i = 1; i < OPEN_TOPICS; i++)
        if (f->topics[i].used < f->topics[oldest].used)
            oldest = i;
    return f->topics[oldest].used < f->clock ? oldest : -1;
}

/* Opens it into the slot; what is there is closed only then. */
static int file_open_topic(struct file_sink *f, int slot, struct bytes name,
                           struct outrider_error *err)
{
    struct topic t;
    if (outrider__topic_open(&t, f->root, name, err) < 0)
        return -1;
    if (slot < f->n_topics)
        outrider__topic_close(&f->topics[slot]);
    else
        f->n_topics++;
    f->topics[slot] = t;
    f->hashes[slot] = t.hash;
    f->last = slot;
    return 0;
}

/* The topic joins the wave: fit for writing, no deliveries yet. */
static int file_join_wave(struct file_sink *f, struct topic *t, struct outrider_error *err)
{
    if (t->used == f->clock)
        return 0;
    if (outrider__topic_begin(t, f->root, f->rotate_size, err) < 0)
        return -1;
    t->used = f->clock;
    t->head = t->tail = -1;
    f->wave[f->n_wave++] = t;
    return 0;
}

enum gathered { GATHERED_ALL, GATHERED_SOME, GATHERED_FAILED };

#define NOT_GATHERED 0xff /* a result that no sink has */

/* The open topic of a delivery, opened where there is room; *ret_topic is NULL
 * where there is none in this wave, or the topic is impossible. */
static int file_topic_for(struct file_sink *f, struct flusher_group *g, size_t i,
                          struct topic **ret_topic)
{
    char dir[TOPIC_DIR_SIZE];
    struct bytes name = g->items[i]->topic;
    struct topic *t = file_find_topic(f, name);
    if (t == NULL && outrider__topic_encode(name, dir, NULL) < 0) {
        g->results[i] = SINK_DEAD;
    } else if (t == NULL) {
        int slot = file_free_slot(f);
        if (slot >= 0 && file_open_topic(f, slot, name, &g->why) < 0)
            return -1;
        t = slot >= 0 ? &f->topics[slot] : NULL;
    }
    *ret_topic = t;
    return t == NULL ? 0 : file_join_wave(f, t, &g->why);
}

/*
 * Gathers a wave: lists of deliveries by topic, of at most as many topics as
 * can be open at once. The others of the group wait for the next wave.
 */
static enum gathered file_gather_wave(struct file_sink *f, struct flusher_group *g)
{
    enum gathered result = GATHERED_ALL;
    f->n_wave = 0;
    f->clock++;
    for (size_t i = 0; i < g->n; i++) {
        struct topic *t;
        if (g->results[i] != NOT_GATHERED)
            continue;
        if (file_topic_for(f, g, i, &t) < 0)
            return GATHERED_FAILED;
        if (t == NULL) {
            if (g->results[i] == NOT_GATHERED)
                result = GATHERED_SOME;
            continue;
        }
        g->results[i] = SINK_DOWN;
        f->next[i] = -1;
        if (t->tail < 0)
            t->head = (int)i;
        else
            f->next[t->tail] = (short)i;
        t->tail = (int)i;
    }
    return result;
}

static int file_write_topic(struct file_sink *f, struct flusher_group *g, struct topic *t)
{
    outrider__strbuf_clear(&f->lines);
    struct bytes member = strbuf_bytes(&t->member);
    struct outrider_error err;
    for (int i = t->head; i >= 0; i = f->next[i]) {
        if (outrider__line_append(&f->lines, t->next, member, g->items[i], &err) == 0) {
            t->next++;
            g->results[i] = SINK_DELIVERED;
        } else if (err.disposition == OUTRIDER_DEAD) {
            g->results[i] = SINK_DEAD;
        } else {
            g->why = err;
            return -1;
        }
        if (f->lines.len >= WRITE_BYTES) {
            if (outrider__topic_write(t, f->root, strbuf_bytes(&f->lines), &g->why) < 0)
                return -1;
            outrider__strbuf_clear(&f->lines);
        }
    }
    if (f->lines.len == 0)
        return 0;
    return outrider__topic_write(t, f->root, strbuf_bytes(&f->lines), &g->why);
}

static int file_publish_wave(struct file_sink *f, struct flusher_group *g)
{
    int written = 0, synced = 0;
    while (written < f->n_wave && file_write_topic(f, g, f->wave[written]) == 0)
        written++;
    if (written == f->n_wave)
        while (synced < f->n_wave && outrider__topic_sync(f->wave[synced], f->root, &g->why) == 0)
            synced++;
    for (int k = synced; k < f->n_wave; k++) {
        outrider__topic_rollback(f->wave[k], f->root);
        for (int i = f->wave[k]->head; i >= 0; i = f->next[i])
            if (g->results[i] != SINK_DEAD)
                g->results[i] = (unsigned char)flusher_result(&g->why);
    }
    return synced == f->n_wave ? 0 : -1;
}

static bool file_write(struct sink *s, struct flusher_group *g)
{
    struct file_sink *f = file_of(s);
    enum gathered gathered;
    bool ok;
    memset(g->results, NOT_GATHERED, g->n);
    do {
        gathered = file_gather_wave(f, g);
        /* What was gathered before a failure can still be delivered. */
        ok = file_publish_wave(f, g) == 0 && gathered != GATHERED_FAILED;
    } while (ok && gathered == GATHERED_SOME);
    for (size_t i = 0; i < g->n; i++)
        if (g->results[i] == NOT_GATHERED)
            g->results[i] = (unsigned char)flusher_result(&g->why);
    if (f->lines.size > KEEP_BYTES)
        outrider__strbuf_release(&f->lines);
    return ok;
}

static void file_explain(struct sink *s, const struct delivery *d, struct outrider_error *ret_why)
{
    char dir[TOPIC_DIR_SIZE];
    (void)s;
    if (outrider__topic_encode(d->topic, dir, ret_why) == 0)
        (void)outrider__fail(ret_why, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                             "the event makes a line of more than %zu bytes; lower max_payload",
                             FILE_LINE_MAX);
}

/* The directory that the URL names, without percent escapes. */
static int file_parse_root(struct file_sink *f, const char *text, struct outrider_error *err)
{
    struct arena arena;
    struct url url;
    outrider__arena_init(&arena, 4096);
    int r = outrider__url_parse(bytes_str(text), &arena, &url, err);
    if (r == 0 && url.hosts.len > 0)
        r = outrider__fail(err, OUTRIDER_URL, OUTRIDER_STOP,
                           "'%s' names a host; write file:DIR, or file:///DIR for an absolute path",
                           text);
    else if (r == 0 && (url.path.len == 0 || memchr(url.path.data, 0, url.path.len) != NULL))
        r = outrider__fail(err, OUTRIDER_URL, OUTRIDER_STOP,
                           "'%s' names no directory; write file:DIR", text);
    else if (r == 0 && url.path.len > ROOT_MAX)
        r = outrider__fail(err, OUTRIDER_URL, OUTRIDER_STOP,
                           "the sink's directory has a name of "
                           "more than %d bytes; use a shorter one",
                           ROOT_MAX);
    if (r == 0) {
        memcpy(f->root, url.path.data, url.path.len);
        f->root[url.path.len] = '\0';
    }
    outrider__arena_release(&arena);
    return r;
}

static int file_fail_open(const char *what, const char *path, int e, struct outrider_error *err)
{
    (void)outrider__fail_errno(err, e, "%s '%s'", what, path);
    bool needs_person =
        e == EACCES || e == EPERM || e == EROFS || e == ENOTDIR || e == ELOOP || e == ENAMETOOLONG;
    if (err != NULL && needs_person)
        err->disposition = OUTRIDER_STOP;
    if (err != NULL && (e == EACCES || e == EPERM))
        err->code = OUTRIDER_AUTH;
    return -1;
}

/* A directory that was just made is made durable: its entry is its parent's. */
static int file_sync_parent(const char *path, struct outrider_error *err)
{
    char copy[PATH_MAX];
    (void)snprintf(copy, sizeof copy, "%s", path);
    const char *parent = dirname(copy);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int e = fd < 0 || fsync(fd) < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return e == 0 ? 0 : file_fail_open("cannot make durable the directory", parent, e, err);
}

static int file_make_root(struct file_sink *f, struct outrider_error *err)
{
    char real[PATH_MAX];
    struct stat st;
    bool made = mkdir(f->root, 0777) == 0;
    if (!made && errno == ENOENT)
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "cannot create the sink's directory '%s': its parent does not exist; "
                              "create it, or correct the sink's URL",
                              f->root);
    if (!made && errno != EEXIST)
        return file_fail_open("cannot create the sink's directory", f->root, errno, err);
    if (made && file_sync_parent(f->root, err) < 0)
        return -1;
    if (stat(f->root, &st) < 0)
        return file_fail_open("cannot examine the sink's directory", f->root, errno, err);
    if (!S_ISDIR(st.st_mode))
        return file_fail_open("cannot write events to", f->root, ENOTDIR, err);
    if (faccessat(AT_FDCWD, f->root, R_OK | W_OK | X_OK, AT_EACCESS) < 0)
        return file_fail_open("no permission to write to the sink's directory", f->root, errno,
                              err);
    /* Topics are opened later, when the program may stand in another directory. */
    if (realpath(f->root, real) == NULL)
        return file_fail_open("cannot resolve the sink's directory", f->root, errno, err);
    memcpy(f->root, real, strlen(real) + 1);
    return 0;
}

static const struct flusher_ops file_flusher_ops = {
    .write = file_write,
    .explain = file_explain,
};

static int file_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                     struct outrider_error *err)
{
    struct file_sink *f = file_of(s);
    (void)now;
    f->base.flusher = (struct flusher){.done_fd = -1};
    f->n_topics = f->n_wave = f->last = 0;
    f->clock = 0;
    f->rotate_size = file_options(config)->rotate_size;
    outrider__strbuf_init(&f->lines, 16 * FILE_LINE_MAX);
    s->wants_headers = true;
    s->lane_depth = 0;
    s->wake_us = CLOCK_NEVER;
    if (file_parse_root(f, config->sink.url, err) < 0 || file_make_root(f, err) < 0)
        return -1;
    if (strlen(f->root) > ROOT_MAX)
        return file_fail_open("cannot use the sink's directory", f->root, ENAMETOOLONG, err);
    (void)snprintf(s->description, sizeof s->description, "file:%.240s", f->root);
    return outrider__flusher_start(&f->base.flusher, s, &file_flusher_ops, err);
}

static void file_close(struct sink *s)
{
    struct file_sink *f = file_of(s);
    outrider__flusher_stop(&f->base.flusher);
    while (f->n_topics > 0)
        outrider__topic_close(&f->topics[--f->n_topics]);
    outrider__strbuf_release(&f->lines);
}

const struct sink_ops outrider__sink_file = {
    .scheme = "file",
    .size = sizeof(struct file_sink),
    .open = file_open,
    .submit = outrider__flusher_sink_submit,
    .flush = outrider__flusher_sink_flush,
    .poll = outrider__flusher_sink_poll,
    .fds = outrider__flusher_sink_fds,
    .close = file_close,
};
