/* SPDX-License-Identifier: MIT */
/*
 * A line of the event log, which `file:` and `stdout:` write:
 *
 *     {"offset":0,"topic":"t","key":"k","timestamp":"2026-01-02T03:04:05.678Z",
 *      "headers":{"event-id":"..."},"payload":{...}}
 *
 *  (1) One line, one JSON object, "offset" first; never a raw zero byte.
 *  (2) No key: "key":null. A key that is not UTF-8 is "key_base64" instead of
 *      "key"; the topic likewise. A header's value that is not UTF-8 is
 *      {"base64":"..."} instead of a string (a header's name then loses what
 *      is not UTF-8 to U+FFFD).
 *  (3) "partition" follows the key where one was asked for.
 *  (4) Payload: "payload" where it is JSON (white space outside strings
 *      removed), "payload_text" where it is other UTF-8, else
 *      "payload_base64". A tombstone is "payload":null.
 *  (5) A line is at most FILE_LINE_MAX bytes long, its newline included.
 */
#ifndef SINK_FILE_LINE_H
#define SINK_FILE_LINE_H

#include "base/strbuf.h"
#include "core/event.h"

#define FILE_LINE_MAX ((size_t)64 << 20)

/* The part of a line that is the same for a whole topic: `,"topic":"t"`. */
int outrider__line_topic(struct strbuf *out, struct bytes topic);

/* Appends one line. On failure (NOMEM: retry, TOO_LARGE: dead) out is as before. */
int outrider__line_append(struct strbuf *out, uint64_t offset, struct bytes topic_member,
                          const struct delivery *d, struct outrider_error *err);

/*
 * A topic as the name of its directory: bytes outside [A-Za-z0-9._-] as %XX,
 * a leading dot too, so that no name is "..", hidden, or has a slash, and no
 * two topics share one. Fails with TOPIC, dead, where it is empty or longer
 * than a directory's name may be.
 */
#define TOPIC_DIR_SIZE 256
int outrider__topic_encode(struct bytes topic, char ret_name[TOPIC_DIR_SIZE],
                           struct outrider_error *err);
/* The way back. Fails where it is no name that topic_encode makes. */
int outrider__topic_decode(const char *name, char ret_topic[TOPIC_DIR_SIZE], size_t *ret_len);

#endif
