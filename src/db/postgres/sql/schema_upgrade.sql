-- SPDX-License-Identifier: MIT
-- From version 1 or 2 to 3. Two inits at once may both run it.
-- To version 2: mode cdc, and keys of any length.
ALTER TABLE IF EXISTS outrider_cursor
    ADD COLUMN IF NOT EXISTS mode text NOT NULL DEFAULT 'poll',
    ADD COLUMN IF NOT EXISTS lsn pg_lsn,
    ADD COLUMN IF NOT EXISTS lsn_number bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS sweep int8multirange NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS last_seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS settled_xid bigint;
DROP INDEX IF EXISTS outrider_parked_lane, outrider_parked_live, outrider_parked_first;

-- To version 3: owners of slots, remembered words, one intent for each outbox.
-- Before version 3 a pipeline in mode cdc had this slot.
ALTER TABLE IF EXISTS outrider_cursor
    ADD COLUMN IF NOT EXISTS slot text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS publication text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS polled_lsn pg_lsn,
    ADD COLUMN IF NOT EXISTS published text[] NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS words text;
-- What is committed from now on was not polled by a pipeline that reads the stream.
UPDATE outrider_cursor SET polled_lsn = pg_current_wal_insert_lsn() WHERE polled_lsn IS NULL AND mode = 'cdc';
UPDATE outrider_cursor SET slot = 'outrider_' || regexp_replace(lower(left(pipeline, 54)), '[^a-z0-9]', '_', 'g')
    WHERE slot = '' AND mode IN ('cdc', 'leaving');
-- A resync of version 2 could save a gap at the position itself. What such a
-- pipeline had delivered is not known: it delivers what the table holds (again).
UPDATE outrider_cursor SET position = 0, gaps = '{}', anchor_id = NULL WHERE upper(gaps) > position;
ALTER TABLE outrider_cursor DROP CONSTRAINT IF EXISTS outrider_cursor_gaps,
    ADD CONSTRAINT outrider_cursor_gaps CHECK (upper(gaps) <= position);
-- The identity of an intent names its outbox; where the pipeline has one cursor,
-- that is the outbox anyhow. A row without an outbox and without a body says nothing
-- that is needed. A row without an outbox and with a body stays: the relay refuses
-- to start beside it. Which tables were the pipeline's is not known: all that have
-- a cursor under its name; the next start writes the right ones.
DO $outrider$
BEGIN
    IF to_regclass('outrider_intent') IS NOT NULL THEN
        ALTER TABLE outrider_intent ADD COLUMN IF NOT EXISTS outbox text NOT NULL DEFAULT '';
        UPDATE outrider_intent i SET outbox = c.outbox FROM outrider_cursor c WHERE c.pipeline = i.pipeline
            AND i.outbox = '' AND position('/' || left(c.outbox, 100) || '/' IN i.identity) > 0;
        UPDATE outrider_intent i SET outbox = c.outbox FROM outrider_cursor c WHERE c.pipeline = i.pipeline AND
            i.outbox = '' AND NOT EXISTS (SELECT FROM outrider_cursor x WHERE x.pipeline = i.pipeline AND x.outbox <> c.outbox);
        DELETE FROM outrider_intent WHERE outbox = '' AND body IS NULL;
        ALTER TABLE outrider_intent ADD COLUMN IF NOT EXISTS tables text[] NOT NULL DEFAULT '{}';
        UPDATE outrider_intent i SET tables = (SELECT coalesce(array_agg(c.outbox ORDER BY c.outbox), '{}') FROM outrider_cursor c
            WHERE c.pipeline = i.pipeline) WHERE tables = '{}';
        ALTER TABLE outrider_intent ALTER COLUMN outbox DROP DEFAULT, DROP CONSTRAINT outrider_intent_pkey,
            ADD PRIMARY KEY (pipeline, outbox);
    END IF;
END
$outrider$;
