-- SPDX-License-Identifier: MIT
-- What `outrider init` made in version 1 of the schema, kept as it was: the
-- tests upgrade it.
-- The outbox, insert-only. seq is GENERATED ALWAYS with CACHE 1: a number that
-- was handed out in advance, or by hand, could appear below the cursor later
-- and would be lost.
CREATE TABLE IF NOT EXISTS outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    aggregate_type text NOT NULL,
    aggregate_id text NOT NULL,
    event_type text NOT NULL,
    payload jsonb,
    headers jsonb,
    topic text,
    partition_key text,
    partition integer,
    occurred_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    PRIMARY KEY (seq),
    CONSTRAINT outbox_id_key UNIQUE (id)
);
-- What every layout needs beside the outbox. Version 1.
CREATE TABLE IF NOT EXISTS outrider_schema (
    version integer NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);

-- One row for each pipeline and outbox. gaps are seqs below position that may
-- still be filled; anchor_id is the id of the row at position: if that row is
-- no longer there, history was rewritten. epoch counts take-overs.
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
    settled_at timestamptz,
    delivered_total bigint NOT NULL DEFAULT 0,
    expired_total bigint NOT NULL DEFAULT 0,
    skipped_total bigint NOT NULL DEFAULT 0,
    dead_total bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, outbox)
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
CREATE INDEX IF NOT EXISTS outrider_parked_lane ON outrider_parked (pipeline, outbox, lane, arrival);
CREATE INDEX IF NOT EXISTS outrider_parked_live ON outrider_parked (pipeline, outbox, lane, arrival) WHERE state <> 'dead';
CREATE INDEX IF NOT EXISTS outrider_parked_first ON outrider_parked (pipeline, outbox, lane) WHERE state = 'parked';
CREATE INDEX IF NOT EXISTS outrider_parked_id ON outrider_parked (id);

INSERT INTO outrider_schema (version) SELECT 1 WHERE NOT EXISTS (SELECT FROM outrider_schema);
-- For every language that can call a function.
CREATE OR REPLACE FUNCTION outbox_enqueue(
    aggregate_type text, aggregate_id text, event_type text, payload jsonb,
    headers jsonb DEFAULT NULL, topic text DEFAULT NULL, partition_key text DEFAULT NULL,
    partition integer DEFAULT NULL, occurred_at timestamptz DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, id uuid DEFAULT NULL)
RETURNS uuid LANGUAGE sql VOLATILE AS $outrider$
    INSERT INTO public.outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic,
        partition_key, partition, occurred_at, expires_at)
    VALUES (coalesce($11, gen_random_uuid()), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    RETURNING outbox.id
$outrider$;
-- Two roles without login, to be granted to the application's user and to the
-- relay's: GRANT outrider_writer TO app; GRANT outrider_relay TO relay;
DO $outrider$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'outrider_writer') THEN
        CREATE ROLE outrider_writer NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'outrider_relay') THEN
        CREATE ROLE outrider_relay NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END
$outrider$;
GRANT USAGE ON SCHEMA public TO outrider_writer, outrider_relay;
GRANT INSERT ON public.outbox TO outrider_writer;
GRANT SELECT (id) ON public.outbox TO outrider_writer;
REVOKE EXECUTE ON FUNCTION public.outbox_enqueue FROM PUBLIC;
GRANT EXECUTE ON FUNCTION public.outbox_enqueue TO outrider_writer;
GRANT SELECT, DELETE ON public.outbox TO outrider_relay;
GRANT SELECT ON SEQUENCE public.outbox_seq_seq TO outrider_relay;
GRANT SELECT, INSERT, UPDATE ON public.outrider_cursor TO outrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON public.outrider_parked TO outrider_relay;
GRANT SELECT ON public.outrider_schema TO outrider_relay;
