-- SPDX-License-Identifier: MIT
            -- By every pipeline, and not the row by which one knows that history is as it was.
            EXECUTE format('SELECT coalesce((SELECT max(seq) FROM %1$s) < k.low, k.low IS NOT NULL) AND NOT EXISTS
                (SELECT FROM outrider_cursor c WHERE c.outbox = ''@SCHEMA@.outbox'' AND (EXISTS (SELECT FROM %1$s WHERE
                seq = c.position) OR EXISTS (SELECT FROM unnest(c.gaps) g JOIN %1$s o ON o.seq >= lower(g) AND o.seq < upper(g))))
                FROM (SELECT min(position) AS low FROM outrider_cursor WHERE outbox = ''@SCHEMA@.outbox'') k',
                part.relation) INTO is_settled;
