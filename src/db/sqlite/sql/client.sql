-- SPDX-License-Identifier: MIT
-- Statements of the library that applications link. Nothing here takes words.

-- name: enqueue
INSERT INTO main.outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic,
    partition_key, partition, occurred_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

-- name: inbox_cleanup
-- ?1 the consumer, NULL for any; ?3 the cutoff, ?4 how many at most.
DELETE FROM main.outrider_inbox WHERE (consumer, event_id) IN (
    SELECT consumer, event_id FROM main.outrider_inbox
    WHERE processed_at < ?3 AND (?1 IS NULL OR consumer = ?1)
    LIMIT ?4)

-- name: schema_has_version
SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name = 'outrider_schema'

-- name: schema_add_headers
-- To an outbox that the application made.
ALTER TABLE outbox ADD COLUMN headers TEXT
    CONSTRAINT headers_are_json CHECK (headers IS NULL OR json_valid(headers));
