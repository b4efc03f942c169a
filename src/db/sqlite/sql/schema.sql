-- SPDX-License-Identifier: MIT
-- Version 1 of the outbox and its companions.
--
-- seq is AUTOINCREMENT because a plain rowid is reused after a delete, and the
-- cursor would pass over the new row. Constraints are named: their names tell
-- an application what was wrong with its event.
CREATE TABLE IF NOT EXISTS outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE DEFAULT (lower(
        hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' ||
        substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))
        CONSTRAINT id_is_not_empty CHECK (id <> ''),
    aggregate_type TEXT NOT NULL,
    aggregate_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    @payload@,
    headers TEXT CONSTRAINT headers_are_json CHECK (headers IS NULL OR json_valid(headers)),
    topic TEXT,
    partition_key TEXT,
    partition INTEGER,
    occurred_at TEXT,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    expires_at TEXT CONSTRAINT expires_at_is_a_time CHECK (expires_at IS NULL OR julianday(expires_at) IS NOT NULL)
);

-- One row a pipeline. anchor_id is the id of the row at position: if that row
-- is no longer there, history was rewritten. epoch counts take-overs; on_dead
-- is what the relay was configured with, for those who mend lanes without it.
-- Times here and below are microseconds since 1970.
CREATE TABLE IF NOT EXISTS outrider_cursor (
    pipeline TEXT NOT NULL PRIMARY KEY,
    sink TEXT NOT NULL DEFAULT '',
    position INTEGER NOT NULL DEFAULT 0,
    anchor_id TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    on_dead TEXT NOT NULL DEFAULT 'skip',
    settled_at INTEGER,
    delivered_total INTEGER NOT NULL DEFAULT 0,
    expired_total INTEGER NOT NULL DEFAULT 0,
    skipped_total INTEGER NOT NULL DEFAULT 0,
    dead_total INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
);

-- Events that failed, those that queue behind them, and dead letters: copies,
-- so that clean-up of the outbox need not know of them. The first live row of
-- a lane is 'parked' with the time of its next attempt (0: at once), those
-- behind it are 'queued' without one.
CREATE TABLE IF NOT EXISTS outrider_parked (
    arrival INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline TEXT NOT NULL,
    lane TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('parked', 'queued', 'dead')),
    seq INTEGER NOT NULL,
    id TEXT,
    aggregate_type TEXT,
    aggregate_id TEXT,
    event_type TEXT,
    payload,
    headers TEXT,
    topic TEXT,
    partition_key TEXT,
    partition INTEGER,
    occurred_at TEXT,
    created_at TEXT,
    expires_at TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    error_code TEXT,
    error_origin TEXT,
    error_message TEXT,
    parked_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS outrider_parked_due ON outrider_parked (pipeline, next_attempt_at) WHERE state = 'parked';
CREATE INDEX IF NOT EXISTS outrider_parked_lane ON outrider_parked (pipeline, lane, arrival);
CREATE INDEX IF NOT EXISTS outrider_parked_live ON outrider_parked (pipeline, lane, arrival) WHERE state <> 'dead';
CREATE INDEX IF NOT EXISTS outrider_parked_id ON outrider_parked (id);
