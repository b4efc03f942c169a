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
    p.bad, p.is_foreign, p.oids
FROM (SELECT to_regclass(o.name)::oid AS oid, true AS is_outbox, o.no AS no FROM unnest($1::text[]) WITH ORDINALITY AS o(name, no)
    UNION ALL SELECT to_regclass($2::text || '.' || o.name)::oid, false, 1000 + o.no
    FROM unnest('{outrider_cursor,outrider_parked,outrider_intent}'::text[]) WITH ORDINALITY AS o(name, no)) t
JOIN pg_class c ON c.oid = t.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (SELECT
        string_agg(k.oid::text, ',' ORDER BY k.oid) AS oids,
        (array_agg(quote_ident(m.nspname) || '.' || quote_ident(k.relname) ORDER BY k.oid)
            FILTER (WHERE k.relpersistence <> 'p' OR k.relkind = 'f'))[1] AS bad,
        (array_agg(k.relkind = 'f' ORDER BY k.oid) FILTER (WHERE k.relpersistence <> 'p' OR k.relkind = 'f'))[1] AS is_foreign
    FROM pg_partition_tree(c.oid) x JOIN pg_class k ON k.oid = x.relid JOIN pg_namespace m ON m.oid = k.relnamespace
    WHERE k.oid <> c.oid) p ON t.is_outbox AND c.relkind = 'p'
ORDER BY t.no
