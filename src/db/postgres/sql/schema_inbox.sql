-- SPDX-License-Identifier: MIT
-- The ids of events that consumers have handled. In a block, because IF NOT
-- EXISTS would send a notice to whoever calls this at every start; the lock
-- lets two of them at once take turns. BRIN: rows come in the order of time.
DO $outrider$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('outrider/init', 0));
    IF to_regclass('outrider_inbox') IS NULL THEN
        CREATE TABLE outrider_inbox (
            consumer text NOT NULL,
            event_id text NOT NULL,
            processed_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (consumer, event_id)
        );
        CREATE INDEX outrider_inbox_age ON outrider_inbox USING brin (processed_at)
            WITH (pages_per_range = 32, autosummarize);
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'outrider_writer') THEN
            GRANT SELECT, INSERT, DELETE ON outrider_inbox TO outrider_writer;
        END IF;
    END IF;
END
$outrider$;
