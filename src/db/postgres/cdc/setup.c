/* SPDX-License-Identifier: MIT */
/*
 * What mode cdc needs of the server, and the error for each thing that is missing: one
 * sentence, with the statement that helps. Everything but wal_level can be changed while the
 * relay waits.
 */
#include <stdio.h>

#include "cdc_slot.sql.h"
#include "common/sql.h"
#include "postgres/cdc/cdc.h"
#include "postgres/cdc/lsn.h"

void outrider__cdc_names_sql(struct strbuf *sql, const char *cursor_table)
{
    const struct sql_word words[] = {{"cursor", cursor_table}};
    outrider__sql_append(sql, sql_slot_names, words, 1);
}

void outrider__cdc_forget_slot_sql(struct strbuf *sql, const char *cursor_table)
{
    const struct sql_word words[] = {{"cursor", cursor_table}};
    outrider__sql_append(sql, sql_slot_forget, words, 1);
}

static void setup_copy(char *to, size_t size, const PGresult *r, int col)
{
    (void)snprintf(to, size, "%s", outrider__pg_get_str(r, 0, col));
}

void outrider__cdc_read_facts(struct cdc_facts *f, const PGresult *r)
{
    *f = (struct cdc_facts){0};
    if (PQntuples(r) != 1)
        return;
    setup_copy(f->wal_level, sizeof f->wal_level, r, FACTS_WAL_LEVEL);
    setup_copy(f->user, sizeof f->user, r, FACTS_USER);
    f->may_replicate = outrider__pg_get_bool(r, 0, FACTS_MAY_REPLICATE);
    f->may_publish = outrider__pg_get_bool(r, 0, FACTS_MAY_PUBLISH);
    f->sender_timeout_us = outrider__pg_get_int(r, 0, FACTS_SENDER_TIMEOUT, 60000) * 1000;
    f->max_slots = outrider__pg_get_int(r, 0, FACTS_MAX_SLOTS, 0);
    f->n_slots = outrider__pg_get_int(r, 0, FACTS_N_SLOTS, 0);
    f->max_senders = outrider__pg_get_int(r, 0, FACTS_MAX_SENDERS, 0);
    f->n_senders = outrider__pg_get_int(r, 0, FACTS_N_SENDERS, 0);
    f->has_publication = outrider__pg_get_bool(r, 0, FACTS_HAS_PUBLICATION);
    f->publication_fits = outrider__pg_get_bool(r, 0, FACTS_PUBLICATION_FITS);
    f->is_filtered = outrider__pg_get_bool(r, 0, FACTS_IS_FILTERED);
    f->has_slot = outrider__pg_get_bool(r, 0, FACTS_HAS_SLOT);
    f->is_elsewhere = outrider__pg_get_bool(r, 0, FACTS_IS_ELSEWHERE);
    setup_copy(f->slot_database, sizeof f->slot_database, r, FACTS_SLOT_DATABASE);
    f->is_foreign = outrider__pg_get_bool(r, 0, FACTS_IS_FOREIGN);
    f->is_lost = outrider__pg_get_bool(r, 0, FACTS_IS_LOST);
    f->slot_pid = outrider__pg_get_int(r, 0, FACTS_SLOT_PID, 0);
    f->is_binary = outrider__pg_get_bool(r, 0, FACTS_IS_BINARY);
    f->has_failover = outrider__pg_get_bool(r, 0, FACTS_HAS_FAILOVER);
    f->is_published = outrider__pg_get_bool(r, 0, FACTS_IS_PUBLISHED);
}

static int setup_check_publication(const struct pg_source *s, struct outrider_error *err)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    const struct cdc_facts *f = &c->facts;
    if (!f->has_publication && !f->may_publish)
        return outrider__fail(
            err, OUTRIDER_AUTH, OUTRIDER_RETRY,
            "there is no publication %s, and role %s may not make it; the owner of the table runs: "
            "CREATE PUBLICATION %s FOR TABLE %s WITH (publish = 'insert', "
            "publish_via_partition_root = true)",
            c->publication, f->user, c->publication, strbuf_cstr(&c->tables.names));
    if (f->has_publication && (!f->publication_fits || f->is_filtered))
        return outrider__fail(
            err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY,
            "publication %s does not publish all inserts into %s; its owner runs: ALTER "
            "PUBLICATION %s SET (publish = 'insert', publish_via_partition_root = true); ALTER "
            "PUBLICATION %s SET TABLE %s",
            c->publication, strbuf_cstr(&c->tables.names), c->publication, c->publication,
            strbuf_cstr(&c->tables.names));
    return 0;
}

int outrider__cdc_check_facts(const struct pg_source *s, struct outrider_error *err)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    const struct cdc_facts *f = &c->facts;
    if (strcmp(f->wal_level, "logical") != 0)
        return outrider__fail(
            err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
            "wal_level is %s, and mode cdc needs logical; a superuser runs: ALTER "
            "SYSTEM SET wal_level = 'logical'; then the server is restarted",
            f->wal_level);
    if (!f->may_replicate)
        return outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_RETRY,
                              "role %s may not replicate, and mode cdc needs that; a superuser "
                              "runs: ALTER ROLE %s REPLICATION",
                              f->user, f->user);
    if (f->has_slot && !c->owns_slot)
        return outrider__fail(
            err, OUTRIDER_CONFIG, OUTRIDER_STOP,
            "replication slot %s is there, and no pipeline of this database owns the slot: what "
            "the slot holds would be lost; if nobody needs the slot: outrider slot drop --name %s",
            c->slot, s->config->name);
    if (!c->owns_slot)
        return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_RETRY,
                              "replication slot %s was there a moment ago, and no pipeline of this "
                              "database owns the slot",
                              c->slot);
    if (f->has_slot && (f->is_elsewhere || f->is_foreign))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "replication slot %s belongs to %s%s: slots have one namespace for "
                              "the whole server; give this pipeline another --name",
                              c->slot, f->is_elsewhere ? "database " : "another program",
                              f->is_elsewhere ? f->slot_database : "");
    if (!f->has_slot && f->n_slots >= f->max_slots)
        return outrider__fail(
            err, OUTRIDER_UNSUPPORTED, OUTRIDER_RETRY,
            "all %lld replication slots of the server are taken; drop one that is not wanted "
            "(SELECT pg_drop_replication_slot('name')), or: ALTER SYSTEM SET "
            "max_replication_slots = %lld; and restart the server",
            (long long)f->max_slots, (long long)f->max_slots + 10);
    if (f->n_senders >= f->max_senders)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_RETRY,
                              "all %lld senders of the server are in use; ALTER SYSTEM SET "
                              "max_wal_senders = %lld; and restart the server",
                              (long long)f->max_senders, (long long)f->max_senders + 10);
    return setup_check_publication(s, err);
}

/* The pipeline is in mode cdc: its slot must exist and hold everything. */
int outrider__cdc_check_slot(const struct pg_source *s, struct outrider_error *err)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    if (c->facts.has_slot && !c->facts.is_lost)
        return 0;
    uint64_t done = lsn_of(track_bytes(c->stream.track.resumed));
    return outrider__fail(
        err, OUTRIDER_HISTORY, OUTRIDER_STOP,
        "replication slot %s %s: what was committed since %X/%X is missing in the stream; run "
        "`outrider resync --name %s`, which delivers (again) what %s still holds",
        c->slot,
        c->facts.is_lost ? "was invalidated by the server (it fell behind by more than "
                           "max_slot_wal_keep_size)"
                         : "is gone (dropped, or the server failed over to one without it)",
        (unsigned)(done >> 32), (unsigned)done, s->config->name, strbuf_cstr(&c->tables.names));
}
