/* SPDX-License-Identifier: MIT */
/*
 * The simulated world: a database, a broker and a clock, shared by whatever
 * relays run in it, surviving their crashes, and checking after every step
 * that nothing is lost, invented or reordered. All chance comes from one seed.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <setjmp.h>

#include "core/intent.h"
#include "core/relay.h"

#define MAX_EVENTS 400
#define MAX_KEYS 8
#define MAX_BATCH (12 * EXACT_BATCH) /* source.batch is 12 at most */

/* What the broker does with an event. */
struct sim_event {
    char id[16], key[8];
    int topic;        /* own topic, 0: by template */
    int fails_first;  /* RETRY this many times, then accepted */
    bool never_works; /* DEAD */
    bool is_oversize;
    bool is_unwanted;   /* select: leaves it out */
    int64_t expires_us; /* 0: never */
    /* What happened to it. */
    int retries_reported;
    bool was_visible;
    int n_dead_reported;
    bool was_dead_letter;     /* published as one, or refused by the broker even so */
    int n_letters;            /* how often */
    int64_t first_visible_no; /* position in the broker's log */
    bool was_discarded;       /* by an operator, who does not come back with a restored database */
};

enum row_state { ROW_PARKED, ROW_QUEUED, ROW_DEAD };

struct sim_row {
    int64_t arrival;
    int event; /* index */
    enum row_state state;
    uint32_t attempts;
    int64_t next_us;
};

struct faults {
    double source_error, source_open_error, sink_error, sink_open_error, outage, ack_lost, partial;
    double no_memory;
    bool steal_lock, crashes, stalls, reloads, operators, restores;
};

/* Exactly once: what the database would settle. */
struct sim_intent {
    bool exists;
    bool is_parked;
    struct event events[MAX_BATCH];
    int32_t answers[MAX_BATCH]; /* the status of each; 0: no answer */
    size_t n;
};

/* The database: survives, and can be restored. */
struct sim_db {
    int64_t position; /* events[0 .. position) are settled */
    struct sim_row rows[MAX_EVENTS];
    int n_rows;
    int64_t next_arrival;
    bool expired[MAX_EVENTS], skipped[MAX_EVENTS], discarded[MAX_EVENTS];
    struct commit_mark saved;
    struct sim_intent intent;
};

struct sim_record {
    int event;
    bool is_dead_letter;
};

/* Exactly once: a transaction whose commit the broker was asked for. */
struct sim_txn {
    bool exists;
    uint64_t producer;
    struct commit_mark progress;
    struct sim_record records[MAX_BATCH];
    size_t n;
};

/* What the database says to a settle once half of the events are settled, until somebody
 * mends it: nothing; that it can never be; that it cannot be, which opening may mend. */
enum refusal { REFUSES_NOT, REFUSES_FOR_GOOD, REFUSES };

struct world {
    uint64_t seed, rng;
    bool trace, wants_exact;
    struct instant now;
    struct faults faults;
    jmp_buf failed;

    struct sim_event events[MAX_EVENTS];
    int n_committed, n_total;
    int n_keys;

    struct sim_db db;
    struct sim_db backup, newest; /* newest: what a restore went back from */
    bool has_backup, is_restored;
    int64_t epoch;
    const void *lock_owner;
    enum refusal refusal;
    int n_refused; /* settles, since a relay last ended */

    /* The broker: survives. */
    int64_t log_no;
    bool outage;
    bool holds;        /* in an outage the broker's client keeps what it has, and says so */
    uint64_t producer; /* exactly once: whoever is older is shut out */
    struct commit_mark progress, lost_progress;
    bool is_progress_lost;
    struct sim_txn txn; /* undecided */
    bool had_operators;

    int lane_depth;
    bool can_cancel;
    struct pipeline_config config; /* what the next relay starts with */
    bool was_reloaded;
    int64_t least_attempts; /* the lowest max_attempts that was ever configured */
    struct arena arena;
};

extern uint64_t sim_draws; /* of all worlds */
extern const struct source_ops sim_source_ops;
extern const struct sink_ops sim_sink_ops;

uint64_t world_random(struct world *w);
static inline int world_below(struct world *w, int n)
{
    return (int)(world_random(w) % (uint64_t)n);
}
bool world_chance(struct world *w, double p);
void world_trace(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An invariant does not hold: prints the seed and ends this run. */
void world_broken(struct world *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* The broker shows an event to the world. */
void world_visible(struct world *w, int event, bool is_dead_letter);
int world_event_of(const struct delivery *d, bool *ret_is_dead_letter);

/* The database. */
void world_settle(struct world *w, const struct batch *b);
/* Exactly once: settles `settled` (or NULL), saves the intent of `next` (or NULL). */
void world_intent(struct world *w, const struct batch *settled, const struct batch *next,
                  struct commit_mark progress);
void world_recall(struct world *w, struct commit_mark progress, enum recall_verdict verdict);
/* The broker decides what a producer that is gone, or shut out, had asked for. */
void world_decide(struct world *w, bool commits);
/* An old state of the database comes back; progress is lost; both are undone when
 * the relay refuses them, as it must. */
void world_restore(struct world *w);
void world_lose_progress(struct world *w);
bool world_mend(struct world *w);
/* Whether settles are refused now; refuse() fails then, and counts. */
bool world_refuses(const struct world *w);
int world_refuse(struct world *w, struct outrider_error *err);
/* The relay gave up: whether for that. It is mended then. */
bool world_mend_settles(struct world *w, const struct outrider_error *why);
int64_t world_parked_due(const struct world *w);
/* What an operator does to a dead letter: back to be tried, or gone. */
void world_dead_retry(struct world *w, int which);
void world_dead_discard(struct world *w, int which);
bool world_lane_is_live(const struct world *w, const char *key);
/* The first live row of the row's lane. */
bool world_is_head(const struct world *w, const struct sim_row *row);

/* What the receiver answers to a third of the events: the event's id, and a status for each
 * result. False: it answers nothing. */
bool world_answer(const struct world *w, int event, enum sink_result result,
                  struct answer *ret_answer);
/* All is quiet: everything must be settled and delivered. */
void world_check_end(struct world *w);
bool world_is_done(const struct world *w);

/* The relays find the world through their configuration's name for it. */
extern struct world *the_world;

#endif
