/* SPDX-License-Identifier: MIT */
#include "common/bounded_read.h"

#include <stdlib.h>
#include <string.h>

static size_t read_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

struct event_bounds outrider__read_bounds(const struct pipeline_config *config, bool is_large)
{
    struct event_bounds max = outrider__event_bounds(config);
    if (is_large)
        return max;
    return (struct event_bounds){.payload = read_least(READ_USUAL_PAYLOAD, max.payload),
                                 .headers = read_least(READ_USUAL_HEADERS, max.headers),
                                 .text = read_least(READ_USUAL_TEXT, max.text)};
}

int64_t outrider__read_large_rows(const struct pipeline_config *config, int64_t most)
{
    struct event_bounds max = outrider__event_bounds(config);
    int64_t few = READ_LARGE_BYTES / (int64_t)event_bounds_total(&max);
    return few < 1 ? 1 : few < most ? few : most;
}

/* Rows that probably fit into the memory of a batch. */
static int64_t read_rows_that_fit(const struct bounded_read *r, const struct batch *b)
{
    int64_t fit = (int64_t)b->max_bytes / r->event_bytes;
    if (r->claims)
        return fit + 1;
    /* What does not fit was read in vain, and costs little: a full batch is worth more. */
    fit = fit * 5 / 4 + 1;
    return fit < READ_FEWEST_ROWS ? READ_FEWEST_ROWS : fit;
}

void outrider__read_begin(struct bounded_read *r, const struct pipeline_config *config,
                          const struct batch *b)
{
    r->is_large = r->next_is_large;
    r->met_large = false;
    r->limit = (int64_t)b->capacity;
    if (r->event_bytes > 0 && (r->claims || !r->is_large)) {
        int64_t fit = read_rows_that_fit(r, b);
        r->limit = fit < r->limit ? fit : r->limit;
    }
    if (r->is_large)
        r->limit = outrider__read_large_rows(config, r->limit);
    else if (r->usual_rows > 0 && r->usual_rows < r->limit)
        r->limit = r->usual_rows;
}

bool outrider__read_ends_at(struct bounded_read *r, bool row_is_large)
{
    r->met_large |= row_is_large;
    return row_is_large && !r->is_large;
}

/* Rows behind a large row were claimed in vain. */
static void read_learn_rows(struct bounded_read *r, int64_t all, int64_t n_taken)
{
    if (r->met_large)
        r->usual_rows = n_taken * 2 > READ_FEWEST_ROWS ? n_taken * 2 : READ_FEWEST_ROWS;
    else if (r->usual_rows > 0)
        r->usual_rows = r->usual_rows * 2 < all ? r->usual_rows * 2 : 0;
}

void outrider__read_end(struct bounded_read *r, const struct batch *b, int64_t n_taken)
{
    int64_t mean = b->n > 0 ? (int64_t)(b->arena.used / b->n) : 0;
    if (r->claims)
        r->event_bytes = mean > r->event_bytes ? mean : (r->event_bytes * 7 + mean) / 8;
    else if (b->n > 0)
        r->event_bytes = mean + 1;
    if (r->claims && !r->is_large)
        read_learn_rows(r, (int64_t)b->capacity, n_taken);
    r->next_is_large = r->met_large;
}

bool outrider__read_is_repeated(const struct bounded_read *r, const struct batch *b)
{
    return b->n == 0 && r->met_large && !r->is_large;
}

bool outrider__read_is_large(const struct read_sizes *s)
{
    return s->payload > READ_USUAL_PAYLOAD || s->has_payload_left_out ||
           s->headers > READ_USUAL_HEADERS || s->has_headers_left_out || s->text > READ_USUAL_TEXT;
}

void outrider__read_note_large(struct event *e, const char *text)
{
    static const char *const names[] = {"id",      "aggregate_type", "aggregate_id", "event_type",
                                        "headers", "topic",          "partition_key"};
    const char *space = strchr(text, ' ');
    if (space == NULL)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(text, names[i], (size_t)(space - text)) == 0)
            outrider__event_too_large(e, names[i], strtoull(space, NULL, 10));
}

struct bytes outrider__read_bound_text(struct event *e, const char *column, struct bytes text,
                                       bool is_bytes, size_t most)
{
    if (text.len <= most)
        return text;
    outrider__event_too_large(e, column, text.len);
    return is_bytes ? outrider__bytes_cut(text) : outrider__text_cut(text);
}
