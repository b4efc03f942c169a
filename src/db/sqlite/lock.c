/* SPDX-License-Identifier: MIT */
/* The pipeline's lock; what it promises stands in conn.h. */
#include "conn.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOCK_PATH_MAX 8192

/* "<database>-outrider-<pipeline>.lock"; a name may hold bytes that a file's may not. */
static int lock_path(struct strbuf *sb, const char *db_path, const char *pipeline)
{
    outrider__strbuf_init(sb, LOCK_PATH_MAX);
    outrider__strbuf_appendf(sb, "%s-outrider-", db_path);
    for (const unsigned char *p = (const unsigned char *)pipeline; *p != '\0'; p++) {
        if (isalnum(*p) || strchr("._-", *p) != NULL)
            strbuf_append_char(sb, (char)*p);
        else
            outrider__strbuf_appendf(sb, "%%%02x", *p);
    }
    strbuf_append_str(sb, ".lock");
    return sb->failed ? -1 : 0;
}

static struct flock lock_whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

static void lock_read_holder(int fd, char *ret_holder, size_t size)
{
    ssize_t n = pread(fd, ret_holder, size - 1, 0);
    ret_holder[n > 0 ? n : 0] = '\0';
    for (char *p = ret_holder; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20)
            *p = '\0';
    if (*ret_holder == '\0')
        (void)snprintf(ret_holder, size, "another relay");
}

/* For people who wonder who it is; nothing depends on it. */
static void lock_write_holder(int fd)
{
    char host[128] = "", text[192];
    (void)gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) < 0)
        (void)ftruncate(fd, 0);
}

enum lock_result outrider__sqlite_lock(struct sqlite_lock *l, const char *db_path,
                                       const char *pipeline, char *ret_holder, size_t size,
                                       struct outrider_error *err)
{
    struct strbuf path;
    if (lock_path(&path, db_path, pipeline) < 0) {
        outrider__strbuf_release(&path);
        (void)outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                             "the pipeline's name is too long");
        return LOCK_FAILED;
    }
    enum lock_result result = LOCK_FAILED;
    int fd = open(strbuf_cstr(&path), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct flock lock = lock_whole_file();
    if (fd < 0) {
        (void)outrider__fail_errno(err, errno, "cannot open the lock %s", strbuf_cstr(&path));
    } else if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
        lock_write_holder(fd);
        l->fd = fd;
        result = LOCK_HELD;
    } else if (errno == EAGAIN || errno == EACCES) {
        lock_read_holder(fd, ret_holder, size);
        result = LOCK_BUSY;
    } else {
        (void)outrider__fail_errno(err, errno, "cannot lock %s", strbuf_cstr(&path));
    }
    if (fd >= 0 && result != LOCK_HELD)
        (void)close(fd);
    outrider__strbuf_release(&path);
    return result;
}

void outrider__sqlite_unlock(struct sqlite_lock *l)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
}

bool outrider__sqlite_lock_is_held(const char *db_path, const char *pipeline, char *ret_holder,
                                   size_t size)
{
    struct strbuf path;
    bool is_held = false;
    int fd = -1;
    if (lock_path(&path, db_path, pipeline) == 0)
        fd = open(strbuf_cstr(&path), O_RDONLY | O_CLOEXEC);
    outrider__strbuf_release(&path);
    struct flock lock = lock_whole_file();
    if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) {
        is_held = true;
        lock_read_holder(fd, ret_holder, size);
    }
    if (fd >= 0)
        (void)close(fd);
    return is_held;
}
