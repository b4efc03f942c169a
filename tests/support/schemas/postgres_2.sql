-- SPDX-License-Identifier: MIT
-- What version 2 of the schema added to version 1 (postgres_1.sql), kept as it
-- was: the tests upgrade it.
ALTER TABLE outrider_cursor
    ADD COLUMN mode text NOT NULL DEFAULT 'poll',
    ADD COLUMN lsn pg_lsn,
    ADD COLUMN lsn_number bigint NOT NULL DEFAULT 0,
    ADD COLUMN sweep int8multirange NOT NULL DEFAULT '{}',
    ADD COLUMN last_seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN settled_xid bigint;
DROP INDEX IF EXISTS outrider_parked_lane, outrider_parked_live, outrider_parked_first;
CREATE TABLE outrider_intent (
    pipeline text NOT NULL PRIMARY KEY,
    identity text NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    no bigint NOT NULL DEFAULT 0,
    stamp bigint NOT NULL DEFAULT 0,
    body bytea
) WITH (fillfactor = 10);
UPDATE outrider_schema SET version = 2;
