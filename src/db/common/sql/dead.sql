-- SPDX-License-Identifier: MIT
-- Dead letters, for the commands: common/dead.h. @parked@ and @cursor@ are the tables.

-- Each of the first three says nothing where it is NULL. @stored@ is ", ..." where the table may
-- hold the event type as hex.
-- name: dead_filter
(@1:text@ IS NULL OR pipeline = @1:text@)
AND (@2:text[]@ IS NULL OR id@is_given@)
AND (@3:text@ IS NULL OR event_type IN (@3:text@@stored@))
AND updated_at >= @4:time@ AND (state = 'dead' OR @5:bool@)

-- Columns: an event's, then enum dead_column.
-- name: dead_list
SELECT @event@, arrival, attempts, pipeline, state, error_code, error_message, parked_at,
    next_attempt_at, updated_at
FROM @parked@
WHERE @filter@
ORDER BY arrival

-- The lanes are mended afterwards: the first row of each lane is due then.
-- name: dead_retry
UPDATE @parked@
SET state = 'queued', next_attempt_at = NULL, attempts = 0, updated_at = @now@
WHERE @filter@

-- name: dead_discard
DELETE FROM @parked@ WHERE @filter@

-- The pipeline's rows that wait, and its dead letters. Columns: enum failed_column.
-- name: dead_failed
SELECT count(CASE WHEN state <> 'dead' THEN 1 END), count(CASE WHEN state = 'dead' THEN 1 END)
FROM @parked@
WHERE pipeline = @1:text@@and_outbox@

-- The rows of all pipelines whose state is wrong, by each pipeline's own rule of whether a dead
-- letter blocks. DISTINCT makes a dialect evaluate this before the table is changed.
-- name: dead_wrong
WITH f AS @materialized@(SELECT p.pipeline, p.outbox, p.lane, min(p.arrival) AS first_arrival
    FROM @parked@ p LEFT JOIN @cursor@ c ON c.pipeline = p.pipeline AND c.outbox = p.outbox
    WHERE p.state <> 'dead' OR c.on_dead = 'block'
    GROUP BY p.pipeline, p.outbox, p.lane)
SELECT DISTINCT p.arrival, p.arrival = f.first_arrival AS is_first
FROM f JOIN @parked@ p ON p.pipeline = f.pipeline AND p.outbox = f.outbox AND p.lane = f.lane
WHERE p.state <> 'dead' AND (p.arrival = f.first_arrival) = (p.state = 'queued')

-- name: dead_mend
UPDATE @parked@ p@before_set@
SET @p@state = CASE WHEN w.is_first THEN 'parked' ELSE 'queued' END,
    @p@next_attempt_at = CASE WHEN w.is_first THEN @epoch@ END, @p@updated_at = @now@@after_set@
WHERE p.arrival = w.arrival
