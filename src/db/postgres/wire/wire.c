/* SPDX-License-Identifier: MIT */
/* Values on the wire. Big-endian throughout. */
#include "postgres/wire/wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "base/uuid.h"
#include "common/bounded_read.h"

#define EPOCH_2000_US 946684800000000LL
#define ARGS_CAP ((size_t)1 << 30)

void outrider__pg_args_init(struct pg_args *a)
{
    *a = (struct pg_args){0};
    outrider__strbuf_init(&a->bytes, ARGS_CAP);
}

void outrider__pg_args_release(struct pg_args *a)
{
    outrider__strbuf_release(&a->bytes);
    a->n = 0;
}

void outrider__pg_args_clear(struct pg_args *a)
{
    outrider__strbuf_clear(&a->bytes);
    a->n = 0;
}

static void wire_add(struct pg_args *a, Oid type, struct bytes b)
{
    if (a->n == PG_ARGS_MAX) {
        a->bytes.failed = true;
        return;
    }
    a->types[a->n] = type;
    a->offsets[a->n] = a->bytes.len;
    a->lengths[a->n] = bytes_is_null(b) ? -1 : (int)b.len;
    a->n++;
    outrider__strbuf_append(&a->bytes, b);
}

void outrider__pg_arg_text(struct pg_args *a, struct bytes text)
{
    wire_add(a, PG_TEXT, text);
}

void outrider__pg_arg_str(struct pg_args *a, const char *text)
{
    wire_add(a, PG_TEXT, bytes_str(text));
}

void outrider__pg_arg_bytea(struct pg_args *a, struct bytes b)
{
    wire_add(a, PG_BYTEA, b);
}

void outrider__pg_arg_int8(struct pg_args *a, int64_t v)
{
    uint64_t be = htobe64((uint64_t)v);
    wire_add(a, PG_INT8, bytes_of(&be, sizeof be));
}

void outrider__pg_arg_int4(struct pg_args *a, int32_t v)
{
    uint32_t be = htonl((uint32_t)v);
    wire_add(a, PG_INT4, bytes_of(&be, sizeof be));
}

void outrider__pg_arg_oid(struct pg_args *a, Oid v)
{
    uint32_t be = htonl(v);
    wire_add(a, PG_OID, bytes_of(&be, sizeof be));
}

void outrider__pg_arg_bool(struct pg_args *a, bool v)
{
    char c = (char)v;
    wire_add(a, PG_BOOL, bytes_of(&c, 1));
}

void outrider__pg_arg_time(struct pg_args *a, int64_t wall_us)
{
    uint64_t be = htobe64((uint64_t)(wall_us - EPOCH_2000_US));
    wire_add(a, PG_TIMESTAMPTZ, bytes_of(&be, sizeof be));
}

void outrider__pg_arg_null(struct pg_args *a, Oid type)
{
    wire_add(a, type, BYTES_NULL);
}

void outrider__pg_arg_tid(struct pg_args *a, uint64_t tid)
{
    struct {
        uint32_t block;
        uint16_t offset;
    } __attribute__((packed)) be = {htonl((uint32_t)(tid >> 16)), htons((uint16_t)tid)};
    wire_add(a, PG_TID, tid == 0 ? BYTES_NULL : bytes_of(&be, sizeof be));
}

static Oid wire_array_of(Oid element)
{
    switch (element) {
    case PG_INT8:
        return 1016;
    case PG_INT4:
        return 1007;
    case PG_TIMESTAMPTZ:
        return 1185;
    case PG_BYTEA:
        return 1001;
    default:
        return 1009;
    }
}

static void wire_put_u32(struct strbuf *sb, uint32_t v)
{
    uint32_t be = htonl(v);
    outrider__strbuf_append(sb, bytes_of(&be, sizeof be));
}

void outrider__pg_array_begin(struct pg_args *a, Oid element)
{
    wire_add(a, wire_array_of(element), BYTES_LIT(""));
    wire_put_u32(&a->bytes, 1); /* dimensions */
    wire_put_u32(&a->bytes, 1); /* may hold NULL */
    wire_put_u32(&a->bytes, element);
    a->array_at = a->bytes.len;
    a->array_n = 0;
    wire_put_u32(&a->bytes, 0); /* items, filled in at the end */
    wire_put_u32(&a->bytes, 1); /* lower bound */
}

void outrider__pg_array_int8(struct pg_args *a, int64_t v)
{
    uint64_t be = htobe64((uint64_t)v);
    outrider__pg_array_text(a, bytes_of(&be, sizeof be));
}

void outrider__pg_array_int4(struct pg_args *a, int32_t v)
{
    uint32_t be = htonl((uint32_t)v);
    outrider__pg_array_text(a, bytes_of(&be, sizeof be));
}

void outrider__pg_array_time(struct pg_args *a, int64_t wall_us)
{
    outrider__pg_array_int8(a, wall_us - EPOCH_2000_US);
}

void outrider__pg_array_null(struct pg_args *a)
{
    outrider__pg_array_text(a, BYTES_NULL);
}

void outrider__pg_array_text(struct pg_args *a, struct bytes text)
{
    wire_put_u32(&a->bytes, bytes_is_null(text) ? UINT32_MAX : (uint32_t)text.len);
    outrider__strbuf_append(&a->bytes, text);
    a->array_n++;
}

void outrider__pg_array_stored(struct pg_args *a, struct bytes b)
{
    if (bytes_is_null(b) || outrider__hex_is_text(b)) {
        outrider__pg_array_text(a, b);
        return;
    }
    wire_put_u32(&a->bytes, (uint32_t)(2 + 2 * b.len));
    outrider__hex_append(&a->bytes, b);
    a->array_n++;
}

void outrider__pg_array_end(struct pg_args *a)
{
    if (a->bytes.failed || a->n == 0)
        return;
    uint32_t be = htonl(a->array_n);
    memcpy(a->bytes.data + a->array_at, &be, sizeof be);
    a->lengths[a->n - 1] = (int)(a->bytes.len - a->offsets[a->n - 1]);
}

void outrider__pg_args_values(const struct pg_args *a, const char *values[PG_ARGS_MAX],
                              int lengths[PG_ARGS_MAX], int formats[PG_ARGS_MAX])
{
    for (int i = 0; i < a->n; i++) {
        bool is_null = a->lengths[i] < 0;
        values[i] = is_null ? NULL : strbuf_cstr(&a->bytes) + a->offsets[i];
        lengths[i] = is_null ? 0 : a->lengths[i];
        formats[i] = 1;
    }
}

static int64_t wire_int_of(const char *p, int len)
{
    uint64_t v8;
    uint32_t v4;
    uint16_t v2;
    switch (len) {
    case 1:
        return *p;
    case 2:
        memcpy(&v2, p, sizeof v2);
        return (int16_t)ntohs(v2);
    case 4:
        memcpy(&v4, p, sizeof v4);
        return (int32_t)ntohl(v4);
    case 8:
        memcpy(&v8, p, sizeof v8);
        return (int64_t)be64toh(v8);
    default:
        return 0;
    }
}

int64_t outrider__pg_get_int(const PGresult *r, int row, int col, int64_t otherwise)
{
    if (PQgetisnull(r, row, col))
        return otherwise;
    int64_t v = wire_int_of(PQgetvalue(r, row, col), PQgetlength(r, row, col));
    return PQftype(r, col) == PG_OID ? (int64_t)(uint32_t)v : v;
}

bool outrider__pg_get_bool(const PGresult *r, int row, int col)
{
    return outrider__pg_get_int(r, row, col, 0) != 0;
}

int64_t outrider__pg_get_time(const PGresult *r, int row, int col, int64_t otherwise)
{
    if (PQgetisnull(r, row, col))
        return otherwise;
    int64_t v = wire_int_of(PQgetvalue(r, row, col), PQgetlength(r, row, col));
    if (v == INT64_MAX)
        return CLOCK_NEVER;
    return v == INT64_MIN ? 1 : v + EPOCH_2000_US;
}

struct bytes outrider__pg_get_bytes(const PGresult *r, int row, int col)
{
    if (PQgetisnull(r, row, col))
        return BYTES_NULL;
    return bytes_of(PQgetvalue(r, row, col), (size_t)PQgetlength(r, row, col));
}

const char *outrider__pg_get_str(const PGresult *r, int row, int col)
{
    return PQgetvalue(r, row, col);
}

uint64_t outrider__pg_get_tid(const PGresult *r, int row, int col)
{
    if (PQgetisnull(r, row, col) || PQgetlength(r, row, col) != 6)
        return 0;
    const char *p = PQgetvalue(r, row, col);
    return ((uint64_t)(uint32_t)wire_int_of(p, 4) << 16) | (uint16_t)wire_int_of(p + 4, 2);
}

/* Room for one column as text, its final zero byte included. */
static size_t wire_text_room(const PGresult *r, int row, int col)
{
    if (PQgetisnull(r, row, col))
        return 0;
    switch (PQftype(r, col)) {
    case PG_UUID:
        return OUTRIDER_ID_SIZE;
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
    case PG_OID:
        return 21;
    default:
        return (size_t)PQgetlength(r, row, col) + 1;
    }
}

/* Copies a column as text to *at and moves *at on. */
static struct bytes wire_text_of(const PGresult *r, int row, int col, char **at)
{
    if (PQgetisnull(r, row, col))
        return BYTES_NULL;
    const char *p = PQgetvalue(r, row, col);
    size_t len = (size_t)PQgetlength(r, row, col);
    char *out = *at;
    switch (PQftype(r, col)) {
    case PG_UUID:
        if (len == 16)
            outrider__uuid_text(p, out);
        len = len == 16 ? OUTRIDER_ID_SIZE - 1 : 0;
        break;
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
    case PG_OID:
        len = (size_t)snprintf(out, 21, "%lld", (long long)outrider__pg_get_int(r, row, col, 0));
        break;
    case PG_JSONB: /* a version byte stands before the text */
        if (len > 0) {
            p++;
            len--;
        }
        memcpy(out, p, len);
        break;
    default:
        memcpy(out, p, len);
    }
    out[len] = '\0';
    *at = out + len + 1;
    return (struct bytes){out, len};
}

static bool wire_has_bytes(const PGresult *r, int first)
{
    return PQftype(r, first + EV_AGGREGATE_TYPE) == PG_BYTEA ||
           PQftype(r, first + EV_EVENT_TYPE) == PG_BYTEA ||
           PQftype(r, first + EV_TOPIC) == PG_BYTEA;
}

static struct bytes wire_bounded_text(struct event *e, const char *name, const PGresult *r, int row,
                                      int col, size_t most, char **at)
{
    return outrider__read_bound_text(e, name, wire_text_of(r, row, col, at),
                                     PQftype(r, col) == PG_BYTEA, most);
}

static void wire_set_headers(struct event *e, const PGresult *r, int row, int col, char **at,
                             const struct event_bounds *max)
{
    size_t len = (size_t)PQgetlength(r, row, col);
    if (len > max->headers + 1) /* jsonb has a byte before its text */
        outrider__event_too_large(e, "headers", len);
    else if (!e->is_oversize ||
             !bytes_eq(outrider__pg_get_bytes(r, row, col), BYTES_LIT(READ_NOT_SENT)))
        e->headers = wire_text_of(r, row, col, at);
}

static void wire_set_payload(struct event *e, const PGresult *r, int row, int first, char **at,
                             const struct event_bounds *max)
{
    size_t sent = (size_t)PQgetlength(r, row, first + EV_PAYLOAD);
    e->payload_len = sent;
    if (PQgetisnull(r, row, first + EV_PAYLOAD)) {
        e->payload_len = (size_t)outrider__pg_get_int(r, row, first + EV_SIZE, 0);
        if (!PQgetisnull(r, row, first + EV_SIZE))
            outrider__event_too_large(e, "payload", e->payload_len);
        return;
    }
    if (sent <= max->payload + 1) {
        e->payload = wire_text_of(r, row, first + EV_PAYLOAD, at);
        e->payload_len = e->payload.len;
    }
    if (e->payload_len > max->payload) {
        outrider__event_too_large(e, "payload", e->payload_len);
        e->payload = BYTES_NULL;
    }
}

/* What the row takes in memory; above a bound, too much of it. */
static size_t wire_row_room(const PGresult *r, int row, int first, const struct event_bounds *max)
{
    static const int texts[] = {EV_ID,         EV_AGGREGATE_TYPE, EV_AGGREGATE_ID,
                                EV_EVENT_TYPE, EV_TOPIC,          EV_PARTITION_KEY};
    size_t room = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        room += wire_text_room(r, row, first + texts[i]);
    if ((size_t)PQgetlength(r, row, first + EV_HEADERS) <= max->headers + 1)
        room += wire_text_room(r, row, first + EV_HEADERS);
    if ((size_t)PQgetlength(r, row, first + EV_PAYLOAD) <= max->payload + 1)
        room += wire_text_room(r, row, first + EV_PAYLOAD);
    return room;
}

struct event *outrider__pg_row(struct batch *b, const PGresult *r, int row, int first,
                               const struct event_bounds *max)
{
    struct event *e = outrider__batch_slot(b);
    if (e == NULL)
        return NULL;
    char *at = outrider__arena_alloc(&b->arena, wire_row_room(r, row, first, max));
    if (at == NULL)
        return NULL;
    outrider__read_note_large(e, outrider__pg_get_str(r, row, first + EV_LARGE));
    e->seq = outrider__pg_get_int(r, row, first + EV_SEQ, 0);
    e->id = wire_bounded_text(e, "id", r, row, first + EV_ID, max->id, &at);
    e->aggregate_type =
        wire_bounded_text(e, "aggregate_type", r, row, first + EV_AGGREGATE_TYPE, max->text, &at);
    e->aggregate_id =
        wire_bounded_text(e, "aggregate_id", r, row, first + EV_AGGREGATE_ID, max->text, &at);
    e->event_type =
        wire_bounded_text(e, "event_type", r, row, first + EV_EVENT_TYPE, max->text, &at);
    e->topic = wire_bounded_text(e, "topic", r, row, first + EV_TOPIC, max->text, &at);
    e->partition_key =
        wire_bounded_text(e, "partition_key", r, row, first + EV_PARTITION_KEY, max->text, &at);
    wire_set_headers(e, r, row, first + EV_HEADERS, &at, max);
    wire_set_payload(e, r, row, first, &at, max);
    e->partition = (int32_t)outrider__pg_get_int(r, row, first + EV_PARTITION, -1);
    e->created_at_us = outrider__pg_get_time(r, row, first + EV_CREATED_AT, 0);
    e->occurred_at_us = outrider__pg_get_time(r, row, first + EV_OCCURRED_AT, e->created_at_us);
    int64_t expires = outrider__pg_get_time(r, row, first + EV_EXPIRES_AT, 0);
    e->expires_at_us = expires == CLOCK_NEVER ? 0 : expires;
    if (wire_has_bytes(r, first) && outrider__event_check_texts(e, NULL) < 0)
        return NULL;
    b->n++;
    return e;
}

#define N_STORED 6

struct stored {
    const char *name;
    struct bytes *value;
};

/* What parked.h (4) holds in the form of texts. */
static void wire_stored_of(struct event *e, struct stored ret_texts[N_STORED])
{
    const struct stored texts[N_STORED] = {{"aggregate_type", &e->aggregate_type},
                                           {"aggregate_id", &e->aggregate_id},
                                           {"event_type", &e->event_type},
                                           {"headers", &e->headers},
                                           {"topic", &e->topic},
                                           {"partition_key", &e->partition_key}};
    memcpy(ret_texts, texts, sizeof texts);
}

/* From its form in outrider_parked to the event's own, which is the one that has a bound. */
static void wire_read_stored(struct event *e, const struct stored *s,
                             const struct event_bounds *max)
{
    /* In the batch's arena, and ours: see outrider__pg_row. */
    ssize_t len = outrider__hex_read(*s->value, (char *)s->value->data);
    if (len >= 0)
        s->value->len = (size_t)len;
    if (s->value != &e->headers) {
        *s->value = outrider__read_bound_text(e, s->name, *s->value, len >= 0, max->text);
    } else if (e->headers.len > max->headers) {
        outrider__event_too_large(e, "headers", e->headers.len);
        e->headers = BYTES_NULL;
    }
}

struct event *outrider__pg_row_stored(struct batch *b, const PGresult *r, int row,
                                      const struct event_bounds *max)
{
    struct event_bounds hex = {.payload = max->payload,
                               .headers = PG_HEX_SIZE(max->headers),
                               .text = PG_HEX_SIZE(max->text),
                               .id = max->id};
    struct event *e = outrider__pg_row(b, r, row, 0, &hex);
    struct stored texts[N_STORED];
    if (e == NULL)
        return NULL;
    wire_stored_of(e, texts);
    for (size_t i = 0; i < N_STORED; i++)
        wire_read_stored(e, &texts[i], max);
    if (outrider__event_check_texts(e, NULL) < 0) {
        b->n--;
        return NULL;
    }
    return e;
}

int outrider__pg_row_show(struct event *e, struct outrider_error *err)
{
    struct stored texts[N_STORED];
    wire_stored_of(e, texts);
    for (size_t i = 0; i < N_STORED; i++)
        if (!bytes_is_null(*texts[i].value) &&
            outrider__hex_show(*texts[i].value, &e->batch->arena, texts[i].value) < 0)
            return outrider__fail_nomem(err);
    return 0;
}
