-- SPDX-License-Identifier: MIT
-- Statements of the commands (status, doctor, resync, slot, init). Words of every statement:
-- wire/statements.h. In whatever concerns a cursor $1 is the pipeline and $2 the outbox.

-- resync: store/resync.c

-- name: resync_read
-- Columns: enum resync_column.
SELECT c.position, left(c.anchor_id::text, @text_cut@),
    (SELECT left(id::text, @text_cut@) FROM @outbox@ WHERE seq = c.position LIMIT 1),
    (SELECT seq FROM @outbox@ WHERE id::text = c.anchor_id LIMIT 1),
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM @sequence@),
    coalesce((SELECT max(seq) FROM @outbox@ WHERE seq <= c.position AND NOT c.gaps @> seq), 0),
    EXISTS (SELECT FROM @outbox@ WHERE seq <= c.position AND created_at > c.settled_at),
    (SELECT count(*) FROM @outbox@),
    isempty(c.gaps)
FROM @cursor@ c
WHERE c.pipeline = $1 AND c.outbox = $2
FOR UPDATE

-- name: resync_write
-- $3 is the new position. The epoch moves on, so that a relay which still runs cannot save over
-- this. Gaps below the new position stay.
UPDATE @cursor@
SET position = $3, anchor_id = (SELECT id::text FROM @outbox@ WHERE seq = $3 LIMIT 1),
    gaps = gaps * int8multirange(int8range(NULL, $3)), epoch = epoch + 1
WHERE pipeline = $1 AND outbox = $2

-- name: resync_forget
-- exactly_once: an intent that was not settled speaks of the history that is no more.
UPDATE @companions@.outrider_intent SET body = NULL, epoch = epoch + 1 WHERE pipeline = $1 AND outbox = $2

-- doctor: store/doctor.c

-- name: doctor_largest
-- The largest value of a column in the newest rows; @size@ is SQL for its length.
SELECT max(size) FROM (SELECT @size@ AS size FROM @outbox@ ORDER BY seq DESC LIMIT 1000) x

-- name: doctor_prepared
-- How many seconds old the oldest prepared transaction is.
SELECT extract(epoch FROM max(now() - prepared))::int8 FROM pg_prepared_xacts WHERE database = current_database()

-- Replication slots: store/slot.c

-- name: slot_pending
-- The word @pending@ of slot_status, for a log. In mode cdc the table does not say what is
-- settled: pending is what stands behind the last settled event, and what is left of the sweep.
(SELECT count(*) FROM @outbox@ o WHERE o.seq > p.at)
    + coalesce((
        SELECT count(*)
        FROM unnest(k.sweep) g
        JOIN @outbox@ o ON o.seq >= lower(g) AND o.seq < upper(g)
        WHERE o.seq <= p.at), 0),
(SELECT min(f.created_at)
    FROM (SELECT o.created_at FROM @outbox@ o WHERE o.seq > p.at ORDER BY o.seq LIMIT 100) f)

-- name: slot_status
-- Columns: enum slot_status_column.
SELECT k.mode, p.at,
    @pending@,
    s.slot_name IS NOT NULL, s.active,
    coalesce(s.wal_status = 'lost' OR to_jsonb(s)->>'invalidation_reason' IS NOT NULL, false),
    greatest(pg_wal_lsn_diff(l.now, s.restart_lsn), 0)::int8,
    s.confirmed_flush_lsn::text,
    greatest(pg_wal_lsn_diff(l.now, s.confirmed_flush_lsn), 0)::int8,
    (extract(epoch FROM (SELECT r.flush_lag FROM pg_stat_replication r WHERE r.pid = s.active_pid)) * 1000000)::int8,
    s.safe_wal_size, k.slot
FROM @cursor@ k
CROSS JOIN LATERAL (SELECT greatest(k.position, k.last_seq) AS at) p
CROSS JOIN (SELECT pg_current_wal_insert_lsn() AS now) l
LEFT JOIN pg_replication_slots s ON s.slot_name = k.slot AND s.database = current_database()
WHERE k.pipeline = $1 AND k.outbox = $2

-- name: slot_drop
-- Drops slot $1 unless a process reads it or the slot is another database's.
-- Columns: enum slot_drop_column.
SELECT s.active_pid,
    CASE WHEN s.active_pid IS NULL AND s.database = current_database()
        THEN pg_drop_replication_slot(s.slot_name)::text END,
    s.database::text, s.database IS DISTINCT FROM current_database()
FROM pg_replication_slots s
WHERE s.slot_name = $1

-- name: slot_find
-- @names@: the table m of cdc/slot.h. Columns: enum slot_find_column.
WITH @names@ SELECT coalesce(nullif(slot, ''), name), publication FROM m

-- name: slot_reset
-- Back to polling. Where it is known which transactions are settled (cleanup.h (1)), the position
-- is the last settled row, because the row at a position is never read again. All seqs below it
-- without a settled row are polling's gaps; rows above it are read anyway. Where no row is known to
-- be settled, polling starts from where it was before the stream. @needed@: cleanup_needed.
-- Columns: enum slot_reset_column.
WITH k AS MATERIALIZED (
    SELECT * FROM @cursor@ WHERE pipeline = $1 AND outbox = $2 AND mode <> 'poll' FOR UPDATE
), w AS MATERIALIZED (
    SELECT w.seq, w.id, @needed@ AS needed
    FROM k
    CROSS JOIN (
        SELECT i.seq, i.id::text AS id, i.xmin::text::int8 AS xmin
        FROM @outbox@ i
        WHERE i.seq > 0 AND i.seq <= (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM @sequence@)) w
    WHERE k.settled_xid IS NOT NULL AND k.system_id = @system_id@
), m AS MATERIALIZED (
    SELECT max(seq) AS seq FROM w WHERE NOT needed
), p AS (
    SELECT m.seq AS position,
        (SELECT int8multirange(int8range(1, m.seq)) - coalesce(range_agg(int8range(w.seq, w.seq, '[]')), '{}')
        FROM w WHERE NOT w.needed) AS gaps,
        (SELECT w.id FROM w WHERE w.seq = m.seq) AS anchor
    FROM m
)
UPDATE @cursor@ u
SET mode = 'poll', sweep = '{}', lsn = NULL, lsn_number = 0, slot = '', publication = '', epoch = u.epoch + 1,
    settled_xid = NULL, polled_lsn = coalesce(u.polled_lsn, pg_current_wal_insert_lsn()),
    position = coalesce(p.position, u.position),
    gaps = CASE WHEN p.position IS NULL THEN u.gaps ELSE p.gaps END,
    anchor_id = CASE WHEN p.position IS NULL THEN u.anchor_id ELSE p.anchor END
FROM k, p
WHERE u.pipeline = $1 AND u.outbox = $2
RETURNING u.position, p.position IS NOT NULL, (SELECT count(*) FROM w WHERE needed)

-- name: slot_reset_mapped
-- The same where rows of other tables say themselves what is settled, or nobody knows. $2 is not
-- used, and has a type only.
UPDATE @cursor@
SET mode = 'poll', lsn = NULL, lsn_number = 0, slot = '', publication = '', epoch = epoch + 1,
    settled_xid = NULL, polled_lsn = coalesce(polled_lsn, pg_current_wal_insert_lsn())
WHERE pipeline = $1 AND $2::text IS NOT NULL AND mode <> 'poll'

-- slot adopt: store/slot_adopt.c, store/slot_probe.c

-- name: adopt_tables
-- $1: the tables as the user wrote them. One row for each of them, in their order.
-- Columns: enum adopt_tables_column.
SELECT c.oid::int8, n.nspname::text, c.relname::text, format('%I.%I', n.nspname, c.relname), w.name
FROM unnest($1::text[]) WITH ORDINALITY AS w(name, at)
LEFT JOIN pg_class c ON c.oid = to_regclass(w.name) AND c.relkind IN ('r', 'p')
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY w.at

-- name: adopt_slot
-- The other program's slot $1. catalog_xmin is made a number of 64 bits, as those of
-- pg_current_snapshot() are. Columns: enum adopt_slot_column.
SELECT s.slot_type, s.database IS DISTINCT FROM current_database(), s.database::text, s.temporary,
    coalesce((to_jsonb(s)->>'two_phase')::boolean, false), s.active_pid,
    coalesce(s.wal_status = 'lost' OR to_jsonb(s)->>'invalidation_reason' IS NOT NULL, false),
    s.confirmed_flush_lsn::text,
    (SELECT (n.x & ~4294967295) + c.x - CASE WHEN c.x > (n.x & 4294967295) THEN 4294967296 ELSE 0 END
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS x) n,
        (SELECT s.catalog_xmin::text::int8 AS x) c),
    (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8
FROM pg_replication_slots s
WHERE s.slot_name = $1

-- name: adopt_used
-- Whether pipeline $1 has a place of its own already in one of the tables $2.
SELECT EXISTS (
        SELECT FROM @cursor@ k
        WHERE k.pipeline = $1 AND k.outbox = ANY ($2::text[])
            AND (k.position > 0 OR k.settled_at IS NOT NULL
                OR k.delivered_total + k.expired_total + k.skipped_total + k.dead_total > 0))
    OR EXISTS (SELECT FROM @parked@ p WHERE p.pipeline = $1 AND p.outbox = ANY ($2::text[]))

-- name: adopt_publication
-- The publication to read through. $1: the one that is asked for or '', $2: Outrider's own, $3: the
-- tables' oids, $4: the slot's catalog_xmin. A row of the catalogue whose xmin lies in the future
-- is an old, frozen one. @published@: outrider__cdc_published_sql() with $3.
-- Columns: enum adopt_publication_column.
SELECT p.name, p.fits, p.young IS NULL,
    count(*) FILTER (WHERE p.fits AND p.young IS NULL AND p.rank = 3) OVER () > 1 AND p.rank = 3,
    p.young, p.tokens
FROM (
    SELECT p.pubname::text AS name,
        p.pubinsert
        AND NOT EXISTS (
            SELECT FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.oid IN (SELECT w::oid FROM unnest($3::int8[]) w)
                AND NOT EXISTS (
                    SELECT FROM pg_publication_tables t
                    WHERE t.pubname = p.pubname AND t.schemaname = n.nspname AND t.tablename = c.relname))
        AND NOT EXISTS (
            SELECT FROM pg_publication_rel q
            WHERE q.prpubid = p.oid AND q.prrelid IN (SELECT w::oid FROM unnest($3::int8[]) w)
                AND (to_jsonb(q)->>'prqual' IS NOT NULL OR to_jsonb(q)->>'prattrs' IS NOT NULL)) AS fits,
        (SELECT array_agg(DISTINCT w.token)::text FROM @published@ w) AS tokens,
        (SELECT max(w.x::text::int8) FROM @published@ w
        WHERE ((w.x::text::int8 - $4) & 4294967295) < 2147483648 AND age(w.x) >= 0) AS young,
        CASE WHEN p.pubname = 'dbz_publication' THEN 1 WHEN p.pubname = $2 THEN 2 ELSE 3 END AS rank
    FROM pg_publication p
    WHERE $1 IN ('', p.pubname)) p
ORDER BY p.fits DESC, p.young IS NULL DESC, p.rank, p.name
LIMIT 1

-- name: adopt_record
-- Records the slot $3 and the publication $4, and returns a row, unless there is a slot of that name
-- that the cursor does not record (cdc/slot.h (1)). A slot that the cursor records is of an
-- adoption before.
INSERT INTO @cursor@ AS k (pipeline, outbox, mode, slot, publication)
SELECT $1, $2, 'adopting', $3, $4
WHERE NOT EXISTS (
    SELECT FROM pg_replication_slots r
    WHERE r.slot_name = $3
        AND NOT EXISTS (SELECT FROM @cursor@ j WHERE j.pipeline = $1 AND j.outbox = $2 AND j.slot = $3))
ON CONFLICT (pipeline, outbox) DO UPDATE
SET mode = 'adopting', slot = $3, publication = $4, epoch = k.epoch + 1, lsn = NULL, lsn_number = 0, sweep = '{}'
RETURNING 1

-- name: adopt_last_seq
-- The word @last_seq@ of adopt_finish, for a log: the last row from before the slot's catalog_xmin.
coalesce((
    SELECT o.seq FROM @outbox@ o
    WHERE ((o.xmin::text::int8 - $5) & 4294967295) >= 2147483648
    ORDER BY o.seq DESC
    LIMIT 1), 0)

-- name: adopt_finish
-- $3: the position in the stream or NULL, $4: the number of the event, $5: the slot's catalog_xmin,
-- $6: the tables' names, $7: the publication's tokens. Rows from before the slot are settled:
-- clean-up, resync and status go by that.
WITH a AS (
    UPDATE @cursor@
    SET mode = 'cdc', published = $7::text::text[], lsn = $3::text::pg_lsn, lsn_number = $4, settled_xid = $5,
        system_id = @system_id@, last_seq = @last_seq@
    WHERE pipeline = $1 AND outbox = $2 AND mode = 'adopting'
    RETURNING 1
), b AS (
    INSERT INTO @cursor@ AS k (pipeline, outbox, mode)
    SELECT $1, t.name, 'member' FROM unnest($6::text[]) AS t(name) WHERE t.name <> $2
    ON CONFLICT (pipeline, outbox) DO UPDATE SET mode = 'member', epoch = k.epoch + 1
)
SELECT 1 / (SELECT count(*) FROM a)

-- name: adopt_forget
UPDATE @cursor@
SET mode = 'poll', slot = '', publication = '', epoch = epoch + 1
WHERE pipeline = $1 AND outbox = $2 AND mode = 'adopting'

-- name: probe_declare
-- Begins to read the log of @slot@ through @publication@ (literals), in portions of @portion@
-- messages, and of each message no more than its first bytes, which say what it is (73: an insert).
-- Columns: enum probe_column.
BEGIN;
DECLARE outrider_probe BINARY NO SCROLL CURSOR FOR
SELECT (lsn - '0/0'::pg_lsn)::int8, substring(data, 1, CASE WHEN get_byte(data, 0) = 73 THEN 5 ELSE 256 END)
FROM pg_logical_slot_get_binary_changes(@slot@, NULL, @portion@, 'proto_version', '1', 'messages', 'true',
    'publication_names', quote_ident(@publication@))

-- init: store/schema.c

-- name: schema_partition
CREATE TABLE IF NOT EXISTS @name@_p@suffix@ PARTITION OF @root@ FOR VALUES FROM ('@from@') TO ('@to@');

-- name: schema_facts
-- Columns: enum schema_facts_column.
SELECT quote_ident(current_schema()),
    (SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user),
    (SELECT count(*) = 2 FROM pg_roles WHERE rolname IN ('outrider_writer', 'outrider_relay')),
    to_regclass('outrider_schema') IS NOT NULL,
    (SELECT max(length(p.relname))::int4
    FROM pg_inherits h
    JOIN pg_class p ON p.oid = h.inhrelid
    WHERE h.inhparent = to_regclass('outbox') AND p.relname ~ '^outbox_p[0-9]+$')

-- status and dead: store/status.c, store/dead.c

-- name: store_status
-- $1 the outbox, $2 the pipeline that is shown before any relay has run. Positions and the outbox
-- are read in one snapshot; a row above the sequence waits (poll_log/log.h (9)). Columns: enum
-- status_column.
WITH q AS MATERIALIZED (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS top FROM @sequence@)
SELECT c.pipeline, c.sink, c.position,
    coalesce((SELECT max(seq) FROM @outbox@ WHERE seq <= (SELECT top FROM q)), 0),
    (SELECT count(*) FROM @outbox@ o WHERE o.seq > c.position AND o.seq <= (SELECT top FROM q))
        + coalesce((SELECT count(*) FROM unnest(c.gaps) g
            JOIN @outbox@ o ON o.seq >= lower(g) AND o.seq < upper(g)), 0),
    (SELECT count(*) FROM @parked@ p
        WHERE p.pipeline = c.pipeline AND p.outbox = c.outbox AND p.state = 'parked'),
    (SELECT count(*) FROM @parked@ p
        WHERE p.pipeline = c.pipeline AND p.outbox = c.outbox AND p.state = 'queued'),
    (SELECT count(*) FROM @parked@ p
        WHERE p.pipeline = c.pipeline AND p.outbox = c.outbox AND p.state = 'dead'),
    (SELECT min(created_at) FROM (SELECT o.created_at FROM @outbox@ o
        WHERE o.seq > c.position AND o.seq <= (SELECT top FROM q) ORDER BY o.seq LIMIT 100) f),
    c.delivered_total, c.expired_total, c.skipped_total, c.dead_total, c.settled_at,
    EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = ((k.key >> 32) & 4294967295)::oid AND l.objid = (k.key & 4294967295)::oid),
    (SELECT count(*) FROM @outbox@ o WHERE o.seq > (SELECT top FROM q))
FROM (SELECT pipeline, outbox, sink, position, gaps, delivered_total, expired_total, skipped_total,
        dead_total, settled_at
    FROM @cursor@ WHERE outbox = $1
    UNION ALL SELECT $2, $1, '', 0, '{}', 0, 0, 0, 0, NULL
    WHERE NOT EXISTS (SELECT FROM @cursor@ WHERE outbox = $1)) c
CROSS JOIN LATERAL (SELECT hashtextextended('outrider/' || c.outbox || '/' || c.pipeline, 0) AS key) k
ORDER BY c.pipeline

-- name: dead_lock
-- A relay settles under its cursor row's lock. Whoever takes the same locks first, in one order,
-- never waits for a relay that waits for him.
SELECT 1 FROM @cursor@ ORDER BY pipeline, outbox FOR UPDATE
