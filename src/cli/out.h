/* SPDX-License-Identifier: MIT */
/*
 * Data on stdout: JSON for programs, tables for people; colour and a progress
 * line only where a person is looking.
 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include "base/strbuf.h"

#define JSON_OUT_DEPTH 16

/* Builds one JSON value, member by member; bytes that are not UTF-8 become U+FFFD. */
struct json_out {
    struct strbuf sb;
    char close[JSON_OUT_DEPTH];
    bool has_members[JSON_OUT_DEPTH];
    int depth;
};

void outrider__jout_init(struct json_out *j);
void outrider__jout_release(struct json_out *j);
/* bracket is '{' or '['; name is NULL inside an array and at the top. */
void outrider__jout_open(struct json_out *j, const char *name, char bracket);
void outrider__jout_close(struct json_out *j);
void outrider__jout_text(struct json_out *j, const char *name, const char *value);
void outrider__jout_bytes(struct json_out *j, const char *name, struct bytes value);
void outrider__jout_raw(struct json_out *j, const char *name, struct bytes json);
void outrider__jout_int(struct json_out *j, const char *name, int64_t value);
void outrider__jout_bool(struct json_out *j, const char *name, bool value);
/* RFC 3339; null where the time is 0. */
void outrider__jout_time(struct json_out *j, const char *name, int64_t wall_us);
/* payload, payload_text or payload_base64, whichever fits, as in the file sink. */
void outrider__jout_payload(struct json_out *j, struct bytes payload);
/* Writes it to stdout with a line end and empties it. -1 if there was no memory. */
int outrider__jout_print(struct json_out *j);

/* Bytes of others for a person's terminal: control bytes and bad UTF-8 escaped. */
void outrider__out_plain(struct strbuf *sb, struct bytes b);
/* The same, cut to a number of bytes with dots behind. */
void outrider__out_cut(struct strbuf *sb, struct bytes b, size_t max);

enum colour { COLOUR_RED, COLOUR_GREEN, COLOUR_YELLOW, COLOUR_BOLD, COLOUR_DIM };
/* Escape sequences, or "" where the stream is no terminal or NO_COLOR is set. */
const char *outrider__colour(int fd, enum colour c);
const char *outrider__colour_end(int fd);

/* A line on stderr that is rewritten in place; silent where that is no terminal. */
struct progress {
    bool on;
    bool shown;
    int64_t last_us;
};

void outrider__progress_init(struct progress *p);
/* At most ten times a second. */
void outrider__progress(struct progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Takes the line away, so that something else can be written. */
void outrider__progress_end(struct progress *p);

#endif
