/* SPDX-License-Identifier: MIT */
/*
 * The PostgreSQL source: source.c leads a source through connecting, the catalogue
 * and the lock, and keeps the queue of operations. A layout does the rest; source.c
 * knows layouts only by struct pg_layout.
 *
 *  (1) Operations are given to the layout at once, in the order in which the
 *      engine starts them; each becomes one or several requests. The queue gives
 *      them back (common/op_queue.h) when the layout has called pg_op_done().
 *  (2) All state of a layout ends with the connection: every reconnect is a start.
 */
#ifndef POSTGRES_SOURCE_H
#define POSTGRES_SOURCE_H

#include "postgres/wire/catalog.h"
#include "postgres/shared/columns.h"
#include "postgres/wire/conn.h"
#include "common/op_queue.h"
#include "core/config.h"
#include "core/source.h"
#include "postgres/shared/durable.h"
#include "postgres/shared/guard.h"
#include "postgres/shared/intent.h"
#include "postgres/wire/leader.h"
#include "postgres/shared/parked.h"
#include "postgres/wire/pooler.h"
#include "postgres/shared/upkeep.h"

struct pg_source;

struct pg_op {
    struct pg_source *source;
    struct source_op *op;
    bool is_held;        /* came while the layout was changing: starts when one is active again */
    bool changes_parked; /* a settle that writes parked rows: the next due time is read again */
    size_t table;        /* a clean-up of several tables: the one that is next */
    /* durable.c only. */
    bool is_asked;        /* for the server's position, since it was done */
    uint64_t flushed_lsn; /* the answer: a standby must have this; 0: none yet */
};

enum pg_layout_id { PG_LAYOUT_LOG, PG_LAYOUT_STATUS, PG_LAYOUT_CDC, PG_LAYOUT_REPLAY, PG_LAYOUTS };

struct pg_layout {
    const char *name;
    enum pg_layout_id id; /* s->layout_data[id] is the layout's own; NULL: it is not begun */
    bool has_states;      /* rows carry their state, and are read wherever they are */
    /* Whether this layout reads such a table. The first that says yes is taken. */
    bool (*reads)(const struct pg_catalog *cat, const struct pipeline_config *config);
    bool reads_only; /* a reader, core/source.h (16): no lock, no intents, no upkeep */
    /* Whether only one relay may be active; NULL: always. begin() may change its
     * mind: it sets PHASE_LOCK, and is called again when the lock is held. */
    bool (*needs_lock)(const struct pg_source *s);
    /* The lock is held: read the cursor, take over, then call
     * outrider__pg_source_activate(). */
    int (*begin)(struct pg_source *s, struct outrider_error *err);
    /* Sends the operation's first request. */
    int (*start)(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
    /* Called from every poll() while active, after results were handled:
     * probes, deadlines; sets base.wake_us to when it wants to be called. */
    int (*tick)(struct pg_source *s, struct instant now, struct outrider_error *err);
    /* The same between begin() and being active. NULL: no need. */
    int (*prepare)(struct pg_source *s, struct outrider_error *err);
    /* What to watch beside the connection; returns how many. NULL: nothing. */
    int (*fds)(struct pg_source *s, struct pollfd *ret_fds, int max);
    /* As struct source_ops says. NULL: no need. */
    void (*draw)(struct pg_source *s);
    void (*close)(struct pg_source *s);
    /* Polling on behalf of mode cdc, which takes over from this layout. NULL: it is never
     * asked. The epoch under which the layout settles; the table that a batch is of (NULL:
     * it is not in flight); the i-th table of the pipeline. */
    int64_t (*epoch)(struct pg_source *s);
    const struct outbox_table *(*table_of)(struct pg_source *s, const struct batch *b);
    const struct outbox_table *(*table_at)(struct pg_source *s, size_t i);
    /* Exactly once: start() settles op->batch of INTENT and RECALL as it does for
     * SETTLE, with outrider__pg_intent_add() in the same request. Where a batch
     * ends is written into its intent, and made into source_data again. */
    unsigned intent_flags; /* enum intent_flags */
    int (*own_write)(struct pg_source *s, const struct batch *b, struct strbuf *out,
                     struct outrider_error *err);
    int (*own_read)(struct pg_source *s, struct batch *b, struct bytes own,
                    struct outrider_error *err);
};

enum pg_source_phase {
    PHASE_CONNECT,
    PHASE_POOLER,
    PHASE_SESSION,
    PHASE_CATALOG,
    PHASE_LOCK,
    PHASE_BEGIN,
    PHASE_ACTIVE
};

struct pg_source {
    struct source base; /* must stay first */
    const struct pipeline_config *config;
    enum pg_source_phase phase;
    struct instant now; /* of the poll() under way */
    struct pg_conn conn;
    struct pg_pooler pooler;
    struct pg_upkeep upkeep;
    struct pg_guard guard;
    struct pg_catalog cat;
    struct pg_leader leader;
    struct pg_intent intent;
    struct pg_durable durable;
    const struct pg_layout *const *layouts; /* to choose from; ends with NULL */
    const struct pg_layout *layout;
    void *layout_data[PG_LAYOUTS]; /* of `layout`, and of one that polls on its behalf */
    size_t n_live;                 /* batches of new events that were read and are not settled */
    bool must_mark;                /* the layout before was given a mark, and has not reached it */
    struct pg_statement st_catalog, st_companions;
    char *companions_sql; /* owned; where they had to be made */
    struct op_queue queue;
    struct pg_op ops[OP_QUEUE_MAX]; /* by slot of the queue */
    int64_t started_us;             /* of connecting */
};

static inline struct pg_source *pg_source_of(struct source *s)
{
    return (struct pg_source *)s;
}

/* The layout has done its part. The engine may get the operation later: durable.h. */
static inline void pg_op_done(struct pg_op *op)
{
    op_queue_done(&op->source->queue, (size_t)(op - op->source->ops));
    op->source->n_live += op->op->kind == SOURCE_FETCH && op->op->batch->n > 0;
}

static inline bool pg_layout_is_open(const struct pg_source *s, const struct pg_layout *layout)
{
    return s->layout_data[layout->id] != NULL;
}

/* Also while a layout polls on behalf of mode cdc. */
static inline bool pg_source_is_cdc(const struct pg_source *s)
{
    return s->layout_data[PG_LAYOUT_CDC] != NULL;
}

/* Operations that come from now on are held, until a layout is active again. */
void outrider__pg_source_hold(struct pg_source *s);
/* Closes the layout and begins with another one: from a callback. */
int outrider__pg_source_switch(struct pg_source *s, const struct pg_layout *layout,
                               struct outrider_error *err);
/* The layout is ready: operations are accepted. */
void outrider__pg_source_activate(struct pg_source *s);
/* Tells people something that is no error; see struct source. */
void outrider__pg_source_warn(struct pg_source *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* layouts.c: in the order in which they are asked whether they read a table; then NULL. */
extern const struct pg_layout *const outrider__pg_layouts[];
extern const struct pg_layout *const outrider__pg_readers[]; /* for a replay */
extern const struct pg_layout outrider__pg_layout_log;
extern const struct pg_layout outrider__pg_layout_cdc;
/* Whether the outbox can be read as a log, and is the pipeline's only one. */
int outrider__pg_log_check(const struct pg_source *s, struct outrider_error *err);
/* Mode poll: drops the slot of a move to cdc that was begun and not finished,
 * because it would fill the server's disk. */
int outrider__pg_cdc_forget_slot(struct pg_source *s, struct outrider_error *err);

#endif
