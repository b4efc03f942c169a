/* SPDX-License-Identifier: MIT */
/*
 * Arrays in PostgreSQL's binary form, one for each column: a header of
 * dimensions, "may hold NULLs", element type, length and lower bound, then each
 * element with its length before it (-1: NULL). Numbers are big-endian.
 *
 * One statement with unnest() takes them all, so that an array of events is one
 * round trip without pipeline mode, which would be a state of the connection.
 */
#include "client.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#define TYPE_INT4 23
#define TYPE_TEXT 25
#define TYPE_TIMESTAMPTZ 1184
#define TYPE_UUID 2950
/* From 1970 to PostgreSQL's 2000. */
#define EPOCH_US INT64_C(946684800000000)

enum kind { KIND_ID, KIND_TEXT, KIND_PAYLOAD, KIND_HEADERS, KIND_PARTITION, KIND_TIME };

struct column {
    enum kind kind;
    Oid type, array; /* the payload's are the table's */
    size_t offset;   /* of the value in struct outrider_event */
};

#define FIELD(name) offsetof(struct outrider_event, name)

/* In the order of the insert's columns. */
static const struct column columns[PG_EVENT_ARGS] = {
    {KIND_ID, TYPE_UUID, 2951, FIELD(id)},
    {KIND_TEXT, TYPE_TEXT, 1009, FIELD(aggregate_type)},
    {KIND_TEXT, TYPE_TEXT, 1009, FIELD(aggregate_id)},
    {KIND_TEXT, TYPE_TEXT, 1009, FIELD(event_type)},
    {KIND_PAYLOAD, 0, 0, FIELD(payload)},
    {KIND_HEADERS, PG_TYPE_JSONB, 3807, FIELD(headers)},
    {KIND_TEXT, TYPE_TEXT, 1009, FIELD(topic)},
    {KIND_TEXT, TYPE_TEXT, 1009, FIELD(partition_key)},
    {KIND_PARTITION, TYPE_INT4, 1007, FIELD(partition)},
    {KIND_TIME, TYPE_TIMESTAMPTZ, 1185, FIELD(occurred_at_us)},
    {KIND_TIME, TYPE_TIMESTAMPTZ, 1185, FIELD(expires_at_us)},
};

static void array_append_int32(struct strbuf *buf, int32_t value)
{
    uint32_t be = htobe32((uint32_t)value);
    outrider__strbuf_append(buf, bytes_of(&be, sizeof be));
}

static void array_append_text(struct strbuf *buf, const char *s)
{
    size_t len = s != NULL ? strlen(s) : 0;
    array_append_int32(buf, s != NULL ? (int32_t)len : -1);
    outrider__strbuf_append(buf, bytes_of(s, len));
}

/* jsonb has the version of its text form before it. */
static void array_append_bytes(struct strbuf *buf, const void *data, size_t len, bool jsonb)
{
    array_append_int32(buf, (int32_t)(len + jsonb));
    if (jsonb)
        strbuf_append_char(buf, 1);
    outrider__strbuf_append(buf, bytes_of(data, len));
}

static void array_append_time(struct strbuf *buf, int64_t us)
{
    uint64_t be = htobe64((uint64_t)(us - EPOCH_US));
    array_append_int32(buf, us != 0 ? (int32_t)sizeof be : -1);
    if (us != 0)
        outrider__strbuf_append(buf, bytes_of(&be, sizeof be));
}

static unsigned array_hex_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
}

static void array_append_id(struct strbuf *buf, const char *id)
{
    unsigned char b[16];
    size_t n = 0;
    for (size_t i = 0; id[i] != '\0' && n < sizeof b; i++)
        if (id[i] != '-') {
            b[n++] = (unsigned char)(array_hex_value(id[i]) << 4 | array_hex_value(id[i + 1]));
            i++;
        }
    array_append_bytes(buf, b, sizeof b, false);
}

static void array_append_value(struct strbuf *buf, const struct column *c, Oid type,
                               const struct outrider_event *e, const char *id)
{
    const void *field = (const char *)e + c->offset;
    switch (c->kind) {
    case KIND_ID:
        array_append_id(buf, id);
        break;
    case KIND_TEXT:
        array_append_text(buf, writer_or_null(*(const char *const *)field));
        break;
    case KIND_PAYLOAD:
        array_append_bytes(buf, e->payload, e->payload_len, type == PG_TYPE_JSONB);
        break;
    case KIND_HEADERS:
        if (e->headers == NULL)
            array_append_int32(buf, -1);
        else
            array_append_bytes(buf, e->headers, strlen(e->headers), true);
        break;
    case KIND_PARTITION:
        array_append_int32(buf, e->partition >= 0 ? (int32_t)sizeof e->partition : -1);
        if (e->partition >= 0)
            array_append_int32(buf, e->partition);
        break;
    case KIND_TIME:
        array_append_time(buf, *(const int64_t *)field);
        break;
    }
}

static void append_array(struct strbuf *buf, const struct column *c, Oid type,
                         const struct outrider_event *events, size_t n, const writer_id *ids)
{
    array_append_int32(buf, 1);
    array_append_int32(buf, 1);
    array_append_int32(buf, (int32_t)type);
    array_append_int32(buf, (int32_t)n);
    array_append_int32(buf, 1);
    for (size_t i = 0; i < n && !buf->failed; i++) {
        struct outrider_event e = writer_event_at(events, i);
        array_append_value(buf, c, type, &e, ids[i]);
    }
}

int outrider__pg_arrays(struct strbuf *buf, const struct pg_known *known,
                        const struct outrider_event *events, size_t n, const writer_id *ids,
                        struct pg_arrays *ret_arrays, struct outrider_error *err)
{
    size_t starts[PG_EVENT_ARGS + 1] = {0};
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += writer_event_at(events, i).payload_len + 100;
    outrider__strbuf_clear(buf);
    for (size_t c = 0; c < PG_EVENT_ARGS && total < buf->cap; c++) {
        Oid type = columns[c].kind == KIND_PAYLOAD ? known->payload : columns[c].type;
        append_array(buf, &columns[c], type, events, n, ids);
        starts[c + 1] = buf->len;
    }
    if (total >= buf->cap || (buf->failed && buf->cap - buf->len < buf->cap / 2))
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_STOP,
                              "%zu events are together larger than one message to the server can "
                              "be (1 GiB); hand them in in portions",
                              n);
    if (buf->failed)
        return outrider__fail_nomem(err);
    for (size_t c = 0; c < PG_EVENT_ARGS; c++) {
        ret_arrays->values[c] = buf->data + starts[c];
        ret_arrays->lengths[c] = (int)(starts[c + 1] - starts[c]);
        ret_arrays->types[c] =
            columns[c].kind == KIND_PAYLOAD ? known->payload_array : columns[c].array;
    }
    return 0;
}
