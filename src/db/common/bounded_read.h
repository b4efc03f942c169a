/* SPDX-License-Identifier: MIT */
/*
 * Reads of bounded size: which read comes next, how many rows it asks for, and what is
 * left of a row that is too large. So the memory for a result is bounded before the
 * database is asked for it (client libraries take a result in whole).
 *
 *  (1) A usual read takes whole batches of usual rows. A row with a larger column ends
 *      the usual read, and the next read is a large one: few rows of any size. So nobody
 *      adds up the sizes of rows in the database.
 *  (2) The database does not send a column that is above the bound of its read. The
 *      payload is NULL then, headers are READ_NOT_SENT (which is no JSON), and of another
 *      text comes its beginning: EVENT_TEXT_CUT characters, or bytes where the column
 *      holds bytes.
 *  (3) A usual read does not say how large a column is that was left out. A large read
 *      does, so that a dead letter can tell its column and its size.
 *  (4) A dead letter that is too large to be read keeps (2); the whole row is copied
 *      inside the database.
 */
#ifndef COMMON_BOUNDED_READ_H
#define COMMON_BOUNDED_READ_H

#include "core/config.h"
#include "core/event.h"

#define READ_USUAL_PAYLOAD 8192
#define READ_USUAL_HEADERS 8192
#define READ_USUAL_TEXT 1000 /* less than any text that was cut, so that a cut text shows */
#define READ_LARGE_BYTES (5LL << 20)
#define READ_FEWEST_ROWS 16
#define READ_NOT_SENT "!"

/* The reads of one table. Begins as zeroes. */
struct bounded_read {
    bool claims;    /* set by the owner: rows that a read returns and nobody takes were claimed in
                       vain, so it does not ask for more rows than will probably fit */
    bool is_large;  /* the read under way takes rows of any size */
    bool met_large; /* the read met a row that a usual read does not take */
    int64_t limit;  /* rows that the read asks for */
    /* What earlier reads taught. */
    bool next_is_large;
    int64_t event_bytes; /* memory that an event takes, about; 0: not known */
    int64_t usual_rows;  /* that a usual read may ask for, if it claims; 0: all */
};

/* What a usual or a large read takes. */
struct event_bounds outrider__read_bounds(const struct pipeline_config *config, bool is_large);
/* How many rows a large read may take, at most `most`. */
int64_t outrider__read_large_rows(const struct pipeline_config *config, int64_t most);

/* Chooses the next read for a batch: is_large and limit. */
void outrider__read_begin(struct bounded_read *r, const struct pipeline_config *config,
                          const struct batch *b);
/* Called for each row before it is taken; true: the read ends before this row. */
bool outrider__read_ends_at(struct bounded_read *r, bool row_is_large);
/* The rows are taken: learns for the next read. n_taken: rows. */
void outrider__read_end(struct bounded_read *r, const struct batch *b, int64_t n_taken);
/* The read took nothing, because it begins with a large row: read again at once. */
bool outrider__read_is_repeated(const struct bounded_read *r, const struct batch *b);

/* The sizes of a row as it came; of texts: the longest. */
struct read_sizes {
    size_t payload, headers, text;
    bool has_payload_left_out, has_headers_left_out; /* (2) */
};
/* Whether the row is not a usual one: a usual read left something of the row out, or a
 * large read met something that a usual read would leave out. */
bool outrider__read_is_large(const struct read_sizes *s);

/* Notes what a large read says of a column that it left out: "headers 1048588". */
void outrider__read_note_large(struct event *e, const char *text);
/* A text within its bound, or the beginning of a text that is above it: (2). */
struct bytes outrider__read_bound_text(struct event *e, const char *column, struct bytes text,
                                       bool is_bytes, size_t most);

#endif
