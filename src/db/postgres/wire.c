/* SPDX-License-Identifier: MIT */
/* Values on the wire. Big-endian throughout. */
#include "wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>

#include "base/hex.h"
#include "base/uuid.h"

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

static void add(struct pg_args *a, Oid type, struct bytes b)
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
    add(a, PG_TEXT, text);
}

void outrider__pg_arg_str(struct pg_args *a, const char *text)
{
    add(a, PG_TEXT, bytes_str(text));
}

void outrider__pg_arg_bytea(struct pg_args *a, struct bytes b)
{
    add(a, PG_BYTEA, b);
}

void outrider__pg_arg_int8(struct pg_args *a, int64_t v)
{
    uint64_t be = htobe64((uint64_t)v);
    add(a, PG_INT8, bytes_of(&be, sizeof be));
}

void outrider__pg_arg_int4(struct pg_args *a, int32_t v)
{
    uint32_t be = htonl((uint32_t)v);
    add(a, PG_INT4, bytes_of(&be, sizeof be));
}

void outrider__pg_arg_oid(struct pg_args *a, Oid v)
{
    uint32_t be = htonl(v);
    add(a, PG_OID, bytes_of(&be, sizeof be));
}

void outrider__pg_arg_bool(struct pg_args *a, bool v)
{
    char c = (char)v;
    add(a, PG_BOOL, bytes_of(&c, 1));
}

void outrider__pg_arg_time(struct pg_args *a, int64_t wall_us)
{
    uint64_t be = htobe64((uint64_t)(wall_us - EPOCH_2000_US));
    add(a, PG_TIMESTAMPTZ, bytes_of(&be, sizeof be));
}

void outrider__pg_arg_null(struct pg_args *a, Oid type)
{
    add(a, type, BYTES_NULL);
}

void outrider__pg_arg_tid(struct pg_args *a, uint64_t tid)
{
    struct {
        uint32_t block;
        uint16_t offset;
    } __attribute__((packed)) be = {htonl((uint32_t)(tid >> 16)), htons((uint16_t)tid)};
    add(a, PG_TID, tid == 0 ? BYTES_NULL : bytes_of(&be, sizeof be));
}

static Oid array_of(Oid element)
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

static void put_u32(struct strbuf *sb, uint32_t v)
{
    uint32_t be = htonl(v);
    outrider__strbuf_append(sb, bytes_of(&be, sizeof be));
}

void outrider__pg_array_begin(struct pg_args *a, Oid element)
{
    add(a, array_of(element), BYTES_LIT(""));
    put_u32(&a->bytes, 1); /* dimensions */
    put_u32(&a->bytes, 1); /* may hold NULL */
    put_u32(&a->bytes, element);
    a->array_at = a->bytes.len;
    a->array_n = 0;
    put_u32(&a->bytes, 0); /* items, filled in at the end */
    put_u32(&a->bytes, 1); /* lower bound */
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
    put_u32(&a->bytes, bytes_is_null(text) ? UINT32_MAX : (uint32_t)text.len);
    outrider__strbuf_append(&a->bytes, text);
    a->array_n++;
}

void outrider__pg_array_stored(struct pg_args *a, struct bytes b)
{
    if (bytes_is_null(b) || outrider__hex_is_text(b)) {
        outrider__pg_array_text(a, b);
        return;
    }
    put_u32(&a->bytes, (uint32_t)(2 + 2 * b.len));
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

static int64_t int_of(const char *p, int len)
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
    int64_t v = int_of(PQgetvalue(r, row, col), PQgetlength(r, row, col));
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
    int64_t v = int_of(PQgetvalue(r, row, col), PQgetlength(r, row, col));
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
    return ((uint64_t)(uint32_t)int_of(p, 4) << 16) | (uint16_t)int_of(p + 4, 2);
}

/* Room for one column as text, its final zero byte included. */
static size_t text_room(const PGresult *r, int row, int col)
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
static struct bytes text_of(const PGresult *r, int row, int col, char **at)
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

/* Bytes become hex where they are an id: NULL data for want of memory. */
static struct bytes id_of(const PGresult *r, int row, int col, char **at, struct arena *arena)
{
    struct strbuf hex;
    struct bytes id = BYTES_NULL;
    if (PQftype(r, col) != PG_BYTEA)
        return text_of(r, row, col, at);
    struct bytes raw = outrider__pg_get_bytes(r, row, col);
    outrider__strbuf_init(&hex, 2 * raw.len + 3);
    outrider__hex_append(&hex, raw);
    if (!hex.failed)
        (void)outrider__arena_dup(arena, strbuf_bytes(&hex), &id);
    outrider__strbuf_release(&hex);
    return id;
}

static bool has_bytes(const PGresult *r, int first)
{
    return PQftype(r, first + EV_AGGREGATE_TYPE) == PG_BYTEA ||
           PQftype(r, first + EV_EVENT_TYPE) == PG_BYTEA ||
           PQftype(r, first + EV_TOPIC) == PG_BYTEA;
}

struct event *outrider__pg_row(struct batch *b, const PGresult *r, int row, int first,
                               size_t max_payload)
{
    static const int texts[] = {EV_ID,    EV_AGGREGATE_TYPE, EV_AGGREGATE_ID, EV_EVENT_TYPE,
                                EV_TOPIC, EV_PARTITION_KEY,  EV_HEADERS};
    struct event *e = outrider__batch_slot(b);
    if (e == NULL)
        return NULL;
    size_t room = 0, sent = (size_t)PQgetlength(r, row, first + EV_PAYLOAD);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        room += text_room(r, row, first + texts[i]);
    bool is_kept = !PQgetisnull(r, row, first + EV_PAYLOAD) && sent <= max_payload + 1;
    char *at = outrider__arena_alloc(&b->arena,
                                     room + (is_kept ? text_room(r, row, first + EV_PAYLOAD) : 0));
    if (at == NULL)
        return NULL;
    e->seq = outrider__pg_get_int(r, row, first + EV_SEQ, 0);
    e->id = id_of(r, row, first + EV_ID, &at, &b->arena);
    if (bytes_is_null(e->id) && !PQgetisnull(r, row, first + EV_ID))
        return NULL;
    e->aggregate_type = text_of(r, row, first + EV_AGGREGATE_TYPE, &at);
    e->aggregate_id = text_of(r, row, first + EV_AGGREGATE_ID, &at);
    e->event_type = text_of(r, row, first + EV_EVENT_TYPE, &at);
    e->topic = text_of(r, row, first + EV_TOPIC, &at);
    e->partition_key = text_of(r, row, first + EV_PARTITION_KEY, &at);
    e->headers = text_of(r, row, first + EV_HEADERS, &at);
    if (is_kept)
        e->payload = text_of(r, row, first + EV_PAYLOAD, &at);
    e->payload_len = e->payload.len;
    if (bytes_is_null(e->payload)) {
        e->payload_len = (size_t)outrider__pg_get_int(r, row, first + EV_SIZE, 0);
        e->is_oversize = !PQgetisnull(r, row, first + EV_SIZE);
    }
    if (e->payload_len > max_payload && !e->is_oversize) {
        e->is_oversize = true;
        e->payload = BYTES_NULL;
    }
    e->partition = (int32_t)outrider__pg_get_int(r, row, first + EV_PARTITION, -1);
    e->created_at_us = outrider__pg_get_time(r, row, first + EV_CREATED_AT, 0);
    e->occurred_at_us = outrider__pg_get_time(r, row, first + EV_OCCURRED_AT, e->created_at_us);
    int64_t expires = outrider__pg_get_time(r, row, first + EV_EXPIRES_AT, 0);
    e->expires_at_us = expires == CLOCK_NEVER ? 0 : expires;
    if (has_bytes(r, first) && outrider__event_check_texts(e, NULL) < 0)
        return NULL;
    b->n++;
    return e;
}

/* What parked.h (4) holds in the form of texts. */
static void stored_of(struct event *e, struct bytes *ret_texts[6])
{
    struct bytes *const texts[6] = {&e->aggregate_type, &e->aggregate_id, &e->event_type,
                                    &e->headers,        &e->topic,        &e->partition_key};
    memcpy(ret_texts, texts, sizeof texts);
}

struct event *outrider__pg_row_stored(struct batch *b, const PGresult *r, int row,
                                      size_t max_payload)
{
    struct event *e = outrider__pg_row(b, r, row, 0, max_payload);
    struct bytes *texts[6];
    if (e == NULL)
        return NULL;
    stored_of(e, texts);
    for (size_t i = 0; i < 6; i++) {
        /* In the batch's arena, and ours: see outrider__pg_row. */
        ssize_t len = outrider__hex_read(*texts[i], (char *)texts[i]->data);
        if (len >= 0)
            texts[i]->len = (size_t)len;
    }
    if (outrider__event_check_texts(e, NULL) < 0) {
        b->n--;
        return NULL;
    }
    return e;
}

int outrider__pg_row_show(struct event *e, struct outrider_error *err)
{
    struct bytes *texts[6];
    stored_of(e, texts);
    for (size_t i = 0; i < 6; i++)
        if (!bytes_is_null(*texts[i]) &&
            outrider__hex_show(*texts[i], &e->batch->arena, texts[i]) < 0)
            return outrider__fail_nomem(err);
    return 0;
}
