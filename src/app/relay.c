/* SPDX-License-Identifier: MIT */
/* outrider/relay.h: the handle that an application holds. */
#include <stdlib.h>

#include "app/observe.h"
#include "core/options.h"
#include "run/engine.h"
#include "run/pipeline.h"

struct outrider_relay {
    struct arena arena;
    struct pipeline_config config;
    struct engine engine;
    struct outrider_relay_observer observer; /* the application's */
    struct relay_observer told;              /* passes on to that one */
};

static void relay_on_note(void *ctx, struct instant now, enum relay_note note, uint64_t count,
                          const struct outrider_error *why)
{
    (void)now;
    outrider__observer_note(&((struct outrider_relay *)ctx)->observer, note, count, why);
}

static void relay_on_event(void *ctx, struct instant now, const struct event *e)
{
    (void)now;
    outrider__observer_event(&((struct outrider_relay *)ctx)->observer, e);
}

static int relay_fail_missing(struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no relay was given");
}

int outrider_relay_new(const char *name, struct outrider_relay **ret_relay,
                       struct outrider_error *err)
{
    if (ret_relay == NULL)
        return relay_fail_missing(err);
    if (name != NULL && outrider__config_check_name(bytes_str(name), err) < 0)
        return -1;
    struct outrider_relay *r = calloc(1, sizeof *r);
    if (r == NULL)
        return outrider__fail_nomem(err);
    outrider__arena_init(&r->arena, 4096);
    if (outrider__engine_init(&r->engine, err) < 0 ||
        outrider__config_init(&r->config, &r->arena, name, err) < 0) {
        outrider_relay_free(r);
        return -1;
    }
    *ret_relay = r;
    return 0;
}

static int relay_check_new(const struct outrider_relay *r, struct outrider_error *err)
{
    if (r == NULL)
        return relay_fail_missing(err);
    if (!r->engine.is_started)
        return 0;
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                          "pipeline '%s' was started already: what it does is set before that, and "
                          "a handle starts once",
                          r->config.name);
}

int outrider_relay_set(struct outrider_relay *relay, const char *option, const char *value,
                       struct outrider_error *err)
{
    if (relay_check_new(relay, err) < 0)
        return -1;
    if (option == NULL || value == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "an option has a name and a value; one of them is NULL");
    return outrider__config_set(&relay->config, bytes_str(option), bytes_str(value), err);
}

int outrider_relay_observe(struct outrider_relay *relay,
                           const struct outrider_relay_observer *observer,
                           struct outrider_error *err)
{
    if (relay_check_new(relay, err) < 0)
        return -1;
    return outrider__observer_copy(&relay->observer, observer, err);
}

int outrider_relay_start(struct outrider_relay *relay, unsigned flags, struct outrider_error *err)
{
    if (relay_check_new(relay, err) < 0)
        return -1;
    if ((flags & ~OUTRIDER_RELAY_ONCE) != 0)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "unknown flags 0x%x", flags);
    struct relay_setup setup = {.config = &relay->config,
                                .seed = (uint64_t)outrider__clock_now().wall_us};
    relay->config.once = (flags & OUTRIDER_RELAY_ONCE) != 0;
    if (outrider__config_check(&relay->config, err) < 0 ||
        outrider__pipeline_identify(&relay->config, err) < 0 ||
        outrider__pipeline_adapters(&relay->config, &setup, err) < 0)
        return -1;
    relay->told = (struct relay_observer){
        .ctx = relay,
        .note = relay_on_note,
        .event = relay_on_event,
        .wants_delivered = relay->observer.event != NULL && relay->observer.wants_delivered,
    };
    setup.observers = &relay->told;
    return outrider__engine_prepare(&relay->engine, &setup, NULL, err) < 0
               ? -1
               : outrider__engine_start(&relay->engine, err);
}

void outrider_relay_stop(struct outrider_relay *relay)
{
    if (relay != NULL)
        outrider__engine_stop(&relay->engine);
}

int outrider_relay_wait(struct outrider_relay *relay, int64_t timeout_ms,
                        struct outrider_error *err)
{
    if (relay == NULL)
        return relay_fail_missing(err);
    return outrider__engine_wait(&relay->engine, timeout_ms, err);
}

enum outrider_relay_state outrider_relay_state(struct outrider_relay *relay)
{
    return relay != NULL ? outrider__engine_state(&relay->engine) : OUTRIDER_RELAY_NEW;
}

int outrider_relay_stats(struct outrider_relay *relay, struct outrider_relay_stats *stats,
                         struct outrider_error *err)
{
    if (relay == NULL)
        return relay_fail_missing(err);
    if (stats == NULL || stats->size < sizeof stats->size)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "no statistics were given, or their size is not set: begin with "
                              "OUTRIDER_RELAY_STATS_INIT");
    struct relay_stats now = outrider__engine_stats(&relay->engine);
    struct outrider_relay_stats all = {.size = stats->size,
                                       .fetched = now.fetched,
                                       .delivered = now.outcomes[OUTCOME_DELIVERED],
                                       .skipped = now.outcomes[OUTCOME_SKIPPED],
                                       .expired = now.outcomes[OUTCOME_EXPIRED],
                                       .parked = now.outcomes[OUTCOME_PARKED],
                                       .queued = now.outcomes[OUTCOME_QUEUED],
                                       .dead = now.outcomes[OUTCOME_DEAD],
                                       .retries = now.retries,
                                       .reconnects = now.reconnects,
                                       .in_flight = now.in_flight};
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
    return 0;
}

void outrider_relay_free(struct outrider_relay *relay)
{
    if (relay == NULL)
        return;
    outrider__engine_release(&relay->engine);
    outrider__arena_release(&relay->arena);
    free(relay);
}
