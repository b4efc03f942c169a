-- SPDX-License-Identifier: MIT
-- $1: a table's name as the user wrote it. One row a column, in their order;
-- none where there is no such table. Order of the columns here: adopt.c. The type
-- "character" without a length would be one of one character: bpchar is any.
-- b: the type below all domains, with what these add to it.
SELECT c.oid, format('%I.%I', n.nspname, c.relname), c.relname::text,
    c.relkind = 'p', coalesce(obj_description(c.oid, 'pg_class') LIKE 'outrider: %', false),
    coalesce(k.indnkeyatts, 0)::int4,
    a.attname::text, b.oid, CASE WHEN b.oid = 1042 THEN 'bpchar' ELSE format_type(b.oid, NULL) END, b.typtype::text,
    CASE WHEN b.oid IN (1042, 1043) AND b.typmod > 4 THEN b.typmod - 4 ELSE -1 END,
    a.attnotnull OR b.is_not_null OR EXISTS (SELECT FROM pg_constraint q WHERE q.contype = 'c' AND q.conrelid = c.oid
        AND q.conkey = ARRAY[a.attnum] AND pg_get_constraintdef(q.oid) = format('CHECK ((%I IS NOT NULL))', a.attname)),
    coalesce(a.attnum = ANY (k.indkey), false),
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
        AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum AND i.indpred IS NULL),
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indkey[0] = a.attnum
        AND i.indpred IS NULL),
    a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false),
    pg_get_expr(d.adbin, d.adrelid),
    (SELECT string_agg(pg_get_constraintdef(q.oid), ' ') FROM pg_constraint q
        WHERE q.contype = 'c' AND (q.conrelid = c.oid AND q.conkey = ARRAY[a.attnum] OR q.contypid = t.oid)),
    (SELECT string_agg(e.enumlabel, chr(31) ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = b.oid),
    (SELECT string_agg(w.sql, chr(31)) FROM (SELECT pg_get_expr(i.indpred, i.indrelid) AS sql FROM pg_index i
        WHERE i.indrelid = c.oid AND i.indpred IS NOT NULL) w
        WHERE w.sql ~ ('(^|[^[:alnum:]_"])' || regexp_replace(quote_ident(a.attname), '([^[:alnum:]])', '\\\1', 'g') || '([^[:alnum:]_"]|$)')),
    quote_ident(a.attname),
    EXISTS (SELECT FROM pg_index i JOIN pg_partitioned_table p ON p.partrelid = i.indrelid WHERE i.indrelid = c.oid
        AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
        AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
        AND (i.indkey::int2[])[0:i.indnkeyatts - 1] <@ (p.partattrs::int2[] || a.attnum)),
    a.attgenerated <> '' OR a.attidentity = 'a',
    has_column_privilege(c.oid, a.attnum, 'SELECT'), has_column_privilege(c.oid, a.attnum, 'UPDATE'),
    c.relkind::text, quote_ident(current_user), has_table_privilege(c.oid, 'DELETE'),
    (SELECT bool_and(has_column_privilege(c.oid, s.no, 'SELECT')) FROM unnest('{-1,-2,-3,-6}'::int2[]) AS s(no)),
    EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type = '2' AND r.is_instead),
    EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type = '4' AND r.is_instead),
    quote_ident(n.nspname), pg_has_role(c.relowner, 'USAGE'), a.attgenerated <> ''
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
CROSS JOIN LATERAL (WITH RECURSIVE y AS (SELECT t.oid, t.typtype, t.typbasetype, t.typnotnull AS is_not_null,
        CASE WHEN a.atttypmod >= 0 THEN a.atttypmod ELSE t.typtypmod END AS typmod
    UNION ALL SELECT z.oid, z.typtype, z.typbasetype, y.is_not_null OR z.typnotnull,
        CASE WHEN y.typmod >= 0 THEN y.typmod ELSE z.typtypmod END
    FROM y JOIN pg_type z ON z.oid = y.typbasetype WHERE y.typtype = 'd')
    SELECT * FROM y WHERE y.typtype <> 'd') b
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_index k ON k.indrelid = c.oid AND k.indisprimary
WHERE c.oid = to_regclass($1)
ORDER BY a.attnum
