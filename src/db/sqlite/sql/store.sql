-- SPDX-License-Identifier: MIT
-- Statements of the commands, and of clean-up. Words: source.sql, and (statement.c)
--   @before@  whether a row p of a lane has a live one before itself: mend_before
--   @cursor@  of status: the cursors, as table c

-- name: status
-- @cursor@ is status_cursor or status_new. Columns: enum status_column.
SELECT c.pipeline, c.sink, c.position, ifnull((SELECT max(seq) FROM outbox), 0),
    (SELECT count(*) FROM outbox WHERE seq > c.position),
    (SELECT count(*) FROM outrider_parked p WHERE p.pipeline = c.pipeline AND p.state = 'parked'),
    (SELECT count(*) FROM outrider_parked p WHERE p.pipeline = c.pipeline AND p.state <> 'dead'),
    (SELECT count(*) FROM outrider_parked p WHERE p.pipeline = c.pipeline),
    (SELECT created_at FROM outbox WHERE seq > c.position ORDER BY seq LIMIT 1),
    c.delivered_total, c.expired_total, c.skipped_total, c.dead_total, c.settled_at
FROM @cursor@
ORDER BY c.pipeline

-- name: status_new
-- Before any relay has run: everything is pending for the pipeline ?1.
(SELECT ?1 AS pipeline, '' AS sink, 0 AS position, 0 AS delivered_total, 0 AS expired_total,
    0 AS skipped_total, 0 AS dead_total, NULL AS settled_at) c

-- name: dead_pipelines
-- Columns: enum pipelines_column.
SELECT DISTINCT p.pipeline, c.on_dead = 'block'
FROM outrider_parked p
LEFT JOIN outrider_cursor c ON c.pipeline = p.pipeline

-- name: resync_read
-- ?1 the pipeline. Columns: enum resync_column.
SELECT c.position, substr(c.anchor_id, 1, @text_cut@),
    (SELECT substr(id, 1, @text_cut@) FROM outbox WHERE seq = c.position),
    (SELECT seq FROM outbox WHERE id = c.anchor_id),
    ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox'), 0),
    (SELECT max(seq) FROM outbox WHERE seq <= c.position),
    EXISTS (SELECT 1 FROM outbox WHERE seq <= c.position
        AND (julianday(created_at) - 2440587.5) * 86400000000.0 > c.settled_at + 1000000),
    (SELECT count(*) FROM outbox)
FROM outrider_cursor c
WHERE c.pipeline = ?1

-- name: resync_write
-- ?1 the pipeline, ?2 the new position. The epoch moves on, so that a relay which still runs cannot
-- save over this.
UPDATE outrider_cursor
SET position = ?2, anchor_id = (SELECT substr(id, 1, @text_cut@) FROM outbox WHERE seq = ?2),
    epoch = epoch + 1
WHERE pipeline = ?1

-- name: doctor_payload
SELECT max(length(CAST(payload AS BLOB))) FROM (SELECT payload FROM outbox ORDER BY seq DESC LIMIT 1000)

-- name: doctor_headers
SELECT max(length(CAST(headers AS BLOB))) FROM (SELECT headers FROM outbox ORDER BY seq DESC LIMIT 1000)

-- name: doctor_history
-- How many cursors do not fit the table, as the relay finds out when it starts.
SELECT count(*) FROM outrider_cursor c
WHERE c.position > 0 AND substr(c.anchor_id, 1, @text_cut@)
    IS NOT (SELECT substr(id, 1, @text_cut@) FROM outbox WHERE seq = c.position)

-- name: doctor_sequence
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'outbox'

-- Lanes and clean-up: housekeeping.h

-- name: mend_before
-- The word @before@; ?2 whether a dead letter blocks.
EXISTS (SELECT 1 FROM outrider_parked b WHERE b.pipeline = ?1 AND b.lane = p.lane
    AND b.arrival < p.arrival AND (?2 OR b.state <> 'dead'))

-- name: mend_queue
-- ?1 the pipeline, ?3 now. A row that has another one before itself waits for it.
UPDATE outrider_parked AS p
SET state = 'queued', next_attempt_at = NULL, updated_at = ?3
WHERE pipeline = ?1 AND state = 'parked' AND @before@

-- name: mend_park
-- A row that has none before itself is due at once.
UPDATE outrider_parked AS p
SET state = 'parked', next_attempt_at = 0, updated_at = ?3
WHERE pipeline = ?1 AND state = 'queued' AND NOT @before@

-- name: remove_settled
-- ?1 how many at most, ?2 the cutoff. One statement: which rows are settled is asked in the
-- transaction that removes them. Reads in a window from the front, so that the rows which are still
-- young are not all looked at each time.
DELETE FROM outbox WHERE seq IN (
    SELECT seq FROM (
        SELECT seq, created_at FROM outbox
        WHERE seq <= (SELECT min(position) FROM outrider_cursor)
        ORDER BY seq LIMIT ?1 + 1000)
    WHERE julianday(created_at) < julianday(?2) AND seq NOT IN (SELECT position FROM outrider_cursor)
    LIMIT ?1)
