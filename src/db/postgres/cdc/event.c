/* SPDX-License-Identifier: MIT */
/* From a row, or from a logical message, to an event in a batch. */
#include <stdio.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/uuid.h"
#include "postgres/cdc/decode.h"
#include "core/config.h"
#include "core/event_json.h"
#include "postgres/wire/wire.h"

#define FIRST_USER_TYPE 16384
#define MESSAGE_SPARE 1024

int64_t outrider__cdc_cell_int(const struct cdc_cell *c, int64_t otherwise)
{
    uint64_t v = 0;
    if (c->form == 'b') {
        struct byte_reader r = reader_of(c->value);
        switch (c->value.len) {
        case 2:
            return (int16_t)reader_u16_be(&r);
        case 4:
            return (int32_t)reader_u32_be(&r);
        case 8:
            return (int64_t)reader_u64_be(&r);
        default:
            return otherwise;
        }
    }
    if (c->form != 't' || c->value.len == 0 || c->value.len > 19)
        return otherwise;
    bool is_negative = c->value.data[0] == '-';
    for (size_t i = is_negative; i < c->value.len; i++) {
        if (c->value.data[i] < '0' || c->value.data[i] > '9')
            return otherwise;
        v = v * 10 + (uint64_t)(c->value.data[i] - '0');
    }
    if (v > INT64_MAX)
        return otherwise;
    return is_negative ? -(int64_t)v : (int64_t)v;
}

static bool event_is_integer(uint32_t type)
{
    return type == PG_INT2 || type == PG_INT4 || type == PG_INT8 || type == PG_OID;
}

static bool event_is_time(uint32_t type)
{
    return type == PG_TIMESTAMP || type == PG_TIMESTAMPTZ;
}

bool outrider__cdc_reads_binary(uint32_t type)
{
    return event_is_integer(type) || event_is_time(type) || type == PG_UUID || type == PG_JSONB ||
           type == PG_DATE || type == PG_JSON || type == PG_TEXT || type == PG_VARCHAR ||
           type == PG_BPCHAR || type == PG_BYTEA;
}

/* A row on its way into the batch's arena. */
struct row {
    struct event *event;
    const struct event_bounds *max;
    const struct cdc_cell *cells; /* by role */
    const struct cdc_relation *rel;
    char *at;          /* where the next text goes */
    const char *wrong; /* the first column that makes it malformed */
    const char *why;
};

static void event_row_malformed(struct row *w, enum cdc_role role, const char *why)
{
    if (w->wrong != NULL)
        return;
    w->wrong = outrider__cdc_role_name(role);
    w->why = why;
}

static bool event_is_bytes(const struct cdc_relation *rel, enum cdc_role role)
{
    return rel->types[role] == PG_BYTEA || rel->outbox->is_bytes[role];
}

static bool event_is_octal(struct bytes text, size_t at)
{
    return at + 3 < text.len && text.data[at + 1] >= '0' && text.data[at + 1] <= '3' &&
           text.data[at + 2] >= '0' && text.data[at + 2] <= '7' && text.data[at + 3] >= '0' &&
           text.data[at + 3] <= '7';
}

/* Where the text of a bytea value ends after n_bytes of the value. Under bytea_output =
 * escape a backslash begins "\\" or "\ooo". */
static size_t event_bytea_end(struct bytes text, size_t n_bytes, size_t *ret_bytes)
{
    size_t i = 0, n = 0;
    if (text.len >= 2 && memcmp(text.data, "\\x", 2) == 0) {
        *ret_bytes = text.len / 2 - 1 < n_bytes ? text.len / 2 - 1 : n_bytes;
        return 2 + 2 * *ret_bytes;
    }
    for (; i < text.len && n < n_bytes; n++)
        i += text.data[i] != '\\' ? 1 : event_is_octal(text, i) ? 4 : 2;
    *ret_bytes = n;
    return i < text.len ? i : text.len;
}

/* The largest size of a column. The rows of mapped tables are settled by their id, so an id
 * of any size is read there. */
static size_t event_bound(const struct row *w, enum cdc_role role)
{
    switch (role) {
    case COL_PAYLOAD:
        return w->max->payload;
    case COL_HEADERS:
        return w->max->headers;
    case COL_ID:
        return w->rel->outbox->is_mapped ? EVENT_ANY_SIZE : w->max->id;
    default:
        return w->max->text;
    }
}

/* Bytes of a column as the event has them: of an id of bytes, those of its hex text. */
static size_t event_cell_len(const struct row *w, enum cdc_role role)
{
    const struct cdc_cell *c = &w->cells[role];
    size_t len = c->value.len;
    if (!event_is_bytes(w->rel, role))
        return len - (c->form == 'b' && w->rel->types[role] == PG_JSONB && len > 0);
    if (c->form == 't')
        (void)event_bytea_end(c->value, SIZE_MAX, &len);
    return role == COL_ID ? PG_HEX_SIZE(len) : len;
}

/* What stands for a text above its bound: see outrider__text_cut, outrider__bytes_cut. */
static struct bytes event_cut(const struct row *w, enum cdc_role role)
{
    const struct cdc_cell *c = &w->cells[role];
    size_t n = role == COL_ID ? EVENT_TEXT_CUT / 2 - 1 : EVENT_TEXT_CUT;
    if (!event_is_bytes(w->rel, role))
        return outrider__text_cut(c->value);
    return bytes_of(c->value.data, c->form == 't' ? event_bytea_end(c->value, n, &n) : n);
}

static bool event_is_above(const struct row *w, enum cdc_role role)
{
    const struct cdc_cell *c = &w->cells[role];
    return (c->form == 't' || c->form == 'b') && event_cell_len(w, role) > event_bound(w, role);
}

/* Room that a column needs as text, its final zero byte included. */
static size_t event_text_room(const struct row *w, enum cdc_role role)
{
    const struct cdc_cell *c = &w->cells[role];
    size_t len = c->value.len;
    if (c->form != 't' && c->form != 'b')
        return 0;
    if (event_is_above(w, role))
        len = role == COL_PAYLOAD || role == COL_HEADERS ? 0 : 4 * EVENT_TEXT_CUT;
    else if (role == COL_ID && event_is_bytes(w->rel, role))
        len = PG_HEX_SIZE(len);
    return (len < OUTRIDER_ID_SIZE ? OUTRIDER_ID_SIZE : len) + 1;
}

/* How the server writes bytea as text: "\x68690a", or under bytea_output = escape "hi\012". */
static ssize_t event_write_bytea(struct bytes text, char *out)
{
    size_t n = 0;
    ssize_t len = outrider__hex_read(text, out);
    if (len >= 0)
        return len;
    for (size_t i = 0; i < text.len; n++) {
        if (text.data[i] != '\\') {
            out[n] = text.data[i++];
        } else if (i + 1 < text.len && text.data[i + 1] == '\\') {
            out[n] = '\\';
            i += 2;
        } else if (event_is_octal(text, i)) {
            const char *p = text.data + i;
            out[n] = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
            i += 4;
        } else {
            return -1;
        }
    }
    return (ssize_t)n;
}

/* Writes the bytes as they are. An id is written as hex, from its end to its beginning,
 * because both stand in the same room. */
static ssize_t event_write_bytes(const struct cdc_cell *c, bool is_id, char *out)
{
    ssize_t len = (ssize_t)c->value.len;
    if (c->form == 't')
        len = event_write_bytea(c->value, out);
    else if (len > 0)
        memcpy(out, c->value.data, c->value.len);
    if (len < 0 || !is_id)
        return len;
    for (ssize_t i = len - 1; i >= 0; i--) {
        static const char digits[] = "0123456789abcdef";
        unsigned char byte = (unsigned char)out[i];
        out[2 + 2 * i] = digits[byte >> 4];
        out[3 + 2 * i] = digits[byte & 15];
    }
    out[0] = '\\';
    out[1] = 'x';
    return 2 + 2 * len;
}

/* The value as text (the payload: as bytes) at *out; its length, or -1. */
static ssize_t event_write_text(const struct cdc_cell *c, uint32_t type, bool is_payload, char *out)
{
    struct bytes v = c->value;
    if (c->form == 't') {
        /* the text is the value */
    } else if (type == PG_UUID) {
        if (v.len != 16)
            return -1;
        outrider__uuid_text(v.data, out);
        return OUTRIDER_ID_SIZE - 1;
    } else if (event_is_integer(type)) {
        int64_t n = outrider__cdc_cell_int(c, INT64_MIN);
        return n == INT64_MIN ? -1 : snprintf(out, OUTRIDER_ID_SIZE, "%lld", (long long)n);
    } else if (type == PG_JSONB) { /* a version byte stands before the text */
        if (v.len == 0 || v.data[0] != 1)
            return -1;
        v = bytes_of(v.data + 1, v.len - 1);
    } else if (event_is_time(type) || type == PG_DATE ||
               (!outrider__cdc_reads_binary(type) && type < FIRST_USER_TYPE)) {
        return -1;
    }
    /* Types of the user are enumerations and domains over text; others are no UTF-8. */
    if (!is_payload && !outrider__bytes_is_utf8(v))
        return -1;
    if (v.len > 0)
        memcpy(out, v.data, v.len);
    return (ssize_t)v.len;
}

static struct bytes event_text(struct row *w, enum cdc_role role)
{
    const struct cdc_cell *c = &w->cells[role];
    if (c->form == 'u')
        event_row_malformed(w, role, "was not sent");
    if (c->form != 't' && c->form != 'b')
        return BYTES_NULL;
    struct cdc_cell begin = *c;
    if (event_is_above(w, role)) {
        outrider__event_too_large(w->event, outrider__cdc_role_name(role), event_cell_len(w, role));
        if (role == COL_PAYLOAD || role == COL_HEADERS)
            return BYTES_NULL;
        begin.value = event_cut(w, role);
    }
    char *out = w->at;
    ssize_t len = event_is_bytes(w->rel, role)
                      ? event_write_bytes(&begin, role == COL_ID, out)
                      : event_write_text(&begin, w->rel->types[role], role == COL_PAYLOAD, out);
    if (len < 0) {
        event_row_malformed(w, role, "has a type that cannot be read");
        return BYTES_NULL;
    }
    out[len] = '\0';
    w->at = out + len + 1;
    return bytes_of(out, (size_t)len);
}

/* The text of a column that every event has; never NULL data. */
static struct bytes event_required(struct row *w, enum cdc_role role)
{
    struct bytes text = event_text(w, role);
    if (!bytes_is_null(text))
        return text;
    event_row_malformed(w, role, w->rel->has[role] ? "is NULL" : "is missing");
    return BYTES_LIT("");
}

/* The text of a column that every event of our own layout has, and that a mapped table may
 * lack. */
static struct bytes event_expected(struct row *w, enum cdc_role role, const char *otherwise)
{
    if (!w->rel->outbox->is_mapped)
        return event_required(w, role);
    struct bytes text = event_text(w, role);
    return bytes_is_null(text) ? bytes_str(otherwise) : text;
}

/* A time as a number since 1970, between the years 1 and 9999, as table/time.c reads it. */
static int64_t event_counted_time(int64_t n, int epoch)
{
    static const int64_t us_per[] = {[EPOCH_S] = 1000000, [EPOCH_MS] = 1000, [EPOCH_US] = 1};
    static const int64_t first_us = -62135596800000000, last_us = 253402300799000000;
    if (epoch == EPOCH_NS)
        return n / 1000;
    if (n > last_us / us_per[epoch])
        return last_us;
    return n < first_us / us_per[epoch] ? first_us : n * us_per[epoch];
}

/* A time as the server writes it in text. */
static bool event_text_time(struct bytes text, int64_t *ret_us)
{
    if (bytes_eq(text, BYTES_LIT("infinity")))
        *ret_us = CLOCK_NEVER;
    else if (bytes_eq(text, BYTES_LIT("-infinity")))
        *ret_us = 1;
    else
        return outrider__clock_parse(text, ret_us) == 0;
    return true;
}

/* A time in binary: microseconds or days since the year 2000. */
static bool event_binary_time(const struct cdc_cell *c, uint32_t type, int64_t *ret_us)
{
    int64_t n = outrider__cdc_cell_int(c, 0);
    if (c->value.len == 8 && event_is_time(type)) {
        *ret_us = n == INT64_MIN                 ? 1
                  : n > INT64_MAX - CDC_EPOCH_US ? CLOCK_NEVER
                                                 : n + CDC_EPOCH_US;
        return true;
    }
    if (c->value.len != 4 || type != PG_DATE)
        return false;
    *ret_us = n == INT32_MAX ? CLOCK_NEVER : n == INT32_MIN ? 1 : n * 86400000000LL + CDC_EPOCH_US;
    return true;
}

static int64_t event_time(struct row *w, enum cdc_role role, int64_t otherwise)
{
    const struct cdc_cell *c = &w->cells[role];
    uint32_t type = w->rel->types[role];
    int64_t us;
    if (c->form == 'n')
        return otherwise;
    if (event_is_integer(type) && w->rel->outbox->epoch != EPOCH_NONE &&
        (us = outrider__cdc_cell_int(c, INT64_MIN)) != INT64_MIN)
        return event_counted_time(us, w->rel->outbox->epoch);
    if (c->form == 't' && event_text_time(c->value, &us))
        return us;
    if (c->form == 'b' && event_binary_time(c, type, &us))
        return us;
    event_row_malformed(w, role, "is no time");
    return otherwise;
}

/* An event without an id gets one from its place, so that it has the same id each time. */
static struct bytes event_derived_id(const struct cdc_message *m, char *out)
{
    char raw[16];
    uint64_t number = (uint64_t)m->number;
    for (int i = 0; i < 8; i++) {
        raw[i] = (char)(m->commit_lsn >> (56 - 8 * i));
        raw[8 + i] = (char)(number >> (56 - 8 * i));
    }
    /* The position's lowest bits make room for the version: they move up to where
     * the number has no bits in practice. */
    raw[9] = raw[6];
    raw[6] = (char)0x80;
    raw[8] = (char)0x80;
    outrider__uuid_text(raw, out);
    return bytes_of(out, OUTRIDER_ID_SIZE - 1);
}

static int event_set_failure(struct event *e, struct batch *b, const char *thing, const char *why,
                             struct outrider_error *err)
{
    e->failure = outrider__arena_alloc(&b->arena, sizeof *e->failure);
    if (e->failure == NULL)
        return outrider__fail_nomem(err);
    *e->failure = (struct outrider_error){0};
    (void)outrider__fail(e->failure, OUTRIDER_INVALID, OUTRIDER_DEAD, "%s %s", thing, why);
    e->is_malformed = true;
    return 0;
}

static void event_set_payload(struct row *w, struct event *e)
{
    e->payload = event_text(w, COL_PAYLOAD);
    if (!w->rel->has[COL_PAYLOAD])
        event_row_malformed(w, COL_PAYLOAD, "is missing");
    e->payload_len =
        event_is_above(w, COL_PAYLOAD) ? event_cell_len(w, COL_PAYLOAD) : e->payload.len;
}

static int event_set_headers(const struct cdc_message *m, struct row *w, struct event *e,
                             struct arena *arena, struct outrider_error *err)
{
    size_t len = 0;
    e->headers = event_text(w, COL_HEADERS);
    if (m->relation->outbox->n_headers == 0 || event_is_above(w, COL_HEADERS))
        return 0;
    if (outrider__cdc_headers(m, e->headers, w->max->headers, arena, &e->headers, &len, err) < 0)
        return -1;
    if (len > w->max->headers)
        outrider__event_too_large(e, "headers", len);
    return 0;
}

static int event_of_row(const struct cdc_decoder *d, const struct cdc_message *m, struct event *e,
                        struct batch *b, struct outrider_error *err)
{
    static const enum cdc_role texts[] = {
        COL_ID,      COL_AGGREGATE_TYPE, COL_AGGREGATE_ID,  COL_EVENT_TYPE,
        COL_HEADERS, COL_TOPIC,          COL_PARTITION_KEY, COL_PAYLOAD};
    struct row w = {.event = e, .max = &d->max, .cells = d->cells, .rel = m->relation};
    size_t room = OUTRIDER_ID_SIZE;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        room += event_text_room(&w, texts[i]);
    w.at = outrider__arena_alloc(&b->arena, room);
    if (w.at == NULL)
        return outrider__fail_nomem(err);
    const struct cdc_outbox *outbox = m->relation->outbox;
    e->seq = outbox->is_mapped ? outbox->oid : m->seq; /* tables.h (1) */
    e->id = event_required(&w, COL_ID);
    if (e->id.len == 0) {
        e->id = event_derived_id(m, w.at);
        w.at += e->id.len + 1;
    }
    e->aggregate_type = event_expected(&w, COL_AGGREGATE_TYPE, outbox->aggregate_type);
    e->aggregate_id = event_expected(&w, COL_AGGREGATE_ID, "");
    e->event_type = event_expected(&w, COL_EVENT_TYPE, outbox->event_type);
    if (event_set_headers(m, &w, e, &b->arena, err) < 0)
        return -1;
    e->topic = event_text(&w, COL_TOPIC);
    e->partition_key = event_text(&w, COL_PARTITION_KEY);
    event_set_payload(&w, e);
    int64_t partition = outrider__cdc_cell_int(&w.cells[COL_PARTITION], -1);
    e->partition = partition < 0 || partition > INT32_MAX ? -1 : (int32_t)partition;
    e->created_at_us = event_time(&w, COL_CREATED_AT, d->commit_us);
    e->occurred_at_us = event_time(&w, COL_OCCURRED_AT, e->created_at_us);
    int64_t expires = event_time(&w, COL_EXPIRES_AT, 0);
    e->expires_at_us = expires == CLOCK_NEVER ? 0 : expires;
    if (w.wrong != NULL)
        return event_set_failure(e, b, w.wrong, w.why, err);
    return outrider__event_check_texts(e, err);
}

/* Copies a part of a message; a part above its bound is cut or left out. */
static int event_copy_part(struct event *e, struct arena *arena, const char *name,
                           struct bytes value, size_t most, struct bytes *ret)
{
    bool is_text = strcmp(name, "payload") != 0 && strcmp(name, "headers") != 0;
    if (value.len > most) {
        outrider__event_too_large(e, name, value.len);
        value = is_text ? outrider__text_cut(value) : BYTES_NULL;
    }
    return outrider__arena_dup(arena, value, ret);
}

static int event_fill(const struct outrider_event *in, const struct event_bounds *max,
                      struct event *e, struct batch *b, struct outrider_error *err)
{
    struct arena *a = &b->arena;
    struct bytes payload = bytes_of(in->payload, in->payload_len);
    /* An empty key is no key, as for all who write events. */
    bool has_key = in->partition_key != NULL && in->partition_key[0] != '\0';
    struct bytes partition_key = has_key ? bytes_str(in->partition_key) : BYTES_NULL;
    e->partition = in->partition;
    if (in->occurred_at_us != 0)
        e->occurred_at_us = in->occurred_at_us;
    e->expires_at_us = in->expires_at_us;
    e->payload_len = payload.len;
    if ((in->id != NULL && event_copy_part(e, a, "id", bytes_str(in->id), max->id, &e->id) < 0) ||
        event_copy_part(e, a, "aggregate_type", bytes_str(in->aggregate_type), max->text,
                        &e->aggregate_type) < 0 ||
        event_copy_part(e, a, "aggregate_id", bytes_str(in->aggregate_id), max->text,
                        &e->aggregate_id) < 0 ||
        event_copy_part(e, a, "event_type", bytes_str(in->event_type), max->text, &e->event_type) <
            0 ||
        event_copy_part(e, a, "topic", bytes_str(in->topic), max->text, &e->topic) < 0 ||
        event_copy_part(e, a, "partition_key", partition_key, max->text, &e->partition_key) < 0 ||
        event_copy_part(e, a, "headers", bytes_str(in->headers), max->headers, &e->headers) < 0 ||
        event_copy_part(e, a, "payload", payload, max->payload, &e->payload) < 0)
        return outrider__fail_nomem(err);
    return 0;
}

static int event_parse_message(const struct cdc_decoder *d, const struct cdc_message *m,
                               struct event *e, struct batch *b, struct arena *scratch,
                               struct outrider_error *err)
{
    struct outrider_event in;
    struct outrider_error why = {0};
    if (outrider__event_from_json(m->body, scratch, &in, &why) == 0)
        return event_fill(&in, &d->max, e, b, err);
    if (why.code == OUTRIDER_NOMEM)
        return outrider__fail_nomem(err);
    return event_set_failure(e, b, "the content of the logical message:", why.message, err);
}

static int event_of_message(const struct cdc_decoder *d, const struct cdc_message *m,
                            struct event *e, struct batch *b, struct outrider_error *err)
{
    struct arena scratch;
    char *id = outrider__arena_alloc(&b->arena, OUTRIDER_ID_SIZE);
    if (id == NULL)
        return outrider__fail_nomem(err);
    e->id = event_derived_id(m, id);
    e->aggregate_type = e->aggregate_id = e->event_type = BYTES_LIT("");
    e->created_at_us = e->occurred_at_us = d->commit_us;
    e->payload_len = m->body.len;
    /* A message that is larger than every bound is not parsed. */
    if (m->body.len / 2 > event_bounds_total(&d->max)) {
        outrider__event_too_large(e, "payload", m->body.len);
        return 0;
    }
    outrider__arena_init(&scratch, m->body.len + MESSAGE_SPARE);
    int rc = event_parse_message(d, m, e, b, &scratch, err);
    outrider__arena_release(&scratch);
    return rc;
}

int outrider__cdc_event(const struct cdc_decoder *d, const struct cdc_message *m, struct batch *b,
                        struct outrider_error *err)
{
    struct event *e = outrider__batch_slot(b);
    if (e == NULL || m->kind != CDC_EVENT)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no room for an event");
    int rc =
        m->relation != NULL ? event_of_row(d, m, e, b, err) : event_of_message(d, m, e, b, err);
    if (rc == 0)
        b->n++;
    return rc;
}
