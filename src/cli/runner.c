/* SPDX-License-Identifier: MIT */
#include "cli/runner.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/url.h"
#include "core/replay.h"
#include "run/pipeline.h"

static void runner_on_settled(void *ctx, struct instant now, const struct batch *b)
{
    struct runner *r = ctx;
    (void)now;
    atomic_fetch_add(&r->n_settled, b->n_settle);
}

static int runner_redacted(const char *url, struct arena *arena, const char **ret_text,
                           struct outrider_error *err)
{
    struct bytes text;
    if (outrider__url_redact(bytes_str(url), arena, &text) < 0 ||
        outrider__arena_dup(arena, text, &text) < 0)
        return outrider__fail_nomem(err);
    *ret_text = text.data;
    return 0;
}

static void runner_take_reload(void *ctx, struct relay *relay)
{
    struct runner *r = ctx;
    struct outrider_error err = {0};
    struct log_entry l;
    pthread_mutex_lock(&r->mutex);
    struct pipeline_config next = r->next;
    unsigned generation = r->next_generation;
    pthread_mutex_unlock(&r->mutex);
    if (generation == atomic_load(&r->generation))
        return;
    r->log_observer.wants_delivered = outrider__log_observer(&r->log).wants_delivered;
    if (outrider__relay_reload(relay, &next, &err) == 0) {
        r->config = next;
        atomic_store(&r->generation, generation);
        return;
    }
    if (outrider__log_begin(&l, r->log.log, LOG_LEVEL_ERROR, "reload failed, going on as before")) {
        outrider__log_text(&l, "pipeline", r->log.name);
        outrider__log_error(&l, &err);
        outrider__log_end(&l);
    }
}

static void runner_on_ended(void *ctx)
{
    const struct runner *r = ctx;
    uint64_t one = 1;
    while (write(r->done_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

int outrider__runner_init(struct runner *r, const struct pipeline_config *c, struct runners *rs,
                          struct outrider_error *err)
{
    struct relay_setup setup = {.seed = (uint64_t)outrider__clock_now().wall_us};
    const struct engine_hooks hooks = {
        .ctx = r, .woken = runner_take_reload, .ended = runner_on_ended};
    *r = (struct runner){.config = *c, .done_fd = rs->done_fd};
    r->next = r->config;
    pthread_mutex_init(&r->mutex, NULL);
    r->log = (struct log_pipeline){.log = &rs->log, .name = c->name};
    if (outrider__engine_init(&r->engine, err) < 0 ||
        runner_redacted(c->source.url, c->arena, &r->log.source, err) < 0 ||
        runner_redacted(c->sink.url, c->arena, &r->log.sink, err) < 0)
        return -1;
    r->counter = (struct relay_observer){.ctx = r, .settled = runner_on_settled};
    r->log_observer = outrider__log_observer(&r->log);
    r->log_observer.next = &r->counter;
    setup.config = &r->config;
    setup.observers = &r->log_observer;
    if (outrider__pipeline_adapters(c, &setup, err) < 0)
        return -1;
    if (rs->is_replay) {
        if (outrider__replay_wrap(setup.source_ops, &r->replay, err) < 0)
            return -1;
        setup.source_ops = &r->replay;
    }
    return outrider__engine_prepare(&r->engine, &setup, &hooks, err);
}

bool outrider__runner_has_ended(struct runner *r)
{
    enum outrider_relay_state state = outrider__engine_state(&r->engine);
    return state != OUTRIDER_RELAY_STARTING && state != OUTRIDER_RELAY_ACTIVE &&
           state != OUTRIDER_RELAY_STOPPING;
}

void outrider__runner_release(struct runner *r)
{
    if (r == NULL)
        return;
    outrider__engine_release(&r->engine);
    pthread_mutex_destroy(&r->mutex);
}
