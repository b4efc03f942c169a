-- SPDX-License-Identifier: MIT
-- What every connection asks its server, and SQL for columns. Only column_* take a word
-- (common/sql.h): @column@, quoted.

-- name: catalog
-- All about a table. $1: the table's name as the user wrote it. One row, whether or not there is
-- such a table. Columns: enum column in wire/catalog.c.
SELECT current_setting('server_version_num')::int4,
    pg_is_in_recovery(),
    pg_backend_pid(),
    (SELECT system_identifier FROM pg_control_system()),
    CASE WHEN pg_is_in_recovery() THEN 0
         ELSE ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int4 END,
    pg_size_bytes(current_setting('wal_segment_size')),
    current_setting('wal_block_size')::int8,
    c.oid, n.nspname::text, c.relname::text, quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.relkind::text,
    coalesce(c.relpersistence <> 'p' OR EXISTS (SELECT FROM pg_partition_tree(c.oid) t JOIN pg_class p ON p.oid = t.relid
        WHERE p.relpersistence <> 'p'), false),
    coalesce(EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = c.oid OR s.srrelid IN (SELECT relid FROM pg_partition_tree(c.oid))), false),
    coalesce(has_table_privilege(c.oid, 'SELECT'), false),
    coalesce(has_table_privilege(c.oid, 'DELETE'), false),
    a.attnum IS NOT NULL, a.attidentity::text, a.atttypid,
    (SELECT atttypid FROM pg_attribute WHERE attrelid = c.oid AND attname = 'payload' AND NOT attisdropped),
    (SELECT atttypid FROM pg_attribute WHERE attrelid = c.oid AND attname = 'id' AND NOT attisdropped),
    (SELECT atttypid FROM pg_attribute WHERE attrelid = c.oid AND attname = 'headers' AND NOT attisdropped),
    EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND NOT attisdropped AND attnum > 0
        AND attname IN ('status', 'published', 'published_at', 'processed_at', 'state')),
    s.seqrelid,
    (SELECT quote_ident(m.nspname) FROM pg_namespace m WHERE m.oid = sc.relnamespace) || '.' || quote_ident(sc.relname),
    s.seqincrement, s.seqcache, s.seqmin, s.seqcycle,
    coalesce(has_sequence_privilege(s.seqrelid, 'SELECT'), false),
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indkey[0] = a.attnum),
    concat_ws('/', c.xmin, a.xmin, s.xmin, sc.xmin,
        (SELECT count(*) FROM pg_subscription_rel sr WHERE sr.srrelid = c.oid),
        (SELECT count(*) FROM pg_inherits h WHERE h.inhparent = c.oid AND c.relkind <> 'p')),
    cc.schema, to_regclass(cc.schema || '.outrider_cursor')::text IS NOT NULL,
    to_regclass(cc.schema || '.outrider_parked')::text IS NOT NULL,
    coalesce(has_table_privilege(to_regclass(cc.schema || '.outrider_cursor'), 'SELECT')
        AND has_table_privilege(to_regclass(cc.schema || '.outrider_cursor'), 'INSERT')
        AND has_table_privilege(to_regclass(cc.schema || '.outrider_cursor'), 'UPDATE'), false),
    coalesce(has_table_privilege(to_regclass(cc.schema || '.outrider_parked'), 'SELECT')
        AND has_table_privilege(to_regclass(cc.schema || '.outrider_parked'), 'INSERT')
        AND has_table_privilege(to_regclass(cc.schema || '.outrider_parked'), 'UPDATE')
        AND has_table_privilege(to_regclass(cc.schema || '.outrider_parked'), 'DELETE'), false),
    coalesce(c.relname = 'outbox' AND has_function_privilege(
        to_regprocedure(quote_ident(n.nspname) || '.outbox_partitions(timestamptz)'), 'EXECUTE'), false),
    coalesce(obj_description(c.oid, 'pg_class') LIKE 'outrider: %', false),
    (SELECT string_agg(w.name, ', ') FROM unnest('{mode,lsn,lsn_number,sweep,last_seq,slot,publication,polled_lsn,published,words}'::text[]) AS w(name)
        WHERE to_regclass(cc.schema || '.outrider_cursor') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_attribute
        WHERE attrelid = to_regclass(cc.schema || '.outrider_cursor') AND attname = w.name AND NOT attisdropped)),
    ',' || (SELECT string_agg(b.attname, ',') FROM pg_attribute b JOIN pg_type y ON y.oid = b.atttypid
        WHERE b.attrelid = c.oid AND b.attnum > 0 AND NOT b.attisdropped AND 'bytea'::regtype IN (y.oid, y.typbasetype)
        AND b.attname IN ('id', 'aggregate_type', 'aggregate_id', 'event_type', 'payload', 'headers', 'topic', 'partition_key'))
        || ','
FROM (SELECT to_regclass($1)::oid AS oid) t
LEFT JOIN pg_class c ON c.oid = t.oid
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'seq' AND NOT a.attisdropped
LEFT JOIN pg_sequence s ON s.seqrelid = pg_get_serial_sequence(quote_ident(n.nspname) || '.' || quote_ident(c.relname),
    CASE WHEN a.attnum IS NOT NULL THEN 'seq' END)::regclass
LEFT JOIN pg_class sc ON sc.oid = s.seqrelid
CROSS JOIN LATERAL (SELECT CASE
    WHEN to_regclass(quote_ident(n.nspname) || '.outrider_cursor') IS NULL AND to_regclass('outrider_cursor') IS NOT NULL
    THEN (SELECT quote_ident(m.nspname) FROM pg_class k JOIN pg_namespace m ON m.oid = k.relnamespace WHERE k.oid = to_regclass('outrider_cursor'))
    ELSE quote_ident(coalesce(n.nspname, current_schema(), 'public')) END AS schema) cc

-- name: catalog_fingerprint
-- The column C_FINGERPRINT of the catalogue alone. $1: the table's oid, $2: the sequence's.
SELECT concat_ws('/', c.xmin, a.xmin, s.xmin, sc.xmin,
    (SELECT count(*) FROM pg_subscription_rel sr WHERE sr.srrelid = c.oid),
    (SELECT count(*) FROM pg_inherits h WHERE h.inhparent = c.oid AND c.relkind <> 'p'))
FROM pg_class c
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'seq' AND NOT a.attisdropped
LEFT JOIN pg_sequence s ON s.seqrelid = $2
LEFT JOIN pg_class sc ON sc.oid = $2
WHERE c.oid = $1

-- name: leader_try
-- Asks for a pipeline's lock. $1: the lock's name, $2: seconds after which a session that hangs in
-- sending to its client is ended. Holders are looked for only when the lock is taken.
-- Columns: enum leader_column.
WITH k AS MATERIALIZED (
    SELECT hashtextextended($1, 0) AS key
), t AS MATERIALIZED (
    SELECT pg_try_advisory_lock(key) AS got FROM k
), h AS MATERIALIZED (
    SELECT l.pid, a.usename, a.application_name, a.client_addr,
        a.state = 'active' AND a.wait_event_type = 'Client'
            AND a.query_start < clock_timestamp() - make_interval(secs => $2) AS stuck
    FROM t, k, pg_locks l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE NOT t.got AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = ((key >> 32) & 4294967295)::oid AND l.objid = (key & 4294967295)::oid
)
SELECT got,
    (SELECT format('%s%s, server process %s', application_name, coalesce(' at ' || host(client_addr), ''), pid)
    FROM h LIMIT 1),
    (SELECT bool_or(pg_terminate_backend(pid)) FROM h WHERE stuck)
FROM t

-- name: session
-- Sets a session of the relay up. $1: the value of the idle timeouts. A timeout that the URL's
-- options gave stays; a timeout of the role or the database is for applications.
-- Plans must not depend on statistics that a busy outbox outruns: everything is read through an
-- index, in its order. synchronous_commit = local: a commit of the relay waits for this server's
-- disk, never for a standby, which could be away. row_security = off: the server refuses to leave
-- out rows that a policy hides (shared/guard.h).
SELECT set_config(name, value, false)
FROM (VALUES
    ('idle_session_timeout', $1::text),
    ('idle_in_transaction_session_timeout', $1::text),
    ('synchronous_commit', 'local'),
    ('plan_cache_mode', 'force_generic_plan'),
    ('enable_seqscan', 'off'),
    ('enable_bitmapscan', 'off'),
    ('enable_hashjoin', 'off'),
    ('enable_mergejoin', 'off'),
    ('jit', 'off'),
    ('lock_timeout', '0'),
    ('statement_timeout', '0'),
    ('default_transaction_read_only', 'off'),
    ('default_transaction_isolation', 'read committed'),
    ('row_security', 'off')) AS v(name, value)
WHERE NOT EXISTS (
    SELECT FROM pg_settings s
    WHERE s.name = v.name AND s.source = 'client' AND s.name IN ('statement_timeout', 'lock_timeout'))

-- name: column_size
-- Bytes of a column that is neither text nor bytea, without reading what is stored aside. A column
-- that is compressed may be a hundred times larger than what is stored: its text is measured.
(CASE WHEN pg_column_compression(@column@) IS NULL THEN pg_column_size(@column@)
    ELSE octet_length(@column@::text) END)

-- name: column_stored
-- A column as outrider_parked holds texts: shared/parked.h (4). bytea_output may be either form:
-- a text is read as bytea in both.
CASE WHEN 'bytea'::regtype IN (
        pg_typeof(@column@), (SELECT t.typbasetype::regtype FROM pg_type t WHERE t.oid = pg_typeof(@column@)))
    THEN '\x' || encode(@column@::text::bytea, 'hex')
    WHEN starts_with(@column@::text, '\x') THEN '\x' || encode(convert_to(@column@::text, 'UTF8'), 'hex')
    ELSE @column@::text END
