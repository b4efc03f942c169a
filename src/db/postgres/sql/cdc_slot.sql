-- SPDX-License-Identifier: MIT
-- Names of slots and publications (src/db/postgres/cdc/slot.h).

-- name: slot_names
-- A common table expression m. A slot's name takes small letters, digits and underscores only,
-- and up to 63 of them; eight are for the suffix of the temporary slot on the way back to
-- polling. A publication belongs to one database, so the plain name is free there unless an
-- older cursor has it.
n AS MATERIALIZED (
    SELECT
        coalesce(k.slot, '') AS slot,
        coalesce(k.publication, '') AS adopted,
        k.created_at,
        CASE
            WHEN $1::text ~ '^[a-z0-9_]{1,46}$' AND $2::text LIKE 'public.%'
                THEN 'outrider_' || $1::text
        END AS plain,
        left('outrider_' || regexp_replace(lower($1::text), '[^a-z0-9]', '_', 'g'), 37) || '_'
            || lpad(
                to_hex(
                    hashtextextended(
                        current_database() || '/' || $2::text || '/' || $1::text, 0
                    )
                ),
                16, '0'
            ) AS hashed
    FROM (SELECT 1) one
    LEFT JOIN @cursor@ k ON k.pipeline = $1::text AND k.outbox = $2::text
),
f AS MATERIALIZED (
    SELECT
        n.*,
        CASE
            WHEN n.plain IS NULL
                OR EXISTS (
                    SELECT FROM @cursor@ j
                    WHERE j.slot = n.plain
                        AND (j.pipeline, j.outbox) <> ($1::text, $2::text)
                )
                OR EXISTS (
                    SELECT FROM pg_replication_slots r
                    WHERE r.slot_name = n.plain
                        AND r.database IS DISTINCT FROM current_database()
                )
                THEN n.hashed
            ELSE n.plain
        END AS name
    FROM n
),
m AS MATERIALIZED (
    SELECT
        f.slot,
        f.name,
        CASE
            WHEN f.adopted <> '' THEN f.adopted
            WHEN EXISTS (
                SELECT FROM pg_publication p
                WHERE p.pubname = coalesce(nullif(f.slot, ''), f.name)
            ) THEN coalesce(nullif(f.slot, ''), f.name)
            WHEN f.plain IS NULL
                OR EXISTS (
                    SELECT FROM @cursor@ j
                    WHERE j.pipeline = $1::text
                        AND j.outbox <> $2::text
                        AND j.slot <> ''
                        AND (j.created_at, j.outbox) < (f.created_at, $2::text)
                )
                THEN f.hashed
            ELSE f.plain
        END AS publication
    FROM f
)

-- name: slot_forget
-- Only a slot that the cursor records: slot.h (1). $1 pipeline, $2 outbox
SELECT pg_drop_replication_slot(s.slot_name)
FROM pg_replication_slots s
WHERE s.slot_name = (
        SELECT nullif(k.slot, '')
        FROM @cursor@ k
        WHERE k.pipeline = $1 AND k.outbox = $2 AND k.mode = 'poll'
    )
    AND NOT s.active
    AND s.database = current_database()
    AND s.plugin = 'pgoutput'
