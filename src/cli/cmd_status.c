/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/out.h"

#define ROWS_MAX 4096

struct rows {
    const char *name; /* only this pipeline, or NULL */
    struct store_status *items;
    size_t n;
    bool failed;
};

static void status_take_row(void *ctx, const struct store_status *st)
{
    struct rows *rows = ctx;
    if ((rows->name && strcmp(rows->name, st->pipeline) != 0) || rows->n == ROWS_MAX)
        return;
    struct store_status *items = realloc(rows->items, (rows->n + 1) * sizeof(*items));
    if (items == NULL) {
        rows->failed = true;
        return;
    }
    rows->items = items;
    rows->items[rows->n++] = *st;
}

static int64_t status_lag_of(const struct store_status *st)
{
    return st->head > st->position ? st->head - st->position : 0;
}

static void status_json_stream(struct json_out *j, const struct stream_status *o)
{
    if (o->name[0] == '\0')
        return;
    outrider__jout_open(j, o->word, '{');
    outrider__jout_text(j, "name", o->name);
    outrider__jout_bool(j, "exists", o->exists);
    outrider__jout_bool(j, "active", o->is_active);
    outrider__jout_bool(j, "lost", o->is_lost);
    outrider__jout_text(j, "confirmed", o->confirmed[0] ? o->confirmed : NULL);
    outrider__jout_int(j, "retained_bytes", o->retained_bytes);
    outrider__jout_int(j, "lag_bytes", o->lag_bytes);
    if (o->lag_us >= 0)
        outrider__jout_int(j, "lag_seconds", o->lag_us / 1000000);
    if (o->left_bytes >= 0)
        outrider__jout_int(j, "left_bytes", o->left_bytes);
    outrider__jout_close(j);
}

static void status_json_row(struct json_out *j, const struct store_status *st, int64_t now_us)
{
    int64_t oldest = st->oldest_pending_us;
    outrider__jout_open(j, NULL, '{');
    outrider__jout_text(j, "pipeline", st->pipeline);
    outrider__jout_text(j, "sink", st->sink[0] ? st->sink : NULL);
    outrider__jout_bool(j, "relay_active", st->relay_active);
    outrider__jout_int(j, "pending", (int64_t)st->pending);
    outrider__jout_time(j, "oldest_pending_at", oldest);
    outrider__jout_int(j, "oldest_pending_seconds",
                       oldest && now_us > oldest ? (now_us - oldest) / 1000000 : 0);
    outrider__jout_int(j, "parked", (int64_t)st->parked);
    outrider__jout_int(j, "queued", (int64_t)st->queued);
    outrider__jout_int(j, "dead", (int64_t)st->dead);
    outrider__jout_int(j, "uncovered", (int64_t)st->uncovered);
    outrider__jout_int(j, "ahead", (int64_t)st->ahead);
    outrider__jout_int(j, "position", st->position);
    outrider__jout_int(j, "head", st->head);
    outrider__jout_int(j, "lag", status_lag_of(st));
    outrider__jout_int(j, "delivered_total", (int64_t)st->delivered_total);
    outrider__jout_int(j, "expired_total", (int64_t)st->expired_total);
    outrider__jout_int(j, "skipped_total", (int64_t)st->skipped_total);
    outrider__jout_int(j, "dead_total", (int64_t)st->dead_total);
    outrider__jout_time(j, "settled_at", st->settled_at_us);
    status_json_stream(j, &st->stream);
    outrider__jout_close(j);
}

static int status_print_json(const struct store *s, const struct rows *rows)
{
    struct json_out j;
    int64_t now_us = outrider__clock_now().wall_us;
    outrider__jout_init(&j);
    outrider__jout_open(&j, NULL, '{');
    outrider__jout_text(&j, "database", s->description);
    outrider__jout_open(&j, "pipelines", '[');
    for (size_t i = 0; i < rows->n; i++)
        status_json_row(&j, &rows->items[i], now_us);
    outrider__jout_close(&j);
    outrider__jout_close(&j);
    int r = outrider__jout_print(&j);
    outrider__jout_release(&j);
    return r;
}

/* An age for people: whole seconds, or the unit that says enough. */
static void status_age_of(int64_t then_us, int64_t now_us, char *ret_text, size_t size)
{
    int64_t s = now_us > then_us ? (now_us - then_us) / 1000000 : 0;
    if (then_us == 0)
        snprintf(ret_text, size, "-");
    else if (s < 120)
        snprintf(ret_text, size, "%" PRId64 "s", s);
    else if (s < 7200)
        snprintf(ret_text, size, "%" PRId64 "m", s / 60);
    else if (s < 172800)
        snprintf(ret_text, size, "%" PRId64 "h", s / 3600);
    else
        snprintf(ret_text, size, "%" PRId64 "d", s / 86400);
}

static void status_print_table(const struct rows *rows)
{
    int64_t now_us = outrider__clock_now().wall_us;
    int width = 8;
    for (size_t i = 0; i < rows->n; i++) {
        int len = (int)strlen(rows->items[i].pipeline);
        width = len > width ? len : width;
    }
    printf("%s%-*s  %-6s %9s %6s %7s %7s %6s %10s %10s %8s  %s%s\n",
           outrider__colour(1, COLOUR_BOLD), width, "PIPELINE", "RELAY", "PENDING", "OLDEST",
           "PARKED", "QUEUED", "DEAD", "POSITION", "HEAD", "LAG", "SINK", outrider__colour_end(1));
    for (size_t i = 0; i < rows->n; i++) {
        const struct store_status *st = &rows->items[i];
        bool has_failed = st->dead + st->parked > 0;
        char age[24];
        status_age_of(st->oldest_pending_us, now_us, age, sizeof(age));
        printf("%-*s  %-6s %9" PRIu64 " %6s %s%7" PRIu64 " %7" PRIu64 " %6" PRIu64 "%s %10" PRId64
               " %10" PRId64 " %8" PRId64 "  %s\n",
               width, st->pipeline, st->relay_active ? "active" : "none", st->pending, age,
               has_failed ? outrider__colour(1, COLOUR_RED) : "", st->parked, st->queued, st->dead,
               has_failed ? outrider__colour_end(1) : "", st->position, st->head, status_lag_of(st),
               st->sink[0] ? st->sink : "-");
    }
}

/* Bytes for people. */
static void status_size_of(int64_t bytes, char *ret_text, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t i = 0;
    while (value >= 9999.5 && i + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        i++;
    }
    snprintf(ret_text, size, "%.0f %s", value, units[i]);
}

/* The server gives up what it keeps when a limit is reached: told well before. */
static void status_print_streams(const struct rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct stream_status *o = &rows->items[i].stream;
        char retained[32], lag[32], left[32], seconds[40] = "";
        if (o->name[0] == '\0')
            continue;
        if (o->is_lost) {
            printf("%s %s: %sLOST%s: run outrider resync --name %s\n", o->word, o->name,
                   outrider__colour(1, COLOUR_RED), outrider__colour_end(1),
                   rows->items[i].pipeline);
            continue;
        }
        status_size_of(o->retained_bytes, retained, sizeof(retained));
        status_size_of(o->lag_bytes, lag, sizeof(lag));
        if (o->lag_us >= 0)
            snprintf(seconds, sizeof(seconds), ", %" PRId64 " s", o->lag_us / 1000000);
        printf("%s %s: %s, confirmed %s, behind by %s%s, the server keeps %s\n", o->word, o->name,
               o->is_active ? "active" : "not active", o->confirmed[0] ? o->confirmed : "-", lag,
               seconds, retained);
        if (o->left_bytes < 0 || o->left_bytes > o->retained_bytes)
            continue;
        status_size_of(o->left_bytes, left, sizeof(left));
        printf("%s %s: %sWARNING%s: the server gives it up after another %s (%s)\n", o->word,
               o->name, outrider__colour(1, COLOUR_RED), outrider__colour_end(1), left, o->limit);
    }
}

/* Nobody delivers these rows. */
static void status_print_uncovered(const struct rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->items[i].uncovered > 0)
            printf("%s: %sWARNING%s: %s; say what it means with map.status_values\n",
                   rows->items[i].pipeline, outrider__colour(1, COLOUR_RED),
                   outrider__colour_end(1), rows->items[i].uncovered_text);
}

/* Nor these, for now. */
static void status_print_ahead(const struct rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->items[i].ahead > 0)
            printf("%s: %sWARNING%s: %s\n", rows->items[i].pipeline,
                   outrider__colour(1, COLOUR_RED), outrider__colour_end(1),
                   rows->items[i].ahead_text);
}

static int status_show(const struct args *a, const struct pipeline_config *c, struct store *s,
                       struct outrider_error *err)
{
    (void)c;
    struct rows rows = {.name = outrider__args_text(a, F_NAME)};
    int r = s->ops->status(s, status_take_row, &rows, err);
    if (r == 0 && rows.failed)
        r = outrider__fail_nomem(err);
    if (r == 0 && rows.n == 0 && rows.name)
        r = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                           "no pipeline '%.64s' has run on %s", rows.name, s->description);
    if (r == 0 && outrider__args_has(a, F_JSON))
        r = status_print_json(s, &rows) < 0 ? outrider__fail_nomem(err) : 0;
    else if (r == 0 && rows.n == 0)
        outrider__cli_say("no pipeline has run on %s yet", s->description);
    else if (r == 0) {
        status_print_table(&rows);
        status_print_streams(&rows);
        status_print_uncovered(&rows);
        status_print_ahead(&rows);
    }
    free(rows.items);
    return r;
}

int outrider__cmd_status(const struct args *a)
{
    return outrider__with_store(a, status_show);
}
