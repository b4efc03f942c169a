-- SPDX-License-Identifier: MIT
-- The outbox, insert-only. seq is GENERATED ALWAYS with CACHE 1: a number that
-- was handed out in advance, or by hand, could appear below the cursor later
-- and would be lost.
CREATE TABLE IF NOT EXISTS outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
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
    @keys@
)@partition@;
@partitions@
