/* SPDX-License-Identifier: MIT */
/*
 * The SQLite source: source.c (its life and its queue of operations),
 * source_cursor.c (taking over a pipeline), source_fetch.c (reading),
 * source_settle.c (writing), source_intent.c (exactly once), source_watch.c
 * (looking for commits), reader.c (reading again, for a replay). Nobody else
 * includes this.
 *
 *  (1) SQLite has one writer at a time, so seqs become visible in their order:
 *      a cursor without gaps is enough.
 *  (2) read_seq runs ahead of the saved position while batches are in flight;
 *      the row at read_seq is never removed by clean-up, so each read begins
 *      at it and verifies its id.
 *  (3) A read transaction lasts for one batch, so that the WAL can be
 *      checkpointed and reset.
 *  (4) An operation that needs a lock of another connection waits in the queue.
 *      Closing the source instead would send all events in flight again.
 */
#ifndef SQLITE_SOURCE_H
#define SQLITE_SOURCE_H

#include "common/cursor_rules.h"
#include "common/op_queue.h"
#include "conn.h"
#include "core/source.h"
#include "watcher.h"

#include <sys/types.h>

enum sqlite_statement {
    ST_BEGIN,
    ST_BEGIN_IMMEDIATE,
    ST_COMMIT,
    ST_FETCH,
    ST_READ_SINCE, /* reader.c */
    ST_PROBE,
    ST_JOURNAL_MODE,
    ST_DUE,
    ST_ANY_LIVE,
    ST_LANE_FIRST,
    ST_DUE_HEADS,
    ST_LANE_ROWS,
    ST_CURSOR_READ,
    ST_CURSOR_MAKE,
    ST_CURSOR_TAKE,
    ST_CURSOR_SAVE,
    ST_PARK,
    ST_PARKED_LANE,
    ST_PARKED_REMOVE,
    ST_PARKED_UPDATE,
    ST_PROMOTE,
    ST_INTENT_ENROL,
    ST_INTENT_READ,
    ST_INTENT_BODY,
    ST_INTENT_SAVE,
    ST_INTENT_EPOCH,
    ST_COUNT
};

struct sqlite_source {
    struct source base; /* must stay first */
    const struct pipeline_config *config;
    char *path; /* without symbolic links */
    char *url;  /* "sqlite:" and the path, for commands in errors */
    dev_t dev;
    ino_t ino;
    sqlite3 *db;
    sqlite3_stmt *st[ST_COUNT];
    struct sqlite_lock lock;
    bool blocks; /* on_dead: block */
    int64_t opened_us;

    int64_t epoch;
    int64_t position;      /* saved */
    int64_t read_seq;      /* read so far */
    struct strbuf read_id; /* id of the row at read_seq, its beginning */
    struct fetch_run {     /* the fetch under way, for outrider_take() */
        struct batch *batch;
        struct event_bounds max;
        bool expects_anchor; /* the next row must be the one at read_seq */
        bool is_rewritten;   /* the next row was another one */
        struct outrider_error error;
    } run;
    int64_t durable_seq; /* events up to here survive a power cut */
    int64_t mark;        /* -1: none */
    struct row_clock clock;

    struct op_queue queue;
    int64_t busy_since_us; /* the oldest operation waits for a lock; 0: it does not */

    struct watched watched; /* by the process's watcher */
    bool is_watched;        /* the watcher will notice the next change */
    int64_t kicked_us;      /* monotonic: the last notification */
    int64_t look_us;        /* when to look at the database again */
    int64_t look_gap_us;    /* how long after that, if there is nothing */
    int64_t looked_us;
};

static inline struct sqlite_source *sqlite_source_of(struct source *s)
{
    return (struct sqlite_source *)s;
}

/* How a try to work on an operation ended. */
enum step { STEP_FAILED = -1, STEP_BUSY = 0, STEP_DONE = 1 };

/* source.c */
/* The statement, made on first use, reset and without parameters; NULL with err. */
sqlite3_stmt *outrider__sqlite_statement(struct sqlite_source *s, enum sqlite_statement which,
                                         struct outrider_error *err);
/* Steps a statement that returns no rows. A result code. */
int outrider__sqlite_run(struct sqlite_source *s, enum sqlite_statement which);
void outrider__sqlite_rollback(struct sqlite_source *s);
/* Rolls back. BUSY where another connection holds a lock, else FAILED with err filled in. */
enum step outrider__sqlite_stumble(struct sqlite_source *s, int rc, const char *what,
                                   struct outrider_error *err);

/* source_cursor.c */
enum step outrider__sqlite_take_over(struct sqlite_source *s, struct instant now,
                                     struct outrider_error *err);
/* What errors say about the cursor of this source. */
struct cursor_place outrider__sqlite_place(const struct sqlite_source *s);

/* For reader.c too: these take no lock and write nothing. */
int outrider__sqlite_source_open(struct source *base, const struct pipeline_config *config,
                                 struct instant now, struct outrider_error *err);
int outrider__sqlite_source_start(struct source *base, struct source_op *op,
                                  struct outrider_error *err);
void outrider__sqlite_source_close(struct source *base);

/* reader.c */
extern const struct source_ops outrider__sqlite_reader;

/* source_fetch.c */
/* Steps a bound ST_FETCH or ST_READ_SINCE: fills the batch. *ret_at_end says that there
 * was nothing more. */
enum step outrider__sqlite_read(struct sqlite_source *s, sqlite3_stmt *st, struct batch *b,
                                bool expects_anchor, bool *ret_at_end, struct outrider_error *err);
/* What was committed up to the seq `newest` survives a power cut then. */
int outrider__sqlite_make_durable(struct sqlite_source *s, int64_t newest,
                                  struct outrider_error *err);
int outrider__sqlite_fetch_prepare(struct sqlite_source *s, struct outrider_error *err);
enum step outrider__sqlite_fetch(struct sqlite_source *s, struct source_op *op,
                                 struct outrider_error *err);
enum step outrider__sqlite_fetch_parked(struct sqlite_source *s, struct source_op *op,
                                        struct outrider_error *err);
enum step outrider__sqlite_mark(struct sqlite_source *s, struct outrider_error *err);
/* When parked rows are due. Returns a result code of SQLite. */
int outrider__sqlite_read_due(struct sqlite_source *s);
/* Makes all commits so far survive a power cut. */
int outrider__sqlite_sync(struct sqlite_source *s, struct outrider_error *err);
/* When parked rows are due, and the newest seq, in one snapshot. */
int outrider__sqlite_probe(struct sqlite_source *s, int64_t *ret_newest);

/* source_settle.c */
enum step outrider__sqlite_settle(struct sqlite_source *s, struct source_op *op,
                                  struct outrider_error *err);
/* Within an open transaction. */
enum step outrider__sqlite_settle_batch(struct sqlite_source *s, struct batch *b, int64_t now_us,
                                        struct outrider_error *err);
enum step outrider__sqlite_cleanup(struct sqlite_source *s, struct source_op *op,
                                   struct outrider_error *err);

/* source_intent.c */
/* Within the transaction that takes over. */
enum step outrider__sqlite_intent_take(struct sqlite_source *s, struct outrider_error *err);
/* INTENT and RECALL. */
enum step outrider__sqlite_intent(struct sqlite_source *s, struct source_op *op,
                                  struct outrider_error *err);

/* source_watch.c */
void outrider__sqlite_watch_open(struct sqlite_source *s);
void outrider__sqlite_watch_close(struct sqlite_source *s);
/* Something may have changed: look at once, and then at growing distances. */
void outrider__sqlite_watch_kick(struct sqlite_source *s, struct instant now);
int outrider__sqlite_watch_poll(struct sqlite_source *s, struct instant now,
                                struct outrider_error *err);
int outrider__sqlite_watch_fds(struct sqlite_source *s, struct pollfd *ret_fds, int max);

#endif
