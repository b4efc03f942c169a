-- SPDX-License-Identifier: MIT
-- $1: the outbox tables as the user wrote them, $2: the schema of our own tables,
-- quoted. One row for each table that is there. Order of columns: guard.c.
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname),
    row_security_active(c.oid),
    c.relforcerowsecurity AND pg_has_role(c.relowner, 'USAGE'),
    current_user::text, quote_ident(current_user),
    (SELECT quote_ident(m.nspname) || '.' || quote_ident(k.relname) FROM pg_inherits h JOIN pg_class k ON k.oid = h.inhrelid
        JOIN pg_namespace m ON m.oid = k.relnamespace WHERE t.is_outbox AND h.inhparent = c.oid AND c.relkind = 'r'
        ORDER BY h.inhrelid LIMIT 1),
    (SELECT quote_ident(m.nspname) || '.' || quote_ident(k.relname) FROM pg_class k JOIN pg_namespace m ON m.oid = k.relnamespace
        WHERE k.oid = p.bad),
    (SELECT k.relkind = 'f' FROM pg_class k WHERE k.oid = p.bad),
    p.oids
FROM (SELECT to_regclass(o.name)::oid AS oid, true AS is_outbox, o.no AS no FROM unnest($1::text[]) WITH ORDINALITY AS o(name, no)
    UNION ALL SELECT to_regclass($2::text || '.' || o.name)::oid, false, 1000 + o.no
    FROM unnest('{outrider_cursor,outrider_parked,outrider_intent}'::text[]) WITH ORDINALITY AS o(name, no)) t
JOIN pg_class c ON c.oid = t.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (WITH RECURSIVE x AS (SELECT h.inhrelid FROM pg_inherits h WHERE h.inhparent = c.oid UNION ALL
        SELECT h.inhrelid FROM x JOIN pg_inherits h ON h.inhparent = x.inhrelid)
    SELECT string_agg(k.oid::text, ',' ORDER BY k.oid) AS oids,
        min(k.oid) FILTER (WHERE k.relpersistence <> 'p' OR k.relkind = 'f') AS bad
    FROM x JOIN pg_class k ON k.oid = x.inhrelid) p ON t.is_outbox AND c.relkind = 'p'
ORDER BY t.no
