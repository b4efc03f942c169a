-- SPDX-License-Identifier: MIT
-- Statements of layout `status`: common/status_sql.h. @outbox@ is the table, @pipeline@ and
-- @name@ say whose rows of outrider_cursor and outrider_parked are meant.

-- name: status_fetch
SELECT @event@, @attempts@, @claim@, @has_copy@
FROM @outbox@ o
WHERE @takable@@not_in_flight@@order@
LIMIT @1:int8@@lock@

-- The claim gives every row another place: n remembers the order of the rows.
-- name: status_fetch_claim
WITH c AS @materialized@(SELECT @id@ AS k FROM @outbox@ o
    WHERE @takable@@order@
    LIMIT @1:int8@@lock@),
n AS @materialized@(SELECT c.k, row_number() OVER () AS outrider_n FROM c),
w AS (UPDATE @outbox@ o SET @set@ FROM n WHERE @id@ = n.k RETURNING @columns@, n.outrider_n)
SELECT @event@, @attempts@, @claim@, @has_copy@
FROM w o
ORDER BY o.outrider_n

-- A copy of the row in outrider_parked, for what the row itself cannot say. What is put
-- together from columns is put together once.
-- name: status_park
INSERT INTO @parked@ (pipeline, outbox, lane, state, attempts, next_attempt_at, error_code,
    error_origin, error_message, seq, id, aggregate_type, aggregate_id, event_type, payload,
    headers, topic, partition_key, "partition", occurred_at, created_at, expires_at)
WITH e (n, lane, state, attempts, next_at, code, origin, message, seq, id, aggregate_type,
        aggregate_id, event_type, payload, headers, topic, partition_key, "partition",
        occurred_at, created_at, expires_at, size, large) AS @materialized@(
    SELECT u.n, u.lane, u.state, u.attempts, @next@, u.code, u.origin, u.message, @event@
    FROM @rows@, @outbox@ o
    WHERE @id@ = u.id@ours@)
SELECT @pipeline@, @name@, e.lane, e.state, e.attempts, e.next_at, e.code, e.origin, e.message,
    coalesce(e.seq, 0), e.id, @stored_aggregate_type@, @stored_aggregate_id@,
    @stored_event_type@, @payload@, @stored_headers@, @stored_topic@, @stored_partition_key@,
    e."partition", e.occurred_at, e.created_at, e.expires_at
FROM e
ORDER BY e.n

-- name: status_cursor
UPDATE @cursor@ c
SET settled_at = @now@, delivered_total = delivered_total + @1:int8@,
    expired_total = expired_total + @2:int8@, skipped_total = skipped_total + @3:int8@,
    dead_total = dead_total + @4:int8@
WHERE c.pipeline = @pipeline@ AND c.outbox = @name@@mine@

-- Where the dialect has RETURNING: a division by zero when the pipeline is not ours any more.
-- name: status_cursor_checked
WITH w AS (@update@ RETURNING 1)
SELECT 1 / count(*) FROM w

-- A row that belongs to another sink keeps its epoch.
-- name: status_take
INSERT INTO @cursor@@insert_alias@ (pipeline, outbox, sink, on_dead, words, epoch)
VALUES (@pipeline@, @name@, @1:text@, @2:text@, @3:text@, 1)@upsert@
    epoch = @old@epoch + CASE WHEN @old@sink IN ('', @new_sink@) THEN @step@ ELSE 0 END,
    sink = CASE WHEN @old@sink = '' THEN @new_sink@ ELSE @old@sink END,
    on_dead = @new_on_dead@, words = coalesce(@new_words@, @old@words)@returning@

-- name: status_taken
SELECT epoch, sink, mode FROM @cursor@ WHERE pipeline = @pipeline@ AND outbox = @name@
