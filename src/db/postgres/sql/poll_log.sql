-- SPDX-License-Identifier: MIT
-- Statements of the log layout: poll_log/log.h. Words, beside those of wire/statements.h:
--   @event@   the columns of an event (enum pg_event_column), bounded by $3 (shared/columns.h),
--             without the payload and the headers of the anchor, which is the row at $1
--   @usual@   the same, bounded for a usual read
--   @any@     a query: whether any lane of the pipeline is parked ($1 pipeline, $2 outbox)
--   @lockable@ the relations on which a writer's lock may be

-- name: log_read_cursor
-- $1 pipeline, $2 outbox. Columns: enum log_cursor_column.
SELECT k.sink, k.position, k.gaps::text, left(k.anchor_id::text, @text_cut@), k.epoch, k.on_dead,
    k.system_id, k.timeline,
    (SELECT left(o.id::text, @text_cut@) FROM @outbox@ o WHERE o.seq = k.position LIMIT 1),
    (SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @sequence@ q),
    pg_backend_pid(), k.mode
FROM @cursor@ k
WHERE k.pipeline = $1 AND k.outbox = $2

-- name: log_read
-- There are no gaps. $1 the first seq, $2 how many rows.
SELECT @usual@ FROM @outbox@ o WHERE o.seq >= $1 ORDER BY o.seq LIMIT $2

-- name: log_read_exact
-- The same for rows of any size: says how large a payload is that is not sent.
SELECT @event@ FROM @outbox@ o WHERE o.seq >= $1 ORDER BY o.seq LIMIT $2

-- name: log_read_gaps
-- The same, and the rows within the gaps, of which $4 has the first seqs and $5 the last ones.
(SELECT r.*
FROM unnest($4::int8[], $5::int8[]) AS g(low, high)
CROSS JOIN LATERAL (
    SELECT @event@ FROM @outbox@ o WHERE o.seq >= g.low AND o.seq <= g.high ORDER BY o.seq LIMIT $2) r
ORDER BY r.seq LIMIT $2)
UNION ALL
(SELECT @event@ FROM @outbox@ o WHERE o.seq >= $1 ORDER BY o.seq LIMIT $2)
ORDER BY seq LIMIT $2

-- name: log_writers
-- The transactions that may still fill a gap. INSERT takes this lock before it takes a seq, and
-- a commit is visible before the lock is given back. Column: as outrider__pg_writer_parse() reads.
SELECT l.virtualtransaction
FROM pg_locks l
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.relation @lockable@

-- name: log_lockable_tree
-- The word @lockable@ of a partitioned outbox.
IN (SELECT t.relid FROM pg_partition_tree(@oid@) t)

-- name: log_facts
-- $1 pipeline, $2 outbox. Columns: enum log_facts_column.
SELECT pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn(),
    CASE WHEN q.is_called THEN q.last_value ELSE 0 END, (@any@)
FROM @sequence@ q

-- name: log_last
-- The last value of the sequence: the probe of a quiet outbox.
SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @sequence@ q

-- name: log_save_sets
-- The word @sets@ of cursor_save: $4 the position, $5 the gaps, $6 the anchor; NULL: as it is.
position = coalesce($4, position),
gaps = coalesce($5::text::int8multirange, gaps),
anchor_id = coalesce($6, anchor_id)

-- name: log_oldest
-- For people: who the writer $1 is, which is named as pg_locks names it. Of other roles' sessions
-- a relay without pg_read_all_stats sees little more than the process.
SELECT coalesce(
    (SELECT concat_ws(', ', 'server process ' || l.pid, a.usename, nullif(a.application_name, ''),
        'open since ' || a.xact_start, a.state)
    FROM pg_locks l
    JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.virtualtransaction = $1
    LIMIT 1),
    (SELECT format('prepared transaction %s of %s, prepared %s', p.gid, p.owner, p.prepared)
    FROM pg_prepared_xacts p
    WHERE p.database = current_database()
    ORDER BY p.prepared
    LIMIT 1),
    'has just ended')

-- name: log_ahead
-- For people: the rows above the sequence, which stands at $1. At most LOG_AHEAD_MAX are counted.
-- Columns: enum log_ahead_column.
SELECT count(*), min(x.seq)
FROM (SELECT o.seq FROM @outbox@ o WHERE o.seq > $1 ORDER BY o.seq LIMIT 1000) x
