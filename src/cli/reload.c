/* SPDX-License-Identifier: MIT */
/*
 * SIGHUP: the configuration file is read again. What can change while running
 * is handed to the relays; what cannot is named in the log.
 */
#include "cli/runner.h"

#include <stdlib.h>

#include "core/options.h"

#define NAMES_CAP 4096

static void reload_add_name(struct strbuf *names, const char *name)
{
    outrider__strbuf_appendf(names, "%s%s", names->len ? "," : "", name);
}

/* Every reloadable option comes from the new configuration, so that nothing of
 * a former reload is borrowed any more. */
static void reload_merge(struct pipeline_config *running, const struct pipeline_config *fresh,
                         struct strbuf *changed, struct strbuf *kept)
{
    size_t n;
    const struct option *all = outrider__options(&n);
    for (size_t i = 0; i < n; i++) {
        const struct option *o = &all[i];
        if (outrider__config_differs(running, fresh, o))
            reload_add_name(o->reloadable ? changed : kept, o->name);
    }
    outrider__config_reload(running, fresh);
}

static void reload_log_names(struct log *log, enum log_level level, const char *msg,
                             const char *pipeline, const char *field, const char *names)
{
    struct log_entry l;
    if (!outrider__log_begin(&l, log, level, msg))
        return;
    if (pipeline)
        outrider__log_text(&l, "pipeline", pipeline);
    if (field)
        outrider__log_text(&l, field, names);
    outrider__log_end(&l);
}

static struct pipeline_config *reload_named(const struct cli_setup *s, const char *name)
{
    for (size_t i = 0; i < s->file.n; i++) {
        if (strcmp(s->file.pipelines[i].name, name) == 0)
            return &s->file.pipelines[i];
    }
    return NULL;
}

static void reload_hand_over(struct runners *rs, struct runner *r,
                             const struct pipeline_config *fresh, unsigned generation)
{
    struct strbuf changed, kept;
    outrider__strbuf_init(&changed, NAMES_CAP);
    outrider__strbuf_init(&kept, NAMES_CAP);
    pthread_mutex_lock(&r->mutex);
    reload_merge(&r->next, fresh, &changed, &kept);
    atomic_store(&r->next_generation, generation);
    pthread_mutex_unlock(&r->mutex);
    outrider__engine_wake(&r->engine);
    reload_log_names(&rs->log, LOG_LEVEL_INFO, "reloaded", r->log.name, "changed",
                     changed.len ? changed.data : "nothing");
    if (kept.len)
        reload_log_names(&rs->log, LOG_LEVEL_WARN, "changed in the file, but needs a restart",
                         r->log.name, "options", kept.data);
    outrider__strbuf_release(&changed);
    outrider__strbuf_release(&kept);
}

/* A pipeline that failed holds nothing: it starts with all that the file says now. */
static void reload_try_again(struct runners *rs, struct runner *r,
                             const struct pipeline_config *fresh, unsigned generation)
{
    struct outrider_error err = {0};
    struct log_entry l;
    outrider__runner_release(r);
    int rc = outrider__runner_init(r, fresh, rs, &err);
    atomic_store(&r->generation, generation);
    atomic_store(&r->next_generation, generation);
    if (rc == 0)
        rc = outrider__engine_start(&r->engine, &err);
    r->has_failed = rc < 0;
    if (!outrider__log_begin(&l, &rs->log, rc < 0 ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO,
                             rc < 0 ? "pipeline failed again" : "pipeline starts again"))
        return;
    outrider__log_text(&l, "pipeline", r->log.name);
    outrider__log_error(&l, rc < 0 ? &err : NULL);
    outrider__log_end(&l);
}

/* Forgets generations that no relay borrows from any more; the first one stays. */
static void reload_forget_old(struct runners *rs)
{
    unsigned oldest = rs->last_generation;
    for (size_t i = 0; i < rs->n; i++) {
        unsigned used = atomic_load(&rs->items[i].generation);
        oldest = used < oldest ? used : oldest;
    }
    for (struct generation **at = &rs->generations; *at;) {
        struct generation *g = *at;
        if (g->number == 0 || g->number >= oldest) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        outrider__setup_release(&g->setup);
        free(g);
    }
}

static int reload_load(struct runners *rs, struct generation **ret_generation,
                       struct outrider_error *err)
{
    struct generation *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return outrider__fail_nomem(err);
    if (outrider__setup_load(rs->args, &g->setup, err) < 0) {
        free(g);
        return -1;
    }
    for (size_t i = 0; i < rs->n; i++) {
        struct pipeline_config *c = reload_named(&g->setup, rs->items[i].log.name);
        if (c)
            rs->adjust(rs->args, c);
        if (c && outrider__config_check(c, err) < 0) {
            outrider__setup_release(&g->setup);
            free(g);
            return -1;
        }
    }
    *ret_generation = g;
    return 0;
}

static void reload_tell_unknown(struct runners *rs, const struct cli_setup *s)
{
    for (size_t i = 0; i < s->file.n && s->selected == NULL; i++) {
        bool runs = false;
        for (size_t k = 0; k < rs->n; k++)
            runs |= strcmp(rs->items[k].log.name, s->file.pipelines[i].name) == 0;
        if (!runs)
            reload_log_names(&rs->log, LOG_LEVEL_WARN, "new in the file, but needs a restart",
                             s->file.pipelines[i].name, NULL, NULL);
    }
}

void outrider__runners_reload(struct runners *rs)
{
    struct outrider_error err = {0};
    struct generation *g = NULL;
    struct log_entry l;
    if (!outrider__args_has(rs->args, F_CONFIG)) {
        reload_log_names(&rs->log, LOG_LEVEL_INFO, "there is no configuration file to reload", NULL,
                         NULL, NULL);
        return;
    }
    if (reload_load(rs, &g, &err) < 0 || g == NULL) {
        if (outrider__log_begin(&l, &rs->log, LOG_LEVEL_ERROR,
                                "reload failed, going on as before")) {
            outrider__log_error(&l, &err);
            outrider__log_end(&l);
        }
        return;
    }
    g->number = ++rs->last_generation;
    g->next = rs->generations;
    rs->generations = g;
    atomic_store(&rs->log.level, g->setup.file.program.log.level);
    atomic_store(&rs->log.format, g->setup.file.program.log.format);
    for (size_t i = 0; i < rs->n; i++) {
        const struct pipeline_config *fresh = reload_named(&g->setup, rs->items[i].log.name);
        if (fresh && rs->items[i].has_failed)
            reload_try_again(rs, &rs->items[i], fresh, g->number);
        else if (fresh)
            reload_hand_over(rs, &rs->items[i], fresh, g->number);
        else
            reload_log_names(&rs->log, LOG_LEVEL_WARN, "gone from the file, but needs a restart",
                             rs->items[i].log.name, NULL, NULL);
    }
    reload_tell_unknown(rs, &g->setup);
    reload_forget_old(rs);
}
