/* SPDX-License-Identifier: MIT */
/* The statements of mode cdc. */
#include "postgres/cdc/cdc.h"

/*
 * In these texts (cursor.h) $E is the columns of an event (with $3 as the
 * bounds: columns.h), $B the types that can be read in binary form, $P the
 * table of parked events, $N the names of slot and publication. $U is whether the
 * publication is as it was ($1 to $3: outrider__cdc_published_args()); $V the same and
 * $W what it is now, with the arguments of CDC_FACTS.
 */
static const char *const templates[CDC_STATEMENTS] = {
    [CDC_ENROL] = PG_ENROL_SQL,
    [CDC_READ_CURSOR] =
        "SELECT k.sink, k.mode, k.epoch, k.on_dead, k.position, k.gaps::text, k.sweep::text, "
        "(k.lsn - '0/0'::pg_lsn)::int8, k.lsn_number, pg_backend_pid(), (SELECT string_agg(t.name, "
        "', ') FROM unnest($3::text[]) AS t(name) WHERE t.name <> $2 AND k.mode = 'cdc' AND NOT "
        "EXISTS (SELECT FROM $K j WHERE j.pipeline = $1 AND j.outbox = t.name AND j.mode = "
        "'member')), (k.polled_lsn - '0/0'::pg_lsn)::int8, NOT EXISTS (SELECT FROM $K j WHERE "
        "j.pipeline = $1 AND j.outbox = ANY ($3::text[]) AND (j.position > 0 OR j.settled_at IS "
        "NOT "
        "NULL OR j.polled_lsn IS NOT NULL)), k.published::text FROM $K k "
        "WHERE k.pipeline = $1 AND k.outbox = $2",
    /* cdc/slot.h: records the slot unless one of that name is there, whoever made that. */
    [CDC_NAMES] =
        "WITH $N, u AS (UPDATE $K k SET slot = m.name FROM m WHERE k.pipeline = $1::text AND "
        "k.outbox = $2::text AND k.mode = 'poll' AND (k.slot = '' OR EXISTS (SELECT FROM "
        "pg_replication_slots r WHERE r.slot_name = k.slot AND r.database IS DISTINCT FROM "
        "current_database())) AND NOT EXISTS (SELECT FROM pg_replication_slots r WHERE r.slot_name "
        "= m.name) RETURNING k.slot) SELECT coalesce((SELECT u.slot FROM u), nullif(m.slot, ''), "
        "m.name), m.slot <> '' OR EXISTS (SELECT FROM u), m.publication FROM m",
    /* $1 slot, $2 the tables' oids, $3 and $4 the columns that are read, $5 publication, $6 its
     * rows that the cursor records. */
    [CDC_FACTS] =
        "SELECT current_setting('wal_level'), quote_ident(current_user), (SELECT r.rolreplication "
        "OR r.rolsuper FROM pg_roles r WHERE r.rolname = current_user), "
        "has_database_privilege(current_database(), 'CREATE') AND (SELECT "
        "bool_and(pg_has_role(c.relowner, 'USAGE')) FROM pg_class c WHERE c.oid IN (SELECT w::oid "
        "FROM unnest($2::int8[]) w)), (SELECT g.setting::int8 FROM pg_settings g WHERE g.name = "
        "'wal_sender_timeout'), current_setting('max_replication_slots')::int8, (SELECT count(*) "
        "FROM pg_replication_slots), current_setting('max_wal_senders')::int8, (SELECT count(*) "
        "FROM pg_stat_replication), p.oid IS NOT NULL, p.pubinsert AND NOT EXISTS (SELECT FROM "
        "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid IN (SELECT w::oid "
        "FROM unnest($2::int8[]) w) AND NOT EXISTS (SELECT FROM pg_publication_tables t WHERE "
        "t.pubname = p.pubname AND t.schemaname = n.nspname AND t.tablename = c.relname)), EXISTS "
        "(SELECT FROM pg_publication_rel q WHERE q.prpubid = p.oid AND q.prrelid IN (SELECT w::oid "
        "FROM unnest($2::int8[]) w) AND (to_jsonb(q)->>'prqual' IS NOT NULL OR "
        "to_jsonb(q)->>'prattrs' IS NOT NULL)), s.slot_name IS NOT NULL, s.database IS DISTINCT "
        "FROM current_database(), s.database::text, s.plugin IS DISTINCT FROM 'pgoutput', "
        "coalesce(s.wal_status = 'lost' OR to_jsonb(s)->>'invalidation_reason' IS NOT NULL, "
        "false), s.active_pid, (SELECT bool_and(a.atttypid IN ($B)) FROM unnest($3::int8[], "
        "$4::text[]) AS w(rel, name) JOIN pg_attribute a ON a.attrelid = w.rel::oid AND a.attname "
        "= w.name AND a.attnum > 0 AND NOT a.attisdropped), "
        "coalesce((to_jsonb(s)->>'failover')::bool, "
        "false), $V, $W FROM (SELECT 1) one LEFT JOIN "
        "pg_publication p ON p.pubname = $5 LEFT JOIN pg_replication_slots s ON s.slot_name = $1",
    [CDC_DROP_SLOT] = "SELECT count(pg_drop_replication_slot(s.slot_name)), (SELECT count(*) FROM "
                      "pg_replication_slots t WHERE t.slot_name = $1 AND t.active) FROM "
                      "pg_replication_slots s WHERE s.slot_name = $1 AND NOT s.active AND "
                      "s.database = current_database()",
    [CDC_TAKE] = PG_TAKE_SQL,
    [CDC_SAVE] = PG_SAVE_SQL(
        "lsn = coalesce($4::text::pg_lsn, lsn), lsn_number = coalesce($5, lsn_number), sweep = "
        "CASE WHEN $6::int8 IS NULL THEN sweep WHEN $6 = 9223372036854775807 THEN '{}' ELSE sweep "
        "* "
        "int8multirange(int8range($6, NULL, '()')) END, last_seq = greatest(last_seq, $13)"),
    [CDC_READ_ROWS] =
        "SELECT r.* FROM unnest($1::int8[], $4::int8[]) AS g(low, high) CROSS JOIN LATERAL (SELECT "
        "$E FROM $T o WHERE o.seq >= g.low AND o.seq <= g.high ORDER BY o.seq LIMIT $2) r ORDER BY "
        "r.seq LIMIT $2",
    /* The message is committed, so the log goes on beyond the position. */
    [CDC_MARK] = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8, "
                 "pg_logical_emit_message(true, 'outrider.mark', ''), "
                 "pg_snapshot_xmin(pg_current_snapshot())::text::int8, $U",
    [CDC_PULSE] =
        "SELECT count(DISTINCT c.oid) = cardinality($2::int8[]), "
        "pg_snapshot_xmin(pg_current_snapshot())::text::int8, (pg_current_wal_insert_lsn() - "
        "'0/0'::pg_lsn)::int8, $U FROM pg_publication p JOIN "
        "pg_publication_tables t ON t.pubname = p.pubname JOIN pg_class c ON c.relname = "
        "t.tablename JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname "
        "WHERE p.pubname = $1 AND p.pubinsert AND c.oid IN (SELECT w::oid FROM unnest($2::int8[]) "
        "w)",
    [CDC_PUBLISHED] = "SELECT $U",
    [CDC_SAVE_PUBLISHED] = "UPDATE $K SET published = $3::text::text[] WHERE pipeline = $1 AND "
                           "outbox = $2 AND published = '{}'",
    /* In the new slot's snapshot: what polling had not settled. The cursor is
     * read as it was then; what was settled since is taken out when this is saved. */
    [CDC_PLAN_SWEEP] =
        "SELECT coalesce(range_agg(int8range(y.low, CASE WHEN y.high < 9223372036854775807 THEN "
        "y.high + 1 END)), '{}')::text FROM (SELECT min(x.seq) AS low, max(x.seq) AS high FROM "
        "(SELECT u.seq, u.seq - row_number() OVER "
        "(ORDER BY u.seq) AS island FROM (SELECT o.seq FROM $T o WHERE o.seq > (SELECT k.position "
        "FROM $K k WHERE k.pipeline = $1 AND k.outbox = $2) UNION ALL SELECT o.seq FROM $K k CROSS "
        "JOIN LATERAL unnest(k.gaps) AS g(r) CROSS JOIN LATERAL (SELECT i.seq FROM $T i WHERE "
        "i.seq >= lower(g.r) AND i.seq < upper(g.r)) o WHERE k.pipeline = $1 AND k.outbox = $2) u) "
        "x GROUP BY x.island) y",
    /* In the temporary slot's snapshot: everything in it will have been delivered. Polling does
     * not go beyond the sequence (log.h (9)). */
    [CDC_PLAN_POLL] =
        "WITH q AS MATERIALIZED (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS top FROM "
        "$S) SELECT coalesce(max(y.high), "
        "0), (CASE WHEN count(*) = 0 THEN '{}' ELSE "
        "int8multirange(int8range(1, max(y.high), '[]')) END - coalesce(range_agg(int8range(y.low, "
        "y.high, '[]')), '{}'))::text, (SELECT " PG_ANCHOR_OF(
            "o.id") " FROM $T o WHERE o.seq > 0 AND o.seq <= (SELECT top FROM q) ORDER BY o.seq "
                    "DESC LIMIT 1) FROM (SELECT min(x.seq) AS low, max(x.seq) AS high FROM (SELECT "
                    "o.seq, o.seq - row_number() OVER (ORDER BY o.seq) AS island FROM $T o WHERE "
                    "o.seq > 0 AND o.seq <= (SELECT top FROM q)) x GROUP BY x.island) y",
    /* cdc.h (2). While this statement runs nobody can truncate the outbox, so an anchor that
     * is there says that everything in the log before polled_lsn is of the old history. */
    [CDC_SAVE_CDC] =
        "WITH a AS (UPDATE $K k SET mode = 'cdc', sweep = $4::text::int8multirange * (gaps + "
        "int8multirange(int8range(position, NULL, '()'))), lsn = NULL, lsn_number = 0, polled_lsn "
        "= pg_current_wal_insert_lsn(), published = $5::text::text[] WHERE pipeline = $1 AND "
        "outbox = $2 AND epoch = $3 AND "
        "(anchor_id IS NULL OR EXISTS (SELECT FROM $T o WHERE o.seq = k.position AND " PG_ANCHOR_OF(
            "o.id") " = " PG_ANCHOR_OF("k.anchor_id") ")) RETURNING 1) SELECT 1 / (SELECT count(*) "
                                                      "FROM a)",
    [CDC_SAVE_MAPPED] =
        "WITH a AS (UPDATE $K SET mode = 'cdc', sweep = '{}', lsn = NULL, lsn_number = 0, "
        "published = $6::text::text[] WHERE "
        "pipeline = $1 AND outbox = $2 AND epoch = $3 RETURNING 1), b AS (INSERT INTO $K AS k "
        "(pipeline, outbox, sink, mode) SELECT $1, t.name, $5, 'member' FROM unnest($4::text[]) AS "
        "t(name) WHERE t.name <> $2 ON CONFLICT (pipeline, outbox) DO UPDATE SET mode = 'member', "
        "epoch = k.epoch + 1) SELECT 1 / (SELECT count(*) FROM a)",
    [CDC_SAVE_SKIPPED] =
        "WITH a AS (UPDATE $K SET mode = 'cdc', sweep = '{}', lsn = NULL, lsn_number = 0, last_seq "
        "= coalesce((SELECT max(o.seq) FROM $T o), 0), published = $4::text::text[] WHERE pipeline "
        "= $1 AND outbox = $2 AND "
        "epoch "
        "= $3 RETURNING 1) SELECT 1 / (SELECT count(*) FROM a)",
    /* Rows of the first table that have an oid already are there from a move that was cut short. */
    [CDC_GATHER] =
        "UPDATE $P p SET outbox = $2, seq = t.oid FROM unnest($3::text[], $4::int8[]) AS t(name, "
        "oid) WHERE p.pipeline = $1 AND p.outbox = t.name AND (p.outbox <> $2 OR p.seq <> ALL "
        "($4::int8[]))",
    [CDC_SAVE_LEAVING] =
        "WITH a AS (UPDATE $K SET mode = 'leaving', position = $4, gaps = "
        "$5::text::int8multirange, anchor_id = $6, sweep = '{}', lsn = NULL, lsn_number = 0 WHERE "
        "pipeline = $1 AND outbox = $2 AND epoch = $3 RETURNING 1) SELECT 1 / (SELECT count(*) "
        "FROM a)",
    [CDC_SAVE_POLL] = "UPDATE $K SET mode = 'poll', slot = '', publication = '' WHERE pipeline = "
                      "$1 AND outbox = $2 "
                      "AND mode = 'leaving'",
    [CDC_WAITED_FOR] =
        "SELECT w.pid, coalesce((SELECT format('%s of %s, server process %s, open since %s, %s', "
        "a.application_name, a.usename, a.pid, a.xact_start, a.state) FROM pg_stat_activity a "
        "WHERE a.pid = w.pid), (SELECT format('prepared transaction %s of %s, prepared %s', x.gid, "
        "x.owner, x.prepared) FROM pg_prepared_xacts x ORDER BY x.prepared LIMIT 1), 'unknown') "
        "FROM unnest(pg_blocking_pids($1)) AS w(pid) LIMIT 1",
    [CDC_END_READER] =
        "SELECT pg_terminate_backend(s.active_pid) FROM pg_replication_slots s JOIN "
        "pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = $1 AND a.usename = "
        "current_user",
    /* While it waits for a transaction it does not notice that its client is gone. */
    [CDC_END_MAKER] = "SELECT pg_terminate_backend($1)",
    /* A transaction is in the stream as soon as its commit is in the log, and others see its
     * rows a moment later, or much later where it waits for a standby. */
    [CDC_VISIBLE] =
        "WITH RECURSIVE s AS MATERIALIZED (SELECT pg_snapshot_xmin(p)::text::int8 AS low, "
        "pg_snapshot_xmax(p)::text::int8 AS high FROM pg_current_snapshot() p), x AS MATERIALIZED "
        "(SELECT f.xid FROM s CROSS JOIN unnest($1::int8[]) AS u(xid) CROSS JOIN LATERAL (SELECT "
        "(s.high & ~4294967295) + u.xid - CASE WHEN u.xid > (s.high & 4294967295) THEN 4294967296 "
        "ELSE 0 END AS xid) f WHERE f.xid >= s.low), w(n, is_over) AS (SELECT 0, NOT EXISTS "
        "(SELECT FROM x WHERE pg_xact_status(x.xid::text::xid8) = 'in progress') UNION ALL SELECT "
        "w.n + 1, NOT EXISTS (SELECT FROM x WHERE pg_xact_status(x.xid::text::xid8) = 'in "
        "progress' AND pg_sleep(0.0005 + 0 * w.n) IS NOT NULL) FROM w WHERE NOT w.is_over) SELECT "
        "max(n) FROM w",
    [CDC_SETTLED] = "UPDATE $K SET settled_xid = $4 WHERE pipeline = $1 AND outbox = $2 AND epoch "
                    "= $3 RETURNING ctid",
};

static const char *const purposes[CDC_STATEMENTS] = {
    [CDC_ENROL] = "cannot take over the pipeline",
    [CDC_READ_CURSOR] = "cannot read the cursor",
    [CDC_NAMES] = "cannot name the replication slot",
    [CDC_FACTS] = "cannot read the catalogue",
    [CDC_DROP_SLOT] = "cannot drop the replication slot",
    [CDC_TAKE] = "cannot take over the pipeline",
    [CDC_SAVE] = "cannot settle",
    [CDC_READ_ROWS] = "cannot read the outbox",
    [CDC_MARK] = "cannot read the log's position",
    [CDC_PULSE] = "cannot read the catalogue",
    [CDC_PUBLISHED] = "cannot read the catalogue",
    [CDC_SAVE_PUBLISHED] = "cannot save the cursor",
    [CDC_PLAN_SWEEP] = "cannot read the outbox",
    [CDC_PLAN_POLL] = "cannot read the outbox",
    [CDC_SAVE_CDC] = "cannot save the cursor",
    [CDC_SAVE_MAPPED] = "cannot save the cursor",
    [CDC_SAVE_SKIPPED] = "cannot save the cursor",
    [CDC_GATHER] = "cannot change parked events",
    [CDC_SAVE_LEAVING] = "cannot save the cursor",
    [CDC_SAVE_POLL] = "cannot save the cursor",
    [CDC_WAITED_FOR] = "cannot read the locks",
    [CDC_END_READER] = "cannot end the slot's last reader",
    [CDC_END_MAKER] = "cannot end the making of a slot",
    [CDC_SETTLED] = "cannot save the cursor",
    [CDC_VISIBLE] = "cannot wait for a commit",
};

static void append_types(struct strbuf *sql)
{
    const char *comma = "";
    for (uint32_t type = 1; type < 4096; type++) {
        if (!outrider__cdc_reads_binary(type))
            continue;
        outrider__strbuf_appendf(sql, "%s%u", comma, type);
        comma = ", ";
    }
}

static void append_tokens(struct strbuf *sql, const struct pg_source *s)
{
    strbuf_append_str(sql, "(SELECT w.tokens FROM (");
    outrider__cdc_tokens_sql(sql, s->cat.version, "$5", "$2");
    strbuf_append_str(sql, ") AS w(tokens, n))");
}

static void letter(struct strbuf *sql, char c, const struct pg_source *s)
{
    struct pg_bounds bounds = outrider__pg_bounds_of(3);
    if (c == 'E' && s->cat.payload_type != 0)
        outrider__pg_sql_log_event(sql, &s->cat, &bounds, NULL);
    else if (c == 'B')
        append_types(sql);
    else if (c == 'N')
        outrider__cdc_names_sql(sql, s->cat.cursor_table);
    else if (c == 'P')
        strbuf_append_str(sql, s->cat.parked_table);
    else if (c == 'U')
        outrider__cdc_unchanged_sql(sql, s->cat.version, "$1", "$2", "$3");
    else if (c == 'V')
        outrider__cdc_unchanged_sql(sql, s->cat.version, "$5", "$2", "$6");
    else if (c == 'W')
        append_tokens(sql, s);
}

int outrider__cdc_prepare_sql(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    for (int i = 0; i < CDC_STATEMENTS; i++) {
        c->sql[i] = outrider__pg_expand(templates[i], s, letter);
        if (c->sql[i] == NULL)
            return outrider__fail_nomem(err);
        c->st[i] = (struct pg_statement){.sql = c->sql[i],
                                         .what = purposes[i],
                                         .purpose = i == CDC_SAVE ? PG_SETTLES : PG_READS};
    }
    c->st_begin = (struct pg_statement){.sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                                        .what = "cannot read the slot's snapshot"};
    c->st_commit =
        (struct pg_statement){.sql = "COMMIT", .what = "cannot read the slot's snapshot"};
    return outrider__pg_parked_init(&c->parked, &s->cat, s->config, NULL, c->tables.oversize_sql,
                                    err);
}
