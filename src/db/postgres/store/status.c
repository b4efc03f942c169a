/* SPDX-License-Identifier: MIT */
/* The PostgreSQL store: what the command status says of a log. */
#include <stdio.h>

#include "postgres/store/dead.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"
#include "store.sql.h"

enum status_column {
    STATUS_PIPELINE,
    STATUS_SINK,
    STATUS_POSITION,
    STATUS_HEAD,
    STATUS_PENDING,
    STATUS_PARKED,
    STATUS_QUEUED,
    STATUS_DEAD,
    STATUS_OLDEST_PENDING,
    STATUS_DELIVERED,
    STATUS_EXPIRED,
    STATUS_SKIPPED,
    STATUS_DEAD_TOTAL,
    STATUS_SETTLED_AT,
    STATUS_IS_ACTIVE,
    STATUS_AHEAD
};

static const struct pg_block status_block = {sql_store_status, "cannot read the status", PG_READS};

static void status_read(const PGresult *r, int row, struct store_status *st)
{
    *st = (struct store_status){
        .position = outrider__pg_get_int(r, row, STATUS_POSITION, 0),
        .head = outrider__pg_get_int(r, row, STATUS_HEAD, 0),
        .pending = (uint64_t)outrider__pg_get_int(r, row, STATUS_PENDING, 0),
        .parked = (uint64_t)outrider__pg_get_int(r, row, STATUS_PARKED, 0),
        .queued = (uint64_t)outrider__pg_get_int(r, row, STATUS_QUEUED, 0),
        .dead = (uint64_t)outrider__pg_get_int(r, row, STATUS_DEAD, 0),
        .oldest_pending_us = outrider__pg_get_time(r, row, STATUS_OLDEST_PENDING, 0),
        .delivered_total = (uint64_t)outrider__pg_get_int(r, row, STATUS_DELIVERED, 0),
        .expired_total = (uint64_t)outrider__pg_get_int(r, row, STATUS_EXPIRED, 0),
        .skipped_total = (uint64_t)outrider__pg_get_int(r, row, STATUS_SKIPPED, 0),
        .dead_total = (uint64_t)outrider__pg_get_int(r, row, STATUS_DEAD_TOTAL, 0),
        .settled_at_us = outrider__pg_get_time(r, row, STATUS_SETTLED_AT, 0),
        .relay_active = outrider__pg_get_bool(r, row, STATUS_IS_ACTIVE),
        .ahead = (uint64_t)outrider__pg_get_int(r, row, STATUS_AHEAD, 0),
    };
    (void)snprintf(st->pipeline, sizeof st->pipeline, "%s",
                   outrider__pg_get_str(r, row, STATUS_PIPELINE));
    (void)snprintf(st->sink, sizeof st->sink, "%s", outrider__pg_get_str(r, row, STATUS_SINK));
}

static void status_tell_ahead(const struct pg_store *s, struct store_status *st)
{
    if (st->ahead > 0)
        (void)snprintf(st->ahead_text, sizeof st->ahead_text,
                       "%llu rows of %.150s have a seq above its sequence and wait until it comes "
                       "there; insert them anew without a seq, and delete these",
                       (unsigned long long)st->ahead, s->cat.table);
}

int outrider__pg_store_status(struct store *base, void (*row)(void *, const struct store_status *),
                              void *ctx, struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct pg_args args;
    PGresult *r = NULL;
    if (outrider__pg_store_ready(s, err) < 0)
        return -1;
    if (outrider__pg_store_has_states(s))
        return outrider__pg_tables_status(s, row, ctx, err);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, s->cat.table);
    outrider__pg_arg_str(&args, s->config->name);
    int rc = outrider__pg_store_run(s, &status_block, NULL, &args, &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    for (int i = 0; i < PQntuples(r); i++) {
        struct store_status st;
        status_read(r, i, &st);
        status_tell_ahead(s, &st);
        rc = outrider__pg_store_slot_status(s, &st, err);
        if (rc < 0)
            break;
        row(ctx, &st);
    }
    PQclear(r);
    return rc;
}

struct status_failed {
    const char *pipeline;
    uint64_t parked, dead;
};

static void status_add_failed(void *ctx, const struct store_status *st)
{
    struct status_failed *failed = ctx;
    if (strcmp(st->pipeline, failed->pipeline) == 0) {
        failed->parked += st->parked + st->queued;
        failed->dead += st->dead;
    }
}

int outrider__pg_store_count_failed(struct store *base, uint64_t *ret_parked, uint64_t *ret_dead,
                                    struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct status_failed failed = {.pipeline = s->config->name};
    struct pg_args args;
    PGresult *r = NULL;
    if (outrider__pg_store_ready(s, err) < 0)
        return -1;
    if (outrider__pg_store_has_states(s)) {
        if (outrider__pg_tables_status(s, status_add_failed, &failed, err) < 0)
            return -1;
    } else {
        outrider__pg_args_init(&args);
        outrider__pg_arg_str(&args, s->config->name);
        outrider__pg_arg_str(&args, s->cat.table);
        int rc = outrider__pg_store_dead_query(s, DEAD_FAILED, &args, &r, err);
        outrider__pg_args_release(&args);
        if (rc < 0)
            return -1;
        failed.parked = (uint64_t)outrider__pg_get_int(r, 0, FAILED_LIVE, 0);
        failed.dead = (uint64_t)outrider__pg_get_int(r, 0, FAILED_DEAD, 0);
        PQclear(r);
    }
    *ret_parked = failed.parked;
    *ret_dead = failed.dead;
    return 0;
}
