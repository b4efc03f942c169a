/* SPDX-License-Identifier: MIT */
#include "sink/file/segment.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 20
#define SUFFIX ".jsonl"

void outrider__segment_name(uint64_t first, char ret_name[SEGMENT_NAME_SIZE])
{
    (void)snprintf(ret_name, SEGMENT_NAME_SIZE, "%020" PRIu64 SUFFIX, first);
}

bool outrider__segment_parse(const char *name, uint64_t *ret_first)
{
    if (strspn(name, "0123456789") != DIGITS || strcmp(name + DIGITS, SUFFIX) != 0)
        return false;
    errno = 0;
    uint64_t first = strtoull(name, NULL, 10);
    if (errno != 0)
        return false;
    *ret_first = first;
    return true;
}

static int segment_by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int segment_append(struct segments *s, size_t *capacity, uint64_t first)
{
    if (s->n == *capacity) {
        size_t bigger = *capacity ? 2 * *capacity : 16;
        uint64_t *firsts = realloc(s->firsts, bigger * sizeof *firsts);
        if (firsts == NULL)
            return -1;
        s->firsts = firsts;
        *capacity = bigger;
    }
    s->firsts[s->n++] = first;
    return 0;
}

/* 0, or an errno. */
static int segment_collect(DIR *d, struct segments *s)
{
    size_t capacity = 0;
    for (;;) {
        uint64_t first;
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (entry == NULL)
            return errno;
        if (outrider__segment_parse(entry->d_name, &first) &&
            segment_append(s, &capacity, first) < 0)
            return ENOMEM;
    }
}

int outrider__segments_list(const char *dir, struct segments *ret_segments,
                            struct outrider_error *err)
{
    struct segments s = {0};
    DIR *d = opendir(dir);
    int e = d == NULL ? errno : segment_collect(d, &s);
    if (d != NULL)
        closedir(d);
    if (e != 0) {
        free(s.firsts);
        return outrider__fail_errno(err, e, "cannot list the topic's directory '%s'", dir);
    }
    if (s.n > 1)
        qsort(s.firsts, s.n, sizeof *s.firsts, segment_by_value);
    *ret_segments = s;
    return 0;
}
