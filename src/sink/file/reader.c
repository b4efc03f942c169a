/* SPDX-License-Identifier: MIT */
#include "sink/file/reader.h"

#include "base/json.h"
#include "sink/file/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 << 10)
#define KEEP_BYTES ((size_t)1 << 20)
#define ROOT_MAX (PATH_MAX - TOPIC_DIR_SIZE - 64)

struct file_reader {
    char root[PATH_MAX];
    char dir[PATH_MAX]; /* of the topic */
    int notify_fd;
    bool watches_topic; /* and not only the root, for a topic that is not there yet */

    int fd;           /* the segment being read; -1: none yet */
    uint64_t first;   /* that it is named after */
    uint64_t number;  /* of the line that was last looked at, from 1 */
    bool is_sealed;   /* a later segment exists: nothing is appended any more */
    bool is_skipping; /* inside a line that is too long */
    off_t at;         /* how far the file was read */
    uint64_t wanted;  /* lines with a smaller offset are skipped */

    struct strbuf buffer; /* read, but not returned: buffer[start..] */
    size_t start;
};

static void reader_path_of(const struct file_reader *r, char ret_path[PATH_MAX])
{
    char name[SEGMENT_NAME_SIZE];
    outrider__segment_name(r->first, name);
    size_t n = strlen(r->dir);
    memcpy(ret_path, r->dir, n);
    ret_path[n] = '/';
    memcpy(ret_path + n + 1, name, strlen(name) + 1);
}

/* Watches the topic where it exists, else the directory in which it will appear. */
static int reader_watch(struct file_reader *r, struct outrider_error *err)
{
    const uint32_t changes = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF;
    if (r->notify_fd < 0 || r->watches_topic)
        return 0;
    if (inotify_add_watch(r->notify_fd, r->dir, changes | IN_ONLYDIR) >= 0) {
        r->watches_topic = true;
        return 0;
    }
    if (errno == ENOENT && inotify_add_watch(r->notify_fd, r->root, IN_CREATE | IN_MOVED_TO) >= 0) {
        /* It may have appeared in between. */
        r->watches_topic = inotify_add_watch(r->notify_fd, r->dir, changes | IN_ONLYDIR) >= 0;
        return 0;
    }
    return outrider__fail_errno(err, errno, "cannot watch the event log '%s'", r->dir);
}

static int reader_set_paths(struct file_reader *r, const char *dir, struct bytes topic,
                            struct outrider_error *err)
{
    char name[TOPIC_DIR_SIZE];
    if (outrider__topic_encode(topic, name, err) < 0)
        return -1;
    if (strlen(dir) > ROOT_MAX)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "the log's directory has a name of more than %d bytes", ROOT_MAX);
    memcpy(r->root, dir, strlen(dir) + 1);
    (void)snprintf(r->dir, sizeof r->dir, "%.*s/%s", ROOT_MAX, r->root, name);
    return 0;
}

/* Says which of the two is missing. */
static int reader_check_exists(const struct file_reader *r, struct bytes topic, bool follow,
                               struct outrider_error *err)
{
    struct stat st;
    if (stat(r->root, &st) < 0 || !S_ISDIR(st.st_mode))
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "'%s' is no directory; give the DIR of the relay's file: sink",
                              r->root);
    if (!follow && (stat(r->dir, &st) < 0 || !S_ISDIR(st.st_mode)))
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "no topic '%.*s' in '%s'; see `ls %s` for those there are",
                              (int)(topic.len < 100 ? topic.len : 100), topic.data, r->root,
                              r->root);
    return 0;
}

int outrider__file_reader_open(const char *dir, struct bytes topic, bool follow,
                               struct file_reader **ret_reader, struct outrider_error *err)
{
    struct file_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return outrider__fail_nomem(err);
    r->fd = r->notify_fd = -1;
    outrider__strbuf_init(&r->buffer, 2 * FILE_LINE_MAX + READ_BYTES);
    int e = reader_set_paths(r, dir, topic, err);
    if (e == 0)
        e = reader_check_exists(r, topic, follow, err);
    if (e == 0 && follow) {
        r->notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        e = r->notify_fd < 0
                ? outrider__fail_errno(err, errno, "cannot watch the event log '%s'", r->dir)
                : reader_watch(r, err);
    }
    if (e < 0) {
        outrider__file_reader_close(r);
        return -1;
    }
    *ret_reader = r;
    return 0;
}

void outrider__file_reader_close(struct file_reader *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    if (r->notify_fd >= 0)
        close(r->notify_fd);
    outrider__strbuf_release(&r->buffer);
    free(r);
}

int outrider__file_reader_fd(const struct file_reader *r)
{
    return r->notify_fd;
}

static void reader_drain_notify(struct file_reader *r)
{
    char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    if (r->notify_fd >= 0)
        while (read(r->notify_fd, buf, sizeof buf) > 0)
            ;
}

static int reader_open_segment(struct file_reader *r, uint64_t first, struct outrider_error *err)
{
    char path[PATH_MAX];
    uint64_t before = r->first;
    r->first = first;
    reader_path_of(r, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        r->first = before;
        return outrider__fail_errno(err, errno, "cannot open the event log '%s'", path);
    }
    if (r->fd >= 0)
        close(r->fd);
    r->fd = fd;
    r->at = 0;
    r->number = 0;
    r->is_sealed = r->is_skipping = false;
    r->start = 0;
    outrider__strbuf_clear(&r->buffer);
    return 0;
}

/* The segment behind the one being read, or the first: 1, or 0 where there is none. */
static int reader_find_next(const struct file_reader *r, uint64_t *ret_first,
                            struct outrider_error *err)
{
    struct segments s;
    struct stat st;
    if (r->fd < 0 && stat(r->dir, &st) < 0 && errno == ENOENT)
        return 0;
    if (outrider__segments_list(r->dir, &s, err) < 0)
        return -1;
    int found = 0;
    for (size_t i = 0; i < s.n && !found; i++) {
        if (r->fd < 0 || s.firsts[i] > r->first) {
            *ret_first = s.firsts[i];
            found = 1;
        }
    }
    free(s.firsts);
    return found;
}

/* The buffer's unread part moves to its front; a huge buffer is given back. */
static void reader_compact(struct file_reader *r)
{
    size_t left = r->buffer.len - r->start;
    if (left == 0 && r->buffer.size > KEEP_BYTES)
        outrider__strbuf_release(&r->buffer);
    else if (r->start > 0 && left > 0)
        memmove(r->buffer.data, r->buffer.data + r->start, left);
    r->buffer.len = left;
    r->start = 0;
}

/* More bytes of the segment: 1, or 0 at its end for now. */
static int reader_read_more(struct file_reader *r, struct outrider_error *err)
{
    struct stat st;
    reader_compact(r);
    /* As much again as is there: a long line is not searched over and over. */
    size_t want = r->buffer.len > READ_BYTES ? r->buffer.len : READ_BYTES;
    char *p = outrider__strbuf_reserve(&r->buffer, want);
    if (p == NULL)
        return outrider__fail_nomem(err);
    ssize_t n;
    do
        n = pread(r->fd, p, want, r->at);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        char path[PATH_MAX];
        reader_path_of(r, path);
        return outrider__fail_errno(err, errno, "cannot read the event log '%s'", path);
    }
    r->at += n;
    r->buffer.len += (size_t)n;
    if (n > 0)
        return 1;
    /* The writer has taken something back: whole lines, and what was half read. */
    if (fstat(r->fd, &st) == 0 && st.st_size < r->at) {
        r->at = st.st_size;
        r->buffer.len = 0;
        r->is_skipping = false;
    }
    return 0;
}

static int reader_fail_line(const struct file_reader *r, const char *what,
                            struct outrider_error *err)
{
    char path[PATH_MAX];
    reader_path_of(r, path);
    return outrider__fail(err, OUTRIDER_NOT_JSON, OUTRIDER_STOP, "%s:%" PRIu64 ": %s", path,
                          r->number, what);
}

/* A whole line from the buffer: 1, 0 where there is none, -1 where one is too long. */
static int reader_take_line(struct file_reader *r, struct bytes *ret_line,
                            struct outrider_error *err)
{
    size_t left = r->buffer.len - r->start;
    const char *begin = left > 0 ? r->buffer.data + r->start : NULL;
    const char *newline = left > 0 ? memchr(begin, '\n', left) : NULL;
    if (newline == NULL && left < FILE_LINE_MAX && !r->is_skipping)
        return 0;
    if (newline == NULL) {
        /* A line without end is not kept: it is reported once its end is found. */
        r->is_skipping = true;
        r->start = r->buffer.len;
        return 0;
    }
    r->start += (size_t)(newline + 1 - begin);
    r->number++;
    if (r->is_skipping || (size_t)(newline - begin) >= FILE_LINE_MAX) {
        r->is_skipping = false;
        return reader_fail_line(r, "the line is too long", err);
    }
    *ret_line = bytes_of(begin, (size_t)(newline - begin));
    return 1;
}

/* The offset of a line that our writer made, 0 where it cannot be told. */
static uint64_t reader_quick_offset(struct bytes line)
{
    static const char begin[] = "{\"offset\":";
    uint64_t v = 0;
    if (line.len < sizeof begin || memcmp(line.data, begin, sizeof begin - 1) != 0)
        return 0;
    for (size_t i = sizeof begin - 1; i < line.len && line.data[i] >= '0' && line.data[i] <= '9';
         i++)
        v = v * 10 + (uint64_t)(line.data[i] - '0');
    return v;
}

static int reader_check_line(const struct file_reader *r, struct bytes line,
                             struct outrider_error *err)
{
    struct json_members m;
    if (outrider__json_members_begin(&m, line) < 0)
        return reader_fail_line(r, "not a JSON object", err);
    return 1;
}

/* At the end of the segment, for now: 1 to go on reading, 0 where there is no more. */
static int reader_advance(struct file_reader *r, struct outrider_error *err)
{
    uint64_t first;
    if (r->is_sealed && (r->buffer.len > r->start || r->is_skipping)) {
        r->number++;
        r->start = r->buffer.len;
        r->is_skipping = false;
        return reader_fail_line(r, "the segment ends in half a line", err);
    }
    int found = reader_find_next(r, &first, err);
    if (found <= 0)
        return found;
    /* What was appended before the later segment was made is read first. */
    if (r->fd >= 0 && !r->is_sealed) {
        r->is_sealed = true;
        return 1;
    }
    return reader_open_segment(r, first, err) < 0 ? -1 : 1;
}

int outrider__file_reader_next(struct file_reader *r, struct bytes *ret_line,
                               struct outrider_error *err)
{
    bool is_drained = false;
    for (;;) {
        struct bytes line = BYTES_NULL;
        int n = r->fd < 0 ? 0 : reader_take_line(r, &line, err);
        if (n < 0)
            return -1;
        if (n > 0 && r->wanted > 0 && reader_quick_offset(line) < r->wanted)
            continue;
        if (n > 0) {
            n = reader_check_line(r, line, err);
            if (n > 0)
                *ret_line = line;
            return n;
        }
        n = r->fd < 0 ? 0 : reader_read_more(r, err);
        /* What is announced from here on is looked for below, or wakes us later. */
        if (n == 0 && !is_drained) {
            is_drained = true;
            reader_drain_notify(r);
            if (reader_watch(r, err) < 0)
                return -1;
            n = r->fd < 0 ? 0 : reader_read_more(r, err);
        }
        if (n == 0)
            n = reader_advance(r, err);
        if (n <= 0)
            return n;
    }
}

int outrider__file_reader_seek(struct file_reader *r, uint64_t offset, struct outrider_error *err)
{
    struct segments s = {0};
    struct stat st;
    if (stat(r->dir, &st) == 0 && outrider__segments_list(r->dir, &s, err) < 0)
        return -1;
    int e = 0;
    for (size_t i = s.n; i-- > 0;) {
        if (s.firsts[i] <= offset || i == 0) {
            e = reader_open_segment(r, s.firsts[i], err);
            break;
        }
    }
    free(s.firsts);
    if (e == 0)
        r->wanted = offset;
    return e;
}
