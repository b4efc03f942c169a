-- SPDX-License-Identifier: MIT
-- Outbox tables whose rows carry their state.

-- $1: a table's name as the user wrote it. One row for each column of the table, in their
-- order; no row, if there is no such table. Result columns: enum table_column. The type
-- "character" without a length would have one character: bpchar has any number.
-- b: the type below all domains, with what these add to the type.
-- name: table_columns
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

-- What the rows and an earlier start say of the words of a status column.
-- name: table_words
SELECT (@rows@), (@remembered@)

-- Every word that the column has, NULL not among them: one look into the index for each.
-- name: table_each_word
WITH RECURSIVE w(v, n) AS (
    (SELECT o.@column@, 1 FROM @table@ o WHERE o.@column@ IS NOT NULL ORDER BY o.@column@ LIMIT 1)
    UNION ALL
    SELECT (SELECT o.@column@ FROM @table@ o WHERE o.@column@ > w.v ORDER BY o.@column@ LIMIT 1), w.n + 1
    FROM w WHERE w.v IS NOT NULL AND w.n < 100)

-- name: table_words_indexed
@each_word@ SELECT string_agg(w.v::text, chr(31)) FROM w WHERE w.v::text <> ''

-- Without an index: a part of the rows, because all rows of a large table would take minutes.
-- name: table_words_sampled
SELECT string_agg(v, chr(31)) FROM (SELECT DISTINCT v FROM (SELECT @column@::text AS v FROM @table@ LIMIT 1000000) s
    WHERE v <> '' LIMIT 100) d

-- The words belong to the table: the words of another pipeline are as good.
-- name: table_words_remembered
SELECT k.words FROM (SELECT c.pipeline, c.outbox, to_jsonb(c)->>'words' AS words FROM @cursor@ c) k
WHERE k.words IS NOT NULL AND k.outbox = @outbox@ ORDER BY k.pipeline = @pipeline@ DESC LIMIT 1

-- Rows that no word covers and nothing else marks as published, one result row for each word.
-- name: table_uncovered_indexed
@each_word@ SELECT u.v, u.n FROM (
    SELECT w.v::text AS v, (SELECT count(*) FROM (SELECT FROM @table@ o WHERE o.@column@ = w.v @unpublished@ LIMIT 1000000) x) AS n
    FROM w WHERE w.v IS NOT NULL AND w.v NOT IN (@known@)
    UNION ALL
    SELECT NULL::text, (SELECT count(*) FROM (SELECT FROM @table@ o WHERE o.@column@ IS NULL @unpublished@ LIMIT 1000000) x)) u
WHERE u.n > 0 ORDER BY u.n DESC, u.v LIMIT 10

-- name: table_uncovered
SELECT o.@column@::text, count(*) FROM @rows@ o WHERE (o.@column@ IN (@known@)) IS NOT TRUE @unpublished@
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10

-- name: table_newest_rows
(SELECT s.@column@ @published_at@ FROM @table@ s @order@ LIMIT 10000)

-- One row for each pipeline, over all its tables. $1: tables, $2: the pipeline that is shown
-- where none has run yet. The lock is on the first table.
-- name: table_pipelines
SELECT c.pipeline, max(c.sink), sum(c.delivered_total)::int8, sum(c.expired_total)::int8,
    sum(c.skipped_total)::int8, sum(c.dead_total)::int8, max(c.settled_at),
    bool_or(EXISTS (SELECT FROM pg_locks l
        CROSS JOIN LATERAL (SELECT hashtextextended('outrider/' || c.outbox || '/' || c.pipeline, 0) AS key) k
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = ((k.key >> 32) & 4294967295)::oid AND l.objid = (k.key & 4294967295)::oid))
FROM (SELECT pipeline, outbox, sink, delivered_total, expired_total, skipped_total, dead_total, settled_at
        FROM @cursor@ WHERE outbox = ANY ($1::text[])
    UNION ALL SELECT $2::text, '', '', 0, 0, 0, 0, NULL
        WHERE NOT EXISTS (SELECT FROM @cursor@ WHERE outbox = ANY ($1::text[]))) c
GROUP BY c.pipeline ORDER BY c.pipeline

-- $1: pipeline.
-- name: table_counts
SELECT (SELECT count(*) FROM @table@ o WHERE @waits@), @failed@, @dead@,
    (SELECT count(*) FROM @parked@ p WHERE p.pipeline = $1::text AND p.outbox = @outbox@ AND p.state <> 'dead'),
    (SELECT count(*) FROM @parked@ p WHERE p.pipeline = $1::text AND p.outbox = @outbox@ AND p.state = 'dead'),
    @oldest@

-- outrider_parked has no copy of the row.
-- name: table_is_not_parked
@id@ NOT IN (SELECT p.id FROM @parked@ p WHERE p.pipeline = $1::text AND p.id IS NOT NULL AND p.outbox = @outbox@)

-- A table without a mark: the stream of mode cdc says what waits.
-- name: table_is_streamed
EXISTS (SELECT FROM @cursor@ k WHERE k.pipeline = $1::text AND k.mode = 'cdc')

-- Mode cdc has not settled the row's transaction.
-- name: table_not_streamed
AND coalesce(((o.xmin::text::int8 - (SELECT max(k.settled_xid) FROM @cursor@ k
    WHERE k.pipeline = @pipeline@ AND k.mode = 'cdc')) & 4294967295) < 2147483648, true)

-- Rows whose copy in outrider_parked the store is about to change. $1: ids or NULL,
-- $2: event type or NULL, $3: since, $4: failed ones too, $5: pipeline or NULL.
-- name: table_with_copies
WHERE @id@ IN (SELECT p.id FROM @parked@ p WHERE p.outbox = @outbox@ AND (p.state = 'dead' OR $4::bool)
    AND ($1::text[] IS NULL OR p.id = ANY ($1::text[]))
    AND ($2::text IS NULL OR p.event_type IN ($2::text, '\x' || encode(convert_to($2::text, 'UTF8'), 'hex')))
    AND p.updated_at >= $3::timestamptz AND ($5::text IS NULL OR p.pipeline = $5::text))

-- The same parameters, for dead letters that stand in the rows themselves.
-- name: table_dead_filter
WHERE (@is_dead@ OR ($4::bool AND @is_failed@)) AND ($1::text[] IS NULL OR @id@ = ANY ($1::text[]))
    AND ($2::text IS NULL OR @has_type@) AND @died_at@ >= $3::timestamptz

-- Whether an index can find rows that are not published: an index that begins with the mark
-- ($2), or has a condition on the mark. $1: the table.
-- name: table_has_index
SELECT EXISTS (SELECT FROM pg_index i LEFT JOIN pg_attribute t ON t.attrelid = i.indrelid AND t.attnum = i.indkey[0]
    WHERE i.indrelid = $1 AND i.indisvalid
    AND (t.attname = $2 OR pg_get_expr(i.indpred, i.indrelid) LIKE '%' || $2 || '%'))

-- The largest value of a column in the newest rows.
-- name: table_largest
SELECT max(size) FROM (SELECT @size@ AS size FROM @table@ o @order@ DESC LIMIT 1000) x

-- A statement that a relay will need, with the types of its parameters: the server says
-- whether the statement can be prepared.
-- name: table_try
PREPARE outrider_try (text[], text, int8[], text[], int4[], int8[], text[], text[]) AS @statement@
