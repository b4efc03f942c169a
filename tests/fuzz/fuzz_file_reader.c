/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a segment of the event log: the reader must come to an end,
 * every line it returns must be taken apart or refused, and what the writer
 * keeps of the segment must be lines that the reader returns.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink/file/tail.h"
#include "sink/file/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64], topic[80], segment[128];

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void remove_files(void)
{
    (void)unlink(segment);
    (void)rmdir(topic);
    (void)rmdir(root);
}

static void make_files(void)
{
    if (root[0] != '\0')
        return;
    (void)snprintf(root, sizeof root, "%s/outrider-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(root) != NULL);
    (void)snprintf(topic, sizeof topic, "%s/t", root);
    must(mkdir(topic, 0700) == 0);
    (void)snprintf(segment, sizeof segment, "%s/00000000000000000000.jsonl", topic);
    (void)atexit(remove_files);
}

static size_t read_all(void)
{
    struct file_reader *r;
    struct arena arena;
    struct bytes line;
    struct outrider_error err;
    size_t lines = 0;
    int n;
    outrider__arena_init(&arena, 4096);
    must(outrider__file_reader_open(root, BYTES_LIT("t"), false, &r, &err) == 0);
    while ((n = outrider__file_reader_next(r, &line, &err)) != 0) {
        struct file_line l;
        if (n > 0 && outrider__file_line_parse(line, &arena, &l, &err) == 0)
            must(l.payload_is != FILE_PAYLOAD_NONE || bytes_is_null(l.payload));
        lines += n > 0;
        outrider__arena_reset(&arena);
    }
    outrider__file_reader_close(r);
    outrider__arena_release(&arena);
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tail tail;
    struct outrider_error err;
    make_files();
    int fd = open(segment, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    size_t before = read_all();
    if (outrider__tail_find(fd, segment, 0, &tail, &err) == 0) {
        must(tail.length >= 0 && (size_t)tail.length <= size);
        must(tail.length == 0 || data[tail.length - 1] == '\n');
        must(tail.length > 0 || tail.next == 0);
        must(ftruncate(fd, tail.length) == 0);
        size_t after = read_all();
        must(after <= before && (after > 0) == (tail.length > 0));
        struct tail again;
        must(outrider__tail_find(fd, segment, 0, &again, &err) == 0);
        must(again.length == tail.length && again.next == tail.next);
    }
    close(fd);
    return 0;
}
