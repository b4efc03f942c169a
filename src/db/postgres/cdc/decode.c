/* SPDX-License-Identifier: MIT */
/* Messages: what they are, and what of them is to be remembered. */
#include "postgres/cdc/decode.h"

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

static int broken(struct outrider_error *err, const char *what)
{
    return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY,
                          "the replication stream cannot be understood: %s", what);
}

static int read_begin(struct cdc_decoder *d, struct cdc_reader *r, struct cdc_message *m,
                      struct outrider_error *err)
{
    uint64_t lsn = cdc_read_u64(r);
    int64_t at = (int64_t)cdc_read_u64(r);
    uint32_t xid = cdc_read_u32(r);
    if (r->is_short)
        return broken(err, "a Begin is cut");
    d->in_transaction = true;
    d->commit_lsn = lsn;
    d->xid = xid;
    d->commit_us = at > INT64_MAX - CDC_EPOCH_US ? INT64_MAX : at + CDC_EPOCH_US;
    d->n_events = 0;
    m->kind = CDC_BEGIN;
    m->commit_lsn = lsn;
    return 0;
}

static int read_commit(struct cdc_decoder *d, struct cdc_reader *r, struct cdc_message *m,
                       struct outrider_error *err)
{
    (void)cdc_read_u8(r); /* flags */
    m->commit_lsn = cdc_read_u64(r);
    m->end_lsn = cdc_read_u64(r);
    (void)cdc_read_u64(r); /* time */
    if (r->is_short)
        return broken(err, "a Commit is cut");
    d->in_transaction = false;
    m->kind = CDC_COMMIT;
    return 0;
}

static const struct cdc_outbox *find_outbox(const struct cdc_decoder *d, uint32_t oid,
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

static struct cdc_relation *find_relation(struct cdc_decoder *d, uint32_t oid)
{
    for (size_t i = 0; i < d->n_relations; i++)
        if (d->relations[i].oid == oid)
            return &d->relations[i];
    return NULL;
}

static struct cdc_relation *claim_relation(struct cdc_decoder *d, uint32_t oid)
{
    struct cdc_relation *known = find_relation(d, oid);
    if (known != NULL)
        return known;
    if (d->n_relations < CDC_RELATIONS_MAX)
        return &d->relations[d->n_relations++];
    return &d->relations[d->next_relation++ % CDC_RELATIONS_MAX];
}

/* A column may have several roles: the first takes its value, the others share it. */
static void give_roles(struct cdc_relation *rel, uint16_t column, struct bytes name, uint32_t type)
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

static void read_columns(struct cdc_reader *r, struct cdc_relation *rel)
{
    memset(rel->same_as, CDC_ROLES, sizeof rel->same_as);
    for (uint16_t i = 0; i < rel->n_columns && !r->is_short; i++) {
        (void)cdc_read_u8(r); /* part of the key? */
        struct bytes name = cdc_read_string(r);
        uint32_t type = cdc_read_u32(r);
        (void)cdc_read_u32(r); /* modifier */
        give_roles(rel, i, name, type);
    }
}

static int read_relation(struct cdc_decoder *d, struct cdc_reader *r, struct outrider_error *err)
{
    uint32_t oid = cdc_read_u32(r);
    struct bytes schema = cdc_read_string(r), table = cdc_read_string(r);
    (void)cdc_read_u8(r); /* replica identity */
    uint16_t n = cdc_read_u16(r);
    if (r->is_short || n > CDC_COLUMNS_MAX)
        return broken(err, "a Relation is cut");
    struct cdc_relation *known = find_relation(d, oid);
    const struct cdc_outbox *outbox = find_outbox(d, oid, schema, table);
    if (outbox == NULL) {
        if (known != NULL)
            *known = d->relations[--d->n_relations];
        return 0;
    }
    struct cdc_relation *rel = claim_relation(d, oid);
    memset(rel, 0, sizeof *rel);
    rel->oid = oid;
    rel->outbox = outbox;
    rel->n_columns = n;
    read_columns(r, rel);
    if (!r->is_short)
        return 0;
    *rel = d->relations[--d->n_relations];
    return broken(err, "a Relation is cut");
}

static void place(struct cdc_decoder *d, struct cdc_message *m)
{
    m->kind = CDC_EVENT;
    m->commit_lsn = d->commit_lsn;
    m->number = ++d->n_events;
}

/* Takes the whole row apart, so that event() meets no surprise. */
static int read_tuple(struct cdc_decoder *d, const struct cdc_relation *rel, struct cdc_message *m,
                      struct outrider_error *err)
{
    struct cdc_reader r = cdc_reader_of(m->body);
    struct cdc_cell cell;
    uint16_t n = cdc_read_u16(&r);
    if (n != rel->n_columns)
        return broken(err, "an Insert has other columns than its table");
    for (int i = 0; i < CDC_ROLES; i++)
        d->cells[i] = (struct cdc_cell){.form = 'n'};
    for (uint16_t i = 0; i < n; i++) {
        if (cdc_read_cell(&r, &cell) < 0)
            return broken(err, "an Insert is cut");
        if (rel->role_of[i] < CDC_ROLES)
            d->cells[rel->role_of[i]] = cell;
    }
    for (int i = 0; i < CDC_ROLES; i++)
        if (rel->same_as[i] < CDC_ROLES)
            d->cells[i] = d->cells[rel->same_as[i]];
    m->seq = outrider__cdc_cell_int(&d->cells[COL_SEQ], 0);
    return 0;
}

static int read_insert(struct cdc_decoder *d, struct cdc_reader *r, struct cdc_message *m,
                       struct outrider_error *err)
{
    uint32_t oid = cdc_read_u32(r);
    uint8_t what = cdc_read_u8(r);
    if (r->is_short || what != 'N')
        return broken(err, "an Insert is cut");
    const struct cdc_relation *rel = find_relation(d, oid);
    if (rel == NULL)
        return 0;
    if (!d->in_transaction)
        return broken(err, "an Insert outside a transaction");
    m->relation = rel;
    m->body = cdc_rest(r);
    if (read_tuple(d, rel, m, err) < 0)
        return -1;
    place(d, m);
    return 0;
}

static int read_message(struct cdc_decoder *d, struct cdc_reader *r, struct cdc_message *m,
                        struct outrider_error *err)
{
    uint8_t flags = cdc_read_u8(r);
    (void)cdc_read_u64(r); /* where it stands */
    struct bytes prefix = cdc_read_string(r);
    struct bytes content = cdc_read_counted(r);
    if (r->is_short)
        return broken(err, "a Message is cut");
    if (!(flags & 1) || !bytes_eq(prefix, BYTES_LIT(CDC_PREFIX)))
        return 0;
    if (!d->in_transaction)
        return broken(err, "a transactional Message outside a transaction");
    m->body = content;
    place(d, m);
    return 0;
}

int outrider__cdc_decode(struct cdc_decoder *d, struct bytes bytes, struct cdc_message *ret,
                         struct outrider_error *err)
{
    struct cdc_reader r = cdc_reader_of(bytes);
    struct cdc_message m = {.kind = CDC_NOTHING};
    int rc = 0;
    switch (cdc_read_u8(&r)) {
    case 'B':
        rc = read_begin(d, &r, &m, err);
        break;
    case 'C':
        rc = read_commit(d, &r, &m, err);
        break;
    case 'R':
        rc = read_relation(d, &r, err);
        break;
    case 'I':
        rc = read_insert(d, &r, &m, err);
        break;
    case 'M':
        rc = read_message(d, &r, &m, err);
        break;
    case 'U': /* update */
    case 'D': /* delete */
    case 'T': /* truncate */
    case 'O': /* origin */
    case 'Y': /* type */
        break;
    default:
        rc = broken(err, "a message of an unknown kind");
    }
    if (rc == 0)
        *ret = m;
    return rc;
}
