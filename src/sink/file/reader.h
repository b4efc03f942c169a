/* SPDX-License-Identifier: MIT */
/*
 * Reads the event log that `file:` writes, line by line, in order, across
 * segments, and waits for more where asked to.
 *
 *  (1) Only whole lines are returned: one that is still being written is not
 *      there yet.
 *  (2) The files are foreign: any bytes at all may be in them. A line that is
 *      no JSON object, or longer than FILE_LINE_MAX, is an error that names
 *      file and line; the next call goes on behind it.
 *  (3) A line is seen as soon as it is in the file, which is before the writer
 *      has confirmed it: if a full disk makes the writer take it back, it
 *      comes again. Offsets tell.
 */
#ifndef SINK_FILE_READER_H
#define SINK_FILE_READER_H

#include "base/arena.h"
#include "base/error.h"
#include "sink/file/line.h"

struct file_reader;

/* With follow, a topic that does not exist yet is waited for; without, it is
 * NOT_FOUND. */
int outrider__file_reader_open(const char *dir, struct bytes topic, bool follow,
                               struct file_reader **ret_reader, struct outrider_error *err);
void outrider__file_reader_close(struct file_reader *r);
/* 1 with a line (without its newline, valid until the next call), 0 when there
 * is nothing more yet, -1 on an error. */
int outrider__file_reader_next(struct file_reader *r, struct bytes *ret_line,
                               struct outrider_error *err);
/* With follow: readable when next() may find more after it returned 0; -1
 * without. It can be readable for nothing. */
int outrider__file_reader_fd(const struct file_reader *r);
/* Begins anew at the first line whose offset is at least this. Opens the right
 * segment; lines before it in the segment are skipped by next(). */
int outrider__file_reader_seek(struct file_reader *r, uint64_t offset, struct outrider_error *err);

enum file_payload { FILE_PAYLOAD_JSON, FILE_PAYLOAD_TEXT, FILE_PAYLOAD_BASE64, FILE_PAYLOAD_NONE };

struct file_line {
    uint64_t offset;
    struct bytes topic, key;      /* decoded; NULL data where absent or null */
    struct bytes timestamp;       /* decoded */
    struct bytes event_id;        /* header "event-id"; NULL data where absent */
    struct bytes headers;         /* the raw object, or NULL data */
    struct bytes payload;         /* JSON raw, text decoded, base64 as it stands */
    enum file_payload payload_is; /* NONE: the line has no payload member */
    int32_t partition;            /* -1 where absent */
};

/* Takes a line apart; what had to be decoded lives in the arena, the rest is
 * borrowed from the line. */
int outrider__file_line_parse(struct bytes line, struct arena *arena, struct file_line *ret_line,
                              struct outrider_error *err);

struct file_topics {
    struct bytes *names; /* decoded, sorted by bytes */
    size_t n;
};

/* The topics in a log's directory; directories that are none are left out. */
int outrider__file_topics(const char *dir, struct arena *arena, struct file_topics *ret_topics,
                          struct outrider_error *err);

#endif
