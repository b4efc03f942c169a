-- SPDX-License-Identifier: MIT
-- From version 1 to 2: mode cdc, and keys of any length. Two inits at once may
-- both run it.
ALTER TABLE IF EXISTS outrider_cursor
    ADD COLUMN IF NOT EXISTS mode text NOT NULL DEFAULT 'poll',
    ADD COLUMN IF NOT EXISTS lsn pg_lsn,
    ADD COLUMN IF NOT EXISTS lsn_number bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS sweep int8multirange NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS last_seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS settled_xid bigint;
DROP INDEX IF EXISTS outrider_parked_lane, outrider_parked_live, outrider_parked_first;
