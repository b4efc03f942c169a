/* SPDX-License-Identifier: MIT */
/* From a row, or from a logical message, to an event in a batch. */
#include <stdio.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/uuid.h"
#include "cdc_decode.h"
#include "core/config.h"
#include "core/event_json.h"
#include "wire.h"

#define FIRST_USER_TYPE 16384

int64_t outrider__cdc_cell_int(const struct cdc_cell *c, int64_t otherwise)
{
    uint64_t v = 0;
    if (c->form == 'b') {
        struct cdc_reader r = cdc_reader_of(c->value);
        switch (c->value.len) {
        case 2:
            return (int16_t)cdc_read_u16(&r);
        case 4:
            return (int32_t)cdc_read_u32(&r);
        case 8:
            return (int64_t)cdc_read_u64(&r);
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

static bool is_integer(uint32_t type)
{
    return type == PG_INT2 || type == PG_INT4 || type == PG_INT8 || type == PG_OID;
}

static bool is_time(uint32_t type)
{
    return type == PG_TIMESTAMP || type == PG_TIMESTAMPTZ;
}

bool outrider__cdc_reads_binary(uint32_t type)
{
    return is_integer(type) || is_time(type) || type == PG_UUID || type == PG_JSONB ||
           type == PG_DATE || type == PG_JSON || type == PG_TEXT || type == PG_VARCHAR ||
           type == PG_BPCHAR || type == PG_BYTEA;
}

/* A row on its way into the batch's arena. */
struct row {
    const struct cdc_cell *cells; /* by role */
    const struct cdc_relation *rel;
    char *at;          /* where the next text goes */
    const char *wrong; /* the first column that makes it malformed */
    const char *why;
};

static void malformed(struct row *w, enum cdc_role role, const char *why)
{
    if (w->wrong != NULL)
        return;
    w->wrong = outrider__cdc_role_name(role);
    w->why = why;
}

/* Room that a column needs as text, its final zero byte included. */
static size_t text_room(const struct cdc_cell *c)
{
    if (c->form != 't' && c->form != 'b')
        return 0;
    return (c->value.len < OUTRIDER_ID_SIZE ? OUTRIDER_ID_SIZE : c->value.len) + 1;
}

static bool is_bytes(const struct cdc_relation *rel, enum cdc_role role)
{
    return rel->types[role] == PG_BYTEA || rel->outbox->is_bytes[role];
}

static bool is_octal(struct bytes text, size_t at)
{
    return at + 3 < text.len && text.data[at + 1] >= '0' && text.data[at + 1] <= '3' &&
           text.data[at + 2] >= '0' && text.data[at + 2] <= '7' && text.data[at + 3] >= '0' &&
           text.data[at + 3] <= '7';
}

/* How the server writes bytea as text: "\x68690a", or under bytea_output = escape "hi\012". */
static ssize_t bytea_text(struct bytes text, char *out)
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
        } else if (is_octal(text, i)) {
            const char *p = text.data + i;
            out[n] = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
            i += 4;
        } else {
            return -1;
        }
    }
    return (ssize_t)n;
}

/* As they are; an id as hex, which is written over them from the end. */
static ssize_t write_bytes(const struct cdc_cell *c, bool is_id, char *out)
{
    ssize_t len = (ssize_t)c->value.len;
    if (c->form == 't')
        len = bytea_text(c->value, out);
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
static ssize_t write_text(const struct cdc_cell *c, uint32_t type, bool is_payload, char *out)
{
    struct bytes v = c->value;
    if (c->form == 't') {
        /* as it stands */
    } else if (type == PG_UUID) {
        if (v.len != 16)
            return -1;
        outrider__uuid_text(v.data, out);
        return OUTRIDER_ID_SIZE - 1;
    } else if (is_integer(type)) {
        int64_t n = outrider__cdc_cell_int(c, INT64_MIN);
        return n == INT64_MIN ? -1 : snprintf(out, OUTRIDER_ID_SIZE, "%lld", (long long)n);
    } else if (type == PG_JSONB) { /* a version byte stands before the text */
        if (v.len == 0 || v.data[0] != 1)
            return -1;
        v = bytes_of(v.data + 1, v.len - 1);
    } else if (is_time(type) || type == PG_DATE ||
               (!outrider__cdc_reads_binary(type) && type < FIRST_USER_TYPE)) {
        return -1;
    }
    /* Types of the user's own are enumerations and domains over text, else no text at all. */
    if (!is_payload && !outrider__bytes_is_utf8(v))
        return -1;
    if (v.len > 0)
        memcpy(out, v.data, v.len);
    return (ssize_t)v.len;
}

static struct bytes text_of(struct row *w, enum cdc_role role)
{
    const struct cdc_cell *c = &w->cells[role];
    if (c->form == 'u')
        malformed(w, role, "was not sent");
    if (c->form != 't' && c->form != 'b')
        return BYTES_NULL;
    char *out = w->at;
    ssize_t len = is_bytes(w->rel, role)
                      ? write_bytes(c, role == COL_ID, out)
                      : write_text(c, w->rel->types[role], role == COL_PAYLOAD, out);
    if (len < 0) {
        malformed(w, role, "has a type that cannot be read");
        return BYTES_NULL;
    }
    out[len] = '\0';
    w->at = out + len + 1;
    return bytes_of(out, (size_t)len);
}

/* As text_of, of a column that no event is without; never NULL data. */
static struct bytes required(struct row *w, enum cdc_role role)
{
    struct bytes text = text_of(w, role);
    if (!bytes_is_null(text))
        return text;
    malformed(w, role, w->rel->has[role] ? "is NULL" : "is missing");
    return BYTES_LIT("");
}

/* As required, but for a table that was adopted: it need not have everything. */
static struct bytes expected(struct row *w, enum cdc_role role, const char *otherwise)
{
    if (w->rel->outbox->event_type == NULL)
        return required(w, role);
    struct bytes text = text_of(w, role);
    return bytes_is_null(text) ? bytes_str(otherwise) : text;
}

/* A number since 1970, between the years 1 and 9999, as adopt_time.c reads it. */
static int64_t counted_time(int64_t n, int epoch)
{
    static const int64_t us_per[] = {[EPOCH_S] = 1000000, [EPOCH_MS] = 1000, [EPOCH_US] = 1};
    static const int64_t first_us = -62135596800000000, last_us = 253402300799000000;
    if (epoch == EPOCH_NS)
        return n / 1000;
    if (n > last_us / us_per[epoch])
        return last_us;
    return n < first_us / us_per[epoch] ? first_us : n * us_per[epoch];
}

static int64_t time_of(struct row *w, enum cdc_role role, int64_t otherwise)
{
    const struct cdc_cell *c = &w->cells[role];
    int64_t us;
    if (c->form == 'n')
        return otherwise;
    if (is_integer(w->rel->types[role]) && w->rel->outbox->epoch != EPOCH_NONE &&
        (us = outrider__cdc_cell_int(c, INT64_MIN)) != INT64_MIN)
        return counted_time(us, w->rel->outbox->epoch);
    if (c->form == 't') {
        if (bytes_eq(c->value, BYTES_LIT("infinity")))
            return CLOCK_NEVER;
        if (bytes_eq(c->value, BYTES_LIT("-infinity")))
            return 1;
        if (outrider__clock_parse(c->value, &us) == 0)
            return us;
    } else if (c->form == 'b' && c->value.len == 8 && is_time(w->rel->types[role])) {
        us = outrider__cdc_cell_int(c, 0);
        if (us == INT64_MIN)
            return 1;
        return us > INT64_MAX - CDC_EPOCH_US ? CLOCK_NEVER : us + CDC_EPOCH_US;
    } else if (c->form == 'b' && c->value.len == 4 && w->rel->types[role] == PG_DATE) {
        int64_t days = outrider__cdc_cell_int(c, 0);
        if (days == INT32_MAX || days == INT32_MIN)
            return days > 0 ? CLOCK_NEVER : 1;
        return days * 86400000000LL + CDC_EPOCH_US;
    }
    malformed(w, role, "is no time");
    return otherwise;
}

/* An event without an id of its own gets one that is the same each time. */
static struct bytes derived_id(const struct cdc_message *m, char *out)
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

static int set_failure(struct event *e, struct batch *b, const char *thing, const char *why,
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

/* Under bytea_output = escape a backslash begins "\\" or "\ooo". */
static size_t escaped_size(struct bytes text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; n++)
        i += text.data[i] != '\\' ? 1 : is_octal(text, i) ? 4 : 2;
    return n;
}

static size_t payload_size(const struct row *w)
{
    const struct cdc_cell *c = &w->cells[COL_PAYLOAD];
    size_t len = c->value.len;
    if (c->form == 'b')
        return len - (w->rel->types[COL_PAYLOAD] == PG_JSONB && len > 0);
    if (c->form != 't' || !is_bytes(w->rel, COL_PAYLOAD))
        return len;
    return len >= 2 && memcmp(c->value.data, "\\x", 2) == 0 ? len / 2 - 1 : escaped_size(c->value);
}

static void set_payload(const struct cdc_decoder *d, struct row *w, struct event *e)
{
    e->payload_len = payload_size(w);
    if (e->payload_len > d->max_payload) {
        e->is_oversize = true;
        return;
    }
    e->payload = text_of(w, COL_PAYLOAD);
    if (!w->rel->has[COL_PAYLOAD])
        malformed(w, COL_PAYLOAD, "is missing");
    e->payload_len = e->payload.len;
}

static int row_event(const struct cdc_decoder *d, const struct cdc_message *m, struct event *e,
                     struct batch *b, struct outrider_error *err)
{
    static const enum cdc_role texts[] = {COL_ID,           COL_AGGREGATE_TYPE, COL_AGGREGATE_ID,
                                          COL_EVENT_TYPE,   COL_HEADERS,        COL_TOPIC,
                                          COL_PARTITION_KEY};
    struct row w = {.cells = d->cells, .rel = m->relation};
    size_t room = OUTRIDER_ID_SIZE;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        room += text_room(&w.cells[texts[i]]);
    if (is_bytes(w.rel, COL_ID))
        room += 2 + w.cells[COL_ID].value.len; /* as hex */
    if (payload_size(&w) <= d->max_payload)
        room += text_room(&w.cells[COL_PAYLOAD]);
    w.at = outrider__arena_alloc(&b->arena, room);
    if (w.at == NULL)
        return outrider__fail_nomem(err);
    const struct cdc_outbox *outbox = m->relation->outbox;
    e->seq = outbox->event_type != NULL ? outbox->oid : m->seq;
    e->id = required(&w, COL_ID);
    if (e->id.len == 0) {
        e->id = derived_id(m, w.at);
        w.at += e->id.len + 1;
    }
    e->aggregate_type = expected(&w, COL_AGGREGATE_TYPE, outbox->aggregate_type);
    e->aggregate_id = expected(&w, COL_AGGREGATE_ID, "");
    e->event_type = expected(&w, COL_EVENT_TYPE, outbox->event_type);
    e->headers = text_of(&w, COL_HEADERS);
    if (outbox->n_headers > 0 &&
        outrider__cdc_headers(m, e->headers, &b->arena, &e->headers, err) < 0)
        return -1;
    e->topic = text_of(&w, COL_TOPIC);
    e->partition_key = text_of(&w, COL_PARTITION_KEY);
    set_payload(d, &w, e);
    int64_t partition = outrider__cdc_cell_int(&w.cells[COL_PARTITION], -1);
    e->partition = partition < 0 || partition > INT32_MAX ? -1 : (int32_t)partition;
    e->created_at_us = time_of(&w, COL_CREATED_AT, d->commit_us);
    e->occurred_at_us = time_of(&w, COL_OCCURRED_AT, e->created_at_us);
    int64_t expires = time_of(&w, COL_EXPIRES_AT, 0);
    e->expires_at_us = expires == CLOCK_NEVER ? 0 : expires;
    if (w.wrong != NULL)
        return set_failure(e, b, w.wrong, w.why, err);
    return outrider__event_check_texts(e, err);
}

static int fill_message(const struct outrider_event *in, const struct cdc_decoder *d,
                        struct event *e, struct batch *b, struct outrider_error *err)
{
    struct bytes payload = bytes_of(in->payload, in->payload_len);
    if (in->id != NULL)
        e->id = bytes_str(in->id);
    e->aggregate_type = bytes_str(in->aggregate_type);
    e->aggregate_id = bytes_str(in->aggregate_id);
    e->event_type = bytes_str(in->event_type);
    e->headers = bytes_str(in->headers);
    e->topic = bytes_str(in->topic);
    /* As with all who write events: an empty one is none. */
    if (in->partition_key != NULL && in->partition_key[0] != '\0')
        e->partition_key = bytes_str(in->partition_key);
    e->partition = in->partition;
    if (in->occurred_at_us != 0)
        e->occurred_at_us = in->occurred_at_us;
    e->expires_at_us = in->expires_at_us;
    e->payload_len = payload.len;
    if (payload.len > d->max_payload) {
        e->is_oversize = true;
        return 0;
    }
    return outrider__arena_dup(&b->arena, payload, &e->payload) < 0 ? outrider__fail_nomem(err) : 0;
}

static int message_event(const struct cdc_decoder *d, const struct cdc_message *m, struct event *e,
                         struct batch *b, struct outrider_error *err)
{
    struct outrider_event in;
    struct outrider_error why = {0};
    char *id = outrider__arena_alloc(&b->arena, OUTRIDER_ID_SIZE);
    if (id == NULL)
        return outrider__fail_nomem(err);
    e->id = derived_id(m, id);
    e->aggregate_type = e->aggregate_id = e->event_type = BYTES_LIT("");
    e->created_at_us = e->occurred_at_us = d->commit_us;
    e->payload_len = m->body.len;
    /* What is around the payload is small; beyond that it is not even looked at. */
    if (m->body.len / 2 > d->max_payload + 65536) {
        e->is_oversize = true;
        return 0;
    }
    if (outrider__event_from_json(m->body, &b->arena, &in, &why) < 0) {
        if (why.code == OUTRIDER_NOMEM)
            return outrider__fail_nomem(err);
        return set_failure(e, b, "the content of the logical message:", why.message, err);
    }
    return fill_message(&in, d, e, b, err);
}

int outrider__cdc_event(const struct cdc_decoder *d, const struct cdc_message *m, struct batch *b,
                        struct outrider_error *err)
{
    struct event *e = outrider__batch_slot(b);
    if (e == NULL || m->kind != CDC_EVENT)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no room for an event");
    int rc = m->relation != NULL ? row_event(d, m, e, b, err) : message_event(d, m, e, b, err);
    if (rc == 0)
        b->n++;
    return rc;
}
