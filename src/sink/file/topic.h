/* SPDX-License-Identifier: MIT */
/*
 * One topic of the event log: its directory, its lock, its last segment.
 *
 *     DIR/TOPIC/.outrider.lock               held while the topic is open; holds the pid
 *     DIR/TOPIC/00000000000000000000.jsonl   segments, named by their first offset
 *     DIR/TOPIC/00000000000000012345.jsonl
 *
 *  (1) A group is written between begin() and sync(), or undone by rollback().
 *      What sync() has not confirmed does not stay: if it cannot be cut off
 *      now, it is before anything else is written.
 *  (2) Nothing is confirmed whose directory entries are not on disk.
 *  (3) After a failed fdatasync nothing in the page cache is believed: the
 *      file is closed, opened anew and cut to what was confirmed.
 *  (4) All calls come from one thread.
 */
#ifndef SINK_FILE_TOPIC_H
#define SINK_FILE_TOPIC_H

#include "sink/file/line.h"

#include <sys/types.h>

struct topic {
    struct bytes name; /* owned */
    uint64_t hash;
    char dir[TOPIC_DIR_SIZE];
    struct strbuf member; /* see outrider__line_topic */

    int lock_fd, fd;
    uint64_t first;                 /* of the last segment */
    uint64_t next, confirmed_next;  /* offset of the next line */
    off_t length, confirmed_length; /* of the last segment */
    bool needs_cut;                 /* unconfirmed bytes may stand behind confirmed_length */

    /* The caller's: when it was last used, and the deliveries of the group under way. */
    uint64_t used;
    int head, tail;
};

/* Takes the lock, repairs the tail. root is the log's directory. On failure
 * there is nothing to close. */
int outrider__topic_open(struct topic *t, const char *root, struct bytes name,
                         struct outrider_error *err);
void outrider__topic_close(struct topic *t);
/* Makes the topic fit for writing: repairs what is left of a failure, reopens
 * a file that others removed or changed, begins a new segment above rotate_size
 * (0: never). */
int outrider__topic_begin(struct topic *t, const char *root, int64_t rotate_size,
                          struct outrider_error *err);
int outrider__topic_write(struct topic *t, const char *root, struct bytes lines,
                          struct outrider_error *err);
int outrider__topic_sync(struct topic *t, const char *root, struct outrider_error *err);
void outrider__topic_rollback(struct topic *t, const char *root);

#endif
