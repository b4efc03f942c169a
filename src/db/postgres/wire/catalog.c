/* SPDX-License-Identifier: MIT */
#include "postgres/wire/catalog.h"

#include <stdio.h>

#include "common/sql.h"
#include "wire.sql.h"

const char *const outrider__pg_catalog_sql = sql_catalog;

enum column {
    C_VERSION,
    C_IN_RECOVERY,
    C_BACKEND_PID,
    C_SYSTEM_ID,
    C_TIMELINE,
    C_WAL_SEGMENT,
    C_WAL_BLOCK,
    C_OID,
    C_SCHEMA,
    C_RELNAME,
    C_TABLE,
    C_RELKIND,
    C_UNLOGGED,
    C_SUBSCRIBED,
    C_CAN_SELECT,
    C_CAN_DELETE,
    C_HAS_SEQ,
    C_IDENTITY,
    C_SEQ_TYPE,
    C_PAYLOAD_TYPE,
    C_ID_TYPE,
    C_HEADERS_TYPE,
    C_HAS_MARK,
    C_SEQUENCE_OID,
    C_SEQUENCE,
    C_INCREMENT,
    C_CACHE,
    C_SEQ_MIN,
    C_CYCLE,
    C_CAN_READ_SEQUENCE,
    C_SEQ_INDEX,
    C_FINGERPRINT,
    C_COMPANIONS,
    C_HAS_CURSOR,
    C_HAS_PARKED,
    C_CAN_WRITE_CURSOR,
    C_CAN_WRITE_PARKED,
    C_HAS_UPKEEP,
    C_MADE_BY_INIT,
    C_CURSOR_LACKS,
    C_BYTES
};

static void catalog_copy(char *to, size_t size, const PGresult *r, int col)
{
    (void)snprintf(to, size, "%s", outrider__pg_get_str(r, 0, col));
}

static void catalog_read_table(struct pg_catalog *cat, const PGresult *r)
{
    cat->oid = (Oid)outrider__pg_get_int(r, 0, C_OID, 0);
    catalog_copy(cat->schema, sizeof cat->schema, r, C_SCHEMA);
    catalog_copy(cat->relname, sizeof cat->relname, r, C_RELNAME);
    catalog_copy(cat->table, sizeof cat->table, r, C_TABLE);
    cat->relkind = *outrider__pg_get_str(r, 0, C_RELKIND);
    cat->is_unlogged = outrider__pg_get_bool(r, 0, C_UNLOGGED);
    cat->is_subscribed = outrider__pg_get_bool(r, 0, C_SUBSCRIBED);
    cat->can_select = outrider__pg_get_bool(r, 0, C_CAN_SELECT);
    cat->can_delete = outrider__pg_get_bool(r, 0, C_CAN_DELETE);
    cat->has_seq = outrider__pg_get_bool(r, 0, C_HAS_SEQ);
    cat->seq_identity = *outrider__pg_get_str(r, 0, C_IDENTITY);
    cat->seq_type = (Oid)outrider__pg_get_int(r, 0, C_SEQ_TYPE, 0);
    cat->payload_type = (Oid)outrider__pg_get_int(r, 0, C_PAYLOAD_TYPE, 0);
    cat->id_type = (Oid)outrider__pg_get_int(r, 0, C_ID_TYPE, 0);
    cat->headers_type = (Oid)outrider__pg_get_int(r, 0, C_HEADERS_TYPE, 0);
    catalog_copy(cat->bytes, sizeof cat->bytes, r, C_BYTES);
    cat->has_mark = outrider__pg_get_bool(r, 0, C_HAS_MARK);
    cat->sequence_oid = (Oid)outrider__pg_get_int(r, 0, C_SEQUENCE_OID, 0);
    catalog_copy(cat->sequence, sizeof cat->sequence, r, C_SEQUENCE);
    cat->sequence_increment = outrider__pg_get_int(r, 0, C_INCREMENT, 0);
    cat->sequence_cache = outrider__pg_get_int(r, 0, C_CACHE, 0);
    cat->sequence_min = outrider__pg_get_int(r, 0, C_SEQ_MIN, 1);
    cat->sequence_cycles = outrider__pg_get_bool(r, 0, C_CYCLE);
    cat->can_read_sequence = outrider__pg_get_bool(r, 0, C_CAN_READ_SEQUENCE);
    cat->has_seq_index = outrider__pg_get_bool(r, 0, C_SEQ_INDEX);
    catalog_copy(cat->fingerprint, sizeof cat->fingerprint, r, C_FINGERPRINT);
}

void outrider__pg_catalog_read(struct pg_catalog *cat, const PGresult *r, const char *asked)
{
    *cat = (struct pg_catalog){0};
    (void)snprintf(cat->asked, sizeof cat->asked, "%s", asked);
    if (PQntuples(r) != 1)
        return;
    cat->version = (int)outrider__pg_get_int(r, 0, C_VERSION, 0);
    cat->in_recovery = outrider__pg_get_bool(r, 0, C_IN_RECOVERY);
    cat->backend_pid = (int)outrider__pg_get_int(r, 0, C_BACKEND_PID, 0);
    cat->system_id = outrider__pg_get_int(r, 0, C_SYSTEM_ID, 0);
    cat->timeline = (int32_t)outrider__pg_get_int(r, 0, C_TIMELINE, 0);
    cat->wal_segment_size = outrider__pg_get_int(r, 0, C_WAL_SEGMENT, 0);
    cat->wal_block_size = outrider__pg_get_int(r, 0, C_WAL_BLOCK, 0);
    catalog_read_table(cat, r);
    catalog_copy(cat->companion_schema, sizeof cat->companion_schema, r, C_COMPANIONS);
    if (outrider__pg_get_bool(r, 0, C_HAS_CURSOR))
        (void)snprintf(cat->cursor_table, sizeof cat->cursor_table, "%.150s.outrider_cursor",
                       cat->companion_schema);
    if (outrider__pg_get_bool(r, 0, C_HAS_PARKED))
        (void)snprintf(cat->parked_table, sizeof cat->parked_table, "%.150s.outrider_parked",
                       cat->companion_schema);
    cat->can_write_cursor = outrider__pg_get_bool(r, 0, C_CAN_WRITE_CURSOR);
    cat->can_write_parked = outrider__pg_get_bool(r, 0, C_CAN_WRITE_PARKED);
    cat->has_upkeep = outrider__pg_get_bool(r, 0, C_HAS_UPKEEP);
    cat->is_marked_ours = outrider__pg_get_bool(r, 0, C_MADE_BY_INIT);
    catalog_copy(cat->cursor_lacks, sizeof cat->cursor_lacks, r, C_CURSOR_LACKS);
}

int outrider__pg_catalog_check_version(const struct pg_catalog *cat, const char *place,
                                       struct outrider_error *err)
{
    if (cat->cursor_lacks[0] == '\0')
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY,
                          "%s: %s was made by an older version (it lacks %s); run `outrider init`, "
                          "which keeps what is in it",
                          place, cat->cursor_table, cat->cursor_lacks);
}

int outrider__pg_catalog_check(const struct pg_catalog *cat, const char *place, bool is_adopted,
                               struct outrider_error *err)
{
    if (cat->version != 0 && cat->version < 140000)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "%s: PostgreSQL %d is too old; 14 and newer are supported", place,
                              cat->version / 10000);
    if (cat->oid == 0)
        return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_RETRY,
                              "%s has no table %s; run `outrider init`, or name the table with "
                              "--table",
                              place, cat->asked);
    if (cat->in_recovery)
        return outrider__fail(err, OUTRIDER_DB_READONLY, OUTRIDER_RETRY,
                              "%s is a standby: it cannot be relayed from; connect to the primary, "
                              "for example with target_session_attrs=read-write",
                              place);
    if (cat->cursor_table[0] == '\0' || cat->parked_table[0] == '\0')
        return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_RETRY,
                              "%s has %s, but not outrider_cursor and outrider_parked beside it; "
                              "run `outrider init`",
                              place, cat->table);
    if (outrider__pg_catalog_check_version(cat, place, err) < 0)
        return -1;
    const char *missing = !is_adopted && !cat->can_select ? "SELECT on the outbox"
                          : !cat->can_write_cursor ? "SELECT, INSERT, UPDATE on outrider_cursor"
                          : !cat->can_write_parked
                              ? "SELECT, INSERT, UPDATE, DELETE on outrider_parked"
                          : !is_adopted && cat->sequence_oid != 0 && !cat->can_read_sequence
                              ? "SELECT on the outbox's sequence"
                              : NULL;
    if (missing != NULL)
        return outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_RETRY,
                              "%s: the relay's role lacks %s (%s); GRANT outrider_relay to it",
                              place, missing, cat->table);
    return 0;
}

static int catalog_unsuitable(const struct pg_catalog *cat, const char *what, const char *mend,
                              struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "%s cannot be read as a log without losing events: %s; %s", cat->table,
                          what, mend);
}

int outrider__pg_catalog_check_log(const struct pg_catalog *cat, struct outrider_error *err)
{
    char mend[PG_NAME_MAX + 80];
    if (cat->relkind != 'r' && cat->relkind != 'p')
        return catalog_unsuitable(cat, "it is not a table", "name a table", err);
    if (!cat->has_seq || cat->payload_type == 0 || cat->id_type == 0)
        return catalog_unsuitable(cat, "it lacks seq, id or payload", "run `outrider init`", err);
    (void)snprintf(mend, sizeof mend, "ALTER TABLE %s SET LOGGED", cat->table);
    if (cat->is_unlogged)
        return catalog_unsuitable(cat, "it is unlogged: a crash empties it", mend, err);
    if (cat->is_subscribed)
        return catalog_unsuitable(cat, "a subscription writes into it, with seqs of another server",
                                  "relay from that server instead", err);
    (void)snprintf(mend, sizeof mend, "ALTER TABLE %s ALTER seq SET GENERATED ALWAYS", cat->table);
    if (cat->seq_identity != 'a' || cat->sequence_oid == 0)
        return catalog_unsuitable(
            cat,
            "seq is not GENERATED ALWAYS AS IDENTITY, so a seq below the cursor "
            "can be inserted by hand",
            mend, err);
    (void)snprintf(mend, sizeof mend, "ALTER SEQUENCE %s INCREMENT 1 CACHE 1 NO CYCLE",
                   cat->sequence);
    if (cat->sequence_increment != 1)
        return catalog_unsuitable(cat, "its sequence does not go up by 1", mend, err);
    if (cat->sequence_cache != 1)
        return catalog_unsuitable(
            cat, "its sequence has CACHE above 1: sessions hold back low numbers", mend, err);
    if (cat->sequence_cycles)
        return catalog_unsuitable(cat, "its sequence starts over at its end (CYCLE)", mend, err);
    (void)snprintf(mend, sizeof mend, "ALTER SEQUENCE %s MINVALUE 1", cat->sequence);
    if (cat->sequence_min < 1)
        return catalog_unsuitable(
            cat, "its sequence may hand out numbers below 1, which nobody reads", mend, err);
    (void)snprintf(mend, sizeof mend, "CREATE INDEX ON %s (seq)", cat->table);
    if (!cat->has_seq_index)
        return catalog_unsuitable(cat, "it has no index that begins with seq", mend, err);
    return 0;
}

bool outrider__pg_catalog_is_bytes(const struct pg_catalog *cat, const char *column)
{
    char name[PG_NAME_MAX];
    (void)snprintf(name, sizeof name, ",%s,", column);
    return strstr(cat->bytes, name) != NULL;
}

void outrider__pg_size_sql(struct strbuf *sql, Oid type, const char *column)
{
    if (type == PG_BYTEA || type == PG_TEXT || type == PG_VARCHAR)
        outrider__strbuf_appendf(sql, "octet_length(%s)", column);
    else
        outrider__sql_append(sql, sql_column_size, &(struct sql_word){"column", column}, 1);
}

void outrider__pg_stored_sql(struct strbuf *sql, const char *column)
{
    outrider__sql_append(sql, sql_column_stored, &(struct sql_word){"column", column}, 1);
}

void outrider__pg_bytea_sql(struct strbuf *sql, Oid type, const char *column)
{
    outrider__strbuf_appendf(sql, type == PG_BYTEA ? "%s" : "convert_to(%s::text, 'UTF8')", column);
}
