/* SPDX-License-Identifier: MIT */
/*
 * sim [--seeds N] [--first SEED] [--trace]
 *
 * Runs the engine under N simulated worlds, each made from its seed: events,
 * configuration, faults, crashes, two relays at once. Exits 1 at the first
 * broken promise, having printed the seed that shows it.
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
    c->shutdown_timeout_us = world_below(w, 50000);
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
    double level = world_chance(w, 0.2) ? 0 : 0.01;
    if (world_chance(w, 0.5))
        f->source_error = level;
    f->source_open_error = level * 10;
    if (world_chance(w, 0.5))
        f->sink_error = level;
    f->sink_open_error = level * 10;
    f->outage = world_chance(w, 0.4) ? level : 0;
    f->ack_lost = world_chance(w, 0.3) ? level : 0;
    f->partial = world_chance(w, 0.5) ? 0.3 : 0;
    f->crashes = world_chance(w, 0.5);
    f->steal_lock = world_chance(w, 0.3);
    f->stalls = world_chance(w, 0.3);
}

static void trace_event(void *ctx, const struct event *e)
{
    world_trace(ctx, "outcome  e%lld %s", (long long)e->seq - 1,
                outrider__outcome_name(e->outcome));
}

static void relay_start(struct world *w, struct relay **r)
{
    struct outrider_error err;
    struct relay_setup setup = {.config = &w->config,
                                .source_ops = &sim_source_ops,
                                .sink_ops = &sim_sink_ops,
                                .observer = {.ctx = w, .event = trace_event},
                                .seed = world_random(w)};
    if (outrider__relay_new(&setup, r, &err) < 0)
        world_broken(w, "relay_new: %s", err.message);
}

static void relay_end(struct world *w, struct relay **r, const char *how)
{
    if (*r == NULL)
        return;
    world_trace(w, "%s", how);
    outrider__relay_free(*r);
    *r = NULL;
}

static int64_t step(struct world *w, struct relay **r)
{
    struct outrider_error err;
    int64_t wake;
    enum relay_state state = outrider__relay_step(*r, w->now, &wake, &err);
    const struct relay_stats *st = outrider__relay_stats(*r);
    if (st->in_flight > (size_t)w->config.source.batch * 4)
        world_broken(w, "%zu events in flight", st->in_flight);
    if (state == RELAY_FAILED)
        world_broken(w, "the relay gave up: %s", err.message);
    if (state == RELAY_DONE) {
        relay_end(w, r, "stopped");
        return w->now.mono_us;
    }
    return wake;
}

static void commit_some(struct world *w)
{
    if (w->n_committed < w->n_total)
        w->n_committed +=
            1 + world_below(w, w->n_total - w->n_committed < 9 ? w->n_total - w->n_committed : 9);
}

static void disturb(struct world *w, struct relay **relays)
{
    int i = world_below(w, RELAYS);
    if (world_chance(w, w->faults.outage) || (w->outage && world_chance(w, 0.05)))
        w->outage = !w->outage;
    if (w->faults.crashes && world_chance(w, 0.005))
        relay_end(w, &relays[i], "crash");
    else if (w->faults.crashes && relays[i] != NULL && world_chance(w, 0.005))
        outrider__relay_stop(relays[i], w->now);
    if (relays[i] == NULL && world_chance(w, i == 0 ? 0.1 : 0.01))
        relay_start(w, &relays[i]);
}

static void calm_down(struct world *w)
{
    w->faults = (struct faults){0};
    w->outage = false;
}

static void run(struct world *w, struct relay **relays)
{
    relay_start(w, &relays[0]);
    for (int n = 0; n < 20000; n++) {
        if (n == 1500) {
            calm_down(w);
            w->n_committed = w->n_total;
        }
        if (n < 1500) {
            disturb(w, relays);
            if (world_chance(w, 0.2))
                commit_some(w);
        } else if (relays[0] == NULL && relays[1] == NULL) {
            relay_start(w, &relays[0]);
        }
        int64_t wake = w->now.mono_us + 20000;
        for (int i = 0; i < RELAYS; i++) {
            int64_t at = relays[i] != NULL ? step(w, &relays[i]) : CLOCK_NEVER;
            if (at < wake)
                wake = at;
        }
        if (n > 1500 && world_is_done(w))
            break;
        int64_t forward = wake > w->now.mono_us ? wake - w->now.mono_us : 1;
        if (world_chance(w, 0.3))
            forward = 1 + world_below(w, (int)forward + 1000);
        w->now.mono_us += forward;
        w->now.wall_us += forward;
    }
    world_check_end(w);
}

static int run_seed(uint64_t seed, bool trace)
{
    static struct world w;
    static struct relay *relays[RELAYS];
    memset(&w, 0, sizeof w);
    memset(relays, 0, sizeof relays);
    the_world = &w;
    w.seed = w.rng = seed;
    w.trace = trace;
    w.now = (struct instant){1000000, 1000000000000LL};
    outrider__arena_init(&w.arena, 4096);
    int rc = 0;
    if (setjmp(w.failed) == 0) {
        make_config(&w);
        make_events(&w);
        make_faults(&w);
        w.lane_depth = world_below(&w, 2);
        w.can_cancel = world_chance(&w, 0.7);
        run(&w, relays);
    } else {
        rc = 1;
    }
    if (rc == 0) /* after a broken promise the relays are in no state to be freed */
        for (int i = 0; i < RELAYS; i++)
            relay_end(&w, &relays[i], "end");
    outrider__arena_release(&w.arena);
    return rc;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 1000, first = 1;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--first") == 0) {
            first = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: sim [--seeds N] [--first SEED] [--trace]\n");
            return 2;
        }
    }
    for (uint64_t s = first; s < first + seeds; s++)
        if (run_seed(s, trace) != 0)
            return 1;
    printf("%llu worlds from seed %llu: nothing lost, invented or out of order\n",
           (unsigned long long)seeds, (unsigned long long)first);
    return 0;
}
