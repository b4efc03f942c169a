-- SPDX-License-Identifier: MIT
-- The statements of mode cdc (src/db/postgres/cdc/sql.c). $1 and $2 are the pipeline and the
-- outbox's name in whatever concerns the cursor, unless a block says otherwise.

-- name: cdc_read_cursor
-- $3 the names of all tables
SELECT
    k.sink,
    k.mode,
    k.epoch,
    k.on_dead,
    k.position,
    k.gaps::text,
    k.sweep::text,
    (k.lsn - '0/0'::pg_lsn)::int8,
    k.lsn_number,
    pg_backend_pid(),
    (
        SELECT string_agg(t.name, ', ')
        FROM unnest($3::text[]) AS t(name)
        WHERE t.name <> $2
            AND k.mode = 'cdc'
            AND NOT EXISTS (
                SELECT FROM @cursor@ j
                WHERE j.pipeline = $1 AND j.outbox = t.name AND j.mode = 'member'
            )
    ),
    (k.polled_lsn - '0/0'::pg_lsn)::int8,
    NOT EXISTS (
        SELECT FROM @cursor@ j
        WHERE j.pipeline = $1
            AND j.outbox = ANY ($3::text[])
            AND (j.position > 0 OR j.settled_at IS NOT NULL OR j.polled_lsn IS NOT NULL)
    ),
    k.published::text
FROM @cursor@ k
WHERE k.pipeline = $1 AND k.outbox = $2

-- name: cdc_names
-- slot.h: records the slot unless one of that name is there, whoever made that.
WITH @names@,
u AS (
    UPDATE @cursor@ k
    SET slot = m.name
    FROM m
    WHERE k.pipeline = $1::text
        AND k.outbox = $2::text
        AND k.mode = 'poll'
        AND (
            k.slot = ''
            OR EXISTS (
                SELECT FROM pg_replication_slots r
                WHERE r.slot_name = k.slot AND r.database IS DISTINCT FROM current_database()
            )
        )
        AND NOT EXISTS (SELECT FROM pg_replication_slots r WHERE r.slot_name = m.name)
    RETURNING k.slot
)
SELECT
    coalesce((SELECT u.slot FROM u), nullif(m.slot, ''), m.name),
    m.slot <> '' OR EXISTS (SELECT FROM u),
    m.publication
FROM m

-- name: cdc_facts
-- $1 slot, $2 the tables' oids, $3 and $4 the columns that are read, $5 publication, $6 its
-- rows that the cursor records.
SELECT
    current_setting('wal_level'),
    quote_ident(current_user),
    (
        SELECT r.rolreplication OR r.rolsuper
        FROM pg_roles r
        WHERE r.rolname = current_user
    ),
    has_database_privilege(current_database(), 'CREATE') AND (
        SELECT bool_and(pg_has_role(c.relowner, 'USAGE'))
        FROM pg_class c
        WHERE c.oid IN (SELECT w::oid FROM unnest($2::int8[]) w)
    ),
    (SELECT g.setting::int8 FROM pg_settings g WHERE g.name = 'wal_sender_timeout'),
    current_setting('max_replication_slots')::int8,
    (SELECT count(*) FROM pg_replication_slots),
    current_setting('max_wal_senders')::int8,
    (SELECT count(*) FROM pg_stat_replication),
    p.oid IS NOT NULL,
    p.pubinsert AND NOT EXISTS (
        SELECT FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid IN (SELECT w::oid FROM unnest($2::int8[]) w)
            AND NOT EXISTS (
                SELECT FROM pg_publication_tables t
                WHERE t.pubname = p.pubname
                    AND t.schemaname = n.nspname
                    AND t.tablename = c.relname
            )
    ),
    EXISTS (
        SELECT FROM pg_publication_rel q
        WHERE q.prpubid = p.oid
            AND q.prrelid IN (SELECT w::oid FROM unnest($2::int8[]) w)
            AND (
                to_jsonb(q)->>'prqual' IS NOT NULL
                OR to_jsonb(q)->>'prattrs' IS NOT NULL
            )
    ),
    s.slot_name IS NOT NULL,
    s.database IS DISTINCT FROM current_database(),
    s.database::text,
    s.plugin IS DISTINCT FROM 'pgoutput',
    coalesce(
        s.wal_status = 'lost' OR to_jsonb(s)->>'invalidation_reason' IS NOT NULL,
        false
    ),
    s.active_pid,
    (
        SELECT bool_and(a.atttypid IN (@binary_types@))
        FROM unnest($3::int8[], $4::text[]) AS w(rel, name)
        JOIN pg_attribute a
            ON a.attrelid = w.rel::oid
            AND a.attname = w.name
            AND a.attnum > 0
            AND NOT a.attisdropped
    ),
    coalesce((to_jsonb(s)->>'failover')::bool, false),
    @facts_unchanged@,
    (SELECT w.tokens FROM (@facts_tokens@) AS w(tokens, n))
FROM (SELECT 1) one
LEFT JOIN pg_publication p ON p.pubname = $5
LEFT JOIN pg_replication_slots s ON s.slot_name = $1

-- name: cdc_drop_slot
-- $1 slot
SELECT
    count(pg_drop_replication_slot(s.slot_name)),
    (SELECT count(*) FROM pg_replication_slots t WHERE t.slot_name = $1 AND t.active)
FROM pg_replication_slots s
WHERE s.slot_name = $1 AND NOT s.active AND s.database = current_database()

-- name: cdc_save_sets
-- The word @sets@ of cursor_save. $4 and $5 the place of the last settled event, $6 the last
-- settled seq of the sweep, $13 the highest seq.
lsn = coalesce($4::text::pg_lsn, lsn),
lsn_number = coalesce($5, lsn_number),
sweep = CASE
    WHEN $6::int8 IS NULL THEN sweep
    WHEN $6 = 9223372036854775807 THEN '{}'
    ELSE sweep * int8multirange(int8range($6, NULL, '()'))
END,
last_seq = greatest(last_seq, $13)

-- name: cdc_read_rows
-- $1 and $4 the ranges, $2 limit, $3 the bounds of columns.h
SELECT r.*
FROM unnest($1::int8[], $4::int8[]) AS g(low, high)
CROSS JOIN LATERAL (
    SELECT @event@
    FROM @outbox@ o
    WHERE o.seq >= g.low AND o.seq <= g.high
    ORDER BY o.seq
    LIMIT $2
) r
ORDER BY r.seq
LIMIT $2

-- name: cdc_position
-- $1 to $3: outrider__cdc_published_args(). The message is committed, so the log goes on
-- beyond the position.
SELECT
    (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8,
    pg_logical_emit_message(true, 'outrider.mark', ''),
    pg_snapshot_xmin(pg_current_snapshot())::text::int8,
    @unchanged@

-- name: cdc_pulse
-- $1 to $3: outrider__cdc_published_args()
SELECT
    count(DISTINCT c.oid) = cardinality($2::int8[]),
    pg_snapshot_xmin(pg_current_snapshot())::text::int8,
    (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8,
    @unchanged@
FROM pg_publication p
JOIN pg_publication_tables t ON t.pubname = p.pubname
JOIN pg_class c ON c.relname = t.tablename
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
WHERE p.pubname = $1
    AND p.pubinsert
    AND c.oid IN (SELECT w::oid FROM unnest($2::int8[]) w)

-- name: cdc_published
-- $1 to $3: outrider__cdc_published_args()
SELECT @unchanged@

-- name: cdc_save_published
UPDATE @cursor@
SET published = $3::text::text[]
WHERE pipeline = $1 AND outbox = $2 AND published = '{}'

-- name: cdc_plan_sweep
-- In the new slot's snapshot: what polling had not settled. The cursor is read as it was
-- then; what was settled since is taken out when this is saved.
SELECT coalesce(
    range_agg(
        int8range(y.low, CASE WHEN y.high < 9223372036854775807 THEN y.high + 1 END)
    ),
    '{}'
)::text
FROM (
    SELECT min(x.seq) AS low, max(x.seq) AS high
    FROM (
        SELECT u.seq, u.seq - row_number() OVER (ORDER BY u.seq) AS island
        FROM (
            SELECT o.seq
            FROM @outbox@ o
            WHERE o.seq > (
                SELECT k.position FROM @cursor@ k WHERE k.pipeline = $1 AND k.outbox = $2
            )
            UNION ALL
            SELECT o.seq
            FROM @cursor@ k
            CROSS JOIN LATERAL unnest(k.gaps) AS g(r)
            CROSS JOIN LATERAL (
                SELECT i.seq FROM @outbox@ i WHERE i.seq >= lower(g.r) AND i.seq < upper(g.r)
            ) o
            WHERE k.pipeline = $1 AND k.outbox = $2
        ) u
    ) x
    GROUP BY x.island
) y

-- name: cdc_plan_poll
-- In the temporary slot's snapshot: everything in it will have been delivered. Polling does
-- not go beyond the sequence (log.h (9)). No arguments.
WITH q AS MATERIALIZED (
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS top FROM @sequence@
)
SELECT
    coalesce(max(y.high), 0),
    (
        CASE
            WHEN count(*) = 0 THEN '{}'
            ELSE int8multirange(int8range(1, max(y.high), '[]'))
        END - coalesce(range_agg(int8range(y.low, y.high, '[]')), '{}')
    )::text,
    (
        SELECT left(o.id::text, @text_cut@)
        FROM @outbox@ o
        WHERE o.seq > 0 AND o.seq <= (SELECT top FROM q)
        ORDER BY o.seq DESC
        LIMIT 1
    )
FROM (
    SELECT min(x.seq) AS low, max(x.seq) AS high
    FROM (
        SELECT o.seq, o.seq - row_number() OVER (ORDER BY o.seq) AS island
        FROM @outbox@ o
        WHERE o.seq > 0 AND o.seq <= (SELECT top FROM q)
    ) x
    GROUP BY x.island
) y

-- name: cdc_save_cdc
-- cdc.h (2). $3 epoch, $4 the plan, $5 the publication's rows. While this statement runs
-- nobody can truncate the outbox, so an anchor that is there says that everything in the log
-- before polled_lsn is of the old history.
WITH a AS (
    UPDATE @cursor@ k
    SET mode = 'cdc',
        sweep = $4::text::int8multirange
            * (gaps + int8multirange(int8range(position, NULL, '()'))),
        lsn = NULL,
        lsn_number = 0,
        polled_lsn = pg_current_wal_insert_lsn(),
        published = $5::text::text[]
    WHERE pipeline = $1
        AND outbox = $2
        AND epoch = $3
        AND (
            anchor_id IS NULL
            OR EXISTS (
                SELECT FROM @outbox@ o
                WHERE o.seq = k.position AND left(o.id::text, @text_cut@) = left(k.anchor_id::text, @text_cut@)
            )
        )
    RETURNING 1
)
SELECT 1 / (SELECT count(*) FROM a)

-- name: cdc_save_mapped
-- $3 epoch, $4 the tables' names, $5 sink, $6 the publication's rows
WITH a AS (
    UPDATE @cursor@
    SET mode = 'cdc', sweep = '{}', lsn = NULL, lsn_number = 0, published = $6::text::text[]
    WHERE pipeline = $1 AND outbox = $2 AND epoch = $3
    RETURNING 1
),
b AS (
    INSERT INTO @cursor@ AS k (pipeline, outbox, sink, mode)
    SELECT $1, t.name, $5, 'member'
    FROM unnest($4::text[]) AS t(name)
    WHERE t.name <> $2
    ON CONFLICT (pipeline, outbox) DO UPDATE SET mode = 'member', epoch = k.epoch + 1
)
SELECT 1 / (SELECT count(*) FROM a)

-- name: cdc_save_skipped
-- $3 epoch, $4 the publication's rows
WITH a AS (
    UPDATE @cursor@
    SET mode = 'cdc',
        sweep = '{}',
        lsn = NULL,
        lsn_number = 0,
        last_seq = coalesce((SELECT max(o.seq) FROM @outbox@ o), 0),
        published = $4::text::text[]
    WHERE pipeline = $1 AND outbox = $2 AND epoch = $3
    RETURNING 1
)
SELECT 1 / (SELECT count(*) FROM a)

-- name: cdc_gather
-- $3 and $4 the tables' names and oids. Rows of the first table that have an oid already
-- are there from a move that was cut short.
UPDATE @parked@ p
SET outbox = $2, seq = t.oid
FROM unnest($3::text[], $4::int8[]) AS t(name, oid)
WHERE p.pipeline = $1
    AND p.outbox = t.name
    AND (p.outbox <> $2 OR p.seq <> ALL ($4::int8[]))

-- name: cdc_save_leaving
-- $3 epoch, $4 position, $5 gaps, $6 anchor
WITH a AS (
    UPDATE @cursor@
    SET mode = 'leaving',
        position = $4,
        gaps = $5::text::int8multirange,
        anchor_id = $6,
        sweep = '{}',
        lsn = NULL,
        lsn_number = 0
    WHERE pipeline = $1 AND outbox = $2 AND epoch = $3
    RETURNING 1
)
SELECT 1 / (SELECT count(*) FROM a)

-- name: cdc_save_poll
UPDATE @cursor@
SET mode = 'poll', slot = '', publication = ''
WHERE pipeline = $1 AND outbox = $2 AND mode = 'leaving'

-- name: cdc_blocker
-- $1 the server process that makes the slot
SELECT
    w.pid,
    coalesce(
        (
            SELECT format(
                '%s of %s, server process %s, open since %s, %s',
                a.application_name, a.usename, a.pid, a.xact_start, a.state
            )
            FROM pg_stat_activity a
            WHERE a.pid = w.pid
        ),
        (
            SELECT format(
                'prepared transaction %s of %s, prepared %s', x.gid, x.owner, x.prepared
            )
            FROM pg_prepared_xacts x
            ORDER BY x.prepared
            LIMIT 1
        ),
        'unknown'
    )
FROM unnest(pg_blocking_pids($1)) AS w(pid)
LIMIT 1

-- name: cdc_end_reader
-- $1 slot
SELECT pg_terminate_backend(s.active_pid)
FROM pg_replication_slots s
JOIN pg_stat_activity a ON a.pid = s.active_pid
WHERE s.slot_name = $1 AND a.usename = current_user

-- name: cdc_visible
-- $1 xids. A transaction is in the stream as soon as its commit is in the log. Others see
-- its rows a moment later, or much later where it waits for a standby.
WITH RECURSIVE s AS MATERIALIZED (
    SELECT
        pg_snapshot_xmin(p)::text::int8 AS low,
        pg_snapshot_xmax(p)::text::int8 AS high
    FROM pg_current_snapshot() p
),
x AS MATERIALIZED (
    SELECT f.xid
    FROM s
    CROSS JOIN unnest($1::int8[]) AS u(xid)
    CROSS JOIN LATERAL (
        SELECT (s.high & ~4294967295) + u.xid
            - CASE WHEN u.xid > (s.high & 4294967295) THEN 4294967296 ELSE 0 END AS xid
    ) f
    WHERE f.xid >= s.low
),
w(n, is_over) AS (
    SELECT
        0,
        NOT EXISTS (SELECT FROM x WHERE pg_xact_status(x.xid::text::xid8) = 'in progress')
    UNION ALL
    SELECT
        w.n + 1,
        NOT EXISTS (
            SELECT FROM x
            WHERE pg_xact_status(x.xid::text::xid8) = 'in progress'
                AND pg_sleep(0.0005 + 0 * w.n) IS NOT NULL
        )
    FROM w
    WHERE NOT w.is_over
)
SELECT max(n) FROM w

-- name: cdc_settled
-- $3 epoch, $4 xid
UPDATE @cursor@
SET settled_xid = $4
WHERE pipeline = $1 AND outbox = $2 AND epoch = $3
RETURNING ctid

-- name: cdc_own_delete
-- $3 seqs. Another pipeline that polls reads the rows, and one that has not finished its
-- sweep does too.
DELETE FROM @outbox@ o
WHERE o.seq = ANY ($3::int8[])
    AND NOT EXISTS (
        SELECT FROM @cursor@ k
        WHERE k.outbox = $2
            AND k.pipeline <> $1
            AND CASE
                WHEN k.mode = 'cdc' THEN k.sweep @> o.seq
                ELSE k.position <= o.seq OR k.gaps @> o.seq
            END
    )

-- name: cdc_own_row
-- The whole row behind u, where the stream has cut it. @columns@ are those of outrider_parked, by
-- name, through JSON: a column may have been dropped or renamed since the start.
SELECT @columns@ AS payload
FROM @outbox@ o
CROSS JOIN LATERAL (SELECT to_jsonb(o) AS o OFFSET 0) j
WHERE u.is_cut = 1 AND o.seq = u.seq
