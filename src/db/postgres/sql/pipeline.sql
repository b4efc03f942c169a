-- SPDX-License-Identifier: MIT
-- What an operator changes of a pipeline: store/pipeline.c. $1 is the pipeline in all of them, $2
-- its first table.

-- name: pipeline_lock
-- Takes the lock of a relay until the end of the transaction. Column: whether it was free.
SELECT pg_try_advisory_xact_lock(hashtextextended('outrider/' || $2 || '/' || $1, 0))

-- name: pipeline_move
-- $3: the names of the pipeline's tables, $4: the new sink's identity. A row for each table of the pipeline. The epoch moves on, so
-- that a relay which is somehow still at work cannot save over this. Column: the old sink.
UPDATE @cursor@ c
SET sink = $4, epoch = c.epoch + 1
FROM (SELECT k.pipeline, k.outbox, k.sink FROM @cursor@ k WHERE k.pipeline = $1 FOR UPDATE) o
WHERE c.pipeline = o.pipeline AND c.outbox = o.outbox AND (c.outbox = $2 OR c.outbox = ANY (@mine@::text[]))
RETURNING o.sink

-- name: pipeline_orphans
-- Rows of an older version of the schema, of which nobody knows whose they are.
SELECT count(*) FROM @companions@.outrider_intent WHERE pipeline = $1 AND outbox = ''

-- name: pipeline_remove_orphans
DELETE FROM @companions@.outrider_intent WHERE pipeline = $1 AND outbox = ''

-- name: pipeline_forget
-- The number stays. With an empty identity the row is in the way of no other relay.
WITH u AS (
    UPDATE @companions@.outrider_intent
    SET body = NULL, identity = '', epoch = epoch + 1
    WHERE pipeline = $1 AND outbox = $2
    RETURNING 1
)
SELECT count(*) FROM u

-- name: pipeline_progress
-- $3 and $4: the number and the stamp of the sink's last transaction.
WITH u AS (
    UPDATE @companions@.outrider_intent
    SET no = $3, stamp = $4, body = NULL, epoch = epoch + 1
    WHERE pipeline = $1 AND outbox = $2
    RETURNING 1
)
SELECT count(*) FROM u
