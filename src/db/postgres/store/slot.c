/* SPDX-License-Identifier: MIT */
/* The PostgreSQL store: replication slots, for status, resync and slot drop. */
#include "postgres/store/store.h"

#include <inttypes.h>
#include <stdio.h>

#include "postgres/table/table.h"
#include "postgres/cdc/slot.h"
#include "postgres/shared/cleanup.h"

/* In mode cdc the table does not say what is settled: pending is what stands
 * behind the last settled event, and what is left of the sweep. */
static const char sql_pending[] =
    "(SELECT count(*) FROM %s o WHERE o.seq > p.at) + coalesce((SELECT count(*) FROM "
    "unnest(k.sweep) g JOIN %s o ON o.seq >= lower(g) AND o.seq < upper(g) WHERE o.seq <= p.at), "
    "0), (SELECT min(f.created_at) FROM (SELECT o.created_at FROM %s o WHERE o.seq > p.at ORDER BY "
    "o.seq LIMIT 100) f)";
static const char sql_slot[] =
    ", s.slot_name IS NOT NULL, s.active, coalesce(s.wal_status = 'lost' OR "
    "to_jsonb(s)->>'invalidation_reason' IS NOT NULL, false), greatest(pg_wal_lsn_diff(l.now, "
    "s.restart_lsn), 0)::int8, s.confirmed_flush_lsn::text, greatest(pg_wal_lsn_diff(l.now, "
    "s.confirmed_flush_lsn), 0)::int8, (extract(epoch FROM (SELECT r.flush_lag FROM "
    "pg_stat_replication r WHERE r.pid = s.active_pid)) * 1000000)::int8, s.safe_wal_size, k.slot "
    "FROM %s "
    "k CROSS JOIN LATERAL (SELECT greatest(k.position, k.last_seq) AS at) p CROSS JOIN (SELECT "
    "pg_current_wal_insert_lsn() AS now) l LEFT JOIN pg_replication_slots s ON s.slot_name = "
    "k.slot AND s.database = current_database() WHERE k.pipeline = $1 AND k.outbox = $2";

static int query(struct pg_store *s, struct strbuf *sql, const char *pipeline,
                 PGresult **ret_result, struct outrider_error *err)
{
    struct pg_args args;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, pipeline);
    outrider__pg_arg_str(&args, s->cat.table);
    int rc = sql->failed ? outrider__fail_nomem(err)
                         : outrider__pg_store_query(s, strbuf_cstr(sql), &args,
                                                    "cannot read the slot", ret_result, err);
    outrider__pg_args_release(&args);
    return rc;
}

static void read_slot(const PGresult *r, struct store_status *st)
{
    st->is_cdc = strcmp(outrider__pg_get_str(r, 0, 0), "cdc") == 0;
    if (st->is_cdc)
        st->ahead = 0; /* the stream has them */
    if (st->is_cdc && !PQgetisnull(r, 0, 2)) {
        st->position = outrider__pg_get_int(r, 0, 1, 0);
        st->pending = (uint64_t)outrider__pg_get_int(r, 0, 2, 0);
        st->oldest_pending_us = outrider__pg_get_time(r, 0, 3, 0);
    }
    struct slot_status *o = &st->slot;
    o->exists = outrider__pg_get_bool(r, 0, 4);
    if (o->exists || st->is_cdc)
        (void)snprintf(o->name, sizeof o->name, "%s", outrider__pg_get_str(r, 0, 12));
    o->is_active = outrider__pg_get_bool(r, 0, 5);
    o->is_lost = st->is_cdc && (!o->exists || outrider__pg_get_bool(r, 0, 6));
    o->retained_bytes = outrider__pg_get_int(r, 0, 7, 0);
    (void)snprintf(o->confirmed, sizeof o->confirmed, "%s", outrider__pg_get_str(r, 0, 8));
    o->lag_bytes = outrider__pg_get_int(r, 0, 9, 0);
    o->lag_us = outrider__pg_get_int(r, 0, 10, o->is_active ? 0 : -1);
    o->left_bytes = outrider__pg_get_int(r, 0, 11, -1);
}

int outrider__pg_store_slot_status(struct pg_store *s, struct store_status *st,
                                   struct outrider_error *err)
{
    struct strbuf sql;
    PGresult *r = NULL;
    const char *table = s->cat.table;
    outrider__strbuf_init(&sql, 8192);
    strbuf_append_str(&sql, "SELECT k.mode, p.at, ");
    if (outrider__pg_store_has_states(s))
        strbuf_append_str(&sql,
                          "NULL::int8, NULL::timestamptz"); /* the rows are counted elsewhere */
    else
        outrider__strbuf_appendf(&sql, sql_pending, table, table, table);
    outrider__strbuf_appendf(&sql, sql_slot, s->cat.cursor_table);
    int rc = query(s, &sql, st->pipeline, &r, err);
    if (rc == 0 && PQntuples(r) == 1)
        read_slot(r, st);
    PQclear(r);
    outrider__strbuf_release(&sql);
    return rc;
}

int outrider__pg_store_drop(struct pg_store *s, const char *slot, bool *ret_was_there,
                            struct outrider_error *err)
{
    struct pg_args args;
    PGresult *r = NULL;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, slot);
    int rc = outrider__pg_store_query(
        s,
        "SELECT s.active_pid, CASE WHEN s.active_pid IS NULL AND s.database = current_database() "
        "THEN pg_drop_replication_slot(s.slot_name)::text END, s.database::text, "
        "s.database IS DISTINCT FROM current_database() FROM pg_replication_slots s WHERE "
        "s.slot_name = $1",
        &args, "cannot drop the replication slot", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    *ret_was_there = PQntuples(r) == 1;
    if (*ret_was_there && outrider__pg_get_bool(r, 0, 3))
        rc = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                            "replication slot %s belongs to database %s", slot,
                            outrider__pg_get_str(r, 0, 2));
    else if (*ret_was_there && !PQgetisnull(r, 0, 0))
        rc = outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_STOP,
                            "replication slot %s is in use by server process %lld: stop the relay "
                            "first",
                            slot, (long long)outrider__pg_get_int(r, 0, 0, 0));
    PQclear(r);
    return rc;
}

int outrider__pg_store_find_slot(struct pg_store *s, char ret_slot[64], char ret_publication[64],
                                 struct outrider_error *err)
{
    struct strbuf sql;
    PGresult *r = NULL;
    outrider__strbuf_init(&sql, 8192);
    strbuf_append_str(&sql, "WITH ");
    outrider__cdc_names_sql(&sql, s->cat.cursor_table);
    strbuf_append_str(&sql, " SELECT coalesce(nullif(slot, ''), name), publication FROM m");
    int rc = query(s, &sql, s->config->name, &r, err);
    if (rc == 0) {
        (void)snprintf(ret_slot, 64, "%s", outrider__pg_get_str(r, 0, 0));
        (void)snprintf(ret_publication, 64, "%s", outrider__pg_get_str(r, 0, 1));
    }
    PQclear(r);
    outrider__strbuf_release(&sql);
    return rc;
}

int outrider__pg_store_slot_drop(struct store *base, struct strbuf *ret_report,
                                 struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    char slot[64], publication[64];
    bool was_there = false, was_begun = false;
    if (outrider__pg_store_ready(s, err) < 0 ||
        outrider__pg_store_find_slot(s, slot, publication, err) < 0 ||
        outrider__pg_store_drop(s, slot, &was_there, err) < 0 ||
        outrider__pg_store_forget_adoption(s, &was_begun, err) < 0)
        return -1;
    if (was_begun) {
        outrider__strbuf_appendf(ret_report, "the adoption for pipeline '%s' is given up\n",
                                 s->config->name);
        return 0;
    }
    if (!was_there)
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "there is no replication slot %s", slot);
    outrider__strbuf_appendf(ret_report,
                             "replication slot %s is dropped; its publication costs nothing, and "
                             "is dropped with: DROP PUBLICATION %s\nShould pipeline '%s' be wanted "
                             "again: outrider resync --name %s\n",
                             slot, publication, s->config->name, s->config->name);
    return 0;
}

/*
 * Back to polling. Where it is known which transactions are settled (cleanup.h
 * (1)), the position is the last settled row, because the row at a position is
 * never read again. All seqs below it without a settled row are polling's gaps;
 * rows above it are read anyway. Where no row is known to be settled, polling
 * starts from where it was before the stream.
 */
static void reset_sql(struct strbuf *sql, const struct pg_store *s)
{
    outrider__strbuf_appendf(sql,
                             "WITH k AS MATERIALIZED (SELECT * FROM %s WHERE pipeline = $1 AND "
                             "outbox = $2 AND mode <> 'poll' FOR UPDATE), "
                             "w AS MATERIALIZED (SELECT w.seq, w.id, ",
                             s->cat.cursor_table);
    outrider__pg_needs_sql(sql, &s->cat, "w");
    outrider__strbuf_appendf(
        sql,
        " AS needed FROM k CROSS JOIN (SELECT i.seq, i.id::text AS id, i.xmin::text::int8 AS xmin "
        "FROM %s i WHERE i.seq > 0 AND i.seq <= (SELECT CASE WHEN is_called THEN last_value ELSE 0 "
        "END FROM %s)) w WHERE k.settled_xid "
        "IS NOT NULL AND k.system_id = %" PRId64
        "), m AS MATERIALIZED (SELECT max(seq) AS seq FROM w WHERE NOT needed), p AS (SELECT m.seq "
        "AS position, (SELECT int8multirange(int8range(1, m.seq)) - coalesce(range_agg(int8range("
        "w.seq, w.seq, '[]')), '{}') FROM w WHERE NOT w.needed) AS gaps, (SELECT w.id FROM w WHERE "
        "w.seq = m.seq) AS anchor FROM m) UPDATE %s u SET mode = 'poll', sweep = '{}', lsn = NULL, "
        "lsn_number = 0, slot = '', publication = '', epoch = u.epoch + 1, settled_xid = NULL, "
        "polled_lsn = coalesce(u.polled_lsn, pg_current_wal_insert_lsn()), position = "
        "coalesce(p.position, "
        "u.position), gaps = CASE WHEN p.position IS NULL THEN u.gaps ELSE p.gaps END, anchor_id = "
        "CASE WHEN p.position IS NULL THEN u.anchor_id ELSE p.anchor END FROM k, p WHERE "
        "u.pipeline = $1 AND u.outbox = $2 RETURNING u.position, p.position IS NOT NULL, (SELECT "
        "count(*) FROM w WHERE needed)",
        s->cat.table, s->cat.sequence, s->cat.system_id, s->cat.cursor_table);
}

/* Rows of other tables say themselves what is settled, or nobody knows. */
static void reset_mapped_sql(struct strbuf *sql, const struct pg_store *s)
{
    outrider__strbuf_appendf(
        sql,
        "UPDATE %s SET mode = 'poll', lsn = NULL, lsn_number = 0, slot = '', publication = '', "
        "epoch = "
        "epoch + 1, settled_xid = NULL, polled_lsn = coalesce(polled_lsn, "
        "pg_current_wal_insert_lsn()) WHERE pipeline = $1 AND $2::text IS NOT "
        "NULL AND mode <> 'poll'",
        s->cat.cursor_table);
}

static void tell_reset(const struct pg_store *s, const struct store_status *st, const PGresult *r,
                       struct strbuf *out)
{
    outrider__strbuf_appendf(out, "replication slot %s is lost: ", st->slot.name);
    if (outrider__pg_store_has_states(s))
        strbuf_append_str(out, "every row that is not marked as published is delivered (again), "
                               "and every row of a table without a mark");
    else if (outrider__pg_get_bool(r, 0, 1))
        outrider__strbuf_appendf(out,
                                 "%" PRId64 " rows that %s still holds were not surely delivered, "
                                 "and are delivered (again)",
                                 outrider__pg_get_int(r, 0, 2, 0), s->cat.table);
    else
        outrider__strbuf_appendf(
            out, "every row behind seq %" PRId64 " that %s still holds is delivered (again)",
            outrider__pg_get_int(r, 0, 0, 0), s->cat.table);
    outrider__strbuf_appendf(out,
                             ".\nCannot be known: events that were committed since %s and are gone "
                             "from the table, and logical messages; compare with the receiver.\n",
                             st->slot.confirmed[0] != '\0' ? st->slot.confirmed
                                                           : "the slot was lost");
}

int outrider__pg_store_slot_resync(struct pg_store *s, struct strbuf *ret_report,
                                   struct outrider_error *err)
{
    struct store_status st = {0};
    struct strbuf sql;
    PGresult *r = NULL;
    bool was_there;
    (void)snprintf(st.pipeline, sizeof st.pipeline, "%s", s->config->name);
    if (outrider__pg_store_slot_status(s, &st, err) < 0)
        return -1;
    if (!st.is_cdc)
        return 0;
    if (!st.slot.is_lost) {
        outrider__strbuf_appendf(ret_report, "replication slot %s is whole: nothing to do for it\n",
                                 st.slot.name);
        return 0;
    }
    if (st.slot.exists && outrider__pg_store_drop(s, st.slot.name, &was_there, err) < 0)
        return -1;
    outrider__strbuf_init(&sql, 8192);
    if (outrider__pg_store_has_states(s))
        reset_mapped_sql(&sql, s);
    else
        reset_sql(&sql, s);
    int rc = query(s, &sql, s->config->name, &r, err);
    if (rc == 0)
        tell_reset(s, &st, r, ret_report);
    PQclear(r);
    outrider__strbuf_release(&sql);
    return rc;
}
