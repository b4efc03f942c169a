/* SPDX-License-Identifier: MIT */
#include "postgres/shared/upkeep.h"

#include <stdlib.h>

#include "postgres/shared/cleanup.h"

#define UPKEEP_EVERY_US (INT64_C(600) * 1000000)
#define DROP_PAUSE_US (INT64_C(30) * 1000000)

static int upkeep_on_kept(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_upkeep *u = ctx;
    (void)results;
    (void)n;
    (void)err;
    u->is_busy = false;
    return 0;
}

static int upkeep_prepare(struct pg_upkeep *u, const struct pg_catalog *cat,
                          struct outrider_error *err)
{
    struct strbuf sql;
    outrider__strbuf_init(&sql, 1024);
    outrider__pg_upkeep_sql(&sql, cat);
    if (sql.failed) {
        outrider__strbuf_release(&sql);
        return outrider__fail_nomem(err);
    }
    u->sql = sql.data;
    u->st = (struct pg_statement){.sql = u->sql, .what = "cannot keep the partitions up"};
    return 0;
}

static int upkeep_call(struct pg_upkeep *u, struct pg_conn *c, const struct pg_catalog *cat,
                       int64_t cutoff_us, pg_done_fn *done, void *ctx, struct outrider_error *err)
{
    struct pg_args args;
    if (u->sql == NULL && upkeep_prepare(u, cat, err) < 0)
        return -1;
    /* Making the next partitions is no clean-up: without them nobody can write. */
    u->st.purpose = cutoff_us != 0 ? PG_CLEANS : PG_READS;
    outrider__pg_args_init(&args);
    outrider__pg_arg_time(&args, cutoff_us);
    int rc = outrider__pg_request(c, &u->st, &args, done, ctx, err);
    outrider__pg_args_release(&args);
    return rc;
}

int outrider__pg_upkeep_tick(struct pg_upkeep *u, struct pg_conn *c, const struct pg_catalog *cat,
                             struct instant now, struct outrider_error *err)
{
    if (!cat->has_upkeep || u->is_busy || now.mono_us < u->due_us)
        return 0;
    u->is_busy = true;
    u->due_us = now.mono_us + UPKEEP_EVERY_US;
    return upkeep_call(u, c, cat, 0, upkeep_on_kept, u, err);
}

bool outrider__pg_upkeep_may_drop(const struct pg_upkeep *u, const struct pg_catalog *cat,
                                  struct instant now)
{
    return cat->has_upkeep && now.mono_us >= u->drop_us;
}

int outrider__pg_upkeep_drop(struct pg_upkeep *u, struct pg_conn *c, const struct pg_catalog *cat,
                             int64_t cutoff_us, struct instant now, pg_done_fn *done, void *ctx,
                             struct outrider_error *err)
{
    u->drop_us = now.mono_us + DROP_PAUSE_US;
    return upkeep_call(u, c, cat, cutoff_us, done, ctx, err);
}

void outrider__pg_upkeep_release(struct pg_upkeep *u)
{
    free(u->sql);
    *u = (struct pg_upkeep){0};
}
