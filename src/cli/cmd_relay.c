/* SPDX-License-Identifier: MIT */
/* relay and replay: from a command line to running pipelines. */
#include "cli/runner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/options.h"
#include "core/replay.h"

static void relay_release(struct runners *rs)
{
    for (size_t i = 0; i < rs->n; i++)
        outrider__runner_release(&rs->items[i]);
    free(rs->items);
    if (rs->done_fd >= 0)
        close(rs->done_fd);
    while (rs->generations) {
        struct generation *g = rs->generations;
        rs->generations = g->next;
        outrider__setup_release(&g->setup);
        free(g);
    }
}

static int relay_add_runner(struct runners *rs, struct pipeline_config *c,
                            struct outrider_error *err)
{
    struct runner *r = &rs->items[rs->n];
    if (outrider__config_check(c, err) < 0)
        return -1;
    rs->n++;
    return outrider__runner_init(r, c, rs, err);
}

static void relay_log_warnings(struct log *log, const struct cli_setup *s)
{
    struct log_entry l;
    const char *p = strbuf_cstr(&s->warnings);
    for (size_t n; *p != '\0'; p += n + 1) {
        n = strcspn(p, "\n");
        if (!outrider__log_begin(&l, log, LOG_LEVEL_WARN, "connector"))
            continue;
        outrider__log_text(&l, "file", s->path);
        outrider__log_bytes(&l, "warning", bytes_of(p, n));
        outrider__log_end(&l);
    }
}

static int relay_make(struct runners *rs, struct outrider_error *err)
{
    struct generation *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return outrider__fail_nomem(err);
    if (outrider__setup_load(rs->args, &g->setup, err) < 0) {
        free(g);
        return -1;
    }
    rs->generations = g;
    rs->log.fd = STDERR_FILENO;
    rs->log.level = g->setup.file.program.log.level;
    rs->log.format = g->setup.file.program.log.format;
    relay_log_warnings(&rs->log, &g->setup);
    rs->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rs->done_fd < 0)
        return outrider__fail_errno(err, errno, "cannot make an event descriptor");
    rs->items = calloc(g->setup.file.n, sizeof(*rs->items));
    if (rs->items == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < g->setup.file.n; i++) {
        struct pipeline_config *c = &g->setup.file.pipelines[i];
        if (g->setup.selected && g->setup.selected != c)
            continue;
        rs->adjust(rs->args, c);
        if (relay_add_runner(rs, c, err) < 0)
            return -1;
    }
    return 0;
}

/* After --once: what the database still holds of each pipeline. */
static int relay_ask_what_is_left(const struct runners *rs)
{
    struct outrider_error err = {0};
    int code = CLI_DONE;
    for (size_t i = 0; i < rs->n; i++) {
        const struct pipeline_config *c = &rs->items[i].config;
        uint64_t parked = 0, dead = 0;
        struct store *s;
        if (outrider__store_open(c, &s, &err) < 0)
            return outrider__cli_fail(&err);
        int r = s->ops->count_failed(s, &parked, &dead, &err);
        outrider__store_close(s);
        if (r < 0)
            return outrider__cli_fail(&err);
        if (parked + dead == 0)
            continue;
        code = CLI_PARKED;
        if (rs->log.format == LOG_FORMAT_LOGFMT)
            outrider__cli_say("pipeline '%s': %" PRIu64 " parked, %" PRIu64
                              " dead; see outrider dead list --parked",
                              c->name, parked, dead);
    }
    return code;
}

static void adjust_relay(const struct args *a, struct pipeline_config *c)
{
    c->once = outrider__args_has(a, F_ONCE);
}

int outrider__cmd_relay(const struct args *a)
{
    struct runners rs = {
        .args = a, .adjust = adjust_relay, .done_fd = -1, .once = outrider__args_has(a, F_ONCE)};
    struct outrider_error err = {0};
    int code;
    if (relay_make(&rs, &err) < 0) {
        code = outrider__cli_fail_as(CLI_USAGE, &err);
    } else {
        code = outrider__runners_run(&rs);
        if (code == CLI_DONE && rs.once)
            code = relay_ask_what_is_left(&rs);
    }
    relay_release(&rs);
    return code;
}

static void relay_adjust_replay(const struct args *a, struct pipeline_config *c)
{
    outrider__replay_configure(c, outrider__args_number(a, F_FROM_SEQ, 0),
                               outrider__args_time(a, F_SINCE, outrider__clock_now().wall_us));
}

int outrider__cmd_replay(const struct args *a)
{
    struct runners rs = {
        .args = a, .adjust = relay_adjust_replay, .is_replay = true, .done_fd = -1, .once = true};
    struct outrider_error err = {0};
    int code;
    if (outrider__args_has(a, F_SINCE) == outrider__args_has(a, F_FROM_SEQ))
        return outrider__cli_usage(a, "replay needs a point to begin at: --since TIME or "
                                      "--from-seq N");
    if (relay_make(&rs, &err) < 0) {
        code = outrider__cli_fail_as(CLI_USAGE, &err);
    } else if (rs.n != 1) {
        code = outrider__cli_usage(a, "which pipeline? --name NAME");
    } else {
        code = outrider__runners_run(&rs);
        const struct relay_stats st = outrider__engine_stats(&rs.items[0].engine);
        if (code == CLI_DONE && st.outcomes[OUTCOME_DEAD] > 0) {
            outrider__cli_say("%" PRIu64 " events could not be delivered",
                              st.outcomes[OUTCOME_DEAD]);
            code = CLI_PARKED;
        }
    }
    relay_release(&rs);
    return code;
}
