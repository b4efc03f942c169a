-- SPDX-License-Identifier: MIT
-- What every layout needs beside the outbox. Version 3; a change of it is a new
-- version, and a step in schema_upgrade.sql.
CREATE TABLE IF NOT EXISTS outrider_schema (
    version integer NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);

-- One row for each pipeline and outbox. gaps are seqs below position that may
-- still be filled; anchor_id is the id of the row at position: if that row is
-- no longer there, history was rewritten. epoch counts take-overs. In mode cdc
-- position and gaps say what polling had settled before polled_lsn, sweep which rows are
-- still to be read before the stream, and (lsn, lsn_number) which event of
-- which commit was settled last; last_seq is the highest seq among those, and
-- every transaction below settled_xid is settled, which clean-up and resync go by.
-- slot is the replication slot that this pipeline owns, publication the one that a
-- slot of another program was adopted with ('': outrider's own), words the status words of
-- a table that somebody else made. The row at position is settled, so every gap
-- lies below it: the CHECK refuses a cursor that would pass an unsettled row.
CREATE TABLE IF NOT EXISTS outrider_cursor (
    pipeline text NOT NULL,
    outbox text NOT NULL,
    sink text NOT NULL DEFAULT '',
    position bigint NOT NULL DEFAULT 0,
    gaps int8multirange NOT NULL DEFAULT '{}',
    anchor_id text,
    epoch bigint NOT NULL DEFAULT 0,
    on_dead text NOT NULL DEFAULT 'skip',
    system_id bigint,
    timeline integer,
    mode text NOT NULL DEFAULT 'poll',
    lsn pg_lsn,
    lsn_number bigint NOT NULL DEFAULT 0,
    sweep int8multirange NOT NULL DEFAULT '{}',
    last_seq bigint NOT NULL DEFAULT 0,
    settled_xid bigint,
    settled_at timestamptz,
    slot text NOT NULL DEFAULT '',
    publication text NOT NULL DEFAULT '',
    polled_lsn pg_lsn,
    published text[] NOT NULL DEFAULT '{}',
    words text,
    delivered_total bigint NOT NULL DEFAULT 0,
    expired_total bigint NOT NULL DEFAULT 0,
    skipped_total bigint NOT NULL DEFAULT 0,
    dead_total bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, outbox),
    CONSTRAINT outrider_cursor_gaps CHECK (upper(gaps) <= position)
) WITH (fillfactor = 10);

-- Events that failed, those that queue behind them, and dead letters: copies,
-- so that clean-up of the outbox need not know of them. The first live row of
-- a lane is 'parked' with the time of its next attempt, those behind it are
-- 'queued' without one.
CREATE TABLE IF NOT EXISTS outrider_parked (
    arrival bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL,
    outbox text NOT NULL,
    lane text NOT NULL,
    state text NOT NULL CHECK (state IN ('parked', 'queued', 'dead')),
    seq bigint NOT NULL,
    id text,
    aggregate_type text,
    aggregate_id text,
    event_type text,
    payload bytea,
    headers text,
    topic text,
    partition_key text,
    partition integer,
    occurred_at timestamptz,
    created_at timestamptz,
    expires_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz,
    error_code text,
    error_origin text,
    error_message text,
    parked_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS outrider_parked_due ON outrider_parked (pipeline, outbox, next_attempt_at) WHERE state = 'parked';
-- A lane is a key of any length, which an index does not take: its hash does.
CREATE INDEX IF NOT EXISTS outrider_parked_lane ON outrider_parked (pipeline, outbox, hashtextextended(lane, 0), arrival);
CREATE INDEX IF NOT EXISTS outrider_parked_live ON outrider_parked (pipeline, outbox, hashtextextended(lane, 0), arrival) WHERE state <> 'dead';
CREATE INDEX IF NOT EXISTS outrider_parked_first ON outrider_parked (pipeline, outbox, hashtextextended(lane, 0)) WHERE state = 'parked';
CREATE INDEX IF NOT EXISTS outrider_parked_id ON outrider_parked (id);

-- exactly_once: what the pipeline's last transaction settles if it is committed;
-- body NULL: it is settled. epoch counts take-overs, identity is the pipeline's
-- name in the sink; empty: it runs without exactly_once now. outbox is the
-- pipeline's first table, tables are all of them: a transaction may hold rows of
-- any, so no table may be in the transactions of two rows under one pipeline.
CREATE TABLE IF NOT EXISTS outrider_intent (
    pipeline text NOT NULL,
    outbox text NOT NULL,
    tables text[] NOT NULL DEFAULT '{}',
    identity text NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    no bigint NOT NULL DEFAULT 0,
    stamp bigint NOT NULL DEFAULT 0,
    body bytea,
    PRIMARY KEY (pipeline, outbox)
) WITH (fillfactor = 10);

INSERT INTO outrider_schema (version) SELECT 3 WHERE NOT EXISTS (SELECT FROM outrider_schema);
