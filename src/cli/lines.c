/* SPDX-License-Identifier: MIT */
#include "cli/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_SIZE ((size_t)1 << 16)

int outrider__lines_open(struct lines *l, const char *path, size_t cap, struct outrider_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    *l = (struct lines){.fd = STDIN_FILENO, .name = is_stdin ? "stdin" : path, .cap = cap};
    if (!is_stdin)
        l->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        return outrider__fail_errno(err, errno, "cannot read %s", path);
    return 0;
}

void outrider__lines_close(struct lines *l)
{
    if (l->fd > STDIN_FILENO)
        close(l->fd);
    free(l->data);
    *l = (struct lines){.fd = -1};
}

/* Room behind end: moves what is left to the front, then grows. */
static int lines_make_room(struct lines *l, struct outrider_error *err)
{
    if (l->end < l->size)
        return 0;
    if (l->start > 0) {
        memmove(l->data, l->data + l->start, l->end - l->start);
        l->end -= l->start;
        l->start = 0;
        return 0;
    }
    if (l->end > l->cap)
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_STOP,
                              "%s:%" PRIu64 ": the line is longer than %zu bytes", l->name,
                              l->number + 1, l->cap);
    size_t size = l->size ? l->size * 2 : FIRST_SIZE;
    char *data = realloc(l->data, size);
    if (data == NULL)
        return outrider__fail_nomem(err);
    l->data = data;
    l->size = size;
    return 0;
}

static int lines_fill(struct lines *l, struct outrider_error *err)
{
    if (lines_make_room(l, err) < 0)
        return -1;
    ssize_t n;
    do
        n = read(l->fd, l->data + l->end, l->size - l->end);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return outrider__fail_errno(err, errno, "cannot read %s", l->name);
    l->at_end = n == 0;
    l->end += (size_t)n;
    return 0;
}

int outrider__lines_next(struct lines *l, struct bytes *ret_line, struct outrider_error *err)
{
    size_t searched = l->start;
    for (;;) {
        char *newline =
            l->end > searched ? memchr(l->data + searched, '\n', l->end - searched) : NULL;
        if (newline == NULL && !l->at_end) {
            size_t before = l->end - l->start;
            if (lines_fill(l, err) < 0)
                return -1;
            searched = l->start + before;
            continue;
        }
        if (newline == NULL && l->start == l->end)
            return 0;
        size_t stop = newline ? (size_t)(newline - l->data) : l->end;
        *ret_line = bytes_of(l->data + l->start, stop - l->start);
        l->start = newline ? stop + 1 : l->end;
        l->number++;
        return 1;
    }
}

int outrider__read_all(const char *path, size_t cap, char **ret_data, size_t *ret_len,
                       struct outrider_error *err)
{
    struct lines l;
    if (outrider__lines_open(&l, path, cap, err) < 0)
        return -1;
    int r = 0;
    while (r == 0 && !l.at_end && l.end <= cap)
        r = lines_fill(&l, err);
    if (r == 0 && l.end > cap)
        r = outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_STOP,
                           "%s is larger than %zu bytes (source.max_payload)", l.name, cap);
    if (r == 0) {
        *ret_len = l.end;
        *ret_data = l.data;
        l.data = NULL;
    }
    outrider__lines_close(&l);
    return r;
}
