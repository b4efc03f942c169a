/* SPDX-License-Identifier: MIT */
#include "cli/runner.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/url.h"
#include "run/driver.h"
#include "run/pipeline.h"

static void on_note(void *ctx, enum relay_note note, uint64_t count,
                    const struct outrider_error *why)
{
    struct runner *r = ctx;
    r->log_observer.note(r->log_observer.ctx, note, count, why);
}

static void on_event(void *ctx, const struct event *e)
{
    struct runner *r = ctx;
    r->log_observer.event(r->log_observer.ctx, e);
}

static void on_settled(void *ctx, const struct batch *b)
{
    struct runner *r = ctx;
    atomic_fetch_add(&r->n_settled, b->n_settle);
    r->log_observer.settled(r->log_observer.ctx, b);
}

static int redacted(const char *url, struct arena *arena, const char **ret_text,
                    struct outrider_error *err)
{
    struct bytes text;
    if (outrider__url_redact(bytes_str(url), arena, &text) < 0 ||
        outrider__arena_dup(arena, text, &text) < 0)
        return outrider__fail_nomem(err);
    *ret_text = text.data;
    return 0;
}

int outrider__runner_init(struct runner *r, const struct pipeline_config *c, struct log *log,
                          int done_fd, struct outrider_error *err)
{
    struct relay_setup setup = {.seed = (uint64_t)outrider__clock_now().wall_us};
    *r = (struct runner){.config = *c, .control_fd = -1, .done_fd = done_fd};
    pthread_mutex_init(&r->mutex, NULL);
    r->log = (struct log_pipeline){.log = log, .name = c->name};
    if (redacted(c->source.url, c->arena, &r->log.source, err) < 0 ||
        redacted(c->sink.url, c->arena, &r->log.sink, err) < 0)
        return -1;
    r->log_observer = outrider__log_observer(&r->log);
    setup.config = &r->config;
    setup.observer = (struct relay_observer){
        .ctx = r,
        .note = on_note,
        .event = on_event,
        .wants_delivered = r->log_observer.wants_delivered,
        .settled = on_settled,
    };
    if (outrider__pipeline_adapters(c, &setup, err) < 0)
        return -1;
    r->control_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->control_fd < 0)
        return outrider__fail_errno(err, errno, "cannot make an event descriptor");
    return outrider__relay_new(&setup, &r->relay, err);
}

static void wake(int fd)
{
    uint64_t one = 1;
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void take_reload(struct runner *r, struct relay *relay)
{
    struct outrider_error err = {0};
    struct log_entry l;
    pthread_mutex_lock(&r->mutex);
    struct pipeline_config next = r->next;
    unsigned generation = r->next_generation;
    pthread_mutex_unlock(&r->mutex);
    r->log_observer = outrider__log_observer(&r->log);
    outrider__relay_want_delivered(relay, r->log_observer.wants_delivered);
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

static void on_control(void *ctx, struct relay *relay, struct instant now)
{
    struct runner *r = ctx;
    int wish = atomic_exchange(&r->wish, 0);
    if (wish & WISH_RELOAD)
        take_reload(r, relay);
    if (wish & WISH_STOP)
        outrider__relay_stop(relay, now);
}

static void *run_thread(void *ctx)
{
    struct runner *r = ctx;
    struct driver d = {
        .relay = r->relay, .control_fd = r->control_fd, .control = on_control, .ctx = r};
    r->result = outrider__driver_run(&d, &r->err);
    atomic_store(&r->is_finished, true);
    wake(r->done_fd);
    return NULL;
}

int outrider__runner_start(struct runner *r, struct outrider_error *err)
{
    int e = pthread_create(&r->thread, NULL, run_thread, r);
    if (e != 0)
        return outrider__fail_errno(err, e, "cannot start a thread for pipeline '%s'",
                                    r->config.name);
    r->is_started = true;
    return 0;
}

void outrider__runner_wish(struct runner *r, enum wish wish)
{
    atomic_fetch_or(&r->wish, (int)wish);
    wake(r->control_fd);
}

void outrider__runner_release(struct runner *r)
{
    if (r == NULL)
        return;
    if (r->is_started)
        pthread_join(r->thread, NULL);
    outrider__relay_free(r->relay);
    if (r->control_fd >= 0)
        close(r->control_fd);
    pthread_mutex_destroy(&r->mutex);
}
