/* SPDX-License-Identifier: MIT */
/*
 * Reading again, for a replay: core/source.h (16). replay.c (a source's life, and
 * pages), replay/rows.c (the SQL of tables whose rows carry their state). The log's
 * SQL is in sql/replay.sql. No other room includes this.
 *
 *  (1) A table is read by pages in one order; each page begins behind the last row of
 *      the page before. Nothing is locked, claimed or changed, so a replay runs beside
 *      relays.
 *  (2) Tables take turns, as they do in layout status.
 *  (3) A page is handed on when the server's log is flushed past what it has read: a
 *      small message is written and flushed, if anything is not flushed yet.
 *  (4) Of the log a replay reads no row above the sequence (poll_log/log.h (9)), and
 *      none above the mark.
 */
#ifndef POSTGRES_REPLAY_H
#define POSTGRES_REPLAY_H

#include "common/bounded_read.h"
#include "postgres/table/reader.h"

struct replay_table {
    struct outbox_table a; /* not of the log, which needs no map */
    struct pg_statement st_read;
    /* The last row that was read. */
    bool is_begun;
    int64_t seq, time_us;
    struct strbuf id;
    bool is_exhausted; /* nothing more was there when the table was last read */
    struct bounded_read read;
};

/* rows.c. Arguments: $1 rows, $2 bounds (columns.h); then the place behind which to
 * read: $3 a seq, or $3 a time and $4 an id; then the time to begin at, or NULL. */
/* Whether the table has what the point of the replay needs. */
int outrider__pg_replay_check(const struct replay_table *t, const struct pipeline_config *config,
                              struct outrider_error *err);
void outrider__pg_replay_sql(struct strbuf *q, const struct replay_table *t);
/* Adds the arguments behind the bounds. */
void outrider__pg_replay_args(struct pg_args *args, const struct replay_table *t,
                              const struct pipeline_config *config);

extern const struct pg_layout outrider__pg_replay_log, outrider__pg_replay_rows;

#endif
