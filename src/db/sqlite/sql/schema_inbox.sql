-- SPDX-License-Identifier: MIT
-- The ids of events that consumers have handled; processed_at is in
-- microseconds since 1970.
CREATE TABLE IF NOT EXISTS outrider_inbox (
    consumer TEXT NOT NULL,
    event_id TEXT NOT NULL,
    processed_at INTEGER NOT NULL,
    PRIMARY KEY (consumer, event_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS outrider_inbox_age ON outrider_inbox (processed_at);
