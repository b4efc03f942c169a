-- SPDX-License-Identifier: MIT
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
GRANT USAGE ON SCHEMA @schema@ TO outrider_writer, outrider_relay;
GRANT SELECT, INSERT, UPDATE ON @schema@.outrider_cursor TO outrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON @schema@.outrider_parked TO outrider_relay;
GRANT SELECT, INSERT, UPDATE ON @schema@.outrider_intent TO outrider_relay;
GRANT SELECT ON @schema@.outrider_schema TO outrider_relay;
