-- SPDX-License-Identifier: MIT
-- Reading again, for a replay: replay/replay.h. Words, beside those of wire/statements.h:
--   @event@   the columns of an event (enum pg_event_column), bounded by $2 (shared/columns.h)

-- name: replay_log
-- $1 how many rows, $3 the seq behind which to read, $4 the time to begin at, $5 the last seq to
-- read. $4 and $5 may be NULL. The snapshot is older than the look at the sequence, so a seq
-- that the sequence gave out is never above it.
SELECT @event@
FROM @outbox@ o
WHERE o.seq > $3 AND ($4::timestamptz IS NULL OR o.created_at >= $4)
    AND o.seq <= coalesce($5::int8,
        (SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @sequence@ q))
ORDER BY o.seq LIMIT $1
