-- SPDX-License-Identifier: MIT
-- Hybrid publishing: hybrid/claimer.c (on the application's connection) and
-- hybrid/marker.c (on the publisher's).

-- name: hybrid_suits
-- Whether the outbox has all columns that claims need and Outrider's tables are there,
-- whether the role may read what hybrid_look reads, and the payload's type. No row: there
-- is no outbox. Columns: enum suits_column.
SELECT
    (SELECT count(*) FROM pg_attribute
     WHERE attrelid = o.t AND NOT attisdropped AND attname IN (
        'id', 'seq', 'status', 'locked_by', 'locked_at', 'locked_until', 'claim', 'attempts',
        'next_attempt_at', 'published_at', 'last_error', 'last_error_code', 'updated_at',
        'created_at')) = 14
        AND to_regclass('outrider_cursor') IS NOT NULL
        AND to_regclass('outrider_parked') IS NOT NULL
        AND to_regclass('outrider_intent') IS NOT NULL,
    has_table_privilege(o.t, 'SELECT')
        AND has_table_privilege(to_regclass('outrider_cursor'), 'SELECT')
        AND has_table_privilege(to_regclass('outrider_parked'), 'SELECT')
        AND has_table_privilege(to_regclass('outrider_intent'), 'SELECT'),
    (SELECT format_type(atttypid, NULL) FROM pg_attribute
     WHERE attrelid = o.t AND NOT attisdropped AND attname = 'payload')
FROM (SELECT to_regclass('outbox') AS t) o
WHERE o.t IS NOT NULL

-- name: hybrid_exact
-- The first pipeline of this outbox whose relay publishes exactly once, or NULL.
SELECT min(i.pipeline)
FROM outrider_intent i CROSS JOIN unnest(i.tables) AS t(name)
WHERE i.identity <> '' AND to_regclass(t.name) = to_regclass('outbox')

-- name: hybrid_lock
-- Locks the lanes of the keys $1. The answer is false where the isolation level would
-- hide from the next statement what was committed meanwhile.
SELECT CASE WHEN current_setting('transaction_isolation') = 'read committed'
    THEN pg_advisory_xact_lock(s.h) IS NOT NULL ELSE false END
FROM (SELECT DISTINCT
        hashtextextended('outrider:' || 'outbox'::regclass::oid || ':' || k, 0) AS h
      FROM unnest($1::text[]) AS k ORDER BY 1) AS s

-- name: hybrid_look
-- For each of the keys $1: whether the transaction suits, and whether the lane is free.
-- $2: dead letters block a lane, $3: the outbox that the publisher marks in. A backlog
-- of more than 1,000 events is the relay's, so that a commit does not search it. Lanes are
-- named as event_key() names them, and in outrider_parked as common/parked.h says.
-- Columns: enum look_column.
WITH u AS MATERIALIZED (
    SELECT coalesce(o.partition_key, o.aggregate_id) AS key
    FROM outbox o
    WHERE o.status IN ('PENDING', 'PROCESSING', 'FAILED')
    ORDER BY o.seq LIMIT 1001
), b AS MATERIALIZED (
    SELECT
        $2::bool OR EXISTS (SELECT FROM outrider_cursor WHERE on_dead = 'block') AS blocks,
        (SELECT count(*) FROM u) <= 1000 AS is_short,
        current_setting('synchronous_commit') <> 'off'
            AND NOT EXISTS (SELECT FROM outrider_cursor WHERE mode <> 'poll')
            AND NOT EXISTS (
                SELECT FROM outrider_intent i CROSS JOIN unnest(i.tables) AS t(name)
                WHERE i.identity <> '' AND to_regclass(t.name) = to_regclass('outbox'))
            AND current_database() || '/' || 'outbox'::regclass::oid = $3::text AS suits
)
SELECT b.suits,
    b.is_short
        AND k.key NOT IN (SELECT key FROM u)
        AND NOT (b.blocks AND EXISTS (
            SELECT FROM outbox o
            WHERE o.status = 'DEAD_LETTER'
                AND coalesce(o.partition_key, o.aggregate_id) = k.key))
        AND NOT EXISTS (
            SELECT FROM outrider_cursor c
            JOIN outrider_parked p ON p.pipeline = c.pipeline AND p.outbox = c.outbox
                AND hashtextextended(p.lane, 0) = hashtextextended(l.lane, 0)
            WHERE p.lane = l.lane AND (p.state <> 'dead' OR b.blocks))
FROM unnest($1::text[]) WITH ORDINALITY AS k(key, n)
CROSS JOIN b
CROSS JOIN LATERAL (
    SELECT CASE WHEN starts_with(k.key, '\x')
        THEN '\x' || encode(convert_to(k.key, 'UTF8'), 'hex') ELSE k.key END AS lane) l
ORDER BY k.n

-- name: hybrid_insert
-- Arrays: $1 ids, $2 aggregate types, $3 aggregate ids, $4 event types, $5 payloads,
-- $6 headers, $7 topics, $8 keys, $9 partitions, $10 occurred, $11 expires, $12 the owner of
-- those that are claimed. $13 is the lease in microseconds. @payload@ casts u.payload.
INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic,
    partition_key, partition, occurred_at, expires_at, status, locked_by, locked_at,
    locked_until, claim)
SELECT u.id, u.aggregate_type, u.aggregate_id, u.event_type, @payload@, u.headers::jsonb,
    u.topic, u.key, u.partition, u.occurred, u.expires,
    CASE WHEN u.owner IS NULL THEN 'PENDING' ELSE 'PROCESSING' END, u.owner,
    CASE WHEN u.owner IS NOT NULL THEN clock_timestamp() END,
    CASE WHEN u.owner IS NOT NULL
        THEN clock_timestamp() + $13::int8 * interval '1 microsecond' END,
    CASE WHEN u.owner IS NULL THEN 0 ELSE 1 END
FROM unnest($1::text[]::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[],
    $7::text[], $8::text[], $9::int4[], $10::timestamptz[], $11::timestamptz[], $12::text[])
    WITH ORDINALITY AS u(id, aggregate_type, aggregate_id, event_type, payload, headers, topic,
    key, partition, occurred, expires, owner, n)
ORDER BY u.n
RETURNING created_at

-- name: hybrid_setup
-- Columns: enum setup_column; the settings in between are of no interest.
SELECT current_database() || '/' || coalesce(to_regclass('outbox')::oid::text, ''),
    coalesce(has_table_privilege(to_regclass('outrider_cursor'), 'SELECT')
        AND has_table_privilege(to_regclass('outrider_cursor'), 'UPDATE'), false),
    set_config('synchronous_commit', 'off', false),
    set_config('statement_timeout', '0', false),
    set_config('lock_timeout', '0', false),
    set_config('jit', 'off', false),
    set_config('default_transaction_read_only', 'off', false),
    set_config('row_security', 'off', false)

-- name: hybrid_mark
-- $1 ids, $2 owner, $3 states, $4 attempts, $5 delays, $6 codes, $7 messages.
UPDATE outbox o
SET status = u.status, published_at = CASE WHEN u.status = 'PUBLISHED' THEN now() END,
    attempts = u.attempts, next_attempt_at = now() + u.delay * interval '1 microsecond',
    last_error_code = u.code, last_error = u.message,
    locked_by = NULL, locked_at = NULL, locked_until = NULL, updated_at = now()
FROM unnest($1::text[]::uuid[], $3::text[], $4::int4[], $5::int8[], $6::text[], $7::text[])
    AS u(id, status, attempts, delay, code, message)
WHERE o.id = u.id AND o.locked_by = $2::text AND o.status = 'PROCESSING'

-- name: hybrid_delete
-- $1 ids, $2 owner.
DELETE FROM outbox o
WHERE o.id = ANY ($1::text[]::uuid[]) AND o.locked_by = $2::text AND o.status = 'PROCESSING'

-- name: hybrid_total
-- $1 pipeline, $2 delivered, $3 skipped. Columns: enum total_column.
WITH c AS (
    SELECT ctid FROM outrider_cursor
    WHERE pipeline = $1::text AND to_regclass(outbox) = to_regclass('outbox')
), l AS (
    SELECT ctid FROM outrider_cursor WHERE ctid IN (SELECT ctid FROM c) FOR UPDATE SKIP LOCKED
), u AS (
    UPDATE outrider_cursor
    SET settled_at = now(), delivered_total = delivered_total + $2::int8,
        skipped_total = skipped_total + $3::int8
    WHERE ctid IN (SELECT ctid FROM l)
    RETURNING 1
)
SELECT EXISTS (SELECT FROM u), EXISTS (SELECT FROM c)
