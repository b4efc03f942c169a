/* SPDX-License-Identifier: MIT */
#include "sink/file/tail.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "sink/file/flusher.h"
#include "sink/file/line.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW ((size_t)64 << 10)
#define HOLE_WINDOW ((off_t)8 << 20) /* more than the lines of an ordinary group */
#define MAX_LINES (FLUSHER_GROUP_ITEMS + 1)
#define MAX_BYTES ((off_t)(FILE_LINE_MAX + (16u << 20)))

struct search {
    int fd;
    const char *path;
    uint64_t first;
    struct strbuf window;
};

static int tail_read_at(const struct search *s, char *out, size_t n, off_t at,
                        struct outrider_error *err)
{
    while (n > 0) {
        ssize_t got = pread(s->fd, out, n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return outrider__fail_errno(err, errno, "cannot read the event log '%s'", s->path);
        if (got == 0)
            return outrider__fail(err, OUTRIDER_IO, OUTRIDER_RETRY,
                                  "the event log '%s' was shortened while it was read", s->path);
        out += got;
        n -= (size_t)got;
        at += got;
    }
    return 0;
}

/* A line never holds a zero byte, so the first one is where a hole begins. */
static int tail_find_hole(struct search *s, off_t size, off_t *ret_end, struct outrider_error *err)
{
    off_t at = size > HOLE_WINDOW ? size - HOLE_WINDOW : 0;
    outrider__strbuf_clear(&s->window);
    char *buf = outrider__strbuf_reserve(&s->window, WINDOW);
    if (buf == NULL)
        return outrider__fail_nomem(err);
    while (at < size) {
        size_t n = size - at < (off_t)WINDOW ? (size_t)(size - at) : WINDOW;
        if (tail_read_at(s, buf, n, at, err) < 0)
            return -1;
        const char *zero = memchr(buf, 0, n);
        if (zero != NULL) {
            *ret_end = at + (zero - buf);
            return 0;
        }
        at += (off_t)n;
    }
    *ret_end = size;
    return 0;
}

/* The offset of a line that is whole and ours; false otherwise. */
static bool tail_line_offset(struct bytes line, uint64_t *ret_offset)
{
    static const char begin[] = "{\"offset\":";
    if (line.len <= sizeof begin || line.data[line.len - 1] != '\n' ||
        memcmp(line.data, begin, sizeof begin - 1) != 0)
        return false;
    uint64_t v = 0;
    const char *p = line.data + sizeof begin - 1;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            return false;
    if (!outrider__json_is_valid(bytes_of(line.data, line.len - 1)))
        return false;
    *ret_offset = v;
    return true;
}

/* The last line before end, with or without a newline; borrowed from the window. */
static int tail_line_before(struct search *s, off_t end, struct bytes *ret_line,
                            struct outrider_error *err)
{
    for (size_t want = WINDOW;; want *= 2) {
        size_t n = end < (off_t)want ? (size_t)end : want;
        outrider__strbuf_clear(&s->window);
        char *buf = outrider__strbuf_reserve(&s->window, n);
        if (buf == NULL)
            return outrider__fail_nomem(err);
        if (tail_read_at(s, buf, n, end - (off_t)n, err) < 0)
            return -1;
        const char *newline = n > 1 ? memrchr(buf, '\n', n - 1) : NULL;
        if (newline != NULL) {
            *ret_line = bytes_of(newline + 1, (size_t)(buf + n - newline - 1));
            return 0;
        }
        if ((off_t)n == end) {
            *ret_line = bytes_of(buf, n);
            return 0;
        }
        if (want > FILE_LINE_MAX)
            break;
    }
    return outrider__fail(err, OUTRIDER_IO, OUTRIDER_STOP,
                          "the event log '%s' ends in a line of more than %zu bytes, which is not "
                          "ours; move the file away",
                          s->path, FILE_LINE_MAX);
}

static int tail_search_back(struct search *s, off_t end, off_t size, struct tail *ret_tail,
                            struct outrider_error *err)
{
    for (int dropped = 0; dropped <= MAX_LINES && size - end <= MAX_BYTES; dropped++) {
        struct bytes line = BYTES_NULL;
        uint64_t offset;
        if (end == 0) {
            *ret_tail = (struct tail){0, s->first};
            return 0;
        }
        if (tail_line_before(s, end, &line, err) < 0)
            return -1;
        bool at_start = (off_t)line.len == end;
        if (tail_line_offset(line, &offset) && offset >= s->first && offset < UINT64_MAX &&
            (!at_start || offset == s->first)) {
            *ret_tail = (struct tail){end, offset + 1};
            return 0;
        }
        end -= (off_t)line.len;
    }
    return outrider__fail(err, OUTRIDER_IO, OUTRIDER_STOP,
                          "the event log '%s' is damaged further back than a crash can have done; "
                          "restore it, or move it away",
                          s->path);
}

int outrider__tail_find(int fd, const char *path, uint64_t first, struct tail *ret_tail,
                        struct outrider_error *err)
{
    struct search s = {.fd = fd, .path = path, .first = first};
    struct stat st;
    if (fstat(fd, &st) < 0)
        return outrider__fail_errno(err, errno, "cannot examine the event log '%s'", path);
    outrider__strbuf_init(&s.window, 4 * FILE_LINE_MAX);
    off_t end = 0;
    int r = tail_find_hole(&s, st.st_size, &end, err);
    if (r == 0)
        r = tail_search_back(&s, end, st.st_size, ret_tail, err);
    outrider__strbuf_release(&s.window);
    return r;
}
