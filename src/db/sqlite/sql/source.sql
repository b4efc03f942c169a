-- SPDX-License-Identifier: MIT
-- Statements of the source: source.h. Words (statement.c):
--   @event@     the columns of an event, EVENT_COLUMN_COUNT of them
--   @text_cut@  how many characters of an id an anchor holds
--   @live@      a condition: the row is live. With on_dead: block dead letters count, and the word
--               is empty
-- ?1 is the pipeline, unless a comment says something else.

-- name: event_columns
-- The word @event@.
seq, id, aggregate_type, aggregate_id, event_type, payload, headers, topic, partition_key, partition,
occurred_at, created_at, expires_at

-- name: fetch
-- ?1 the first seq. A batch is one step: outrider_take() puts the row into the batch, and is true
-- when the batch is full (source_fetch.c).
SELECT 1 FROM outbox WHERE seq >= ?1 AND outrider_take(@event@) ORDER BY seq

-- name: read_since
-- A replay from the time ?2 on: row by row from the start, because the order of seqs is not the
-- order of times.
SELECT 1 FROM outbox
WHERE seq >= ?1 AND CASE WHEN julianday(created_at) >= julianday(?2) THEN outrider_take(@event@) END
ORDER BY seq

-- name: probe
-- Columns: enum probe_column.
SELECT (SELECT max(seq) FROM outbox),
    (SELECT min(next_attempt_at) FROM outrider_parked WHERE pipeline = ?1 AND state = 'parked')

-- name: due
-- When the next parked row is due.
SELECT min(next_attempt_at) FROM outrider_parked WHERE pipeline = ?1 AND state = 'parked'

-- name: any_live
SELECT 1 FROM outrider_parked WHERE pipeline = ?1 @live@ LIMIT 1

-- name: lane_first
-- The first live row of lane ?2.
SELECT arrival FROM outrider_parked WHERE pipeline = ?1 AND lane = ?2 @live@ ORDER BY arrival LIMIT 1

-- name: due_heads
-- The first rows of the lanes that are due at the time ?2. Columns: enum head_column.
SELECT arrival, lane FROM outrider_parked
WHERE pipeline = ?1 AND state = 'parked' AND next_attempt_at <= ?2
ORDER BY next_attempt_at, arrival

-- name: lane_rows
-- At most ?4 rows of lane ?2, from ?3 on. Columns: an event's, and enum lane_column.
SELECT @event@, arrival, attempts, state = 'dead' FROM outrider_parked
WHERE pipeline = ?1 AND lane = ?2 AND arrival >= ?3 @live@
ORDER BY arrival LIMIT ?4

-- name: cursor_read
-- Columns: enum cursor_column.
SELECT sink, position, substr(anchor_id, 1, @text_cut@), epoch, on_dead,
    (SELECT substr(id, 1, @text_cut@) FROM outbox WHERE seq = position),
    (SELECT seq FROM sqlite_sequence WHERE name = 'outbox')
FROM outrider_cursor
WHERE pipeline = ?1

-- name: cursor_take
-- ?2 the sink's identity, ?3 on_dead.
UPDATE outrider_cursor SET epoch = epoch + 1, sink = ?2, on_dead = ?3 WHERE pipeline = ?1

-- name: cursor_save
-- ?2 the epoch, ?3 the position and ?4 the anchor or NULL, ?5 now, ?6 to ?9 what was settled.
UPDATE outrider_cursor
SET position = ifnull(?3, position), anchor_id = ifnull(?4, anchor_id), settled_at = ?5,
    delivered_total = delivered_total + ?6, expired_total = expired_total + ?7,
    skipped_total = skipped_total + ?8, dead_total = dead_total + ?9
WHERE pipeline = ?1 AND epoch = ?2

-- name: park
-- A copy of row ?4, in lane ?2 and state ?3: ?5 attempts, ?6 the next one, ?7 to ?9 the failure,
-- ?10 now.
INSERT INTO outrider_parked (pipeline, lane, state, @event@, attempts, next_attempt_at, error_code,
    error_origin, error_message, parked_at, updated_at)
SELECT ?1, ?2, ?3, @event@, ?5, ?6, ?7, ?8, ?9, ?10, ?10 FROM outbox WHERE seq = ?4

-- name: parked_update
-- ?1 the row's arrival, ?2 the state, ?3 attempts, ?4 the next one, ?5 to ?7 the failure, ?8 now.
UPDATE outrider_parked
SET state = ?2, attempts = ?3, next_attempt_at = ?4, error_code = ?5, error_origin = ?6,
    error_message = ?7, updated_at = ?8
WHERE arrival = ?1

-- name: promote
-- The first live row of lane ?2 becomes due at once; ?3 now.
UPDATE outrider_parked
SET state = 'parked', next_attempt_at = 0, updated_at = ?3
WHERE state = 'queued' AND arrival = (
    SELECT arrival FROM outrider_parked WHERE pipeline = ?1 AND lane = ?2 @live@ ORDER BY arrival LIMIT 1)

-- name: intent_enrol
INSERT INTO outrider_intent (pipeline, identity)
VALUES (?1, lower(hex(randomblob(8))))
ON CONFLICT DO NOTHING

-- name: intent_read
-- Columns: enum intent_column.
SELECT identity, no, stamp, body IS NOT NULL FROM outrider_intent WHERE pipeline = ?1

-- name: intent_save
-- ?2 the epoch, ?3 the number, ?4 the stamp, ?5 the body.
UPDATE outrider_intent
SET no = ?3, stamp = ?4, body = ?5
WHERE pipeline = ?1 AND EXISTS (SELECT 1 FROM outrider_cursor WHERE pipeline = ?1 AND epoch = ?2)
