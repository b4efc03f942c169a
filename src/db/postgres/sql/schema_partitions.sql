-- SPDX-License-Identifier: MIT
-- Makes the partitions ahead, and drops those that are older than the cutoff
-- and in which every event is settled; returns how many events went. Runs with its owner's rights, so that the relay needs none of
-- them. It never waits for a lock: a writer is never kept waiting behind it,
-- and what does not work now works next time.
CREATE OR REPLACE FUNCTION outbox_partitions(cutoff timestamptz)
RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = @schema@, pg_temp
    SET row_security = off AS $outrider$
DECLARE
    part record;
    name text;
    start timestamp;
    is_settled boolean;
    n bigint;
    removed bigint := 0;
BEGIN
    FOR i IN 0..@ahead@ LOOP
        start := date_trunc('@unit@', now() AT TIME ZONE 'UTC') + i * interval '1 @unit@';
        name := 'outbox_p' || to_char(start, '@format@');
        CONTINUE WHEN to_regclass(quote_ident(name)) IS NOT NULL;
        BEGIN
            SET LOCAL lock_timeout = '20ms';
            EXECUTE format('CREATE TABLE %I (LIKE outbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
            EXECUTE format('ALTER TABLE outbox ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
                start AT TIME ZONE 'UTC', (start + interval '1 @unit@') AT TIME ZONE 'UTC');
        EXCEPTION WHEN lock_not_available OR check_violation OR duplicate_table OR duplicate_object OR unique_violation
                OR invalid_object_definition THEN
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
@settled@            IF is_settled THEN
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
