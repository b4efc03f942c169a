-- SPDX-License-Identifier: MIT
-- For every language that can call a function.
CREATE OR REPLACE FUNCTION outbox_enqueue(
    aggregate_type text, aggregate_id text, event_type text, payload @payload@,
    headers jsonb DEFAULT NULL, topic text DEFAULT NULL, partition_key text DEFAULT NULL,
    partition integer DEFAULT NULL, occurred_at timestamptz DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, id uuid DEFAULT NULL)
RETURNS uuid LANGUAGE sql VOLATILE AS $outrider$
    INSERT INTO @schema@.outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic,
        partition_key, partition, occurred_at, expires_at)
    VALUES (coalesce($11, gen_random_uuid()), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    RETURNING outbox.id
$outrider$;
