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
GRANT USAGE ON SCHEMA @SCHEMA@ TO outrider_writer, outrider_relay;
-- Every column but seq, which is the database's to choose: a row far above the
-- sequence, or at the end of all numbers, would wait for ever.
REVOKE INSERT ON @SCHEMA@.outbox FROM outrider_writer;
DO $outrider$
BEGIN
    EXECUTE (SELECT format('GRANT INSERT (%s) ON @SCHEMA@.outbox TO outrider_writer', string_agg(quote_ident(attname), ', '
        ORDER BY attnum)) FROM pg_attribute WHERE attrelid = '@SCHEMA@.outbox'::regclass AND attnum > 0 AND NOT attisdropped
        AND attname <> 'seq' AND attgenerated = '');
END
$outrider$;
GRANT SELECT (id) ON @SCHEMA@.outbox TO outrider_writer;
REVOKE EXECUTE ON FUNCTION @SCHEMA@.outbox_enqueue FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @SCHEMA@.outbox_enqueue TO outrider_writer;
GRANT SELECT, DELETE ON @SCHEMA@.outbox TO outrider_relay;
GRANT SELECT ON SEQUENCE @SCHEMA@.outbox_seq_seq TO outrider_relay;
GRANT SELECT, INSERT, UPDATE ON @SCHEMA@.outrider_cursor TO outrider_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON @SCHEMA@.outrider_parked TO outrider_relay;
GRANT SELECT, INSERT, UPDATE ON @SCHEMA@.outrider_intent TO outrider_relay;
GRANT SELECT ON @SCHEMA@.outrider_schema TO outrider_relay;
