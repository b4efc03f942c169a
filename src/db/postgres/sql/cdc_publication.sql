-- SPDX-License-Identifier: MIT
-- The rows of the catalogue by which a publication has tables (src/db/postgres/cdc/publication.c).
-- @tables@ is an expression: the tables' oids, int8[].

-- name: published_rows
-- A subselect with the columns rel, token and x (xmin), for the publication p of the query
-- around it. A row of the publication itself is changed by ALTER PUBLICATION ... SET (...),
-- OWNER and RENAME, and not by tables that come or go.
(
    SELECT 0::int8 AS rel, 'publication ' || p.oid || ' ' || p.xmin AS token, p.xmin AS x
    WHERE p.pubinsert
    UNION ALL
    SELECT w.rel, 'all', p.xmin
    FROM unnest(@tables@::int8[]) AS w(rel)
    WHERE p.puballtables
    UNION ALL
    SELECT w.rel, 'table ' || q.oid || ' ' || q.xmin, q.xmin
    FROM unnest(@tables@::int8[]) AS w(rel)
    CROSS JOIN LATERAL (
        SELECT w.rel::oid AS oid
        UNION
        SELECT a.relid::oid FROM pg_partition_ancestors(w.rel::oid::regclass) AS a(relid)
    ) t
    JOIN pg_publication_rel q ON q.prrelid = t.oid AND q.prpubid = p.oid
    @schemas@
)

-- name: published_schemas
-- From PostgreSQL 15 on.
UNION ALL
SELECT w.rel, 'schema ' || q.oid || ' ' || q.xmin, q.xmin
FROM unnest(@tables@::int8[]) AS w(rel)
CROSS JOIN LATERAL (
    SELECT w.rel::oid AS oid
    UNION
    SELECT a.relid::oid FROM pg_partition_ancestors(w.rel::oid::regclass) AS a(relid)
) t
JOIN pg_class c ON c.oid = t.oid
JOIN pg_publication_namespace q ON q.pnnspid = c.relnamespace AND q.pnpubid = p.oid

-- name: published_unchanged
-- An expression: whether the recorded tokens still hold for every table.
(
    cardinality(@published@::text::text[]) = 0
    OR (
        SELECT count(DISTINCT w.rel)
        FROM pg_publication p
        CROSS JOIN LATERAL @rows@ w
        WHERE p.pubname = @publication@ AND w.token = ANY (@published@::text::text[])
    ) = cardinality(@tables@::int8[]) + 1
)

-- name: published_tokens
-- The tokens of now as text, and the count of distinct rel.
SELECT coalesce(array_agg(DISTINCT w.token), '{}')::text, count(DISTINCT w.rel)
FROM pg_publication p
CROSS JOIN LATERAL @rows@ w
WHERE p.pubname = @publication@

-- name: publication_make
-- @publication@ and @tables@ are quoted names.
CREATE PUBLICATION @publication@ FOR TABLE @tables@ WITH (publish = 'insert', publish_via_partition_root = true)
