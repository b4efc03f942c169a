/* SPDX-License-Identifier: MIT */
/*
 * slot adopt: begins a pipeline where another program's slot stands (Debezium's), by
 * a copy of that slot. Nothing is read from the table first.
 *
 *  (1) The server reads its log through the publication as it was at that place in
 *      the log. A publication that was made later is unknown there: older servers
 *      fail, PostgreSQL 18 leaves the events out. So the publication must be older
 *      than every transaction that the slot can still send (its catalog_xmin), and is
 *      recorded in the cursor: Debezium's own, or one that was made in time.
 *  (2) Until all is done the cursor's mode is `adopting`, and no relay starts. A
 *      failure takes everything back; after a crash the command is run again.
 *  (3) The other program's slot is not touched: it is the way back.
 */
#include <inttypes.h>
#include <stdio.h>

#include "postgres/table/table.h"
#include "base/failpoint.h"
#include "postgres/cdc/slot.h"
#include "postgres/options.h"
#include "postgres/store/slot_probe.h"

#define SQL_CAP 16384

struct adoption_work {
    struct pg_store *s;
    const struct slot_adoption *o;
    struct probe_tables tables;
    struct strbuf names;     /* of the tables, for messages */
    struct strbuf published; /* cdc.h (9) */
    char confirmed[32];      /* where the other slot stands */
    int64_t xmin;            /* its catalog_xmin: all before is published */
    char slot[64], publication[64];
    struct probe_place place;
};

static void add_names(const struct adoption_work *w, struct pg_args *a)
{
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < w->tables.n; i++)
        outrider__pg_array_text(a, bytes_str(w->tables.items[i].outbox));
    outrider__pg_array_end(a);
}

static void add_oids(const struct adoption_work *w, struct pg_args *a)
{
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < w->tables.n; i++)
        outrider__pg_array_int8(a, w->tables.items[i].oid);
    outrider__pg_array_end(a);
}

/* Any statement with arguments; the text is released. */
static int run(struct adoption_work *w, struct strbuf *sql, struct pg_args *a, const char *what,
               PGresult **ret_result, struct outrider_error *err)
{
    int rc = sql->failed
                 ? outrider__fail_nomem(err)
                 : outrider__pg_store_query(w->s, strbuf_cstr(sql), a, what, ret_result, err);
    outrider__strbuf_release(sql);
    outrider__pg_args_release(a);
    return rc;
}

static void begin(struct strbuf *sql, struct pg_args *a)
{
    outrider__strbuf_init(sql, SQL_CAP);
    outrider__pg_args_init(a);
}

/* Beside a table that is not ours our own tables are made, as a relay would. */
static int prepare(struct pg_store *s, struct outrider_error *err)
{
    struct strbuf sql;
    if (outrider__pg_store_catalog(s, err) < 0)
        return -1;
    bool is_complete = s->cat.cursor_table[0] != '\0' && s->cat.parked_table[0] != '\0';
    if (s->cat.oid == 0 || is_complete || !outrider__pg_table_has_states(&s->cat, s->config))
        return outrider__pg_store_ready(s, err);
    outrider__strbuf_init(&sql, (size_t)1 << 16);
    outrider__pg_companions_sql(&s->cat, &sql);
    int rc = sql.failed ? outrider__fail_nomem(err)
                        : outrider__pg_store_exec(s, strbuf_cstr(&sql),
                                                  "cannot make outrider's own tables", err);
    outrider__strbuf_release(&sql);
    return rc < 0 ? -1 : outrider__pg_store_ready(s, err);
}

static int lock_pipeline(struct adoption_work *w, struct outrider_error *err)
{
    struct strbuf sql, name;
    struct pg_args a;
    PGresult *r = NULL;
    begin(&sql, &a);
    outrider__strbuf_init(&name, 1024);
    outrider__strbuf_appendf(&name, "outrider/%s/%.63s", w->s->cat.table, w->s->config->name);
    strbuf_append_str(&sql, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))");
    outrider__pg_arg_str(&a, strbuf_cstr(&name));
    int rc = run(w, &sql, &a, "cannot ask for the pipeline's lock", &r, err);
    if (rc == 0 && !outrider__pg_get_bool(r, 0, 0))
        rc = outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_STOP,
                            "a relay of pipeline '%s' runs: stop the relay first",
                            w->s->config->name);
    PQclear(r);
    outrider__strbuf_release(&name);
    return rc;
}

static int read_tables(struct adoption_work *w, struct outrider_error *err)
{
    const struct pipeline_config *config = w->s->config;
    size_t n = config->source.tables.n > 0 ? config->source.tables.n : 1;
    struct strbuf sql;
    struct pg_args a;
    PGresult *r = NULL;
    if (n > PROBE_TABLES_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "source.tables: more than %d tables in one pipeline",
                              PROBE_TABLES_MAX);
    begin(&sql, &a);
    strbuf_append_str(&sql,
                      "SELECT c.oid::int8, n.nspname::text, c.relname::text, format('%I.%I', "
                      "n.nspname, c.relname), w.name FROM unnest($1::text[]) WITH ORDINALITY AS "
                      "w(name, at) LEFT JOIN pg_class c ON c.oid = to_regclass(w.name) AND "
                      "c.relkind IN ('r', 'p') LEFT JOIN pg_namespace n ON n.oid = c.relnamespace "
                      "ORDER BY w.at");
    outrider__pg_array_begin(&a, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        outrider__pg_array_text(&a, bytes_str(config->source.tables.n > 0
                                                  ? config->source.tables.items[i]
                                                  : outrider__pg_store_table(w->s)));
    outrider__pg_array_end(&a);
    int rc = run(w, &sql, &a, "cannot read the catalogue", &r, err);
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct probe_table *t = &w->tables.items[w->tables.n++];
        t->oid = (uint32_t)outrider__pg_get_int(r, i, 0, 0);
        (void)snprintf(t->schema, sizeof t->schema, "%s", outrider__pg_get_str(r, i, 1));
        (void)snprintf(t->name, sizeof t->name, "%s", outrider__pg_get_str(r, i, 2));
        (void)snprintf(t->outbox, sizeof t->outbox, "%s", outrider__pg_get_str(r, i, 3));
        outrider__strbuf_appendf(&w->names, "%s%s", i > 0 ? ", " : "", t->outbox);
        if (t->oid == 0)
            rc = outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                                "the database has no table %s", outrider__pg_get_str(r, i, 4));
    }
    PQclear(r);
    return rc;
}

static const char sql_slot[] =
    "SELECT s.slot_type, s.database IS DISTINCT FROM current_database(), s.database::text, "
    "s.temporary, coalesce((to_jsonb(s)->>'two_phase')::boolean, false), s.active_pid, "
    "coalesce(s.wal_status = 'lost' OR to_jsonb(s)->>'invalidation_reason' IS NOT NULL, false), "
    "s.confirmed_flush_lsn::text, (SELECT (n.x & ~4294967295) + c.x - CASE WHEN c.x > (n.x & "
    "4294967295) THEN 4294967296 ELSE 0 END FROM (SELECT "
    "pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS x) n, (SELECT "
    "s.catalog_xmin::text::int8 AS x) c), (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8 FROM "
    "pg_replication_slots s WHERE s.slot_name = $1";

static int refuse(const struct adoption_work *w, const char *why, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "replication slot %.63s %s",
                          w->o->from, why);
}

static int check_slot(const struct adoption_work *w, const PGresult *r, struct outrider_error *err)
{
    if (PQntuples(r) != 1)
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "there is no replication slot %.63s; the server's slots are in "
                              "pg_replication_slots, and Debezium's is named by slot.name",
                              w->o->from);
    if (strcmp(outrider__pg_get_str(r, 0, 0), "logical") != 0)
        return refuse(w, "is a physical one: only a logical slot has events", err);
    if (outrider__pg_get_bool(r, 0, 1))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "replication slot %.63s belongs to database %s: name that database "
                              "with --db",
                              w->o->from, outrider__pg_get_str(r, 0, 2));
    if (outrider__pg_get_bool(r, 0, 3))
        return refuse(w, "is temporary, and cannot be copied for later", err);
    if (outrider__pg_get_bool(r, 0, 4))
        return refuse(w,
                      "decodes prepared transactions (two_phase): what was sent at PREPARE would "
                      "come twice",
                      err);
    if (outrider__pg_get_bool(r, 0, 6) || PQgetisnull(r, 0, 7))
        return refuse(w,
                      "was invalidated by the server: what it stood for is lost; start the relay "
                      "without it, which delivers what the table still holds",
                      err);
    if (!PQgetisnull(r, 0, 5))
        return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_STOP,
                              "replication slot %.63s is read by server process %lld: stop "
                              "Debezium first, and wait until the slot is free",
                              w->o->from, (long long)outrider__pg_get_int(r, 0, 5, 0));
    return 0;
}

static int check_offset(const struct adoption_work *w, uint64_t now, struct outrider_error *err)
{
    const struct slot_offset *o = w->o->offset;
    if (o == NULL || (o->commit_lsn <= now && o->event_lsn <= now))
        return 0;
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "the offset is beyond the end of the server's log: it was noted for "
                          "another server, or before a restore");
}

static int read_slot(struct adoption_work *w, struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args a;
    PGresult *r = NULL;
    begin(&sql, &a);
    strbuf_append_str(&sql, sql_slot);
    outrider__pg_arg_str(&a, w->o->from);
    int rc = run(w, &sql, &a, "cannot read the slot", &r, err);
    if (rc == 0)
        rc = check_slot(w, r, err);
    if (rc == 0)
        rc = check_offset(w, (uint64_t)outrider__pg_get_int(r, 0, 9, INT64_MAX), err);
    if (rc == 0) {
        w->xmin = outrider__pg_get_int(r, 0, 8, 0);
        (void)snprintf(w->confirmed, sizeof w->confirmed, "%s", outrider__pg_get_str(r, 0, 7));
    }
    PQclear(r);
    return rc;
}

/* A pipeline that has delivered something has a place of its own already. */
static int check_pipeline(struct adoption_work *w, struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args a;
    PGresult *r = NULL;
    begin(&sql, &a);
    outrider__strbuf_appendf(
        &sql,
        "SELECT EXISTS (SELECT FROM %s k WHERE k.pipeline = $1 AND k.outbox = ANY ($2::text[]) AND "
        "(k.position > 0 OR k.settled_at IS NOT NULL OR k.delivered_total + k.expired_total + "
        "k.skipped_total + k.dead_total > 0)) OR EXISTS (SELECT FROM %s p WHERE p.pipeline = $1 "
        "AND p.outbox = ANY ($2::text[]))",
        w->s->cat.cursor_table, w->s->cat.parked_table);
    outrider__pg_arg_str(&a, w->s->config->name);
    add_names(w, &a);
    int rc = run(w, &sql, &a, "cannot read the cursor", &r, err);
    if (rc == 0 && outrider__pg_get_bool(r, 0, 0))
        rc = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                            "pipeline '%s' has delivered events of %s already, and goes on from "
                            "its own place; adopt the slot under another --name",
                            w->s->config->name, strbuf_cstr(&w->names));
    PQclear(r);
    return rc;
}

/* $1 the one that is asked for or '', $2 outrider's own, $3 the tables, $4 the slot's
 * catalog_xmin. A row of the catalogue whose xmin lies in the future is an old, frozen one. */
static void publication_sql(struct strbuf *sql, int version)
{
    strbuf_append_str(
        sql,
        "SELECT p.name, p.fits, p.young IS NULL, count(*) FILTER (WHERE p.fits AND p.young IS NULL "
        "AND p.rank = 3) OVER () > 1 AND p.rank = 3, p.young, p.tokens FROM (SELECT "
        "p.pubname::text AS name, "
        "p.pubinsert AND NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = "
        "c.relnamespace WHERE c.oid IN (SELECT w::oid FROM unnest($3::int8[]) w) AND NOT "
        "EXISTS (SELECT FROM pg_publication_tables t WHERE t.pubname = p.pubname AND "
        "t.schemaname = n.nspname AND t.tablename = c.relname)) AND NOT EXISTS (SELECT FROM "
        "pg_publication_rel q WHERE q.prpubid = p.oid AND q.prrelid IN (SELECT w::oid FROM "
        "unnest($3::int8[]) w) AND (to_jsonb(q)->>'prqual' IS NOT NULL OR "
        "to_jsonb(q)->>'prattrs' IS NOT NULL)) AS fits, (SELECT array_agg(DISTINCT "
        "w.token)::text FROM ");
    outrider__cdc_published_sql(sql, version, "$3");
    strbuf_append_str(sql, " w) AS tokens, (SELECT max(w.x::text::int8) FROM ");
    outrider__cdc_published_sql(sql, version, "$3");
    strbuf_append_str(
        sql, " w WHERE ((w.x::text::int8 - $4) & 4294967295) < 2147483648 AND age(w.x) >= 0) AS "
             "young, CASE WHEN p.pubname = 'dbz_publication' THEN 1 WHEN p.pubname = $2 THEN 2 "
             "ELSE 3 END AS rank FROM pg_publication p WHERE $1 IN ('', p.pubname)) p ORDER BY "
             "p.fits DESC, p.young IS NULL DESC, p.rank, p.name LIMIT 1");
}

static int judge_publication(struct adoption_work *w, const PGresult *r, const char *wanted,
                             struct outrider_error *err)
{
    const char *name = PQntuples(r) == 1 ? outrider__pg_get_str(r, 0, 0) : "";
    if (*name == '\0' || (*wanted == '\0' && !outrider__pg_get_bool(r, 0, 1)))
        return outrider__fail(
            err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
            "%s%s%s; the log before slot %.63s can be read only through a publication that was "
            "there at the time: Debezium's (publication.name), given with --set "
            "source.publication=NAME",
            *wanted == '\0' ? "no publication publishes all inserts into "
                            : "there is no publication ",
            *wanted == '\0' ? strbuf_cstr(&w->names) : wanted, "", w->o->from);
    if (!outrider__pg_get_bool(r, 0, 1))
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "publication %s does not publish all inserts into %s", name,
                              strbuf_cstr(&w->names));
    if (!outrider__pg_get_bool(r, 0, 2))
        return outrider__fail(
            err, OUTRIDER_HISTORY, OUTRIDER_STOP,
            "publication %s was made or altered after the place where slot %.63s stands, or just "
            "before: the server reads its log through the publication as it was then, and events "
            "would be missing; let Debezium run on until the slot has passed that moment "
            "(catalog_xmin in pg_replication_slots above %" PRId64
            "), stop Debezium, and try again",
            name, w->o->from, outrider__pg_get_int(r, 0, 4, 0));
    if (outrider__pg_get_bool(r, 0, 3))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "several publications publish %s; say which with --set "
                              "source.publication=NAME",
                              strbuf_cstr(&w->names));
    (void)snprintf(w->publication, sizeof w->publication, "%s", name);
    strbuf_append_str(&w->published, outrider__pg_get_str(r, 0, 5));
    return 0;
}

/* Contract (1). */
static int choose_publication(struct adoption_work *w, struct outrider_error *err)
{
    const char *wanted = postgres_options(w->s->config)->publication;
    struct strbuf sql;
    struct pg_args a;
    PGresult *r = NULL;
    char own[64];
    if (outrider__pg_store_find_slot(w->s, w->slot, own, err) < 0)
        return -1;
    if (wanted == NULL)
        wanted = "";
    begin(&sql, &a);
    publication_sql(&sql, w->s->cat.version);
    outrider__pg_arg_str(&a, wanted);
    outrider__pg_arg_str(&a, own);
    add_oids(w, &a);
    outrider__pg_arg_int8(&a, w->xmin);
    int rc = run(w, &sql, &a, "cannot read the publications", &r, err);
    if (rc == 0)
        rc = judge_publication(w, r, wanted, err);
    PQclear(r);
    return rc;
}

/* cdc/slot.h (1). A slot that this pipeline's cursor records is of an adoption before. */
static int record(struct adoption_work *w, struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args a;
    PGresult *r = NULL;
    begin(&sql, &a);
    outrider__strbuf_appendf(
        &sql,
        "INSERT INTO %s AS k (pipeline, outbox, mode, slot, publication) SELECT $1, $2, "
        "'adopting', $3, $4 WHERE NOT EXISTS (SELECT FROM pg_replication_slots r WHERE r.slot_name "
        "= $3 AND NOT EXISTS (SELECT FROM %s j WHERE j.pipeline = $1 AND j.outbox = $2 AND j.slot "
        "= $3)) ON CONFLICT (pipeline, outbox) DO UPDATE SET mode = 'adopting', slot = $3, "
        "publication = $4, epoch = k.epoch + 1, lsn = NULL, lsn_number = 0, sweep = '{}' RETURNING "
        "1",
        w->s->cat.cursor_table, w->s->cat.cursor_table);
    outrider__pg_arg_str(&a, w->s->config->name);
    outrider__pg_arg_str(&a, w->s->cat.table);
    outrider__pg_arg_str(&a, w->slot);
    outrider__pg_arg_str(&a, w->publication);
    int rc = run(w, &sql, &a, "cannot save the cursor", &r, err);
    if (rc == 0 && PQntuples(r) != 1)
        rc = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                            "replication slot %s is there, and no pipeline of this database owns "
                            "the slot; if nobody needs the slot: outrider slot drop --name %s",
                            w->slot, w->s->config->name);
    PQclear(r);
    return rc;
}

static int copy_slot(struct adoption_work *w, const char *from, const char *to, bool is_temporary,
                     struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args a;
    begin(&sql, &a);
    strbuf_append_str(&sql, "SELECT pg_copy_logical_replication_slot($1, $2, $3, 'pgoutput')");
    outrider__pg_arg_str(&a, from);
    outrider__pg_arg_str(&a, to);
    outrider__pg_arg_bool(&a, is_temporary);
    return run(w, &sql, &a, "cannot copy the replication slot", NULL, err);
}

/* Whoever started Debezium meanwhile has moved its slot. */
static int check_still(struct adoption_work *w, struct outrider_error *err)
{
    char before[sizeof w->confirmed];
    memcpy(before, w->confirmed, sizeof before);
    if (read_slot(w, err) < 0)
        return -1;
    if (strcmp(before, w->confirmed) != 0)
        return refuse(w, "moved on meanwhile: stop Debezium first", err);
    return 0;
}

/* The probe's own copy ends with this session. */
static int find_place(struct adoption_work *w, struct outrider_error *err)
{
    char probe[64];
    const struct slot_offset *o = w->o->offset;
    if (o == NULL || (o->commit_lsn == 0 && o->event_lsn == 0))
        return 0;
    (void)snprintf(probe, sizeof probe, "%.56s_probe", w->slot);
    if (copy_slot(w, w->slot, probe, true, err) < 0)
        return -1;
    return outrider__pg_slot_probe(w->s, probe, w->publication, &w->tables, o, &w->place, err);
}

/* Rows from before the slot are settled: clean-up, resync and status go by that. */
static void finish_sql(struct strbuf *sql, const struct pg_store *s)
{
    outrider__strbuf_appendf(sql,
                             "WITH a AS (UPDATE %s SET mode = 'cdc', published = $7::text::text[], "
                             "lsn = $3::text::pg_lsn, lsn_number = $4, "
                             "settled_xid = $5, system_id = %" PRId64 ", last_seq = ",
                             s->cat.cursor_table, s->cat.system_id);
    if (s->cat.has_seq && !outrider__pg_table_has_states(&s->cat, s->config))
        outrider__strbuf_appendf(sql,
                                 "coalesce((SELECT o.seq FROM %s o WHERE ((o.xmin::text::int8 - "
                                 "$5) & 4294967295) >= 2147483648 ORDER BY o.seq DESC LIMIT 1), 0)",
                                 s->cat.table);
    else
        strbuf_append_str(sql, "0");
    outrider__strbuf_appendf(
        sql,
        " WHERE pipeline = $1 AND outbox = $2 AND mode = 'adopting' RETURNING 1), b AS (INSERT "
        "INTO %s AS k (pipeline, outbox, mode) SELECT $1, t.name, 'member' FROM "
        "unnest($6::text[]) AS t(name) WHERE t.name <> $2 ON CONFLICT (pipeline, outbox) DO UPDATE "
        "SET mode = 'member', epoch = k.epoch + 1) SELECT 1 / (SELECT count(*) FROM a)",
        s->cat.cursor_table);
}

static int finish(struct adoption_work *w, struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args a;
    char lsn[32];
    int errno_value = FAILPOINT("slot.adopt_finish");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save the cursor");
    begin(&sql, &a);
    finish_sql(&sql, w->s);
    (void)snprintf(lsn, sizeof lsn, "%X/%X", (unsigned)(w->place.lsn >> 32),
                   (unsigned)w->place.lsn);
    outrider__pg_arg_str(&a, w->s->config->name);
    outrider__pg_arg_str(&a, w->s->cat.table);
    if (w->place.lsn != 0)
        outrider__pg_arg_str(&a, lsn);
    else
        outrider__pg_arg_null(&a, PG_TEXT);
    outrider__pg_arg_int8(&a, w->place.number);
    outrider__pg_arg_int8(&a, w->xmin);
    add_names(w, &a);
    outrider__pg_arg_str(&a, strbuf_cstr(&w->published));
    return run(w, &sql, &a, "cannot save the cursor", NULL, err);
}

int outrider__pg_store_forget_adoption(struct pg_store *s, bool *ret_was_there,
                                       struct outrider_error *err)
{
    struct strbuf sql;
    struct pg_args a;
    PGresult *r = NULL;
    begin(&sql, &a);
    outrider__strbuf_appendf(&sql,
                             "UPDATE %s SET mode = 'poll', slot = '', publication = '', epoch = "
                             "epoch + 1 WHERE pipeline = $1 AND outbox = $2 AND mode = 'adopting'",
                             s->cat.cursor_table);
    outrider__pg_arg_str(&a, s->config->name);
    outrider__pg_arg_str(&a, s->cat.table);
    struct adoption_work w = {.s = s};
    int rc = run(&w, &sql, &a, "cannot save the cursor", &r, err);
    *ret_was_there = rc == 0 && outrider__pg_store_changed(r) > 0;
    PQclear(r);
    return rc;
}

static int make(struct adoption_work *w, struct outrider_error *err)
{
    bool was_there;
    if (outrider__pg_store_drop(w->s, w->slot, &was_there, err) < 0)
        return -1;
    int errno_value = FAILPOINT("slot.adopt_copy");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot copy the replication slot");
    if (copy_slot(w, w->o->from, w->slot, false, err) < 0 || check_still(w, err) < 0 ||
        find_place(w, err) < 0)
        return -1;
    return finish(w, err);
}

/* Contract (2). */
static int adopt(struct adoption_work *w, struct outrider_error *err)
{
    bool was_there;
    if (record(w, err) < 0)
        return -1;
    if (make(w, err) == 0)
        return 0;
    (void)outrider__pg_store_exec(w->s, "ROLLBACK", "cannot roll back", NULL);
    if (outrider__pg_store_drop(w->s, w->slot, &was_there, NULL) == 0)
        (void)outrider__pg_store_forget_adoption(w->s, &was_there, NULL);
    return -1;
}

static void report(const struct adoption_work *w, struct strbuf *out)
{
    const char *name = w->s->config->name;
    outrider__strbuf_appendf(out,
                             "pipeline '%s' begins where slot %s stands (%s), with slot %s, a copy "
                             "of it, and publication %s; keep that publication\n",
                             name, w->o->from, w->confirmed, w->slot, w->publication);
    if (w->o->offset == NULL)
        strbuf_append_str(out, "No offset was given: what Debezium published last, at least its "
                               "last transaction, comes again; --offset leaves that out\n");
    else if (w->place.number > 0)
        outrider__strbuf_appendf(out,
                                 "Left out by the offset: everything up to event %" PRId64
                                 " of the transaction with its commit at %X/%X\n",
                                 w->place.number, (unsigned)(w->place.lsn >> 32),
                                 (unsigned)w->place.lsn);
    else
        outrider__strbuf_appendf(out, "Left out by the offset: what was committed up to %X/%X\n",
                                 (unsigned)(w->place.lsn >> 32), (unsigned)w->place.lsn);
    if (w->place.is_in_doubt)
        strbuf_append_str(out, "The offset stands among rows that one COPY wrote, or cannot be "
                               "told from a transaction's beginning: those come again\n");
    outrider__strbuf_appendf(out,
                             "Slot %s stays, and the server keeps its log for it; once there is no "
                             "way back to Debezium: SELECT pg_drop_replication_slot('%s')\n",
                             w->o->from, w->o->from);
}

int outrider__pg_store_slot_adopt(struct store *base, const struct slot_adoption *o,
                                  struct strbuf *ret_report, struct outrider_error *err)
{
    struct adoption_work w = {.s = pg_store_of(base), .o = o};
    outrider__strbuf_init(&w.names, SQL_CAP);
    outrider__strbuf_init(&w.published, SQL_CAP);
    int rc = prepare(w.s, err);
    if (rc == 0)
        rc = lock_pipeline(&w, err);
    if (rc == 0)
        rc = read_tables(&w, err);
    if (rc == 0)
        rc = read_slot(&w, err);
    if (rc == 0)
        rc = check_pipeline(&w, err);
    if (rc == 0)
        rc = choose_publication(&w, err);
    if (rc == 0 && strcmp(w.slot, o->from) == 0)
        rc = refuse(&w, "is the slot of this pipeline itself", err);
    if (rc == 0)
        rc = adopt(&w, err);
    if (rc == 0)
        report(&w, ret_report);
    outrider__strbuf_release(&w.names);
    outrider__strbuf_release(&w.published);
    return rc;
}
