-- SPDX-License-Identifier: MIT
-- What the two roles may do with an outbox of ours.
-- Every column but seq, which is the database's to choose: a row far above the
-- sequence, or at the end of all numbers, would wait for ever.
REVOKE INSERT ON @schema@.outbox FROM outrider_writer;
DO $outrider$
BEGIN
    EXECUTE (SELECT format('GRANT INSERT (%s) ON @schema@.outbox TO outrider_writer', string_agg(quote_ident(attname), ', '
        ORDER BY attnum)) FROM pg_attribute WHERE attrelid = '@schema@.outbox'::regclass AND attnum > 0 AND NOT attisdropped
        AND attname <> 'seq' AND attgenerated = '');
END
$outrider$;
GRANT SELECT (id) ON @schema@.outbox TO outrider_writer;
REVOKE EXECUTE ON FUNCTION @schema@.outbox_enqueue FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @schema@.outbox_enqueue TO outrider_writer;
GRANT SELECT, DELETE ON @schema@.outbox TO outrider_relay;
GRANT SELECT ON SEQUENCE @schema@.outbox_seq_seq TO outrider_relay;
