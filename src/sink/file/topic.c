/* SPDX-License-Identifier: MIT */
#include "sink/file/topic.h"

#include "base/failpoint.h"
#include "sink/file/segment.h"
#include "sink/file/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void topic_path_of_dir(const struct topic *t, const char *root, char ret_path[PATH_MAX])
{
    (void)snprintf(ret_path, PATH_MAX, "%s/%s", root, t->dir);
}

static void topic_path_of_segment(const struct topic *t, const char *root, char ret_path[PATH_MAX])
{
    char name[SEGMENT_NAME_SIZE];
    outrider__segment_name(t->first, name);
    (void)snprintf(ret_path, PATH_MAX, "%s/%s/%s", root, t->dir, name);
}

static void topic_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int topic_sync_dir(const char *path, struct outrider_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -1 : fsync(fd);
    int e = errno;
    topic_close_fd(&fd);
    if (r < 0)
        return outrider__fail_errno(err, e, "cannot make the directory '%s' durable", path);
    return 0;
}

/* The directory may have been removed while we run: it is made again. */
static int topic_make_dir(const struct topic *t, const char *root, struct outrider_error *err)
{
    char path[PATH_MAX];
    topic_path_of_dir(t, root, path);
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    if (errno == ENOENT && mkdir(root, 0777) == 0 && mkdir(path, 0777) == 0)
        return 0;
    return outrider__fail_errno(err, errno, "cannot create the topic's directory '%s'", path);
}

/* Says who holds the lock, as far as it can be known. */
static int topic_fail_locked(int fd, const char *dir, struct outrider_error *err)
{
    char text[32];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    long pid = strtol(text, NULL, 10);
    if (pid > 0)
        return outrider__fail(err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY,
                              "topic directory '%s' is in use by pid %ld; stop that relay or give "
                              "this one another directory",
                              dir, pid);
    return outrider__fail(err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY,
                          "topic directory '%s' is in use by another relay; stop it or give this "
                          "one another directory",
                          dir);
}

static int topic_take_lock(struct topic *t, const char *root, struct outrider_error *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 32], text[32];
    topic_path_of_dir(t, root, dir);
    (void)snprintf(path, sizeof path, "%s/.outrider.lock", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return outrider__fail_errno(err, errno, "cannot open the lock '%s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int e = errno;
        int r = e == EWOULDBLOCK ? topic_fail_locked(fd, dir, err)
                                 : outrider__fail_errno(err, e, "cannot lock '%s'", path);
        close(fd);
        return r;
    }
    /* The pid is for people only: on a full disk the lock holds without it. */
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) < 0)
        errno = 0;
    t->lock_fd = fd;
    return 0;
}

/* The last segment's first offset; *ret_found is false in an empty directory. */
static int topic_find_last(const struct topic *t, const char *root, uint64_t *ret_first,
                           bool *ret_found, struct outrider_error *err)
{
    char path[PATH_MAX];
    struct segments s;
    topic_path_of_dir(t, root, path);
    if (outrider__segments_list(path, &s, err) < 0)
        return -1;
    *ret_found = s.n > 0;
    *ret_first = s.n > 0 ? s.firsts[s.n - 1] : 0;
    free(s.firsts);
    return 0;
}

static int topic_open_segment(struct topic *t, const char *root, int flags,
                              struct outrider_error *err)
{
    char path[PATH_MAX];
    topic_path_of_segment(t, root, path);
    t->fd = open(path, O_RDWR | O_CLOEXEC | flags, 0666);
    if (t->fd < 0)
        return outrider__fail_errno(err, errno, "cannot open the event log '%s'", path);
    return 0;
}

static void topic_set_confirmed(struct topic *t, off_t length, uint64_t next)
{
    t->length = t->confirmed_length = length;
    t->next = t->confirmed_next = next;
    t->needs_cut = false;
}

/* Cuts the segment to its confirmed length, with a file that was just opened
 * where the old one cannot be trusted any more. */
static int topic_cut(struct topic *t, const char *root, struct outrider_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    topic_path_of_segment(t, root, path);
    t->length = t->confirmed_length;
    t->next = t->confirmed_next;
    if (t->fd < 0 && topic_open_segment(t, root, 0, err) < 0)
        return -1;
    if (fstat(t->fd, &st) < 0)
        return outrider__fail_errno(err, errno, "cannot examine the event log '%s'", path);
    int e = FAILPOINT("file.before_cut");
    if (e == 0 && st.st_size > t->confirmed_length && ftruncate(t->fd, t->confirmed_length) < 0)
        e = errno;
    if (e != 0)
        return outrider__fail_errno(err, e, "cannot repair the event log '%s'", path);
    t->needs_cut = false;
    return 0;
}

static int topic_open_last(struct topic *t, const char *root, struct outrider_error *err)
{
    char path[PATH_MAX];
    bool found;
    struct tail tail;
    if (topic_find_last(t, root, &t->first, &found, err) < 0 ||
        topic_open_segment(t, root, found ? 0 : O_CREAT, err) < 0)
        return -1;
    topic_path_of_segment(t, root, path);
    if (outrider__tail_find(t->fd, path, t->first, &tail, err) < 0)
        return -1;
    topic_set_confirmed(t, tail.length, tail.next);
    if (topic_cut(t, root, err) < 0)
        return -1;
    /* Also where nothing is new: an earlier run may have died before it did this. */
    topic_path_of_dir(t, root, path);
    return topic_sync_dir(path, err) < 0 ? -1 : topic_sync_dir(root, err);
}

static int topic_lock_and_open(struct topic *t, const char *root, struct outrider_error *err)
{
    if (topic_make_dir(t, root, err) < 0 || topic_take_lock(t, root, err) < 0 ||
        topic_open_last(t, root, err) < 0) {
        topic_close_fd(&t->fd);
        topic_close_fd(&t->lock_fd);
        return -1;
    }
    return 0;
}

int outrider__topic_open(struct topic *t, const char *root, struct bytes name,
                         struct outrider_error *err)
{
    *t = (struct topic){.lock_fd = -1, .fd = -1, .hash = outrider__bytes_hash(name)};
    if (outrider__topic_encode(name, t->dir, err) < 0)
        return -1;
    outrider__strbuf_init(&t->member, 8 * TOPIC_DIR_SIZE);
    char *copy = malloc(name.len);
    if (copy == NULL || outrider__line_topic(&t->member, name) < 0) {
        free(copy);
        outrider__strbuf_release(&t->member);
        return outrider__fail_nomem(err);
    }
    memcpy(copy, name.data, name.len);
    t->name = bytes_of(copy, name.len);
    if (topic_lock_and_open(t, root, err) < 0) {
        outrider__topic_close(t);
        return -1;
    }
    return 0;
}

void outrider__topic_close(struct topic *t)
{
    topic_close_fd(&t->fd);
    topic_close_fd(&t->lock_fd);
    outrider__strbuf_release(&t->member);
    free((char *)t->name.data);
    *t = (struct topic){.lock_fd = -1, .fd = -1};
}

/* Closed, as far as the disk is concerned: everything is found out anew. */
static int topic_reopen(struct topic *t, const char *root, struct outrider_error *err)
{
    topic_close_fd(&t->fd);
    topic_close_fd(&t->lock_fd);
    t->needs_cut = false;
    return topic_lock_and_open(t, root, err);
}

static int topic_rotate(struct topic *t, const char *root, struct outrider_error *err)
{
    char path[PATH_MAX];
    uint64_t first_before = t->first;
    int fd_before = t->fd;
    t->first = t->next;
    if (topic_open_segment(t, root, O_CREAT | O_EXCL, err) < 0) {
        t->first = first_before;
        t->fd = fd_before;
        return -1;
    }
    close(fd_before);
    topic_set_confirmed(t, 0, t->next);
    topic_path_of_dir(t, root, path);
    if (topic_sync_dir(path, err) == 0)
        return 0;
    /* The next begin() finds the empty segment and syncs the directory again. */
    topic_close_fd(&t->fd);
    topic_close_fd(&t->lock_fd);
    return -1;
}

/* Undoes what a failure has left: a lost lock, a closed file, bytes to be cut off. */
static int topic_restore(struct topic *t, const char *root, struct outrider_error *err)
{
    char path[PATH_MAX];
    if (t->lock_fd < 0)
        return topic_reopen(t, root, err);
    if ((!t->needs_cut && t->fd >= 0) || topic_cut(t, root, err) == 0)
        return 0;
    topic_path_of_segment(t, root, path);
    bool is_gone = t->fd < 0 && access(path, F_OK) < 0 && errno == ENOENT;
    return is_gone ? topic_reopen(t, root, err) : -1;
}

int outrider__topic_begin(struct topic *t, const char *root, int64_t rotate_size,
                          struct outrider_error *err)
{
    struct stat st;
    if (topic_restore(t, root, err) < 0)
        return -1;
    /* A file that others removed would swallow events; one they changed has
     * another end than ours. */
    if (fstat(t->fd, &st) < 0 || st.st_nlink == 0 || st.st_size != t->length)
        if (topic_reopen(t, root, err) < 0)
            return -1;
    if (rotate_size > 0 && t->length >= rotate_size)
        return topic_rotate(t, root, err);
    return 0;
}

#define EARLY_BYTES 65536

static int topic_write_all(struct topic *t, struct bytes b)
{
    while (b.len > 0) {
        ssize_t n = pwrite(t->fd, b.data, b.len, t->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return EIO;
        /* The disk may begin while the next lines are being made; what this
         * cannot do, or did wrong, the fdatasync does and tells. */
        if (n >= EARLY_BYTES)
            (void)sync_file_range(t->fd, t->length, n, SYNC_FILE_RANGE_WRITE);
        t->length += n;
        b = bytes_of(b.data + n, b.len - (size_t)n);
    }
    return 0;
}

/* In test builds a write happens in two halves, so that a test can die between them. */
static int topic_write_lines(struct topic *t, struct bytes lines)
{
    int e = FAILPOINT("file.before_write");
    if (e != 0)
        return e;
#ifdef OUTRIDER_FAILPOINTS
    struct bytes half = bytes_of(lines.data, lines.len / 2);
    e = topic_write_all(t, half);
    if (e == 0)
        e = FAILPOINT("file.torn_write");
    if (e != 0)
        return e;
    lines = bytes_of(lines.data + half.len, lines.len - half.len);
#endif
    e = topic_write_all(t, lines);
    return e != 0 ? e : FAILPOINT("file.after_write");
}

int outrider__topic_write(struct topic *t, const char *root, struct bytes lines,
                          struct outrider_error *err)
{
    t->needs_cut = true;
    int e = topic_write_lines(t, lines);
    if (e == 0)
        return 0;
    char path[PATH_MAX];
    topic_path_of_segment(t, root, path);
    return outrider__fail_errno(err, e, "cannot write to the event log '%s'; waiting", path);
}

static int topic_sync_segment(struct topic *t)
{
    int e = FAILPOINT("file.before_sync");
    if (e == 0)
        e = fdatasync(t->fd) < 0 ? errno : 0;
    return e != 0 ? e : FAILPOINT("file.after_sync");
}

int outrider__topic_sync(struct topic *t, const char *root, struct outrider_error *err)
{
    int e = topic_sync_segment(t);
    if (e == 0) {
        topic_set_confirmed(t, t->length, t->next);
        return 0;
    }
    char path[PATH_MAX];
    topic_path_of_segment(t, root, path);
    topic_close_fd(&t->fd);
    return outrider__fail_errno(err, e, "cannot make the event log '%s' durable; waiting", path);
}

void outrider__topic_rollback(struct topic *t, const char *root)
{
    /* If this fails needs_cut stays, and begin() does it. */
    t->needs_cut = true;
    (void)topic_cut(t, root, NULL);
}
