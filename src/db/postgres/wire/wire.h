/* SPDX-License-Identifier: MIT */
/*
 * Values on the wire, in PostgreSQL's binary form: arguments of a statement,
 * columns of a result, and rows that are events.
 */
#ifndef POSTGRES_WIRE_H
#define POSTGRES_WIRE_H

#include <libpq-fe.h>

#include "base/strbuf.h"
#include "core/event.h"
#include "outrider/event.h"

#define PG_BOOL 16
#define PG_BYTEA 17
#define PG_INT8 20
#define PG_INT2 21
#define PG_INT4 23
#define PG_TEXT 25
#define PG_OID 26
#define PG_TID 27
#define PG_JSON 114
#define PG_TEXT_ARRAY 1009
#define PG_FLOAT4 700
#define PG_FLOAT8 701
#define PG_BPCHAR 1042
#define PG_VARCHAR 1043
#define PG_DATE 1082
#define PG_TIMESTAMP 1114
#define PG_TIMESTAMPTZ 1184
#define PG_NUMERIC 1700
#define PG_UUID 2950
#define PG_LSN 3220
#define PG_JSONB 3802

#define PG_ARGS_MAX 24

/* Arguments $1, $2, ... in the order in which they are added. */
struct pg_args {
    int n;
    struct strbuf bytes; /* all values, one behind the other */
    Oid types[PG_ARGS_MAX];
    size_t offsets[PG_ARGS_MAX];
    int lengths[PG_ARGS_MAX]; /* -1: NULL */
    size_t array_at;          /* of the array under way: where its count stands */
    uint32_t array_n;
};

void outrider__pg_args_init(struct pg_args *a);
void outrider__pg_args_release(struct pg_args *a);
void outrider__pg_args_clear(struct pg_args *a);
/* bytes_is_null gives NULL. */
void outrider__pg_arg_text(struct pg_args *a, struct bytes text);
void outrider__pg_arg_str(struct pg_args *a, const char *text);
void outrider__pg_arg_bytea(struct pg_args *a, struct bytes b);
void outrider__pg_arg_int8(struct pg_args *a, int64_t v);
void outrider__pg_arg_int4(struct pg_args *a, int32_t v);
void outrider__pg_arg_oid(struct pg_args *a, Oid v);
void outrider__pg_arg_bool(struct pg_args *a, bool v);
/* Microseconds since 1970. */
void outrider__pg_arg_time(struct pg_args *a, int64_t wall_us);
/* A NULL of that type. */
void outrider__pg_arg_null(struct pg_args *a, Oid type);
/* Row identifiers: block and offset packed as pg_get_tid returns them; 0: NULL. */
void outrider__pg_arg_tid(struct pg_args *a, uint64_t tid);
/* An array: begin, items (of INT8, INT4, TEXT, BYTEA or TIMESTAMPTZ;
 * array_text also takes bytea), end. */
void outrider__pg_array_begin(struct pg_args *a, Oid element);
void outrider__pg_array_int8(struct pg_args *a, int64_t v);
void outrider__pg_array_int4(struct pg_args *a, int32_t v);
void outrider__pg_array_text(struct pg_args *a, struct bytes text);
/* As outrider_parked holds texts: parked.h (4). */
void outrider__pg_array_stored(struct pg_args *a, struct bytes b);
void outrider__pg_array_time(struct pg_args *a, int64_t wall_us);
void outrider__pg_array_null(struct pg_args *a);
void outrider__pg_array_end(struct pg_args *a);
/* Values as PQsendQueryPrepared takes them; pointers live until args change. */
void outrider__pg_args_values(const struct pg_args *a, const char *values[PG_ARGS_MAX],
                              int lengths[PG_ARGS_MAX], int formats[PG_ARGS_MAX]);

/* Columns. NULL gives `otherwise`, or bytes with NULL data, or "". */
int64_t outrider__pg_get_int(const PGresult *r, int row, int col, int64_t otherwise);
bool outrider__pg_get_bool(const PGresult *r, int row, int col);
/* Microseconds since 1970; infinity gives CLOCK_NEVER, -infinity 1. */
int64_t outrider__pg_get_time(const PGresult *r, int row, int col, int64_t otherwise);
struct bytes outrider__pg_get_bytes(const PGresult *r, int row, int col);
/* As a C string: the result's own memory ends each value with a zero byte. */
const char *outrider__pg_get_str(const PGresult *r, int row, int col);
uint64_t outrider__pg_get_tid(const PGresult *r, int row, int col);

/*
 * An event's columns stand side by side in a result, in this order, whatever
 * the table calls them. Types: see outrider__pg_row. size is the payload's
 * length where payload is NULL because it was too large to be sent; NULL there
 * means that the payload is NULL in the table. large is the name and the length of
 * the first other column above its bound: "headers 1048588"; see columns.h.
 */
enum pg_event_column {
    EV_SEQ,
    EV_ID,
    EV_AGGREGATE_TYPE,
    EV_AGGREGATE_ID,
    EV_EVENT_TYPE,
    EV_PAYLOAD,
    EV_HEADERS,
    EV_TOPIC,
    EV_PARTITION_KEY,
    EV_PARTITION,
    EV_OCCURRED_AT,
    EV_CREATED_AT,
    EV_EXPIRES_AT,
    EV_SIZE,
    EV_LARGE,
    EV_COLUMNS
};

/* Copies row `row`, whose event begins at column `first`, into the batch's next
 * slot and counts it. Integers, uuid, text, json, jsonb, bytea, timestamp and
 * timestamptz are understood; integers and uuids become text where text is
 * asked for. Bytes stay as they are (an id is asked for as text); a type or a topic that
 * is no text makes the event malformed. NULL with err untouched when the batch is full; else NOMEM.
 * What is above its bound is left out, or cut (is_oversize). */
struct event *outrider__pg_row(struct batch *b, const PGresult *r, int row, int first,
                               const struct event_bounds *max);
/* Characters of so many bytes in outrider_parked: parked.h (4). */
#define PG_HEX_SIZE(n) (2 + 2 * (n))
/* As outrider__pg_row, of a row of outrider_parked. */
struct event *outrider__pg_row_stored(struct batch *b, const PGresult *r, int row,
                                      const struct event_bounds *max);
/* For people: what is no text becomes hex. */
int outrider__pg_row_show(struct event *e, struct outrider_error *err);

#endif
