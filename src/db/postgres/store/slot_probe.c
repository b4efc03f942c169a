/* SPDX-License-Identifier: MIT */
#include "postgres/store/slot_probe.h"

#include <stdlib.h>

#include "postgres/table/table.h"
#include "postgres/cdc/decode.h"
#include "store.sql.h"

#define PORTION "1000"
#define KNOWN_MAX 256

enum probe_column { PROBE_LSN, PROBE_DATA };

struct probe {
    const struct probe_tables *tables;
    const struct stream_offset *offset;
    uint32_t known[KNOWN_MAX]; /* oids that the server described as tables of ours */
    size_t n_known;
    /* The transaction under way. */
    uint64_t commit_lsn, first_lsn;
    uint32_t xid;
    int64_t n_before, n_at; /* events before event_lsn, and at it */
    bool is_found;
};

static void probe_on_relation(struct probe *p, struct byte_reader *r)
{
    uint32_t oid = reader_u32_be(r);
    struct bytes schema = reader_string(r), table = reader_string(r);
    if (r->is_short)
        return;
    for (size_t i = 0; i < p->tables->n; i++) {
        const struct probe_table *t = &p->tables->items[i];
        if (oid != t->oid && !(bytes_eq_str(schema, t->schema) && bytes_eq_str(table, t->name)))
            continue;
        p->known[p->n_known++ % KNOWN_MAX] = oid;
        return;
    }
}

static bool probe_is_known(const struct probe *p, uint32_t oid)
{
    for (size_t i = 0; i < p->n_known && i < KNOWN_MAX; i++)
        if (p->known[i] == oid)
            return true;
    return false;
}

static void probe_on_begin(struct probe *p, struct byte_reader *r)
{
    p->commit_lsn = reader_u64_be(r);
    (void)reader_u64_be(r);
    p->xid = reader_u32_be(r);
    p->first_lsn = 0;
    p->n_before = p->n_at = 0;
}

static bool probe_is_message_of_ours(struct byte_reader *r)
{
    uint8_t flags = reader_u8(r);
    (void)reader_u64_be(r);
    struct bytes prefix = reader_string(r);
    return !r->is_short && (flags & 1) && bytes_eq(prefix, BYTES_LIT(CDC_PREFIX));
}

static void probe_count(struct probe *p, uint64_t lsn)
{
    p->n_before += lsn < p->offset->event_lsn;
    p->n_at += lsn == p->offset->event_lsn;
}

static void probe_take(struct probe *p, uint64_t lsn, struct bytes data)
{
    struct byte_reader r = reader_of(data);
    uint8_t kind = reader_u8(&r);
    if (kind == 'B') {
        probe_on_begin(p, &r);
        return;
    }
    if (kind == 'C') {
        (void)reader_bytes(&r, 9);
        p->is_found = reader_u64_be(&r) > p->offset->commit_lsn;
        return;
    }
    if (p->first_lsn == 0 && kind != 'R')
        p->first_lsn = lsn;
    if (kind == 'R')
        probe_on_relation(p, &r);
    else if ((kind == 'I' && probe_is_known(p, reader_u32_be(&r))) ||
             (kind == 'M' && probe_is_message_of_ours(&r)))
        probe_count(p, lsn);
}

/* Contract (1) and (2). */
static struct probe_place probe_decide(const struct probe *p)
{
    const struct stream_offset *o = p->offset;
    struct probe_place place = {.lsn = o->commit_lsn};
    if (!p->is_found || p->xid != o->xid || o->is_begin)
        return place;
    bool may_be_begin = !o->is_sure && p->first_lsn == o->event_lsn;
    place.is_in_doubt = p->n_at > 1 || (p->n_at == 1 && may_be_begin);
    int64_t n = p->n_before + (p->n_at == 1 && !may_be_begin);
    if (n > 0)
        place = (struct probe_place){p->commit_lsn, n, place.is_in_doubt};
    return place;
}

static void probe_add_literal(struct pg_words *words, const char *name, const char *value)
{
    struct strbuf text;
    outrider__strbuf_init(&text, 4096);
    outrider__sql_literal(&text, value);
    outrider__pg_words_take(words, name, &text);
}

/* Without arguments: the server takes none in several statements at once. */
static int probe_declare(struct pg_store *s, const char *slot, const char *publication,
                         struct outrider_error *err)
{
    static const struct pg_block block = {sql_probe_declare, "cannot read the slot's log",
                                          PG_READS};
    struct pg_words words;
    char *sql = NULL;
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_words_add(&words, "portion", PORTION);
    probe_add_literal(&words, "slot", slot);
    probe_add_literal(&words, "publication", publication);
    int rc = outrider__pg_block_expand(&block, &words, &sql, err);
    if (rc == 0)
        rc = outrider__pg_store_exec(s, sql, block.what, err);
    free(sql);
    outrider__pg_words_release(&words);
    return rc;
}

static int probe_read_portion(struct pg_store *s, struct probe *p, bool *ret_is_empty,
                              struct outrider_error *err)
{
    int n;
    *ret_is_empty = true;
    do {
        PGresult *r = NULL;
        if (outrider__pg_store_query(s, "FETCH " PORTION " FROM outrider_probe", NULL,
                                     "cannot read the slot's log", &r, err) < 0)
            return -1;
        n = PQntuples(r);
        for (int i = 0; i < n && !p->is_found; i++)
            probe_take(p, (uint64_t)outrider__pg_get_int(r, i, PROBE_LSN, 0),
                       outrider__pg_get_bytes(r, i, PROBE_DATA));
        PQclear(r);
        *ret_is_empty = *ret_is_empty && n == 0;
    } while (n > 0 && !p->is_found);
    return outrider__pg_store_exec(s, "COMMIT", "cannot read the slot's log", err);
}

int outrider__pg_slot_probe(struct pg_store *s, const char *slot, const char *publication,
                            const struct probe_tables *tables, const struct stream_offset *offset,
                            struct probe_place *ret_place, struct outrider_error *err)
{
    struct probe p = {.tables = tables, .offset = offset};
    bool is_empty = false;
    while (!p.is_found && !is_empty) {
        if (probe_declare(s, slot, publication, err) < 0 ||
            probe_read_portion(s, &p, &is_empty, err) < 0) {
            (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
            return -1;
        }
    }
    *ret_place = probe_decide(&p);
    return 0;
}
