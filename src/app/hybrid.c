/* SPDX-License-Identifier: MIT */
/* outrider/hybrid.h: the handle, and the engine behind it. */
#include "app/hybrid.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/url.h"
#include "base/uuid.h"
#include "core/options.h"
#include "run/modules.h"
#include "run/pipeline.h"

#define BATCH_MAX 256

static int hybrid_fail_missing(struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no publisher was given");
}

static int hybrid_name_owner(struct outrider_hybrid *h, struct outrider_error *err)
{
    char host[64] = "", id[OUTRIDER_ID_SIZE];
    (void)gethostname(host, sizeof host - 1);
    if (outrider__uuid_new(outrider__clock_now().wall_us, id) < 0)
        return outrider__fail(err, OUTRIDER_IO, OUTRIDER_RETRY, "the system has no random bytes");
    (void)snprintf(h->owner, sizeof h->owner, "hybrid:%s:%d/%s", host, (int)getpid(), id);
    return 0;
}

int outrider_hybrid_new(const char *name, struct outrider_hybrid **ret_hybrid,
                        struct outrider_error *err)
{
    if (ret_hybrid == NULL)
        return hybrid_fail_missing(err);
    if (name != NULL && outrider__config_check_name(bytes_str(name), err) < 0)
        return -1;
    struct outrider_hybrid *h = calloc(1, sizeof *h);
    if (h == NULL)
        return outrider__fail_nomem(err);
    if (outrider__engine_init(&h->engine, err) < 0 ||
        outrider__hybrid_queue_init(&h->queue, 0, err) < 0) {
        outrider__engine_release(&h->engine);
        free(h);
        return -1;
    }
    h->n_refs = 1;
    outrider__arena_init(&h->arena, 4096);
    if (hybrid_name_owner(h, err) < 0 ||
        outrider__config_init(&h->config, &h->arena, name, err) < 0) {
        outrider_hybrid_free(h);
        return -1;
    }
    *ret_hybrid = h;
    return 0;
}

static int hybrid_check_new(const struct outrider_hybrid *h, struct outrider_error *err)
{
    if (h == NULL)
        return hybrid_fail_missing(err);
    if (!h->engine.is_started)
        return 0;
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                          "the publisher was started already: options are set before that");
}

int outrider_hybrid_set(struct outrider_hybrid *hybrid, const char *option, const char *value,
                        struct outrider_error *err)
{
    if (hybrid_check_new(hybrid, err) < 0)
        return -1;
    if (option == NULL || value == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "an option has a name and a value; one of them is NULL");
    return outrider__config_set(&hybrid->config, bytes_str(option), bytes_str(value), err);
}

int outrider_hybrid_observe(struct outrider_hybrid *hybrid,
                            const struct outrider_relay_observer *observer,
                            struct outrider_error *err)
{
    if (hybrid_check_new(hybrid, err) < 0)
        return -1;
    return outrider__observer_copy(&hybrid->observer, observer, err);
}

static int hybrid_check_config(const struct pipeline_config *c, struct outrider_error *err)
{
    if (outrider__config_check(c, err) < 0)
        return -1;
    if (c->exactly_once)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "hybrid publishing cannot keep exactly_once: what it sends is not in "
                              "the relay's transactions; leave one of them out");
    if (c->source.mode == MODE_CDC)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "hybrid publishing needs a relay that polls: a stream delivers what "
                              "the application has published already; source.mode: poll");
    return 0;
}

static int hybrid_find_database(struct outrider_hybrid *h, struct outrider_error *err)
{
    char scheme[32];
    if (outrider__url_scheme(bytes_str(h->config.source.url), scheme, sizeof scheme, err) < 0 ||
        outrider__hybrid_find(scheme, &h->ops, err) < 0)
        return -1;
    return h->ops->check(&h->config, err);
}

/*
 * The engine of a relay, without what is the relay's alone: clean-up and dead
 * letters. A try ends before the lease does: it may begin in the lease's first
 * half and takes two fifths at most.
 */
static void hybrid_adjust(struct outrider_hybrid *h)
{
    struct pipeline_config *c = &h->config;
    int64_t longest = c->hybrid.lease_us / 5 * 2;
    c->source_data = h;
    c->once = false;
    c->cleanup.retention_us = 0;
    c->dead_letter.topic = NULL;
    c->source.initial_delay_us = 0;
    if (c->source.batch > BATCH_MAX)
        c->source.batch = BATCH_MAX;
    if (c->sink.send_timeout_us > longest)
        c->sink.send_timeout_us = longest;
}

static void hybrid_on_note(void *ctx, struct instant now, enum relay_note note, uint64_t count,
                           const struct outrider_error *why)
{
    (void)now;
    struct outrider_hybrid *h = ctx;
    struct hybrid_queue *q = &h->queue;
    pthread_mutex_lock(&q->mutex);
    if (note == NOTE_SINK_UP || note == NOTE_SINK_DOWN)
        q->is_sink_up = note == NOTE_SINK_UP;
    else if (note == NOTE_STOPPED)
        q->is_closed = true;
    pthread_mutex_unlock(&q->mutex);
    outrider__observer_note(&h->observer, note, count, why);
}

static void hybrid_on_event(void *ctx, struct instant now, const struct event *e)
{
    (void)now;
    outrider__observer_event(&((struct outrider_hybrid *)ctx)->observer, e);
}

int outrider_hybrid_start(struct outrider_hybrid *hybrid, struct outrider_error *err)
{
    if (hybrid_check_new(hybrid, err) < 0 || hybrid_check_config(&hybrid->config, err) < 0 ||
        hybrid_find_database(hybrid, err) < 0)
        return -1;
    hybrid->told = (struct relay_observer){.ctx = hybrid,
                                           .note = hybrid_on_note,
                                           .event = hybrid_on_event,
                                           .wants_delivered = hybrid->observer.event != NULL &&
                                                              hybrid->observer.wants_delivered};
    struct relay_setup setup = {.config = &hybrid->config,
                                .source_ops = &outrider__hybrid_source,
                                .observers = &hybrid->told,
                                .seed = (uint64_t)outrider__clock_now().wall_us};
    if (outrider__pipeline_sink(&hybrid->config, &setup, err) < 0)
        return -1;
    hybrid_adjust(hybrid);
    hybrid->queue.n_slots = (size_t)hybrid->config.hybrid.queue;
    hybrid->queue.is_sink_up = true; /* until it says otherwise */
    return outrider__engine_prepare(&hybrid->engine, &setup, NULL, err) < 0
               ? -1
               : outrider__engine_start(&hybrid->engine, err);
}

int outrider_hybrid_attach(struct outrider_hybrid *hybrid, struct outrider_session *session,
                           struct outrider_error *err)
{
    if (hybrid == NULL)
        return hybrid_fail_missing(err);
    return outrider__hybrid_attach(hybrid, session, err);
}

int outrider_hybrid_stats(struct outrider_hybrid *hybrid, struct outrider_hybrid_stats *stats,
                          struct outrider_error *err)
{
    if (hybrid == NULL)
        return hybrid_fail_missing(err);
    if (stats == NULL || stats->size < sizeof stats->size)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "no statistics were given, or their size is not set: begin with "
                              "OUTRIDER_HYBRID_STATS_INIT");
    struct outrider_hybrid_stats all = {.size = stats->size};
    char place[HYBRID_PLACE_SIZE];
    all.is_open = outrider__hybrid_is_open(&hybrid->queue, place);
    pthread_mutex_lock(&hybrid->queue.mutex);
    all.claimed = hybrid->queue.tally.claimed;
    all.busy = hybrid->queue.tally.busy;
    all.full = hybrid->queue.tally.full;
    all.unsuitable = hybrid->queue.tally.unsuitable;
    all.published = hybrid->queue.published;
    all.handed_over = hybrid->queue.handed_over;
    all.failed = hybrid->queue.failed;
    pthread_mutex_unlock(&hybrid->queue.mutex);
    all.queued = all.claimed - all.published - all.handed_over;
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
    return 0;
}

void outrider__hybrid_unref(struct outrider_hybrid *h)
{
    if (atomic_fetch_sub(&h->n_refs, 1) > 1)
        return;
    outrider__hybrid_queue_release(&h->queue);
    outrider__arena_release(&h->arena);
    free(h);
}

void outrider_hybrid_free(struct outrider_hybrid *hybrid)
{
    if (hybrid == NULL)
        return;
    outrider__hybrid_drain(&hybrid->queue, hybrid->config.shutdown_timeout_us);
    outrider__engine_release(&hybrid->engine);
    outrider__hybrid_unref(hybrid);
}
