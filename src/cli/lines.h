/* SPDX-License-Identifier: MIT */
/* Lines of a file or a pipe, of bounded length, without copying them. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "base/bytes.h"
#include "base/error.h"

struct lines {
    int fd;
    const char *name; /* for errors */
    char *data;
    size_t start, end, size, cap;
    uint64_t number; /* of the line returned last; the first is 1 */
    bool at_end;
};

/* path "-" is standard input. A line is at most cap bytes. */
int outrider__lines_open(struct lines *l, const char *path, size_t cap, struct outrider_error *err);
/* 1 with the next line, without its end, valid until the next call; 0 at the end. */
int outrider__lines_next(struct lines *l, struct bytes *ret_line, struct outrider_error *err);
void outrider__lines_close(struct lines *l);

/* A whole file, or standard input for "-", of at most cap bytes; free(3) it. */
int outrider__read_all(const char *path, size_t cap, char **ret_data, size_t *ret_len,
                       struct outrider_error *err);

#endif
