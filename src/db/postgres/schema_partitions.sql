-- SPDX-License-Identifier: MIT
-- Makes the partitions ahead, and drops those that are older than the cutoff
-- and in which every event is settled by every pipeline; returns how many
-- events went. Runs with its owner's rights, so that the relay needs none of
-- them. It never waits for a lock: a writer is never kept waiting behind it,
-- and what does not work now works next time.
CREATE OR REPLACE FUNCTION outbox_partitions(cutoff timestamptz)
RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = @SCHEMA@, pg_temp AS $outrider$
DECLARE
    low bigint;
    part record;
    name text;
    start timestamp;
    is_settled boolean;
    n bigint;
    removed bigint := 0;
BEGIN
    FOR i IN 0..@AHEAD@ LOOP
        start := date_trunc('@UNIT@', now() AT TIME ZONE 'UTC') + i * interval '1 @UNIT@';
        name := 'outbox_p' || to_char(start, '@FORMAT@');
        CONTINUE WHEN to_regclass(quote_ident(name)) IS NOT NULL;
        BEGIN
            SET LOCAL lock_timeout = '20ms';
            EXECUTE format('CREATE TABLE %I (LIKE outbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
            EXECUTE format('ALTER TABLE outbox ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
                start AT TIME ZONE 'UTC', (start + interval '1 @UNIT@') AT TIME ZONE 'UTC');
        EXCEPTION WHEN lock_not_available OR check_violation OR duplicate_table OR invalid_object_definition THEN
            NULL;
        END;
    END LOOP;
    FOR part IN
        SELECT c.oid::regclass AS relation FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
        WHERE h.inhparent = 'outbox'::regclass
            AND (substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)'))::timestamptz <= cutoff
        ORDER BY c.relname
    LOOP
        BEGIN
            LOCK TABLE ONLY outbox IN ACCESS EXCLUSIVE MODE NOWAIT;
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', part.relation);
            -- Nobody writes now, and what was committed is visible.
            SELECT CASE WHEN count(*) > 0 THEN coalesce(min(position) FILTER (WHERE mode <> 'cdc'), 9223372036854775807) END
                INTO low FROM outrider_cursor WHERE outbox = '@SCHEMA@.outbox';
            EXECUTE format('SELECT coalesce(max(seq) < $1, $1 IS NOT NULL) AND NOT EXISTS (SELECT FROM outrider_cursor k
                WHERE k.outbox = ''@SCHEMA@.outbox'' AND CASE WHEN k.mode = ''cdc'' THEN EXISTS (SELECT FROM %1$s o WHERE
                k.sweep @> o.seq OR k.settled_xid IS NULL OR k.system_id IS DISTINCT FROM (SELECT system_identifier FROM
                pg_control_system()) OR ((o.xmin::text::int8 - k.settled_xid) & 4294967295) < 2147483648) ELSE EXISTS
                (SELECT FROM %1$s WHERE seq = k.position) OR EXISTS (SELECT FROM unnest(k.gaps) g JOIN %1$s o ON
                o.seq >= lower(g) AND o.seq < upper(g)) END) FROM %1$s', part.relation) INTO is_settled USING low;
            IF is_settled THEN
                SELECT greatest(reltuples, 0)::bigint INTO n FROM pg_class WHERE oid = part.relation::oid;
                EXECUTE format('DROP TABLE %s', part.relation);
                removed := removed + n;
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
    RETURN removed;
END
$outrider$;
REVOKE EXECUTE ON FUNCTION outbox_partitions FROM PUBLIC;
