/* SPDX-License-Identifier: MIT */
/*
 * sim [--seeds N] [--first SEED] [--exact] [--trace]
 *
 * Runs the engine under N simulated worlds, each made from its seed: events,
 * configuration, faults, crashes, two relays at once. Exits 1 at the first
 * broken promise, having printed the seed that shows it. --exact: all of them
 * exactly once.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#define RELAYS 2

static void make_config(struct world *w)
{
    struct pipeline_config *c = &w->config;
    *c = (struct pipeline_config){.arena = &w->arena, .name = "sim"};
    static int64_t delays[] = {2000, 5000, 20000};
    static const char *wanted[] = {"wanted"};
    c->source.batch = 1 + world_below(w, 12);
    c->source.batch_bytes = 1 << 20;
    c->source.max_payload = 1 << 20;
    c->source.max_headers = 1 << 16;
    c->source.connect_timeout_us = 1000000;
    c->sink.send_timeout_us = world_chance(w, 0.5) ? 30000 : 1000000;
    c->route.topic = "${aggregate_type}.${event_type}";
    c->headers.event_id = "event-id";
    c->headers.event_type = c->headers.aggregate_type = "";
    c->select.event_types.items = wanted;
    c->select.event_types.n = 1;
    c->retry.delays.items = delays;
    c->retry.delays.n = 1 + (size_t)world_below(w, 3);
    c->retry.max_attempts = 1 + world_below(w, 4);
    c->retry.on_dead = world_chance(w, 0.4) ? ON_DEAD_BLOCK : ON_DEAD_SKIP;
    c->dead_letter.topic = world_chance(w, 0.4) ? "dead" : NULL;
    c->ordered = world_chance(w, 0.9);
    /* Not by chance: other seeds keep showing what they were found to show. */
    c->exactly_once = w->wants_exact || w->seed % 4 == 0;
    c->ordered |= c->exactly_once;
    c->shutdown_timeout_us = world_below(w, 50000);
    if (world_chance(w, 0.2))
        c->source.initial_delay_us = world_below(w, 30000);
    if (world_chance(w, 0.3)) {
        c->cleanup.retention_us = c->cleanup.every_us = 5000;
        c->cleanup.pause_us = 1000;
    }
    c->once = world_chance(w, 0.2);
    w->least_attempts = c->retry.max_attempts;
}

static void make_events(struct world *w)
{
    w->n_total = 20 + world_below(w, 180);
    w->n_keys = 1 + world_below(w, MAX_KEYS);
    int topics = 1 + world_below(w, 2);
    double poison = world_chance(w, 0.7) ? 0.1 : 0;
    for (int i = 0; i < w->n_total; i++) {
        struct sim_event *e = &w->events[i];
        (void)snprintf(e->id, sizeof e->id, "e%d", i);
        (void)snprintf(e->key, sizeof e->key, "k%d", world_below(w, w->n_keys));
        e->topic = world_below(w, topics + 1);
        if (world_chance(w, poison))
            e->fails_first = 1 + world_below(w, 5);
        e->never_works = world_chance(w, poison / 4);
        e->is_oversize = world_chance(w, poison / 8);
        e->is_unwanted = world_chance(w, 0.03);
        if (world_chance(w, 0.03))
            e->expires_us = 1000000000000LL + world_below(w, 300000);
    }
}

static void make_faults(struct world *w)
{
    struct faults *f = &w->faults;
    /* By the seed itself: chance would make other worlds of the seeds that are known. */
    w->holds = w->seed % 4 == 3;
    w->refusal = w->seed % 16 == 5 ? REFUSES_FOR_GOOD : w->seed % 16 == 9 ? REFUSES : REFUSES_NOT;
    double level = world_chance(w, 0.2) ? 0 : 0.01;
    if (world_chance(w, 0.5))
        f->source_error = level;
    f->source_open_error = level * 10;
    if (world_chance(w, 0.5))
        f->sink_error = level;
    f->sink_open_error = level * 10;
    f->outage = world_chance(w, 0.4) ? level : 0;
    f->ack_lost = world_chance(w, 0.3) ? level : 0;
    f->no_memory = world_chance(w, 0.2) ? level / 4 : 0;
    f->partial = world_chance(w, 0.5) ? 0.3 : 0;
    f->crashes = world_chance(w, 0.5);
    f->steal_lock = world_chance(w, 0.3);
    f->stalls = world_chance(w, 0.3);
    f->reloads = world_chance(w, 0.3);
    f->operators = world_chance(w, 0.3);
    f->restores = w->config.exactly_once && !w->config.once && world_chance(w, 0.3);
}

static void trace_event(void *ctx, struct instant now, const struct event *e)
{
    (void)ctx;
    (void)now;
    world_trace(the_world, "outcome  e%lld %s", (long long)e->seq - 1,
                outrider__outcome_name(e->outcome));
}

/* The linker puts this before the router's own. */
int __real_outrider__router_route(const struct router *r, struct event *e, bool with_headers,
                                  struct outrider_error *err);
int __wrap_outrider__router_route(const struct router *r, struct event *e, bool with_headers,
                                  struct outrider_error *err);
int __wrap_outrider__router_route(const struct router *r, struct event *e, bool with_headers,
                                  struct outrider_error *err)
{
    if (world_chance(the_world, the_world->faults.no_memory))
        return outrider__fail_nomem(err);
    return __real_outrider__router_route(r, e, with_headers, err);
}

struct actor {
    struct relay *relay; /* or NULL */
    struct relay_observer observer;
    bool is_stopping;
    int n_restless;  /* steps in a row that asked for another at once */
    int n_committed; /* when it started: what --once has to settle */
    int64_t started_wall_us;
    int64_t active_us; /* when its source was last active */
    int64_t lost_us;   /* see note_losses() */
    bool is_failing;
    uint64_t settles, reconnects;
    bool is_sink_down; /* an outage was told, and not yet its end */
    bool is_meddled;   /* others may have had their hands in its rows, before the calm */
};

/* An outage is told once, and its end once. */
static void on_note(void *ctx, struct instant now, enum relay_note note, uint64_t count,
                    const struct outrider_error *why)
{
    struct actor *a = ctx;
    (void)now;
    (void)count;
    (void)why;
    if (note != NOTE_SINK_DOWN && note != NOTE_SINK_UP)
        return;
    world_trace(the_world, "%s", note == NOTE_SINK_DOWN ? "sink is down" : "sink is up");
    if (a->is_sink_down == (note == NOTE_SINK_DOWN))
        world_broken(the_world, "an outage, or its end, is told twice");
    a->is_sink_down = note == NOTE_SINK_DOWN;
}

static void actor_start(struct world *w, struct actor *a)
{
    struct outrider_error err;
    struct relay_setup setup = {.config = &w->config,
                                .source_ops = &sim_source_ops,
                                .sink_ops = &sim_sink_ops,
                                .observers = &a->observer,
                                .seed = world_random(w)};
    *a = (struct actor){.observer = {.ctx = a, .event = trace_event, .note = on_note},
                        .n_committed = w->n_committed,
                        .started_wall_us = w->now.wall_us,
                        .active_us = w->now.mono_us,
                        .is_meddled = w->faults.steal_lock || w->faults.operators};
    if (outrider__relay_new(&setup, &a->relay, &err) < 0)
        world_broken(w, "relay_new: %s", err.message);
}

static void actor_end(struct world *w, struct actor *a, const char *how)
{
    if (a->relay == NULL)
        return;
    world_trace(w, "%s", how);
    w->n_refused = 0;
    outrider__relay_free(a->relay);
    a->relay = NULL;
}

/* --once ended well: all that was committed when it began is settled, and what
 * was due then was tried. */
static void check_once(struct world *w, const struct actor *a)
{
    if (w->db.position < a->n_committed)
        world_broken(w, "--once is done at %lld of %d", (long long)w->db.position, a->n_committed);
    if (a->is_meddled)
        return;
    for (int i = 0; i < w->db.n_rows; i++)
        if (w->db.rows[i].state != ROW_DEAD && w->db.rows[i].next_us <= a->started_wall_us &&
            world_is_head(w, &w->db.rows[i]))
            world_broken(w, "--once is done, and event %d was due", w->db.rows[i].event);
}

/* When the source was first lost after the last settle; now, if it was not. */
static void note_losses(const struct world *w, struct actor *a, const struct relay_stats *st)
{
    if (st->settles != a->settles)
        a->is_failing = false;
    if (!a->is_failing)
        a->lost_us = w->now.mono_us;
    a->is_failing |= st->reconnects != a->reconnects;
    a->settles = st->settles;
    a->reconnects = st->reconnects;
}

/* Whether a relay that failed had a reason that the world gave it. */
static bool failure_has_a_reason(struct world *w, const struct outrider_error *err)
{
    bool is_refused = err->code == OUTRIDER_HISTORY;
    if (is_refused && !world_mend(w))
        world_broken(w, "the relay refuses a good database: %s", err->message);
    return world_mend_settles(w, err) || is_refused;
}

static void check_failure(struct world *w, const struct actor *a, const struct outrider_error *err)
{
    if (!w->config.once)
        world_broken(w, "the relay gave up: %s", err->message);
    if (strstr(err->message, "sink") == NULL && strcmp(err->message, "simulated") != 0 &&
        w->now.mono_us - a->active_us < w->config.source.connect_timeout_us &&
        w->now.mono_us - a->lost_us < w->config.source.connect_timeout_us)
        world_broken(w, "--once gave up before connect_timeout: %s", err->message);
}

/* relay.h (5): five batches and the parked one; exactly once one, of several times the size. */
static void check_in_flight(struct world *w, const struct relay_stats *st)
{
    if (st->in_flight > (size_t)w->config.source.batch * (w->config.exactly_once ? EXACT_BATCH : 6))
        world_broken(w, "%zu events in flight", st->in_flight);
}

static int64_t actor_step(struct world *w, struct actor *a)
{
    struct outrider_error err;
    int64_t wake;
    enum relay_state state = outrider__relay_step(a->relay, w->now, &wake, &err);
    const struct relay_stats *st = outrider__relay_stats(a->relay);
    const struct source *source = outrider__relay_source(a->relay);
    check_in_flight(w, st);
    bool has_reason = state != RELAY_FAILED || failure_has_a_reason(w, &err);
    if (state == RELAY_DONE && !a->is_stopping) {
        if (!w->config.once)
            world_broken(w, "the relay is done, and nobody asked for it");
        check_once(w, a);
    }
    note_losses(w, a, st);
    if (!has_reason)
        check_failure(w, a, &err);
    if (state == RELAY_RUNNING && source != NULL && source->active)
        a->active_us = w->now.mono_us;
    if (state != RELAY_RUNNING) {
        actor_end(w, a, state == RELAY_DONE ? "stopped" : err.message);
        return w->now.mono_us;
    }
    a->n_restless = wake <= w->now.mono_us ? a->n_restless + 1 : 0;
    if (a->n_restless > 300)
        world_broken(w, "the relay does not come to rest");
    return wake;
}

static void commit_some(struct world *w)
{
    if (w->n_committed < w->n_total)
        w->n_committed +=
            1 + world_below(w, w->n_total - w->n_committed < 9 ? w->n_total - w->n_committed : 9);
}

/* Options that may change do, and those that may not are tried in vain. */
static void reload(struct world *w, struct relay *relay)
{
    struct outrider_error err;
    struct pipeline_config *c = &w->config;
    c->retry.max_attempts = 1 + world_below(w, 4);
    c->dead_letter.topic = world_chance(w, 0.4) ? "dead" : NULL;
    c->sink.send_timeout_us = world_chance(w, 0.5) ? 30000 : 1000000;
    if (c->retry.max_attempts < w->least_attempts)
        w->least_attempts = c->retry.max_attempts;
    struct pipeline_config fresh = *c;
    fresh.name = "other";
    fresh.source.batch = 1000;
    fresh.ordered = !c->ordered;
    fresh.once = !c->once;
    fresh.retry.on_dead = c->retry.on_dead == ON_DEAD_SKIP ? ON_DEAD_BLOCK : ON_DEAD_SKIP;
    w->was_reloaded = true;
    world_trace(w, "reload");
    if (outrider__relay_reload(relay, &fresh, &err) < 0)
        world_broken(w, "reload: %s", err.message);
}

/* Nobody runs while a database is restored, or the broker's progress is lost. */
static void rewrite_history(struct world *w, struct actor *actors)
{
    if (world_chance(w, 0.02)) {
        w->backup = w->db;
        w->has_backup = true;
    }
    if (!world_chance(w, 0.003))
        return;
    for (int i = 0; i < RELAYS; i++)
        actor_end(w, &actors[i], "crash");
    if (world_chance(w, 0.7))
        world_restore(w);
    else
        world_lose_progress(w);
}

static void disturb(struct world *w, struct actor *actors)
{
    if (w->faults.restores)
        rewrite_history(w, actors);
    struct actor *a = &actors[world_below(w, RELAYS)];
    if (world_chance(w, w->faults.outage) || (w->outage && world_chance(w, 0.05)))
        w->outage = !w->outage;
    if (w->faults.operators && world_chance(w, 0.02))
        world_dead_retry(w, world_below(w, MAX_EVENTS));
    if (w->faults.operators && world_chance(w, 0.005))
        world_dead_discard(w, world_below(w, MAX_EVENTS));
    if (w->faults.crashes && world_chance(w, 0.005))
        actor_end(w, a, "crash");
    if (a->relay == NULL) {
        if (world_chance(w, a == actors ? 0.1 : 0.01))
            actor_start(w, a);
        return;
    }
    if (w->faults.reloads && world_chance(w, 0.01))
        reload(w, a->relay);
    if (w->faults.crashes && world_chance(w, 0.005)) {
        world_trace(w, "asked to stop");
        a->is_stopping = true;
        outrider__relay_stop(a->relay, w->now);
    }
}

static void calm_down(struct world *w)
{
    w->faults = (struct faults){0};
    w->outage = false;
    w->n_committed = w->n_total;
}

/* Until when the world sleeps. */
static int64_t step_all(struct world *w, struct actor *actors)
{
    int64_t wake = CLOCK_NEVER;
    for (int i = 0; i < RELAYS; i++) {
        int64_t at = actors[i].relay != NULL ? actor_step(w, &actors[i]) : CLOCK_NEVER;
        wake = at < wake ? at : wake;
    }
    return wake;
}

static void run(struct world *w, struct actor *actors)
{
    const int calm = 1500;
    actor_start(w, &actors[0]);
    for (int n = 0; n < 20000; n++) {
        if (n == calm)
            calm_down(w);
        if (n < calm) {
            disturb(w, actors);
            if (world_chance(w, 0.2))
                commit_some(w);
        } else if (actors[0].relay == NULL && actors[1].relay == NULL) {
            actor_start(w, &actors[0]);
        }
        int64_t wake = step_all(w, actors);
        if (n > calm && world_is_done(w))
            break;
        bool is_alive = actors[0].relay != NULL || actors[1].relay != NULL;
        if (n > calm && is_alive && wake == CLOCK_NEVER)
            world_broken(w, "all sleep for ever");
        if ((n <= calm || !is_alive) && wake > w->now.mono_us + 20000)
            wake = w->now.mono_us + 20000;
        int64_t forward = wake > w->now.mono_us ? wake - w->now.mono_us : 1;
        if (world_chance(w, 0.3))
            forward = 1 + world_below(w, (int)forward + 1000);
        w->now.mono_us += forward;
        w->now.wall_us += forward;
    }
    world_check_end(w);
}

static int run_seed(uint64_t seed, bool trace, bool wants_exact)
{
    static struct world w;
    static struct actor actors[RELAYS];
    memset(&w, 0, sizeof w);
    memset(actors, 0, sizeof actors);
    the_world = &w;
    w.seed = w.rng = seed;
    w.trace = trace;
    w.wants_exact = wants_exact;
    w.now = (struct instant){1000000, 1000000000000LL};
    outrider__arena_init(&w.arena, 4096);
    int rc = 0;
    if (setjmp(w.failed) == 0) {
        make_config(&w);
        make_events(&w);
        make_faults(&w);
        w.lane_depth = world_below(&w, 2);
        w.can_cancel = world_chance(&w, 0.7);
        run(&w, actors);
    } else {
        rc = 1;
    }
    if (rc == 0) /* after a broken promise the relays are in no state to be freed */
        for (int i = 0; i < RELAYS; i++)
            actor_end(&w, &actors[i], "end");
    outrider__arena_release(&w.arena);
    return rc;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 1000, first = 1;
    bool trace = false, wants_exact = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (strcmp(argv[i], "--exact") == 0) {
            wants_exact = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--first") == 0) {
            first = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: sim [--seeds N] [--first SEED] [--exact] [--trace]\n");
            return 2;
        }
    }
    for (uint64_t s = first; s < first + seeds; s++)
        if (run_seed(s, trace, wants_exact) != 0)
            return 1;
    if (sim_draws == 0) {
        fprintf(stderr, "no source was let draw while events were worked on\n");
        return 1;
    }
    printf("%llu worlds from seed %llu: nothing lost, invented or out of order\n",
           (unsigned long long)seeds, (unsigned long long)first);
    return 0;
}
