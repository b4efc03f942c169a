-- SPDX-License-Identifier: MIT
-- Statements that several layouts share. Words of every statement: wire/statements.h.

-- The cursor: shared/cursor.h. $1 is the pipeline and $2 the outbox in all of them.

-- name: cursor_enrol
-- Makes the cursor's row, where there is none.
INSERT INTO @cursor@ (pipeline, outbox)
VALUES ($1, $2)
ON CONFLICT (pipeline, outbox) DO NOTHING

-- name: cursor_take
-- Takes the pipeline over: raises the epoch. $3 is the epoch that was read, $4 the sink's
-- identity, $5 on_dead, $6 system_id, $7 timeline. Columns: enum pg_take_column.
UPDATE @cursor@
SET epoch = epoch + 1, sink = $4, on_dead = $5, system_id = $6, timeline = $7
WHERE pipeline = $1 AND outbox = $2 AND epoch = $3
RETURNING epoch, ctid

-- name: cursor_totals
-- The word @totals@ of cursor_save.
settled_at = coalesce($7, settled_at),
delivered_total = delivered_total + $8,
expired_total = expired_total + $9,
skipped_total = skipped_total + $10,
dead_total = dead_total + $11

-- name: cursor_save
-- Saves the cursor, or divides by zero when the epoch is not $3 any more. @sets@ are the
-- layout's own assignments with $4 to $6; $7 to $12 come from outrider__pg_cursor_totals().
-- The first update goes by the row's version that was written last ($12): while an old
-- snapshot is held, the way over the key leads past all dead versions of the row.
-- Columns: enum pg_save_column.
WITH by_version AS (
    UPDATE @cursor@ k
    SET @sets@, @totals@
    WHERE k.ctid = $12 AND k.pipeline = $1 AND k.outbox = $2 AND k.epoch = $3
    RETURNING k.ctid
), by_key AS (
    UPDATE @cursor@ k
    SET @sets@, @totals@
    WHERE k.pipeline = $1 AND k.outbox = $2 AND k.epoch = $3 AND NOT EXISTS (SELECT FROM by_version)
    RETURNING k.ctid
), saved AS (
    SELECT ctid FROM by_version UNION ALL SELECT ctid FROM by_key
)
SELECT (SELECT ctid FROM saved), 1 / (SELECT count(*) FROM saved)

-- Exactly once: shared/intent.h. $1 is the pipeline, $2 the outbox. $3 is either the names of
-- the pipeline's tables as the user wrote them (then @mine@ is intent_mine), or the epoch.
-- A statement that finds another epoch divides by zero.

-- name: intent_mine
-- The word @mine@: the pipeline's tables, qualified and quoted.
(SELECT coalesce(array_agg(format('%I.%I', n.nspname, c.relname)), '{}')
FROM unnest($3::text[]) AS u(name)
JOIN pg_class c ON c.oid = to_regclass(u.name)
JOIN pg_namespace n ON n.oid = c.relnamespace)

-- name: intent_lock
-- Lets one relay of a pipeline's name start at a time.
SELECT pg_advisory_xact_lock(hashtextextended('outrider/intent/' || $1, 0))

-- name: intent_others
-- Rows of this name that are not this pipeline's, but hold tables of it. Of a row without an
-- outbox nobody knows whose it is (schema_upgrade.sql). Columns: enum intent_others_column.
SELECT o.outbox, o.body IS NOT NULL AS has_body, array_to_string(o.tables, ', ')
FROM @companions@.outrider_intent o
WHERE o.pipeline = $1 AND o.outbox <> $2
    AND (o.outbox = '' OR o.identity <> '' AND o.tables && @mine@)
ORDER BY has_body DESC
LIMIT 1

-- name: intent_take
-- Takes the row over, unless intent_others finds one. $4 is the pipeline's identity.
-- Columns: enum intent_take_column.
INSERT INTO @companions@.outrider_intent AS i (pipeline, outbox, identity, tables)
SELECT $1, $2, $4, @mine@
WHERE NOT EXISTS (
    SELECT FROM @companions@.outrider_intent o
    WHERE o.pipeline = $1 AND o.outbox <> $2
        AND (o.outbox = '' OR o.identity <> '' AND o.tables && @mine@))
ON CONFLICT (pipeline, outbox) DO UPDATE
SET epoch = i.epoch + 1, identity = $4, tables = excluded.tables
RETURNING epoch, no, stamp, body IS NOT NULL

-- name: intent_pending
-- Without exactly_once: an intent that only exactly_once can settle, or a row that says that
-- the pipeline runs with exactly_once. Columns: enum intent_pending_column.
SELECT o.outbox, o.body IS NOT NULL AS has_body, o.identity <> '' AS is_named
FROM @companions@.outrider_intent o
WHERE o.pipeline = $1 AND (o.outbox IN ('', $2) OR o.tables && @mine@)
ORDER BY has_body DESC, is_named DESC
LIMIT 1

-- name: intent_leave
-- Notes that the pipeline runs without exactly_once now.
UPDATE @companions@.outrider_intent o
SET identity = ''
WHERE o.pipeline = $1 AND (o.outbox = $2 OR o.tables && @mine@) AND o.body IS NULL

-- name: intent_save
-- $3 is the epoch, $4 and $5 the number and the stamp, $6 the body.
WITH u AS (
    UPDATE @companions@.outrider_intent
    SET no = $4, stamp = $5, body = $6
    WHERE pipeline = $1 AND outbox = $2 AND epoch = $3
    RETURNING 1
)
SELECT 1 / (SELECT count(*) FROM u)

-- name: intent_body
-- $3 is the epoch. Column: the body.
SELECT body FROM @companions@.outrider_intent WHERE pipeline = $1 AND outbox = $2 AND epoch = $3

-- name: intent_epoch
-- Checks the epoch $3, and changes nothing.
SELECT 1 / (SELECT count(*) FROM @companions@.outrider_intent WHERE pipeline = $1 AND outbox = $2 AND epoch = $3)
