/* SPDX-License-Identifier: MIT */
/*
 * From a row to an event. This runs once per event and sets the pace of a
 * whole pipeline: each column is read once, and all of them are copied into
 * one piece of the arena.
 */
#include "conn.h"

#include <stdio.h>

#define N_BYTES 8   /* columns 1 .. 8 of @event@ are bytes */
#define C_PAYLOAD 4 /* the fifth of them */
#define C_HEADERS 5
#define COLUMN_PAYLOAD 5
#define COLUMN_PARTITION 9
#define COLUMN_OCCURRED_AT 10
#define COLUMN_CREATED_AT 11
#define COLUMN_EXPIRES_AT 12

static inline bool row_two_digits(const char *p, int64_t *ret)
{
    unsigned a = (unsigned)(p[0] - '0'), b = (unsigned)(p[1] - '0');
    *ret = a * 10 + b;
    return a <= 9 && b <= 9;
}

/* The form of created_at's default: "2026-01-02T03:04:05.678Z". */
static inline bool row_parse_default(const char text[24], int64_t *ret_us)
{
    int64_t s, hundredths;
    unsigned ms = (unsigned)(text[22] - '0');
    if (text[19] != '.' || text[23] != 'Z' || !row_two_digits(text + 17, &s) || s > 59 ||
        !row_two_digits(text + 20, &hundredths) || ms > 9)
        return false;
    *ret_us = s * 1000000 + (hundredths * 10 + ms) * 1000;
    return true;
}

static int row_parse_time(const char *text, size_t len, struct row_clock *clock, int64_t *ret_us)
{
    int64_t within = 0;
    bool is_default = len == 24 && row_parse_default(text, &within);
    if (is_default && memcmp(text, clock->minute, sizeof clock->minute) == 0) {
        *ret_us = clock->us + within;
        return 0;
    }
    if (outrider__clock_parse(bytes_of(text, len), ret_us) < 0)
        return -1;
    if (is_default) {
        memcpy(clock->minute, text, sizeof clock->minute);
        clock->us = *ret_us - within;
    }
    return 0;
}

/* 0, or -1 where the text is no time. NULL leaves *ret_us alone. */
static inline int row_value_time(sqlite3_value *v, struct row_clock *clock, int64_t *ret_us)
{
    const char *text = (const char *)sqlite3_value_text(v);
    if (text == NULL)
        return 0;
    return row_parse_time(text, (size_t)sqlite3_value_bytes(v), clock, ret_us);
}

static int row_malformed(struct event *e, struct batch *b, const char *what,
                         struct outrider_error *err)
{
    struct outrider_error *why = outrider__arena_alloc(&b->arena, sizeof *why);
    if (why == NULL)
        return outrider__fail_nomem(err);
    (void)outrider__fail(why, OUTRIDER_INVALID, OUTRIDER_DEAD, "row %lld of the outbox: %s",
                         (long long)e->seq, what);
    e->is_malformed = true;
    e->failure = why;
    return 0;
}

/* What only a table that an application made by itself can hold. */
static int row_mend(struct event *e, struct batch *b, struct outrider_error *err)
{
    if (bytes_is_null(e->aggregate_type))
        e->aggregate_type = BYTES_LIT("");
    if (bytes_is_null(e->aggregate_id))
        e->aggregate_id = BYTES_LIT("");
    if (bytes_is_null(e->event_type))
        e->event_type = BYTES_LIT("");
    if (e->id.len == 0) {
        char *id = outrider__arena_alloc(&b->arena, 32);
        if (id == NULL)
            return outrider__fail_nomem(err);
        e->id = bytes_of(id, (size_t)snprintf(id, 32, "seq-%lld", (long long)e->seq));
    }
    return row_malformed(e, b, "id, aggregate_type, aggregate_id or event_type is missing", err);
}

/* Never as blob: in a database with `PRAGMA encoding` UTF-16 that is other bytes. */
static inline struct bytes row_value_text(sqlite3_value *v)
{
    const char *text = (const char *)sqlite3_value_text(v);
    return text != NULL ? bytes_of(text, (size_t)sqlite3_value_bytes(v)) : BYTES_NULL;
}

static inline struct bytes row_value_payload(sqlite3_value *v)
{
    if (sqlite3_value_type(v) != SQLITE_BLOB)
        return row_value_text(v);
    const char *data = sqlite3_value_blob(v);
    return bytes_of(data != NULL ? data : "", (size_t)sqlite3_value_bytes(v));
}

/* What is above its bound is not copied, or only its beginning. */
static struct bytes row_bound(struct event *e, int column, struct bytes value,
                              const struct event_bounds *max)
{
    static const char *const names[N_BYTES] = {"id",         "aggregate_type", "aggregate_id",
                                               "event_type", "payload",        "headers",
                                               "topic",      "partition_key"};
    bool is_text = column != C_PAYLOAD && column != C_HEADERS;
    size_t most = column == C_PAYLOAD   ? max->payload
                  : column == C_HEADERS ? max->headers
                  : column == 0         ? max->id
                                        : max->text;
    if (value.len <= most)
        return value;
    outrider__event_too_large(e, names[column], value.len);
    return is_text ? outrider__text_cut(value) : BYTES_NULL;
}

static inline int row_copy_bytes(sqlite3_value **v, struct event *e, struct batch *b,
                                 const struct event_bounds *max, struct outrider_error *err)
{
    struct bytes *const to[N_BYTES] = {&e->id,         &e->aggregate_type, &e->aggregate_id,
                                       &e->event_type, &e->payload,        &e->headers,
                                       &e->topic,      &e->partition_key};
    struct bytes from[N_BYTES];
    size_t total = 0;
    for (int i = 0; i < N_BYTES; i++) {
        from[i] = i == C_PAYLOAD ? row_value_payload(v[COLUMN_PAYLOAD]) : row_value_text(v[i + 1]);
        if (i == C_PAYLOAD)
            e->payload_len = from[i].len;
        from[i] = row_bound(e, i, from[i], max);
        total += from[i].len + 1;
    }
    char *p = outrider__arena_alloc(&b->arena, total);
    if (p == NULL)
        return outrider__fail_nomem(err);
    for (int i = 0; i < N_BYTES; i++) {
        if (from[i].data == NULL)
            continue;
        memcpy(p, from[i].data, from[i].len);
        p[from[i].len] = '\0';
        *to[i] = bytes_of(p, from[i].len);
        p += from[i].len + 1;
    }
    return 0;
}

int outrider__sqlite_row(sqlite3_value **v, struct batch *b, const struct event_bounds *max,
                         struct row_clock *clock, struct event **ret_event,
                         struct outrider_error *err)
{
    struct event *e = outrider__batch_slot(b);
    if (e == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "the batch is full");
    e->seq = sqlite3_value_int64(v[0]);
    if (row_copy_bytes(v, e, b, max, err) < 0)
        return -1;
    if (sqlite3_value_type(v[COLUMN_PARTITION]) != SQLITE_NULL) {
        int64_t partition = sqlite3_value_int64(v[COLUMN_PARTITION]);
        e->partition = partition < 0 || partition > INT32_MAX ? -1 : (int32_t)partition;
    }
    int bad_time = row_value_time(v[COLUMN_CREATED_AT], clock, &e->created_at_us);
    e->occurred_at_us = e->created_at_us;
    bad_time |= row_value_time(v[COLUMN_OCCURRED_AT], clock, &e->occurred_at_us);
    bad_time |= row_value_time(v[COLUMN_EXPIRES_AT], clock, &e->expires_at_us);
    b->n++;
    *ret_event = e;
    if (e->id.len == 0 || bytes_is_null(e->aggregate_type) || bytes_is_null(e->aggregate_id) ||
        bytes_is_null(e->event_type))
        return row_mend(e, b, err);
    if (bad_time != 0)
        return row_malformed(e, b, "occurred_at, created_at or expires_at is not a time", err);
    return 0;
}

int outrider__sqlite_row_of(sqlite3_stmt *st, struct batch *b, const struct event_bounds *max,
                            struct row_clock *clock, struct event **ret_event,
                            struct outrider_error *err)
{
    sqlite3_value *v[EVENT_COLUMN_COUNT];
    for (int i = 0; i < EVENT_COLUMN_COUNT; i++)
        v[i] = sqlite3_column_value(st, i);
    return outrider__sqlite_row(v, b, max, clock, ret_event, err);
}
