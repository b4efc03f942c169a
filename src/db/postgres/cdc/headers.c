/* SPDX-License-Identifier: MIT */
/*
 * Columns that become headers (map.header_columns), from a row of the stream. A value is
 * written into the event's headers as the server's function to_json writes it, because
 * polling and the first sweep use that function. The value NULL becomes null, so that a
 * column without a value differs from a column that is missing.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "postgres/cdc/decode.h"
#include "postgres/cdc/cell.h"
#include "postgres/wire/wire.h"

#define NAMES_CAP (1u << 20)

static void headers_append_uuid(struct strbuf *out, struct bytes v)
{
    for (size_t i = 0; i < v.len; i++)
        outrider__strbuf_appendf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                                 (unsigned char)v.data[i]);
}

/* The word for a binary time that is no point in time; NULL: it is one. */
static const char *headers_endless_time(const struct cdc_cell *c, uint32_t type)
{
    int64_t v = outrider__cdc_cell_int(c, 0);
    if (v == (type == PG_DATE ? INT32_MAX : INT64_MAX))
        return "infinity";
    return v == (type == PG_DATE ? INT32_MIN : INT64_MIN) ? "-infinity" : NULL;
}

static bool headers_read_time(const struct cdc_cell *c, uint32_t type, int64_t *ret_us)
{
    if (c->form != 'b')
        return outrider__clock_parse(c->value, ret_us) == 0;
    int64_t unit = type == PG_DATE ? 86400000000LL : 1, us;
    return !__builtin_mul_overflow(outrider__cdc_cell_int(c, 0), unit, &us) &&
           !__builtin_add_overflow(us, CDC_EPOCH_US, ret_us);
}

/* "2026-01-02T03:04:05.6+00:00": as many digits as needed, and a zone where the column has
 * one. */
static void headers_append_time(struct strbuf *out, const struct cdc_cell *c, uint32_t type)
{
    char text[CLOCK_TEXT_SIZE + 8];
    int64_t us;
    const char *word = c->form == 'b' ? headers_endless_time(c, type) : NULL;
    if (word != NULL || !headers_read_time(c, type, &us)) {
        outrider__strbuf_append_json(out, word != NULL ? bytes_str(word) : c->value);
        return;
    }
    outrider__clock_format(us, text);
    size_t n = type == PG_DATE ? 10 : strlen(text) - 1;
    if (n > 19) {
        while (text[n - 1] == '0')
            n--;
        n -= text[n - 1] == '.';
    }
    (void)snprintf(text + n, sizeof text - n, "%s", type == PG_TIMESTAMPTZ ? "+00:00" : "");
    outrider__strbuf_append_json(out, bytes_str(text));
}

static bool headers_is_number(const struct cdc_cell *c, uint32_t type)
{
    switch (type) {
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
    case PG_OID:
    case PG_FLOAT4:
    case PG_FLOAT8:
    case PG_NUMERIC:
        /* NaN and Infinity are no numbers in JSON. */
        return outrider__json_is_valid(c->value);
    default:
        return false;
    }
}

/* Binary values are of types that outrider__cdc_reads_binary() knows. */
static void headers_append_binary(struct strbuf *out, const struct cdc_cell *c, uint32_t type)
{
    struct bytes v = c->value;
    switch (type) {
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
        outrider__strbuf_appendf(out, "%lld", (long long)outrider__cdc_cell_int(c, 0));
        return;
    case PG_OID:
        outrider__strbuf_appendf(out, "%u", (unsigned)outrider__cdc_cell_int(c, 0));
        return;
    case PG_UUID:
        strbuf_append_char(out, '"');
        headers_append_uuid(out, v);
        strbuf_append_char(out, '"');
        return;
    case PG_JSONB: /* a version byte stands before the text */
        v = v.len > 0 ? bytes_of(v.data + 1, v.len - 1) : v;
        outrider__strbuf_append(out, outrider__json_is_valid(v) ? v : BYTES_LIT("null"));
        return;
    case PG_JSON:
        outrider__strbuf_append(out, outrider__json_is_valid(v) ? v : BYTES_LIT("null"));
        return;
    default:
        outrider__strbuf_append_json(out, v);
    }
}

static void headers_append_value(struct strbuf *out, const struct cdc_cell *c, uint32_t type)
{
    if (type == PG_TIMESTAMP || type == PG_TIMESTAMPTZ || type == PG_DATE)
        headers_append_time(out, c, type);
    else if (c->form == 'b')
        headers_append_binary(out, c, type);
    else if (type == PG_BOOL)
        strbuf_append_str(out, bytes_eq_str(c->value, "t") ? "true" : "false");
    else if (headers_is_number(c, type) ||
             ((type == PG_JSON || type == PG_JSONB) && outrider__json_is_valid(c->value)))
        outrider__strbuf_append(out, c->value);
    else
        outrider__strbuf_append_json(out, c->value);
}

static bool headers_has_member(struct bytes object, const char *name, struct arena *arena)
{
    struct json_members m;
    struct bytes key, raw, text;
    if (object.len == 0 || outrider__json_members_begin(&m, object) < 0)
        return false;
    while (outrider__json_members_next(&m, &key, &raw) > 0)
        if (outrider__json_unescape(key, arena, &text) == 0 && bytes_eq_str(text, name))
            return true;
    return false;
}

/* The event's own members, without the brackets. */
static struct bytes headers_inside(struct bytes object)
{
    struct json_members m;
    struct bytes key, raw;
    if (object.len == 0 || outrider__json_members_begin(&m, object) < 0 ||
        outrider__json_members_next(&m, &key, &raw) <= 0)
        return BYTES_NULL;
    const char *open = memchr(object.data, '{', object.len);
    const char *close = memrchr(object.data, '}', object.len);
    return bytes_of(open + 1, (size_t)(close - open) - 1);
}

/* The cells of the header columns, by header; form 0: the row has no such column. */
static void headers_find_cells(const struct cdc_message *m, struct cdc_cell *cells)
{
    const struct cdc_relation *rel = m->relation;
    struct byte_reader r = reader_of(m->body);
    uint16_t n = reader_u16_be(&r);
    for (uint16_t i = 0; i < n; i++) {
        struct cdc_cell cell;
        if (cdc_cell_read(&r, &cell) < 0)
            return; /* never: decode() has read the same bytes */
        for (size_t h = 0; h < rel->outbox->n_headers; h++)
            if (rel->header_column[h] == i + 1)
                cells[h] = cell;
    }
}

static bool headers_is_sent(const struct cdc_cell *c)
{
    return c->form == 't' || c->form == 'b';
}

static void headers_append_columns(struct strbuf *out, const struct cdc_relation *rel,
                                   const struct cdc_cell *cells, struct bytes own,
                                   struct arena *arena)
{
    for (size_t h = 0; h < rel->outbox->n_headers; h++) {
        const char *name = rel->outbox->headers[h].name;
        if ((!headers_is_sent(&cells[h]) && cells[h].form != 'n') ||
            headers_has_member(own, name, arena))
            continue;
        if (out->len > 1)
            strbuf_append_char(out, ',');
        outrider__strbuf_append_json(out, bytes_str(name));
        strbuf_append_char(out, ':');
        if (cells[h].form == 'n')
            strbuf_append_str(out, "null");
        else
            headers_append_value(out, &cells[h], rel->header_type[h]);
    }
}

int outrider__cdc_headers(const struct cdc_message *m, struct bytes own, size_t max,
                          struct arena *arena, struct bytes *ret_headers, size_t *ret_len,
                          struct outrider_error *err)
{
    struct cdc_cell cells[CDC_HEADERS_MAX] = {0};
    struct strbuf out;
    headers_find_cells(m, cells);
    *ret_headers = BYTES_NULL;
    *ret_len = own.len;
    for (size_t h = 0; h < m->relation->outbox->n_headers; h++)
        *ret_len += headers_is_sent(&cells[h]) ? cells[h].value.len : 0;
    if (*ret_len > max)
        return 0;
    /* A byte takes six at most in a JSON string. */
    outrider__strbuf_init(&out, NAMES_CAP + own.len + 6 * *ret_len);
    strbuf_append_char(&out, '{');
    outrider__strbuf_append(&out, headers_inside(own));
    headers_append_columns(&out, m->relation, cells, own, arena);
    strbuf_append_char(&out, '}');
    int rc = out.failed ? outrider__fail_nomem(err) : 0;
    *ret_len = out.len;
    if (rc == 0 && out.len <= max &&
        outrider__arena_dup(arena, strbuf_bytes(&out), ret_headers) < 0)
        rc = outrider__fail_nomem(err);
    outrider__strbuf_release(&out);
    return rc;
}
