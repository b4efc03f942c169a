-- SPDX-License-Identifier: MIT
-- Statements that several layouts share. Words of every statement: wire/statements.h.

-- The cursor: shared/cursor.h. $1 is the pipeline and $2 the outbox in all of them.

-- name: cursor_enrol
-- Makes the cursor's row, where there is none.
INSERT INTO @cursor@ (pipeline, outbox)
VALUES ($1, $2)
ON CONFLICT (pipeline, outbox) DO NOTHING

-- name: cursor_take
-- Takes the pipeline over: raises the epoch. $3 is the epoch that was read, $4 the sink's
-- identity, $5 on_dead, $6 system_id, $7 timeline. Columns: enum pg_take_column.
UPDATE @cursor@
SET epoch = epoch + 1, sink = $4, on_dead = $5, system_id = $6, timeline = $7
WHERE pipeline = $1 AND outbox = $2 AND epoch = $3
RETURNING epoch, ctid

-- name: cursor_totals
-- The word @totals@ of cursor_save.
settled_at = coalesce($7, settled_at),
delivered_total = delivered_total + $8,
expired_total = expired_total + $9,
skipped_total = skipped_total + $10,
dead_total = dead_total + $11

-- name: cursor_save
-- Saves the cursor, or divides by zero when the epoch is not $3 any more. @sets@ are the
-- layout's own assignments with $4 to $6; $7 to $12 come from outrider__pg_cursor_totals().
-- The first update goes by the row's version that was written last ($12): while an old
-- snapshot is held, the way over the key leads past all dead versions of the row.
-- Columns: enum pg_save_column.
WITH by_version AS (
    UPDATE @cursor@ k
    SET @sets@, @totals@
    WHERE k.ctid = $12 AND k.pipeline = $1 AND k.outbox = $2 AND k.epoch = $3
    RETURNING k.ctid
), by_key AS (
    UPDATE @cursor@ k
    SET @sets@, @totals@
    WHERE k.pipeline = $1 AND k.outbox = $2 AND k.epoch = $3 AND NOT EXISTS (SELECT FROM by_version)
    RETURNING k.ctid
), saved AS (
    SELECT ctid FROM by_version UNION ALL SELECT ctid FROM by_key
)
SELECT (SELECT ctid FROM saved), 1 / (SELECT count(*) FROM saved)

-- Exactly once: shared/intent.h. $1 is the pipeline, $2 the outbox. $3 is either the names of
-- the pipeline's tables as the user wrote them (then @mine@ is intent_mine), or the epoch.
-- A statement that finds another epoch divides by zero.

-- name: intent_mine
-- The word @mine@: the pipeline's tables, qualified and quoted.
(SELECT coalesce(array_agg(format('%I.%I', n.nspname, c.relname)), '{}')
FROM unnest($3::text[]) AS u(name)
JOIN pg_class c ON c.oid = to_regclass(u.name)
JOIN pg_namespace n ON n.oid = c.relnamespace)

-- name: intent_lock
-- Lets one relay of a pipeline's name start at a time.
SELECT pg_advisory_xact_lock(hashtextextended('outrider/intent/' || $1, 0))

-- name: intent_others
-- Rows of this name that are not this pipeline's, but hold tables of it. Of a row without an
-- outbox nobody knows whose it is (schema_upgrade.sql). Columns: enum intent_others_column.
SELECT o.outbox, o.body IS NOT NULL AS has_body, array_to_string(o.tables, ', ')
FROM @companions@.outrider_intent o
WHERE o.pipeline = $1 AND o.outbox <> $2
    AND (o.outbox = '' OR o.identity <> '' AND o.tables && @mine@)
ORDER BY has_body DESC
LIMIT 1

-- name: intent_take
-- Takes the row over, unless intent_others finds one. $4 is the pipeline's identity.
-- Columns: enum intent_take_column.
INSERT INTO @companions@.outrider_intent AS i (pipeline, outbox, identity, tables)
SELECT $1, $2, $4, @mine@
WHERE NOT EXISTS (
    SELECT FROM @companions@.outrider_intent o
    WHERE o.pipeline = $1 AND o.outbox <> $2
        AND (o.outbox = '' OR o.identity <> '' AND o.tables && @mine@))
ON CONFLICT (pipeline, outbox) DO UPDATE
SET epoch = i.epoch + 1, identity = $4, tables = excluded.tables
RETURNING epoch, no, stamp, body IS NOT NULL

-- name: intent_pending
-- Without exactly_once: an intent that only exactly_once can settle, or a row that says that
-- the pipeline runs with exactly_once. Columns: enum intent_pending_column.
SELECT o.outbox, o.body IS NOT NULL AS has_body, o.identity <> '' AS is_named
FROM @companions@.outrider_intent o
WHERE o.pipeline = $1 AND (o.outbox IN ('', $2) OR o.tables && @mine@)
ORDER BY has_body DESC, is_named DESC
LIMIT 1

-- name: intent_leave
-- Notes that the pipeline runs without exactly_once now.
UPDATE @companions@.outrider_intent o
SET identity = ''
WHERE o.pipeline = $1 AND (o.outbox = $2 OR o.tables && @mine@) AND o.body IS NULL

-- name: intent_save
-- $3 is the epoch, $4 and $5 the number and the stamp, $6 the body.
WITH u AS (
    UPDATE @companions@.outrider_intent
    SET no = $4, stamp = $5, body = $6
    WHERE pipeline = $1 AND outbox = $2 AND epoch = $3
    RETURNING 1
)
SELECT 1 / (SELECT count(*) FROM u)

-- name: intent_body
-- $3 is the epoch. Column: the body.
SELECT body FROM @companions@.outrider_intent WHERE pipeline = $1 AND outbox = $2 AND epoch = $3

-- name: intent_epoch
-- Checks the epoch $3, and changes nothing.
SELECT 1 / (SELECT count(*) FROM @companions@.outrider_intent WHERE pipeline = $1 AND outbox = $2 AND epoch = $3)

-- Whether all rows can be seen: shared/guard.h.

-- name: guard
-- $1: the outbox tables as the user wrote them, $2: the schema of Outrider's own tables, quoted.
-- One row for each table that is there. Columns: enum guard_column.
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname),
    row_security_active(c.oid),
    c.relforcerowsecurity AND pg_has_role(c.relowner, 'USAGE'),
    current_user::text, quote_ident(current_user),
    (SELECT quote_ident(m.nspname) || '.' || quote_ident(k.relname) FROM pg_inherits h JOIN pg_class k ON k.oid = h.inhrelid
        JOIN pg_namespace m ON m.oid = k.relnamespace WHERE t.is_outbox AND h.inhparent = c.oid AND c.relkind = 'r'
        ORDER BY h.inhrelid LIMIT 1),
    (SELECT quote_ident(m.nspname) || '.' || quote_ident(k.relname) FROM pg_class k JOIN pg_namespace m ON m.oid = k.relnamespace
        WHERE k.oid = p.bad),
    (SELECT k.relkind = 'f' FROM pg_class k WHERE k.oid = p.bad),
    p.oids
FROM (SELECT to_regclass(o.name)::oid AS oid, true AS is_outbox, o.no AS no FROM unnest($1::text[]) WITH ORDINALITY AS o(name, no)
    UNION ALL SELECT to_regclass($2::text || '.' || o.name)::oid, false, 1000 + o.no
    FROM unnest('{outrider_cursor,outrider_parked,outrider_intent}'::text[]) WITH ORDINALITY AS o(name, no)) t
JOIN pg_class c ON c.oid = t.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (WITH RECURSIVE x AS (SELECT h.inhrelid FROM pg_inherits h WHERE h.inhparent = c.oid UNION ALL
        SELECT h.inhrelid FROM x JOIN pg_inherits h ON h.inhparent = x.inhrelid)
    SELECT string_agg(k.oid::text, ',' ORDER BY k.oid) AS oids,
        min(k.oid) FILTER (WHERE k.relpersistence <> 'p' OR k.relkind = 'f') AS bad
    FROM x JOIN pg_class k ON k.oid = x.inhrelid) p ON t.is_outbox AND c.relkind = 'p'
ORDER BY t.no

-- name: guard_new
-- The names of new partitions with rows in them. $1: the oids of the partitions that were there,
-- as "1,2,3"; $2: of those that are there now.
SELECT string_agg(quote_ident(n.nspname) || '.' || quote_ident(c.relname), ', ')
FROM unnest(string_to_array($2::text, ',')) AS x(oid)
JOIN pg_class c ON c.oid = x.oid::oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE x.oid <> ALL (string_to_array($1::text, ',')) AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0

-- name: standbys
-- How far this server and its standbys have flushed the log (shared/durable.h). A session of a
-- logical reader is in a database, a session of a standby in none. Any standby that has the log
-- will do: that is the one to fail over to. Columns: enum pg_standbys_column.
WITH s AS (
    SELECT r.flush_lsn
    FROM pg_stat_replication r
    JOIN pg_stat_activity a ON a.pid = r.pid
    WHERE r.state = 'streaming' AND a.datid IS NULL
        AND r.application_name NOT IN ('pg_basebackup', 'pg_receivewal')
)
SELECT pg_current_wal_flush_lsn(), (SELECT max(flush_lsn) FROM s), (SELECT count(*) FROM s)

-- Clean-up of a log: shared/cleanup.h.

-- name: cleanup_needed
-- The word @needed@: whether pipeline k has not settled the row w, of which seq and xmin (as int8)
-- are there. Transaction numbers are compared as the server does, in a circle; those of another
-- cluster mean nothing.
CASE WHEN k.mode = 'cdc'
    THEN k.sweep @> w.seq OR k.settled_xid IS NULL OR k.system_id IS DISTINCT FROM @system_id@
        OR ((w.xmin - k.settled_xid) & 4294967295) < 2147483648
    ELSE k.position <= w.seq OR k.gaps @> w.seq END

-- name: cleanup_rows
-- $1: the outbox's name, $2: the cutoff, $3: how many rows at most. Reads from the front, in a
-- window, so that the rows which are still young are not all looked at each time.
DELETE FROM @outbox@ o
USING (
    SELECT w.seq, w.created_at
    FROM (
        SELECT i.seq, i.created_at, i.xmin::text::int8 AS xmin
        FROM @outbox@ i
        WHERE EXISTS (SELECT FROM @cursor@ k WHERE k.outbox = $1)
            AND i.seq < (
                SELECT coalesce(min(k.position), 9223372036854775807)
                FROM @cursor@ k
                WHERE k.outbox = $1 AND k.mode <> 'cdc')
        ORDER BY i.seq
        LIMIT $3 + 1000) w
    WHERE w.created_at < $2 AND NOT EXISTS (SELECT FROM @cursor@ k WHERE k.outbox = $1 AND @needed@)
    LIMIT $3) d
WHERE o.seq = d.seq AND o.created_at = d.created_at

-- name: session_plans
-- The session was set up for reading a log in one fixed way. For other tables the planner must
-- see the values, and choose.
SELECT set_config(name, value, false)
FROM (VALUES ('plan_cache_mode', 'force_custom_plan'), ('enable_seqscan', 'on'),
    ('enable_bitmapscan', 'on'), ('enable_hashjoin', 'on'), ('enable_mergejoin', 'on'))
    AS v(name, value)

-- name: flush_log
-- Flushes the server's log with its own commit, if anything is not flushed yet. A message whose
-- prefix is `outrider` alone is an event: cdc/decode.h.
SELECT CASE WHEN pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()
    THEN pg_logical_emit_message(true, 'outrider.flush', '') END
