-- SPDX-License-Identifier: MIT
            -- By every pipeline, and not the row by which one knows that history is as it was.
            EXECUTE format('SELECT coalesce((SELECT max(seq) FROM %1$s) < p.low, p.low IS NOT NULL) AND NOT EXISTS
                (SELECT FROM outrider_cursor k WHERE k.outbox = ''@schema@.outbox'' AND CASE WHEN k.mode = ''cdc'' THEN
                EXISTS (SELECT FROM %1$s o WHERE k.sweep @> o.seq OR k.settled_xid IS NULL OR k.system_id IS DISTINCT FROM
                (SELECT system_identifier FROM pg_control_system()) OR
                ((o.xmin::text::int8 - k.settled_xid) & 4294967295) < 2147483648)
                ELSE EXISTS (SELECT FROM %1$s WHERE seq = k.position) OR EXISTS (SELECT FROM unnest(k.gaps) g JOIN %1$s o
                ON o.seq >= lower(g) AND o.seq < upper(g)) END) FROM (SELECT CASE WHEN count(*) > 0 THEN
                coalesce(min(position) FILTER (WHERE mode <> ''cdc''), 9223372036854775807) END AS low
                FROM outrider_cursor WHERE outbox = ''@schema@.outbox'') p', part.relation) INTO is_settled;
