-- SPDX-License-Identifier: MIT
-- Statements of the library that applications link. Nothing here takes words.

-- name: enqueue
-- One event.
INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic,
    partition_key, partition, occurred_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: enqueue_many
-- Each argument is an array.
INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic,
    partition_key, partition, occurred_at, expires_at)
SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: known_payload
-- The type of the payload's column. Columns: enum known_column.
SELECT t.oid, t.typarray
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass('outbox') AND a.attname = 'payload' AND NOT a.attisdropped

-- name: inbox_cleanup
-- $1 the cutoff, $2 the consumer, NULL for any; $3 how many at most.
DELETE FROM outrider_inbox
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM outrider_inbox
    WHERE processed_at < $1 AND ($2::text IS NULL OR consumer = $2)
    LIMIT $3
    FOR UPDATE SKIP LOCKED))
