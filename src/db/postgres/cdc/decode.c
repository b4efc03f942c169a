/* SPDX-License-Identifier: MIT */
/* Messages: what they are, and what of them is to be remembered. */
#include "postgres/cdc/decode.h"

#include <stdlib.h>

#include "postgres/wire/wire.h"

static const char *const role_names[CDC_ROLES] = {
    [COL_SEQ] = "seq",
    [COL_ID] = "id",
    [COL_AGGREGATE_TYPE] = "aggregate_type",
    [COL_AGGREGATE_ID] = "aggregate_id",
    [COL_EVENT_TYPE] = "event_type",
    [COL_PAYLOAD] = "payload",
    [COL_HEADERS] = "headers",
    [COL_TOPIC] = "topic",
    [COL_PARTITION_KEY] = "partition_key",
    [COL_PARTITION] = "partition",
    [COL_OCCURRED_AT] = "occurred_at",
    [COL_CREATED_AT] = "created_at",
    [COL_EXPIRES_AT] = "expires_at",
};

const char *outrider__cdc_role_name(enum cdc_role role)
{
    return role_names[role];
}

struct cdc_outbox outrider__cdc_own_outbox(uint32_t oid, const char *schema, const char *table)
{
    struct cdc_outbox o = {.oid = oid, .schema = schema, .table = table};
    memcpy(o.columns, role_names, sizeof role_names);
    return o;
}

static int decode_fail(struct outrider_error *err, const char *what)
{
    return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY,
                          "the replication stream cannot be understood: %s", what);
}

static int decode_begin(struct cdc_decoder *d, struct byte_reader *r, struct cdc_message *m,
                        struct outrider_error *err)
{
    uint64_t lsn = reader_u64_be(r);
    int64_t at = (int64_t)reader_u64_be(r);
    uint32_t xid = reader_u32_be(r);
    if (r->is_short)
        return decode_fail(err, "a Begin is cut");
    d->in_transaction = true;
    d->commit_lsn = lsn;
    d->xid = xid;
    d->commit_us = at > INT64_MAX - CDC_EPOCH_US ? INT64_MAX : at + CDC_EPOCH_US;
    d->n_events = 0;
    m->kind = CDC_BEGIN;
    m->commit_lsn = lsn;
    return 0;
}

static int decode_commit(struct cdc_decoder *d, struct byte_reader *r, struct cdc_message *m,
                         struct outrider_error *err)
{
    (void)reader_u8(r); /* flags */
    m->commit_lsn = reader_u64_be(r);
    m->end_lsn = reader_u64_be(r);
    (void)reader_u64_be(r); /* time */
    if (r->is_short)
        return decode_fail(err, "a Commit is cut");
    d->in_transaction = false;
    m->kind = CDC_COMMIT;
    return 0;
}

static const struct cdc_outbox *decode_find_outbox(const struct cdc_decoder *d, uint32_t oid,
                                                   struct bytes schema, struct bytes table)
{
    if (bytes_is_null(schema) || bytes_is_null(table))
        return NULL;
    for (size_t i = 0; i < d->n_outboxes; i++) {
        const struct cdc_outbox *o = &d->outboxes[i];
        if (oid == o->oid || (bytes_eq_str(schema, o->schema) && bytes_eq_str(table, o->table)))
            return o;
    }
    return NULL;
}

/* The index of the relation with that oid, or n_relations. */
static size_t decode_find_relation(const struct cdc_decoder *d, uint32_t oid)
{
    size_t i = 0;
    while (i < d->n_relations && d->relations[i]->oid != oid)
        i++;
    return i;
}

static void decode_forget_relation(struct cdc_decoder *d, size_t i)
{
    free(d->relations[i]);
    d->relations[i] = d->relations[--d->n_relations];
}

/* Takes over a relation. When there is no room, an old one goes: a pipeline has fewer tables
 * than there is room, so some of them were dropped and made anew since. */
static void decode_keep_relation(struct cdc_decoder *d, struct cdc_relation *rel)
{
    size_t i = decode_find_relation(d, rel->oid);
    if (i == CDC_RELATIONS_MAX)
        i = d->next_relation++ % CDC_RELATIONS_MAX;
    if (i == d->n_relations)
        d->n_relations++;
    else
        free(d->relations[i]);
    d->relations[i] = rel;
}

void outrider__cdc_decoder_release(struct cdc_decoder *d)
{
    while (d->n_relations > 0)
        free(d->relations[--d->n_relations]);
    *d = (struct cdc_decoder){.outboxes = d->outboxes, .n_outboxes = d->n_outboxes, .max = d->max};
}

/* A column may have several roles: the first takes its value, the others share it. */
static void decode_assign_roles(struct cdc_relation *rel, uint16_t column, struct bytes name,
                                uint32_t type)
{
    rel->role_of[column] = CDC_ROLES;
    for (int role = 0; role < CDC_ROLES; role++) {
        const char *wanted = rel->outbox->columns[role];
        if (wanted == NULL || !bytes_eq_str(name, wanted))
            continue;
        rel->has[role] = true;
        rel->types[role] = type;
        if (rel->role_of[column] == CDC_ROLES)
            rel->role_of[column] = (uint8_t)role;
        else
            rel->same_as[role] = rel->role_of[column];
    }
    for (size_t i = 0; i < rel->outbox->n_headers; i++) {
        if (!bytes_eq_str(name, rel->outbox->headers[i].column))
            continue;
        rel->header_column[i] = (uint16_t)(column + 1);
        rel->header_type[i] = type;
    }
}

static void decode_columns(struct byte_reader *r, struct cdc_relation *rel)
{
    memset(rel->same_as, CDC_ROLES, sizeof rel->same_as);
    for (uint16_t i = 0; i < rel->n_columns && !r->is_short; i++) {
        (void)reader_u8(r); /* part of the key? */
        struct bytes name = reader_string(r);
        uint32_t type = reader_u32_be(r);
        (void)reader_u32_be(r); /* modifier */
        decode_assign_roles(rel, i, name, type);
    }
}

static int decode_relation(struct cdc_decoder *d, struct byte_reader *r, struct outrider_error *err)
{
    uint32_t oid = reader_u32_be(r);
    struct bytes schema = reader_string(r), table = reader_string(r);
    (void)reader_u8(r); /* replica identity */
    uint16_t n = reader_u16_be(r);
    if (r->is_short || n > CDC_COLUMNS_MAX)
        return decode_fail(err, "a Relation is cut");
    const struct cdc_outbox *outbox = decode_find_outbox(d, oid, schema, table);
    if (outbox == NULL) {
        size_t i = decode_find_relation(d, oid);
        if (i < d->n_relations)
            decode_forget_relation(d, i);
        return 0;
    }
    struct cdc_relation *rel = calloc(1, sizeof *rel + n);
    if (rel == NULL)
        return outrider__fail_nomem(err);
    rel->oid = oid;
    rel->outbox = outbox;
    rel->n_columns = n;
    decode_columns(r, rel);
    if (r->is_short) {
        free(rel);
        return decode_fail(err, "a Relation is cut");
    }
    decode_keep_relation(d, rel);
    return 0;
}

static void decode_place_event(struct cdc_decoder *d, struct cdc_message *m)
{
    m->kind = CDC_EVENT;
    m->commit_lsn = d->commit_lsn;
    m->number = ++d->n_events;
}

/* Takes the whole row apart, so that event() meets no surprise. */
static int decode_tuple(struct cdc_decoder *d, const struct cdc_relation *rel,
                        struct cdc_message *m, struct outrider_error *err)
{
    struct byte_reader r = reader_of(m->body);
    struct cdc_cell cell;
    uint16_t n = reader_u16_be(&r);
    if (n != rel->n_columns)
        return decode_fail(err, "an Insert has other columns than its table");
    for (int i = 0; i < CDC_ROLES; i++)
        d->cells[i] = (struct cdc_cell){.form = 'n'};
    for (uint16_t i = 0; i < n; i++) {
        if (cdc_cell_read(&r, &cell) < 0)
            return decode_fail(err, "an Insert is cut");
        if (rel->role_of[i] < CDC_ROLES)
            d->cells[rel->role_of[i]] = cell;
    }
    for (int i = 0; i < CDC_ROLES; i++)
        if (rel->same_as[i] < CDC_ROLES)
            d->cells[i] = d->cells[rel->same_as[i]];
    m->seq = outrider__cdc_cell_int(&d->cells[COL_SEQ], 0);
    return 0;
}

static int decode_insert(struct cdc_decoder *d, struct byte_reader *r, struct cdc_message *m,
                         struct outrider_error *err)
{
    uint32_t oid = reader_u32_be(r);
    uint8_t what = reader_u8(r);
    if (r->is_short || what != 'N')
        return decode_fail(err, "an Insert is cut");
    size_t i = decode_find_relation(d, oid);
    if (i == d->n_relations)
        return 0;
    const struct cdc_relation *rel = d->relations[i];
    if (!d->in_transaction)
        return decode_fail(err, "an Insert outside a transaction");
    m->relation = rel;
    m->body = reader_rest(r);
    if (decode_tuple(d, rel, m, err) < 0)
        return -1;
    decode_place_event(d, m);
    return 0;
}

static int decode_message(struct cdc_decoder *d, struct byte_reader *r, struct cdc_message *m,
                          struct outrider_error *err)
{
    uint8_t flags = reader_u8(r);
    (void)reader_u64_be(r); /* where it stands */
    struct bytes prefix = reader_string(r);
    struct bytes content = reader_bytes(r, reader_u32_be(r));
    if (r->is_short)
        return decode_fail(err, "a Message is cut");
    if (!(flags & 1) || !bytes_eq(prefix, BYTES_LIT(CDC_PREFIX)))
        return 0;
    if (!d->in_transaction)
        return decode_fail(err, "a transactional Message outside a transaction");
    m->body = content;
    decode_place_event(d, m);
    return 0;
}

int outrider__cdc_decode(struct cdc_decoder *d, struct bytes bytes, struct cdc_message *ret,
                         struct outrider_error *err)
{
    struct byte_reader r = reader_of(bytes);
    struct cdc_message m = {.kind = CDC_NOTHING};
    int rc = 0;
    switch (reader_u8(&r)) {
    case 'B':
        rc = decode_begin(d, &r, &m, err);
        break;
    case 'C':
        rc = decode_commit(d, &r, &m, err);
        break;
    case 'R':
        rc = decode_relation(d, &r, err);
        break;
    case 'I':
        rc = decode_insert(d, &r, &m, err);
        break;
    case 'M':
        rc = decode_message(d, &r, &m, err);
        break;
    case 'U': /* update */
    case 'D': /* delete */
    case 'T': /* truncate */
    case 'O': /* origin */
    case 'Y': /* type */
        break;
    default:
        rc = decode_fail(err, "a message of an unknown kind");
    }
    if (rc == 0)
        *ret = m;
    return rc;
}
