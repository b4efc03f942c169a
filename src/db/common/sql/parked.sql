-- SPDX-License-Identifier: MIT
-- Statements on outrider_parked: common/parked.h. @parked@ is the table, @pipeline@ and
-- @outbox@ say whose rows are meant, @live@ is " AND ..." for the alias q: the row blocks
-- its lane. @rows@ are the rows that the caller sends. @p@ is "p." where a dialect wants the
-- table's name in front of a column that is set.

-- A number `arrival` is given out above the sort: in the order of the batch.
-- @copy@: the columns of the outbox's row from id on, and FROM with u in it.
-- name: parked_insert
INSERT INTO @parked@ (pipeline, outbox, parked_at, updated_at, lane, state, seq, attempts,
    next_attempt_at, error_code, error_origin, error_message, id, aggregate_type, aggregate_id,
    event_type, payload, headers, topic, partition_key, "partition", occurred_at, created_at,
    expires_at)
WITH u AS @materialized@(SELECT * FROM @rows@)
SELECT @pipeline@, @outbox@, @now@, @now@, u.lane, u.state, u.seq, u.attempts, u.next_at, u.code,
    u.origin, u.message, @copy@
ORDER BY u.n

-- The events' own values are sent. @whole@ joins x, the outbox's row where some of the row was
-- not read (u.is_cut = 1) and the row is still there.
-- name: parked_insert_values
INSERT INTO @parked@ (pipeline, outbox, parked_at, updated_at, lane, state, seq, attempts,
    next_attempt_at, error_code, error_origin, error_message, id, aggregate_type, aggregate_id,
    event_type, payload, headers, topic, partition_key, "partition", occurred_at, created_at,
    expires_at)
WITH u AS @materialized@(SELECT * FROM @rows@)
SELECT @pipeline@, @outbox@, @now@, @now@, u.lane, u.state, u.seq, u.attempts, u.next_at, u.code,
    u.origin, u.message, coalesce(x.id, u.id),
    CASE WHEN x.id IS NULL THEN u.aggregate_type ELSE x.aggregate_type END,
    CASE WHEN x.id IS NULL THEN u.aggregate_id ELSE x.aggregate_id END,
    CASE WHEN x.id IS NULL THEN u.event_type ELSE x.event_type END,
    CASE WHEN x.id IS NULL THEN u.payload ELSE x.payload END,
    CASE WHEN x.id IS NULL THEN u.headers ELSE x.headers END,
    CASE WHEN x.id IS NULL THEN u.topic ELSE x.topic END,
    CASE WHEN x.id IS NULL THEN u.partition_key ELSE x.partition_key END,
    u."partition", u.occurred_at, u.created_at, u.expires_at
FROM u LEFT JOIN @whole@
ORDER BY u.n

-- name: parked_remove
DELETE FROM @parked@ WHERE pipeline = @pipeline@ AND outbox = @outbox@ AND arrival@is_given@

-- An operator may have discarded a row meanwhile.
-- name: parked_update
UPDATE @parked@ p@before_set@
SET @p@state = u.state, @p@attempts = u.attempts, @p@next_attempt_at = u.next_at,
    @p@error_code = u.code, @p@error_origin = u.origin, @p@error_message = u.message,
    @p@updated_at = @now@@after_set@
WHERE p.pipeline = @pipeline@ AND p.outbox = @outbox@ AND p.arrival = u.arrival

-- The rows whose state is wrong: the first live row of a lane is parked, no other row is.
-- Without lanes (@lanes@ is NULL): of all lanes.
-- name: parked_wrong
WITH f AS @materialized@(SELECT l.lane, (SELECT q.arrival FROM @parked@ q
        WHERE q.pipeline = @pipeline@ AND q.outbox = @outbox@ AND @q_in_l@@live@
        ORDER BY q.arrival LIMIT 1) AS first_arrival
    FROM (SELECT u.lane FROM @rows@ UNION SELECT q.lane FROM @parked@ q
        WHERE @lanes@ IS NULL AND q.pipeline = @pipeline@ AND q.outbox = @outbox@) l),
s AS @materialized@(SELECT q.arrival, true AS is_first
    FROM f JOIN @parked@ q ON q.arrival = f.first_arrival AND q.state = 'queued'
    UNION ALL SELECT q.arrival, false
    FROM f JOIN @parked@ q ON q.pipeline = @pipeline@ AND q.outbox = @outbox@ AND @q_in_f@
        AND q.state = 'parked' AND q.arrival <> f.first_arrival)
SELECT s.arrival, s.is_first FROM s

-- name: parked_mend
UPDATE @parked@ p@before_set@
SET @p@state = CASE WHEN w.is_first THEN 'parked' ELSE 'queued' END,
    @p@next_attempt_at = CASE WHEN w.is_first THEN @epoch@ END, @p@updated_at = @now@@after_set@
WHERE p.arrival = w.arrival

-- name: parked_due
SELECT min(next_attempt_at) FROM @parked@
WHERE pipeline = @pipeline@ AND outbox = @outbox@ AND state = 'parked'

-- name: parked_any
SELECT EXISTS (SELECT 1 FROM @parked@ q WHERE q.pipeline = @pipeline@ AND q.outbox = @outbox@@live@)

-- name: parked_blocked
SELECT u.n FROM @rows@
WHERE EXISTS (SELECT 1 FROM @parked@ q
    WHERE q.pipeline = @pipeline@ AND q.outbox = @outbox@ AND @q_in_u@@live@)

-- The due lanes, the oldest first: @limit@ rows in all, @lane_limit@ of one lane, @max_bytes@
-- of all rows but the last one. @blocks@ = 1: nothing passes a dead letter, and a lane may
-- hold several. @event@: the columns of an event; @bytes@: what they take of memory.
-- name: parked_fetch
SELECT @event@, arrival, attempts
FROM (SELECT r.*, sum(@bytes@) OVER (ORDER BY due, head, arrival
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (SELECT q.*, h.next_attempt_at AS due, h.arrival AS head
        FROM (SELECT arrival, lane, next_attempt_at FROM @parked@
            WHERE pipeline = @pipeline@ AND outbox = @outbox@ AND state = 'parked'
                AND next_attempt_at <= @now@
            ORDER BY next_attempt_at, arrival LIMIT @limit@) h
        CROSS JOIN LATERAL (SELECT * FROM @parked@ q
            WHERE q.pipeline = @pipeline@ AND q.outbox = @outbox@ AND @q_in_h@
                AND q.arrival >= h.arrival AND q.state <> 'dead'
                AND q.arrival < coalesce((SELECT d.arrival FROM @parked@ d
                    WHERE @blocks@ = 1 AND d.pipeline = @pipeline@ AND d.outbox = @outbox@
                        AND @d_in_h@ AND d.arrival > h.arrival AND d.state = 'dead'
                    ORDER BY d.arrival LIMIT 1), 9223372036854775807)
            ORDER BY q.arrival LIMIT @lane_limit@) q
        ORDER BY h.next_attempt_at, h.arrival, q.arrival LIMIT @limit@) r) w
WHERE coalesce(bytes_before, 0) < @max_bytes@
ORDER BY due, head, arrival

-- The same without LATERAL: every row of a due lane is numbered, and so is read.
-- name: parked_fetch_numbered
SELECT @event@, arrival, attempts
FROM (SELECT r.*, sum(@bytes@) OVER (ORDER BY due, head, arrival
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (SELECT k.* FROM (SELECT q.*, h.next_attempt_at AS due, h.arrival AS head,
            row_number() OVER (PARTITION BY h.arrival ORDER BY q.arrival) AS place
        FROM (SELECT arrival, lane, next_attempt_at FROM @parked@
            WHERE pipeline = @pipeline@ AND outbox = @outbox@ AND state = 'parked'
                AND next_attempt_at <= @now@
            ORDER BY next_attempt_at, arrival LIMIT @limit@) h
        JOIN @parked@ q ON q.pipeline = @pipeline@ AND q.outbox = @outbox@ AND @q_in_h@
            AND q.arrival >= h.arrival AND q.state <> 'dead'
            AND NOT EXISTS (SELECT 1 FROM @parked@ d
                WHERE @blocks@ = 1 AND d.pipeline = @pipeline@ AND d.outbox = @outbox@
                    AND @d_in_h@ AND d.arrival > h.arrival AND d.arrival < q.arrival
                    AND d.state = 'dead')) k
        WHERE k.place <= @lane_limit@
        ORDER BY k.due, k.head, k.arrival LIMIT @limit@) r) w
WHERE coalesce(bytes_before, 0) < @max_bytes@
ORDER BY due, head, arrival
