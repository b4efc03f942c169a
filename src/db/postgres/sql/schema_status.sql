-- SPDX-License-Identifier: MIT
-- The outbox, each row with its state. claim counts how often a row was taken,
-- so that a relay that was too late cannot overwrite what a later one did.
CREATE TABLE IF NOT EXISTS outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    aggregate_type text NOT NULL,
    aggregate_id text NOT NULL,
    event_type text NOT NULL,
    payload @payload@,
    headers jsonb,
    topic text,
    partition_key text,
    partition integer,
    occurred_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    status text NOT NULL DEFAULT 'PENDING'
        CHECK (status IN ('PENDING', 'PROCESSING', 'PUBLISHED', 'FAILED', 'DEAD_LETTER', 'EXPIRED')),
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz,
    last_error_code text,
    last_error text,
    locked_by text,
    locked_at timestamptz,
    locked_until timestamptz,
    claim bigint NOT NULL DEFAULT 0,
    published_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT now(),
    @keys@
)@partition@;
@partitions@
-- What is to be done, in order; what holds its key up; and what is done, for
-- clean-up (BRIN: rows are published in the order of time, nearly).
CREATE INDEX IF NOT EXISTS outbox_unsettled ON outbox (seq) WHERE status IN ('PENDING', 'PROCESSING', 'FAILED');
CREATE INDEX IF NOT EXISTS outbox_waiting ON outbox (status) WHERE status IN ('PROCESSING', 'FAILED', 'DEAD_LETTER');
CREATE INDEX IF NOT EXISTS outbox_published ON outbox USING brin (published_at) WITH (pages_per_range = 32);
COMMENT ON TABLE outbox IS 'outrider: layout status';
